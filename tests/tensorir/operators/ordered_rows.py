"""Runs one way of ordering on the rows of a matrix, and asks torch for the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch

from burnish.support.dtype import DType
from burnish.tensorir.buffer import Buffer
from burnish.tensorir.expr import INDEX, BufferLoad, Expr, IntImm
from burnish.tensorir.function import PrimFunc
from burnish.tensorir.operators.order_entries import OrderedRow, entries_of
from burnish.tensorir.operators.rows import function_of_rows
from burnish.tensorir.stmt import BufferStore, Stmt
from burnish.tensorir.verify.laws import verify_func
from burnish.tests.native import call_native

Method = Callable[[OrderedRow], tuple[Stmt, list[Buffer]]]
DTYPES = ("float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8",
          "bool")  # fmt: skip


def sample(dtype: str, shape: Sequence[int], seed: int = 0) -> torch.Tensor:
    """Values of which many are equal; of floats also NaN of both signs, zeros and infinities."""
    rng = np.random.default_rng(seed)
    kind = getattr(torch, dtype)
    if not kind.is_floating_point:
        low, high = (0, 2) if dtype == "bool" else (0 if dtype == "uint8" else -60, 60)
        return torch.tensor(rng.integers(low, high, shape)).to(kind)
    x = torch.tensor(np.round(rng.standard_normal(shape) * 8)).to(kind)
    special = torch.tensor([torch.nan, -torch.nan, torch.inf, -torch.inf, 0.0, -0.0]).to(kind)
    where = torch.tensor(rng.random(shape) < 0.3)
    x[where] = special[torch.tensor(rng.integers(0, 6, int(where.sum())))]
    return x


def ordered_func(
    method: Method,
    dtype: str,
    rows: int,
    length: int,
    count: int | None,
    *,
    descending: bool,
    start: int = 0,
) -> PrimFunc:
    """The function of a matrix that orders each of its rows by ``method``."""
    size = IntImm(length, INDEX)
    found = size if count is None else IntImm(count - start, INDEX)
    source = Buffer("x", (IntImm(rows, INDEX), size), DType(dtype))
    out = Buffer("out", (IntImm(rows, INDEX), found), INDEX)

    def row(at: Sequence[Expr]) -> tuple[Stmt, list[Buffer]]:
        entries = entries_of(DType(dtype), size, descending=descending)
        return method(
            OrderedRow(
                entries,
                size,
                found,
                lambda k: BufferLoad(source, (*at, k)),
                lambda k, index: BufferStore(out, index, (*at, k)),
                start,
            )
        )

    return verify_func(function_of_rows("order", [source, out], source.shape[:1], row))


def check_order(
    method: Method,
    x: torch.Tensor,
    count: int | None = None,
    *,
    descending: bool = False,
    start: int = 0,
) -> None:
    """``method`` finds what a stable sort of torch does, along the last axis."""
    dtype = str(x.dtype).removeprefix("torch.")
    rows, length = x.shape
    func = ordered_func(method, dtype, rows, length, count, descending=descending, start=start)
    held = x.view(torch.uint8) if dtype == "bool" else x
    held = x.view(torch.int16) if dtype == "bfloat16" else held
    found = np.full((rows, (length if count is None else count) - start), -7)
    call_native(func, held.numpy().copy(), found)
    order = torch.sort(x, stable=True, descending=descending)[1].numpy()
    np.testing.assert_array_equal(found, order[:, start:count])
