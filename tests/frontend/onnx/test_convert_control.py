"""If, Loop, Scan, SequenceMap."""

from __future__ import annotations

import numpy as np
import pytest

from burnish.driver.compile import compile
from burnish.frontend.onnx import import_onnx, walk
from burnish.support.errors import FrontendError
from burnish.tests.frontend.onnx.oracle import check_compiled, compare, model, operators_of, refusal

X = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)
IF = """
    y = If (flag) <
        then_branch = g1 () => (float[2, 3] a) { a = Exp(x) },
        else_branch = g2 () => (float[2, 3] b) { b = Neg(x) }
    >
"""
LOOP = """
    y, seen = Loop (count, flag, x) <
        body = g1 (int64 i, bool going, float[2, 3] s) => (bool on, float[2, 3] t, float[2, 3] u) {
            on = Identity(going)
            t = Add(s, x)
            u = Mul(s, s)
        }
    >
"""


def test_both_branches_are_in_one_program() -> None:
    made = model(IF, "float[2, 3] x, bool flag")
    compiled = check_compiled(made, x=X, flag=True)
    compare(compiled, made, x=X, flag=False)
    assert compiled.compilations == 1


def test_branches_that_differ_in_sizes_are_one_program() -> None:
    made = model(IF.replace("b = Neg(x)", "b = Concat<axis = 0>(x, x)"), "float[2, 3] x, bool flag")
    compiled = check_compiled(made, x=X, flag=True)
    compare(compiled, made, x=X, flag=False)
    assert compiled.compilations == 1


def test_branches_that_differ_in_rank_are_programs_of_their_own() -> None:
    body = IF.replace("b = Neg(x)", "b = Unsqueeze(x, zero)").replace("float[2, 3] b", "float b")
    made = model(body, "float[2, 3] x, bool flag", weights={"zero": np.array([0])})
    compiled = check_compiled(made, x=X, flag=True)
    compare(compiled, made, x=X, flag=False)
    assert compiled.compilations == 2
    notes = " ".join(compiled.report.notes)
    assert "no one program is for all its values, because: 'y' would be R.Tensor" in notes


def test_a_known_condition_leaves_one_branch() -> None:
    imported = import_onnx(model(IF, "float[2, 3] x", weights={"flag": np.array(False)}))
    assert operators_of(imported) == ["negative"]


def test_a_loop_runs_as_often_as_its_input_says() -> None:
    made = model(LOOP, "float[2, 3] x, int64 count, bool flag", outputs="float[2, 3] y, float seen")
    compiled = compile(made)
    for count in (1, 4, 2000):
        y, seen = compiled(X, np.array(count), np.array(True))
        np.testing.assert_allclose(y, X * (count + 1), rtol=1e-4)
        np.testing.assert_allclose(seen, [(X * (i + 1)) ** 2 for i in range(count)], rtol=1e-4)
    for count, begins in ((0, True), (-1, True), (3, False)):
        y, seen = compiled(X, np.array(count), np.array(begins))
        assert (y == X).all()
        assert seen.shape == (0, 2, 3)
    assert compiled.compilations == 1


def test_a_loop_that_collects_nothing_is_refused() -> None:
    weights = {"count": np.int64(0), "flag": np.array(True)}
    message = refusal(model(LOOP, "float[2, 3] x", outputs="float seen", weights=weights))
    assert "it runs no iteration, so what it collects has no known shape" in message


def test_a_loop_goes_on_while_its_condition_holds() -> None:
    body = """
        y = Loop (none, flag, x) <
            body = g1 (int64 i, bool going, float s) => (bool on, float t) {
                t = Add(s, s)
                on = Less(t, most)
            }
        >
    """.replace("none", "")
    made = model(
        body,
        "float x",
        outputs="float y",
        weights={"flag": np.array(True), "most": np.float32(100)},
    )
    compiled = check_compiled(made, x=np.float32(3))
    compare(compiled, made, x=np.float32(40))
    assert compiled.compilations == 1


def test_a_loop_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walk, "MOST_NODES", 100)
    body = LOOP.replace("count", "")
    made = model(body, "float[2, 3] x", outputs="float[2, 3] y", weights={"flag": np.array(True)})
    with pytest.raises(FrontendError, match="the model comes to more than 100 nodes"):
        import_onnx(made)


def test_the_iterations_of_a_loop_without_nodes_are_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(walk, "MOST_NODES", 100)
    body = """
        y = Loop (count, flag, x) <
            body = g1 (int64 i, bool going, float[2, 3] s) => (bool going, float[2, 3] s) {}
        >
    """
    weights = {"flag": np.array(True), "count": np.int64(10**12)}
    with pytest.raises(FrontendError, match="the model comes to more than 100 nodes"):
        import_onnx(model(body, "float[2, 3] x", weights=weights))


def test_a_scan_sums_rows_backwards() -> None:
    """onnx's evaluator knows forward scans alone."""
    body = """
        last, sums = Scan <num_scan_inputs = 1, scan_input_directions = [1],
            body = g1 (float[3] s, float[3] row) => (float[3] t, float[3] u) {
                t = Add(s, row)
                u = Identity(t)
            }> (start, x)
    """
    weights = {"start": np.ones(3, np.float32)}
    made = model(body, "float[2, 3] x", outputs="float last, float sums", weights=weights)
    last, sums = compile(made)(X)
    np.testing.assert_allclose(sums, 1 + np.cumsum(X[::-1], axis=0), rtol=1e-6)
    np.testing.assert_allclose(last, sums[-1])


def test_a_scan_of_a_symbolic_length_takes_that_of_the_call() -> None:
    body = """
        last = Scan <num_scan_inputs = 1, body = g1 (float[3] s, float[3] row) => (float[3] t) {
            t = Add(s, row)
        }> (start, x)
    """
    made = model(
        body, "float[N, 3] x", outputs="float last", weights={"start": np.ones(3, np.float32)}
    )
    compiled = check_compiled(made, x=X)
    compare(compiled, made, x=np.concatenate([X, X]))
