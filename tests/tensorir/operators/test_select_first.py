"""The first few of many against torch: ties within parts and between them, lengths that no number
of parts divides."""

from __future__ import annotations

import pytest

from burnish.support.dtype import DType
from burnish.support.target import Target
from burnish.tensorir.expr import IntImm
from burnish.tensorir.operators.order_entries import Entries
from burnish.tensorir.operators.select_first import FEWEST, log_parts, select_first
from burnish.tests.assembly import innermost_loops, kernel_lines, operations
from burnish.tests.tensorir.operators.ordered_rows import (
    DTYPES,
    check_order,
    ordered_func,
    sample,
)


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_dtypes(dtype: str, descending: bool) -> None:
    check_order(select_first, sample(dtype, (3, 150)), 12, descending=descending)


@pytest.mark.parametrize("count", [0, 1, 16])
@pytest.mark.parametrize("length", [FEWEST, 17, 31, 32, 33, 1000])
def test_lengths(length: int, count: int) -> None:
    for dtype in ("float32", "float64"):
        check_order(select_first, sample(dtype, (2, length)), count, descending=True)


@pytest.mark.parametrize("dtype", ["float32", "int64", "bool"])
def test_all_of_a_row(dtype: str) -> None:
    check_order(select_first, sample(dtype, (2, 70)), 70)


def test_one_long_row() -> None:
    check_order(select_first, sample("float32", (1, 300_001)), 20, descending=True)


def test_there_are_no_more_parts_than_elements() -> None:
    for dtype in ("int8", "float64"):
        for length in range(FEWEST, 300):
            log = log_parts(Entries(DType(dtype), False), IntImm(length))
            assert isinstance(log, IntImm)
            assert 1 << log.value <= length


def test_code_runs_through_the_row_in_vectors() -> None:
    func = ordered_func(select_first, "float32", 4, 1024, 10, descending=True)
    lines = kernel_lines(func, Target("llvm -mcpu=x86-64-v4"))
    assert "vpminuq" in operations(lines)
    assert not [line.code for loop in innermost_loops(lines) for line in loop if line.is_spill]
