"""Functions of rows: parallel over all rows, whatever number of axes they have."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from burnish.support.dtype import DType
from burnish.tensorir.buffer import Buffer
from burnish.tensorir.expr import BufferLoad, Expr, IntImm
from burnish.tensorir.function import PrimFunc
from burnish.tensorir.operators.rows import function_of_rows, loop, nest, plain_buffer
from burnish.tensorir.stmt import BufferStore, Stmt
from burnish.tensorir.te.compute import Tensor
from burnish.tests.tensorir.operators.rows_native import run_rows


def reversed_rows(x: Tensor) -> PrimFunc:
    """Each row (along the last axis) the other way round."""
    source, out = plain_buffer(x), Buffer("out", x.shape, x.dtype)
    last = x.shape[-1] - 1

    def row(at: Sequence[Expr]) -> tuple[Stmt, list[Buffer]]:
        return loop(
            "k",
            x.shape[-1],
            lambda k: BufferStore(out, BufferLoad(source, (*at, last - k)), (*at, k)),
        ), []

    return function_of_rows("reversed_rows", [source, out], x.shape[:-1], row)


@pytest.mark.parametrize("shape", [(5,), (3, 4), (2, 3, 4), (2, 1, 3, 4), (0, 3), (3, 0)])
def test_rows_of_any_number_of_axes(shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(0).random(shape)
    np.testing.assert_array_equal(run_rows(reversed_rows, x, shape=shape), x[..., ::-1])


def test_symbolic_rows() -> None:
    x = np.random.default_rng(0).random((2, 3, 4))
    found = run_rows(reversed_rows, x, shape=x.shape, shapes=[("a", "b", "c")])
    np.testing.assert_array_equal(found, x[..., ::-1])


def test_a_nest_runs_its_last_loop_inside() -> None:
    buffer = Buffer("b", (IntImm(2), IntImm(3)), DType("int64"))
    found = nest([IntImm(2), IntImm(3)], lambda j: BufferStore(buffer, j[0] * 3 + j[1], j))
    assert [found.extent.value, found.body.extent.value] == [2, 3]  # type: ignore[union-attr]
