"""Sizes that a model cannot be called with."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import ModelProto

from burnish.driver.compile import compile
from burnish.driver.load import load
from burnish.frontend.onnx import import_onnx
from burnish.frontend.onnx.size_bounds import smaller
from burnish.graphir.dim import print_dim
from burnish.support.errors import BurnishError, ShapeMismatchError
from burnish.tensorir.expr import IntImm, Var
from burnish.tests.frontend.onnx.oracle import check, compare, model, refusal

TABLE = np.random.default_rng(0).standard_normal((1, 8, 4)).astype(np.float32)
FIRST = """
    shape = Shape(x)
    one = Constant <value = int64[1] {1}> ()
    zero = Constant <value = int64[1] {0}> ()
    n = Gather(shape, one)
"""
"""Of x, as exporters cut the positions of a transformer."""
POSITIONS = f"{FIRST} part = Slice(table, zero, n, one)\n y = Add(x, part)"


def positions(body: str = POSITIONS) -> ModelProto:
    return model(body, "float[B, N, 4] x", weights={"table": TABLE})


def rows(count: int, batch: int = 2) -> np.ndarray:
    return np.random.default_rng(count).standard_normal((batch, count, 4)).astype(np.float32)


def test_one_program_serves_every_size_up_to_the_positions_there_are() -> None:
    made = positions()
    compiled = compile(made)
    for count in (1, 3, 8, 0):
        compare(compiled, made, x=rows(count))
    assert compiled.compilations == 1
    assert "dim N is at most 8: no call of more is right." in compiled.report.notes
    with pytest.raises(ShapeMismatchError, match=r"dim 1.*of N from 0 to 8.*9"):
        compiled(rows(9))


def test_a_saved_model_refuses_them_too(tmp_path: Any) -> None:
    compile(positions()).save(tmp_path / "model.burnish")
    loaded = load(tmp_path / "model.burnish")
    assert np.asarray(loaded(rows(8))).shape == (2, 8, 4)
    with pytest.raises(ShapeMismatchError, match="of N from 0 to 8"):
        loaded(rows(9))


def test_a_size_plus_a_number_is_bounded_too() -> None:
    body = f"""{FIRST}
        more = Add(n, one)
        part = Slice(table, zero, more, one)
        longer = Concat <axis = 1> (x, tail)
        y = Add(longer, part)
    """
    weights = {"table": TABLE, "tail": TABLE[:, :1]}
    made = model(body, "float[1, N, 4] x", weights=weights)
    imported = check(made, x=rows(7, 1))
    assert imported.notes == ("dim N is at most 7: no call of more is right.",)


def test_the_smallest_bound_counts() -> None:
    body = (
        POSITIONS.replace("y = Add", "z = Add")
        + """
        few = Slice(short, zero, n, one)
        y = Mul(z, few)
    """
    )
    weights = {"table": TABLE, "short": TABLE[:, :5]}
    made = model(body, "float[B, N, 4] x", weights=weights)
    assert check(made, x=rows(5)).notes == ("dim N is at most 5: no call of more is right.",)


def test_a_cut_that_nothing_else_has_to_fit_stays_a_cut() -> None:
    made = positions(f"{FIRST} y = Slice(table, zero, n, one)")
    compiled = compile(made)
    for count in (3, 9):
        compare(compiled, made, x=rows(count))
    assert compiled.report.notes == []


def test_one_element_could_broadcast_so_that_nothing_is_learnt_of_it() -> None:
    made = model(POSITIONS, "float[B, N, 4] x", weights={"table": TABLE[:, :1]})
    assert "not proved equal" in refusal(made)
    compiled = compile(made)
    compare(compiled, made, x=rows(3))
    compare(compiled, made, x=rows(1))


def ones(*shape: int) -> np.ndarray:
    return np.random.default_rng(shape).standard_normal(shape).astype(np.float32)


def test_without_a_call_other_dims_that_do_not_fit_are_refused() -> None:
    with pytest.raises(BurnishError, match=r"M and N .* are not proved equal"):
        import_onnx(model("y = Add(x, z)", "float[M] x, float[N] z"))


def test_a_call_tells_whether_two_names_are_one_size() -> None:
    """As exporters that name each dim of each input write it."""
    made = model("y = Add(x, z)", "float[N, 3] x, float[M, 3] z")
    compiled = compile(made)
    for n in (4, 5, 1, 0):
        compare(compiled, made, x=ones(n, 3), z=ones(n, 3))
    assert compiled.compilations == 1
    assert "the program is for inputs whose N is M: add" in compiled.report.notes[0]
    for n, m in ((1, 4), (4, 1)):
        compare(compiled, made, x=ones(n, 3), z=ones(m, 3))
    assert compiled.compilations == 3
    with pytest.raises(BurnishError, match="differ and neither is 1"):
        compiled(ones(2, 3), ones(3, 3))


def test_several_names_are_asked_for_one_after_another() -> None:
    body = "a = MatMul(x, w)\nb = Concat<axis = 1>(a, z)\ny = Add(b, t)"
    inputs = "float[N, K] x, float[L, 3] w, float[M, P] z, float[M, T] t"
    made = model(body, inputs)
    compiled = compile(made)
    for n, k, p in ((4, 2, 1), (3, 5, 2)):
        compare(compiled, made, x=ones(n, k), w=ones(k, 3), z=ones(n, p), t=ones(n, 3 + p))
    assert compiled.compilations == 1
    notes = "\n".join(compiled.report.notes)
    for found in ("K is L", "M is N", "is 3 + P"):
        assert found in notes


def test_a_symbolic_size_may_have_to_be_a_number() -> None:
    made = model("y = MatMul(x, w)", "float[N, K] x", weights={"w": ones(3, 2)})
    compiled = compile(made)
    for n in (2, 5):
        compare(compiled, made, x=ones(n, 3))
    assert compiled.compilations == 1
    with pytest.raises(BurnishError, match="inner dims"):
        compiled(ones(2, 4))


def test_a_saved_model_has_the_programs_that_were_made(tmp_path: Any) -> None:
    made = model("y = Add(x, z)", "float[N, 3] x, float[M, 3] z")
    compiled = compile(made)
    compiled(ones(2, 3), ones(2, 3))
    compiled.save(tmp_path / "model.burnish")
    x, z = ones(5, 3), ones(5, 3)
    found = load(tmp_path / "model.burnish")(x, z)
    np.testing.assert_allclose(np.asarray(found), x + z, rtol=1e-6)


def test_the_smaller_of_bounded_sizes() -> None:
    n, m = Var("n"), Var("m")

    def shown(a: Any, b: Any) -> str:
        return print_dim(smaller(a, b, {"n": 8}))

    eight = IntImm(8)
    assert shown(n, eight) == shown(eight, n) == "n"
    assert shown(n * 2, IntImm(16)) == "n * 2"
    assert shown(n // 2 + 1, IntImm(5)) == "n // 2 + 1"
    assert shown(n + 1, eight) == "min(n + 1, 8)"
    assert shown(m, eight) == "min(m, 8)"
    assert shown(n, m) == "min(n, m)"


def test_two_names_for_one_number_of_rows_in_a_reshape() -> None:
    body = """
        rows = Shape<start = 0, end = 1>(z)
        shape = Concat<axis = 0>(rows, rest)
        r = Reshape(x, shape)
        y = Add(r, z)
    """
    weights = {"rest": np.array([-1, 8])}
    made = model(body, "float[A, 6, 4] x, float[B, 3, 8] z", weights=weights)
    x, z = (np.arange(96, dtype=np.float32).reshape(4, *s) for s in ((6, 4), (3, 8)))
    compiled = compile(made)
    compare(compiled, made, x=x, z=z)
    compare(compiled, made, x=x[:2], z=z[:2])
    assert compiled.compilations == 1
