"""Loops of one program."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import ModelProto

import burnish
from burnish.frontend.onnx import import_onnx
from burnish.graphir.verify import verify_module
from burnish.support.errors import FrontendError
from burnish.tests.frontend.onnx.oracle import check_compiled, compare, evaluate, model

X = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)
INPUTS = "float[N, 3] x, int64 count"
W = np.array([[1, 0, 0.5], [0, -1, 0], [0.5, 0, 1]], np.float32)


def _loop(body: str, after: str = "y = Identity(s)", before: str = "") -> str:
    """A loop over one state, which its body makes ``t`` of; it may collect ``u``."""
    return f"""
        {before}
        s = Loop (count, begins, x) <
            body = g1 (int64 i, bool going, float[N, 3] s0) => (bool going, float[N, 3] t) {{
                {body}
            }}
        >
        {after}
    """


def _model(
    body: str, inputs: str = INPUTS, outputs: str = "float y", **weights: object
) -> ModelProto:
    """onnx's evaluator runs no iteration where no condition is given: it is a constant here."""
    begins = np.array(True)
    return model(body, inputs, outputs=outputs, weights={"begins": begins, **weights})


def _check(body: str, outputs: str = "float y", **weights: object) -> None:
    """One program for all counts and sizes."""
    made = _model(body, outputs=outputs, **weights)
    compiled = check_compiled(made, x=X, count=2)
    compare(compiled, made, x=X, count=1)
    compare(compiled, made, x=np.concatenate([X, X + 1]), count=5)
    assert compiled.compilations == 1


def test_a_body_reads_what_is_around_it() -> None:
    body = "h = MatMul(s0, w)\na = Tanh(h)\nt = Add(a, around)"
    _check(_loop(body, before="around = Exp(x)"), w=W)


def test_a_body_reads_sizes_that_are_around_it() -> None:
    before = "n = Shape<end = 1>(x)\nz = NonZero(x)\nm = Shape<start = 1>(z)"
    body = "b = ConstantOfShape(n)\nc = Unsqueeze(b, last)\nd = Add(s0, c)\nt = Add(d, k)"
    after = "k = ConstantOfShape(m)\nk1 = ReduceMax<keepdims = 0>(k)"
    made = _loop(body.replace(", k)", ", k1)"), before=f"{before}\n{after}")
    _check(made, last=np.array([1]))


def test_a_branch_in_a_body() -> None:
    body = """
        two = Constant<value = int64 {2}>()
        early = Less(i, two)
        t = If (early) <
            then_branch = g2 () => (float[N, 3] p) { p = Add(s0, x) },
            else_branch = g3 () => (float[N, 3] q) { q = Neg(s0) }
        >
    """
    _check(_loop(body))


def test_a_loop_in_a_body_and_in_a_branch() -> None:
    inner = """
        t = Loop (i, begins, s0) <
            body = g2 (int64 j, bool on, float[N, 3] r0) => (bool on, float[N, 3] r) {
                half = Constant<value = float {0.5}>()
                scaled = Mul(x, half)
                r = Add(r0, scaled)
            }
        >
    """
    _check(_loop(inner))
    one = "one = Constant<value = int64 {1}>()\nflag = Greater(count, one)"
    looped = _loop("t = Add(s0, x)", after="").strip()
    _check(f"""
        {one}
        y = If (flag) <
            then_branch = g4 () => (float[N, 3] s) {{ {looped} }},
            else_branch = g5 () => (float[N, 3] q) {{ q = Neg(x) }}
        >
    """)


def test_states_that_change_places() -> None:
    """Each iteration's states are set at once."""
    _check(
        """
        y, z = Loop (count, begins, x, minus) <
            body = g1 (int64 i, bool going, float[N, 3] a, float[N, 3] b)
                => (bool going, float[N, 3] b1, float[N, 3] a1) {
                b1 = Identity(b)
                a1 = Identity(a)
            }
        >
        minus0 = Neg(x)
    """.replace("minus0 = Neg(x)", "").replace("y, z =", "minus = Exp(x)\ny, z ="),
        "float y, float z",
    )


def test_sizes_of_data_in_a_body() -> None:
    body = """
        at = NonZero(s0)
        places = Cast<to = 1>(at)
        f = ReduceSum<keepdims = 0>(places)
        t = Sub(s0, f)
    """
    _check(_loop(body))


def test_what_stops_early_is_as_long_as_it_ran() -> None:
    body = """
        y, seen = Loop (count, begins, x) <
            body = g1 (int64 i, bool go, float[N, 3] s0) => (bool on, float[N, 3] t, float[3] u) {
                t = Add(s0, s0)
                u = ReduceMax<axes = [0], keepdims = 0>(t)
                top = ReduceMax<keepdims = 0>(u)
                on = Less(top, most)
            }
        >
    """
    made = _model(body, outputs="float y, float seen", most=np.float32(10))
    compiled = check_compiled(made, x=X, count=20)
    assert compiled(X, np.array(20))[1].shape == (4, 3)
    compare(compiled, made, x=X, count=2)
    assert compiled.compilations == 1


GROWS = """
    y = Loop (count, begins, x) <
        body = g1 (int64 i, bool going, float[M] s) => (bool going, float[K] t) {
            t = Concat<axis = 0>(s, x)
        }
    >
"""


def test_a_state_that_grows_is_one_program(tmp_path: Path) -> None:
    made = _model(GROWS, "float[2] x, int64 count")
    compiled = check_compiled(made, x=X[0, :2], count=1)
    for count in (0, 3, 20):
        compare(compiled, made, x=X[0, :2], count=count)
    assert compiled.compilations == 1
    compiled.save(tmp_path / "grows.burnish")
    loaded = burnish.load(tmp_path / "grows.burnish")
    np.testing.assert_array_equal(loaded(X[0, :2], np.array(2)), np.tile(X[0, :2], 3))


def test_a_state_that_grows_from_nothing_is_read_in_the_body() -> None:
    """As decoders do, and scripts that join results one by one."""
    body = """
        y, last = Loop (count, begins, nothing, x) <
            body = g1 (int64 i, bool going, float[A, B] s, float[N, 3] r)
                => (bool going, float[C, D] t, float[N, 3] q) {
                t = Concat<axis = 0>(s, r)
                sums = ReduceSum(t, axes)
                q = Sub(r, sums)
            }
        >
        z = Exp(y)
    """
    weights = {"nothing": np.zeros((0, 3), np.float32), "axes": np.array([0])}
    made = _model(body, outputs="float y, float last, float z", **weights)
    compiled = check_compiled(made, x=X, count=2)
    for count in (1, 3):
        compare(compiled, made, x=np.concatenate([X, X]), count=count)
    assert compiled.compilations == 1


def test_states_that_shrink_and_grow_together() -> None:
    """Two of different sizes, which the body makes of each other."""
    body = """
        y, z = Loop (count, begins, x, x) <
            body = g1 (int64 i, bool going, float[A, 3] a, float[B, 3] b)
                => (bool going, float[C, 3] a1, float[D, 3] b1) {
                a1 = Slice(a, one, most, zero)
                b1 = Concat<axis = 0>(a, b)
            }
        >
    """
    weights = {"one": np.array([1]), "most": np.array([99]), "zero": np.array([0])}
    made = _model(body, outputs="float y, float z", **weights)
    compiled = check_compiled(made, x=X, count=1)
    for count in (0, 2, 4):
        compare(compiled, made, x=X, count=count)
    assert compiled.compilations == 1


def test_a_loop_that_grows_in_a_loop_that_grows() -> None:
    body = """
        y = Loop (count, begins, x) <
            body = g1 (int64 i, bool going, float[A, 3] a) => (bool on, float[B, 3] b) {
                on = Identity(going)
                b = Loop (i, begins, a) <
                    body = g2 (int64 j, bool goes, float[C, 3] c) => (bool goes, float[D, 3] d) {
                        d = Concat<axis = 0>(c, x)
                    }
                >
            }
        >
    """
    made = _model(body)
    compiled = check_compiled(made, x=X, count=3)
    compare(compiled, made, x=X[:1], count=4)
    assert compiled.compilations == 1


def test_a_state_of_another_rank_is_asked_for() -> None:
    body = GROWS.replace("Concat<axis = 0>(s, x)", "Unsqueeze(s, first)")
    made = _model(body, "float[2] x, int64 count", first=np.array([0]))
    compiled = burnish.compile(made)
    assert compiled(X[0, :2], np.array(1)).shape == (1, 2)
    assert compiled(X[0, :2], np.array(2)).shape == (1, 1, 2)
    assert "what it carries is R.Tensor" in " ".join(compiled.report.notes)


COLLECTS = """
    f, y = Loop (count, begins, x) <
        body = g1 (int64 i, bool going, float[M] s) => (bool going, float[K] t, float[K] u) {
            t = Concat<axis = 0>(s, x)
            u = Neg(t)
        }
    >
"""


def test_collected_elements_are_of_one_shape() -> None:
    made = _model(COLLECTS, "float[2] x, int64 count")
    compiled = burnish.compile(made)
    compare(compiled, made, x=X[0, :2], count=1)
    with pytest.raises(FrontendError, match=r"shapes \(4\) and \(6\).*ONNX wants one shape"):
        compiled(X[0, :2], np.array(2))


def test_collected_elements_of_sizes_found_in_data_are_asked_for() -> None:
    body = """
        y = Loop (count, begins) <
            body = g1 (int64 i, bool going) => (bool going, int64[K] u) {
                row = Gather<axis = 0>(x, i)
                at = NonZero(row)
                u = Squeeze(at, first)
            }
        >
    """
    made = _model(body, "float[2, 3] x, int64 count", "int64 y", first=np.array([0]))
    compiled = burnish.compile(made)
    for rows in ([[1, 0, 2], [0, 3, 4]], [[1, 0, 0], [0, 0, 4]]):
        compare(compiled, made, x=np.array(rows, np.float32), count=2)
    assert "that each iteration finds in data" in " ".join(compiled.report.notes)


def test_the_interpreter_of_the_graph_and_a_saved_model_agree(tmp_path: Path) -> None:
    made = _model(_loop("t = Add(s0, x)"))
    imported = import_onnx(made)
    verify_module(imported.module)
    values = {"x": X, "count": np.array(3)}
    np.testing.assert_allclose(evaluate(imported, values)[0], X * 4, rtol=1e-6)
    burnish.compile(made).save(tmp_path / "loop.burnish")
    loaded = burnish.load(tmp_path / "loop.burnish")
    np.testing.assert_allclose(loaded(X, np.array(3)), X * 4, rtol=1e-6)


def test_a_scan_of_a_symbolic_length_is_one_program() -> None:
    body = """
        last, sums = Scan <num_scan_inputs = 2, scan_input_axes = [0, 1],
            scan_input_directions = [1, 0], scan_output_axes = [1], scan_output_directions = [1],
            body = g1 (float[3] s, float[3] row, float[3] column) => (float[3] t, float[3] u) {
                a = Add(s, row)
                t = Sub(a, column)
                u = Mul(t, t)
            }> (start, x, z)
    """
    weights = {"start": np.ones(3, np.float32)}
    made = model(
        body, "float[N, 3] x, float[3, N] z", outputs="float last, float sums", weights=weights
    )
    compiled = burnish.compile(made)
    for n in (2, 5):
        x = np.arange(3 * n, dtype=np.float32).reshape(n, 3)
        z = x.T / 2 - 1
        states = 1 + np.cumsum(x[::-1] - z.T, axis=0)
        last, sums = compiled(x, np.ascontiguousarray(z))
        np.testing.assert_allclose(last, states[-1], rtol=1e-5)
        np.testing.assert_allclose(sums, (states[::-1] ** 2).T, rtol=1e-5)
    assert compiled.compilations == 1


def test_a_loop_that_a_size_counts() -> None:
    body = """
        n = Shape<end = 1>(x)
        count = Squeeze(n)
        y, seen = Loop (count, begins, zero) <
            body = g1 (int64 i, bool going, float[3] s) => (bool on, float[3] t, float[3] u) {
                on = Identity(going)
                row = Gather(x, i)
                t = Add(s, row)
                u = Exp(t)
            }
        >
    """
    zero = np.zeros(3, np.float32)
    made = _model(body, "float[N, 3] x", "float y, float seen", zero=zero)
    compiled = check_compiled(made, x=X)
    compare(compiled, made, x=np.concatenate([X, X]))
    assert compiled.compilations == 1
