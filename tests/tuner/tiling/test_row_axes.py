"""Axes of a row that are one: in steps, in turns, or not at all."""

from __future__ import annotations

import numpy as np
import pytest

from burnish.support.host import native_target
from burnish.support.target import Target
from burnish.tensorir import operators as op
from burnish.tensorir.schedule import Schedule
from burnish.tensorir.te.compute import Tensor
from burnish.tests.assembly import innermost_loops, kernel_lines
from burnish.tests.native import call_native
from burnish.tests.tuner.rules.checking import HASWELL, SKYLAKE, Workload, scheduled
from burnish.tuner.tiling.inline import inline_elementwise
from burnish.tuner.tiling.nests import Nest, nest_of, spatial_axes
from burnish.tuner.tiling.row_axes import goes_in_steps, is_one_axis, turns_of
from burnish.tuner.workload import blocks_in_order, is_reduction

Columns = tuple[int, int, int]
"""The first column that is taken, the step, and how many."""


def part_of(rows: int, columns: int, part: Columns, dtype: str = "float32") -> Workload:
    """The sum of some columns of a matrix."""
    begin, step, count = part

    def build(a: Tensor) -> Tensor:
        return op.sum(op.strided_slice(a, (0, begin), (1, step), (rows, count)), None)

    def reference(a: np.ndarray) -> np.ndarray:
        return np.asarray(a[:, begin::step][:, :count].sum(dtype="float64"))

    return Workload(build, reference, (rows, columns), dtype=dtype)


def nest_in(work: Workload) -> Nest:
    """The reduction as it is scheduled, with what makes its terms inlined."""
    sch = Schedule(work.func)
    inline_elementwise(sch)
    (block,) = [b for b in blocks_in_order(sch.func) if is_reduction(b)]
    return nest_of(block, spatial_axes(block))


@pytest.mark.parametrize(
    ("columns", "part", "one", "steps", "turns"),
    [
        (6, (0, 1, 6), True, True, 1),
        (6, (0, 2, 3), False, True, 1),
        (6, (1, 2, 3), False, True, 1),
        (5, (0, 1, 3), False, False, 3),
        (5, (0, 2, 3), False, False, 3),
        (9, (0, 1, 8), False, False, 1),  # vectors of their own
        (50, (0, 1, 3), False, False, 1),  # rows far from each other
    ],
)
def test_kinds(columns: int, part: Columns, one: bool, steps: bool, turns: int) -> None:
    nest = nest_in(part_of(200, columns, part))
    assert (is_one_axis(nest), goes_in_steps(nest)) == (one, steps)
    assert turns_of(nest, SKYLAKE) == turns


def test_few_rows_are_not_worth_turns() -> None:
    assert turns_of(nest_in(part_of(20, 5, (0, 1, 3))), SKYLAKE) == 1


@pytest.mark.parametrize("part", [(0, 2, 3), (1, 2, 2), (0, 1, 3), (2, 1, 2), (0, 3, 2)])
@pytest.mark.parametrize("columns", [5, 6])
@pytest.mark.parametrize("target", [native_target(), HASWELL])
def test_sums(columns: int, part: Columns, target: Target) -> None:
    for rows in (64, 1003):
        for dtype in ("float32", "float64", "int32", "int8"):
            work = part_of(rows, columns, part, dtype)
            work.check(scheduled(work.func, target=target)[1], tolerance=1e-4)


@pytest.mark.parametrize("part", [(0, 2, 3), (0, 1, 3)])
@pytest.mark.parametrize(("target", "register"), [(SKYLAKE, "zmm"), (HASWELL, "ymm")])
@pytest.mark.parametrize("columns", [5, 6])
def test_vectors_are_shuffled_of_those_around_them(
    part: Columns, target: Target, register: str, columns: int
) -> None:
    _, func = scheduled(part_of(4096, columns, part).func, target=target)
    for loop in innermost_loops(kernel_lines(func, target)):
        text = "\n".join([line.code for line in loop])
        assert "gather" not in text
        assert f"%{register}" in text
        assert "vaddss" not in text


def test_long_sums_of_few_columns_are_exact_to_the_last_digits() -> None:
    """Partial sums, added in blocks: one sum of all elements would lose digits."""
    work = part_of(100_000, 5, (0, 1, 3))
    values = np.full((100_000, 5), 1.1, "float32")
    found = np.zeros((), "float32")
    call_native(scheduled(work.func)[1], values, found)
    np.testing.assert_allclose(found, values[:, :3].sum(dtype="float64"), rtol=3e-7)
