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


def test_other_dims_that_do_not_fit_are_refused() -> None:
    with pytest.raises(BurnishError, match=r"M and N .* are not proved equal"):
        import_onnx(model("y = Add(x, z)", "float[M] x, float[N] z"))


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
