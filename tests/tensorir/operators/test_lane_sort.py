"""Rows side by side against torch: networks and the first few, neighbours or not, lanes without a
row; the network sorts, and its code is vectors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import torch

from burnish.support.dtype import DType
from burnish.support.target import Target
from burnish.tensorir.buffer import Buffer
from burnish.tensorir.expr import INDEX, BufferLoad, Expr, IntImm, minimum
from burnish.tensorir.function import PrimFunc
from burnish.tensorir.operators.lane_sort import (
    Lanes,
    lane_count,
    lane_sort,
    lane_steps,
    network_stages,
)
from burnish.tensorir.operators.order_entries import Entries, entries_of
from burnish.tensorir.operators.rows import function_of_rows
from burnish.tensorir.stmt import BufferStore, Stmt
from burnish.tensorir.verify.laws import verify_func
from burnish.tests.assembly import foreign_calls, innermost_loops, kernel_lines, operations
from burnish.tests.native import call_native
from burnish.tests.tensorir.operators.ordered_rows import DTYPES, sample


def lanes_func(
    dtype: str,
    rows: int,
    length: int,
    wanted: slice = slice(None),
    *,
    neighbours: bool,
    descending: bool = False,
) -> PrimFunc:
    """The function of a matrix that orders its columns, or its rows, a lane for each."""
    start, stop, _ = wanted.indices(length)

    def shape(size: int) -> tuple[IntImm, IntImm]:
        sizes = (size, rows) if neighbours else (rows, size)
        return IntImm(sizes[0], INDEX), IntImm(sizes[1], INDEX)

    source = Buffer("x", shape(length), DType(dtype))
    out = Buffer("out", shape(stop - start), INDEX)
    entries = entries_of(DType(dtype), IntImm(length, INDEX), descending=descending)
    lanes = lane_count(entries)

    def group(at: Sequence[Expr]) -> tuple[Stmt, list[Buffer]]:
        first = at[0] * lanes

        def place(k: Expr, lane: Expr) -> tuple[Expr, Expr]:
            return (k, first + lane) if neighbours else (first + lane, k)

        return lane_sort(
            Lanes(
                entries,
                length,
                stop - start,
                lambda k, lane: BufferLoad(source, place(k, lane)),
                lambda k, lane, index: BufferStore(out, index, place(k, lane)),
                None if rows % lanes == 0 else minimum(IntImm(lanes), rows - first),
                neighbours,
                start,
            )
        )

    groups = IntImm(-(-rows // lanes), INDEX)
    return verify_func(function_of_rows("order", [source, out], (groups,), group))


def check_lanes(
    x: torch.Tensor, wanted: slice = slice(None), *, neighbours: bool, descending: bool = False
) -> None:
    """A stable sort of torch of each row of ``x`` says the same."""
    dtype = str(x.dtype).removeprefix("torch.")
    rows, length = x.shape
    func = lanes_func(dtype, rows, length, wanted, neighbours=neighbours, descending=descending)
    held = x.view(torch.uint8) if dtype == "bool" else x
    given = (held.view(torch.int16) if dtype == "bfloat16" else held).numpy()
    order = torch.sort(x, stable=True, descending=descending)[1].numpy()[:, wanted]
    found = np.full(order.T.shape if neighbours else order.shape, -7)
    call_native(func, np.ascontiguousarray(given.T if neighbours else given), found)
    np.testing.assert_array_equal(found.T if neighbours else found, order)


@pytest.mark.parametrize("length", range(1, 40))
def test_the_network_sorts(length: int) -> None:
    x = np.random.default_rng(length).random((length, 99))
    for run, distance, first in network_stages(length):
        for i in range(length - distance):
            if i & run == first:
                x[[i, i + distance]] = np.sort(x[[i, i + distance]], axis=0)
    assert (np.diff(x, axis=0) >= 0).all()


@pytest.mark.parametrize("neighbours", [False, True])
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_dtypes(dtype: str, descending: bool, neighbours: bool) -> None:
    for length in (7, 37):
        x = sample(dtype, (19, length))
        check_lanes(x, neighbours=neighbours, descending=descending)
        check_lanes(x, slice(0, 3), neighbours=neighbours, descending=descending)


@pytest.mark.parametrize("neighbours", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "int64"])
@pytest.mark.parametrize("length", [1, 2, 5, 8, 9, 16, 17, 33, 100])
def test_lengths(length: int, dtype: str, neighbours: bool) -> None:
    for rows in (1, 8, 13, 32):
        check_lanes(sample(dtype, (rows, length)), neighbours=neighbours)


@pytest.mark.parametrize("neighbours", [False, True])
@pytest.mark.parametrize("wanted", [slice(0, 1), slice(3, 4), slice(11, 12), slice(18, 37)])
def test_a_part_of_the_order(wanted: slice, neighbours: bool) -> None:
    for dtype in ("float32", "float64", "int8"):
        check_lanes(sample(dtype, (11, 37)), wanted, neighbours=neighbours)


def test_narrow_entries_have_twice_the_lanes() -> None:
    half, full = (
        entries_of(DType("float16"), IntImm(60), descending=False),
        Entries(DType("float32"), False),
    )
    assert lane_count(half) == 2 * lane_count(full)
    many = IntImm(1 << 16, INDEX)
    assert lane_count(entries_of(DType("int8"), many, descending=True)) == lane_count(full)


def test_the_first_few_are_less_work_than_all() -> None:
    entries = Entries(DType("float32"), False)
    steps = [lane_steps(entries, 64, last, side_by_side=True) for last in (1, 4, 10, 64)]
    assert steps == sorted(steps)
    assert steps[0] * 8 < steps[-1]


@pytest.mark.parametrize("cpu", ["x86-64-v4", "haswell", "generic"])
def test_code_exchanges_vectors(cpu: str) -> None:
    """Without a jump that depends on data: as many loops as the function has."""
    target = Target(f"llvm -mcpu={cpu}")
    few = lanes_func("float32", 16, 64, slice(0, 4), neighbours=True)
    whole = lanes_func("float16", 32, 64, neighbours=True)
    long = lanes_func("float32", 16, 64, neighbours=True)
    for func in (few, whole, long):
        lines = kernel_lines(func, target)
        assert foreign_calls(lines) == []
        assert all(any(line.is_wide for line in loop) for loop in innermost_loops(lines))
        # A masked store takes as long as a dozen others where registers hold no masks.
        assert not any(name.startswith("vpmaskmov") for name in operations(lines))
    if cpu == "x86-64-v4":
        assert {"vpminuq", "vpmaxuq"} <= operations(kernel_lines(few, target))
        assert {"vpminud", "vpmaxud"} <= operations(kernel_lines(whole, target))
