"""Elementwise functions: vectors, whatever the shape."""

from __future__ import annotations

import re

import numpy as np
import pytest

from burnish.tensorir import operators as op
from burnish.tensorir.printer import print_func
from burnish.tests.native import lower
from burnish.tests.tuner.rules.checking import (
    SIZES,
    SKYLAKE,
    Workload,
    assembly_of,
    check_rule,
    scheduled,
)
from burnish.tuner.rules.elementwise import runs_in_order
from burnish.tuner.workload import blocks_in_order


def relu(*shape: int | str) -> Workload:
    return Workload(op.relu, lambda a: np.maximum(a, 0), shape)


@pytest.mark.parametrize("columns", SIZES)
def test_any_columns(columns: int) -> None:
    check_rule(relu(3, columns), "elementwise")


@pytest.mark.parametrize("columns", [3, 32])
def test_any_rows(columns: int) -> None:
    check_rule(relu("m", columns), "elementwise", m=(0, 1, 2, 7, 33))


def test_symbolic_columns() -> None:
    check_rule(relu(3, "n"), "elementwise", n=(0, 1, 17, 100))


@pytest.mark.parametrize("shapes", [((4, 33), (33,)), ((4, 33), (4, 1)), ((2, 1, 7), (3, 1))])
def test_broadcasting(shapes: tuple[tuple[int, ...], ...]) -> None:
    check_rule(Workload(op.add, lambda a, b: a + b, *shapes), "elementwise")


@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((33, 17), (1, 0)),
        (("m", 17), (1, 0)),
        ((17, "m"), (1, 0)),
        ((3, 33, 17), (0, 2, 1)),
        ((3, 4, 17), (1, 0, 2)),
        ((5, 6, 7), (2, 1, 0)),
        ((1, 40), (1, 0)),
    ],
)
def test_transposes(shape: tuple[int | str, ...], axes: tuple[int, ...]) -> None:
    workload = Workload(lambda a: op.permute_dims(a, axes), lambda a: a.transpose(axes), shape)
    dims = {"m": (0, 1, 5, 40)} if "m" in shape else {}
    check_rule(workload, "elementwise", **dims)


@pytest.mark.parametrize(
    ("shape", "times"),
    [((3, 40, 1), 2), ((2, 33, 1), 3), ((2, 17, 1), 8), ((3, 1, 5), 20), ((2, 5, 1, 1), 2)],
)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int8"])
def test_repeats(shape: tuple[int, ...], times: int, dtype: str) -> None:
    wide = tuple([n if n > 1 else times for n in shape])
    workload = Workload(
        lambda a: op.broadcast_to(a, wide), lambda a: np.broadcast_to(a, wide), shape, dtype=dtype
    )
    check_rule(workload, "elementwise")


@pytest.mark.parametrize("times", [2, 4])
def test_an_element_for_each_of_a_few_is_shuffled(times: int) -> None:
    wide = (8, 64, times)
    shapes = (8, 64, 1), (times,)
    workload = Workload(
        lambda a, b: op.multiply(op.broadcast_to(a, wide), b), lambda a, b: a * b, *shapes
    )
    check_rule(workload, "elementwise")
    text = assembly_of(scheduled(workload.func, target=SKYLAKE)[1], SKYLAKE)
    assert "gather" not in text
    assert "scatter" not in text
    stores = re.findall(r"vmovups\s+%(\w)mm\d+, [^#\n]*\(%r[^s]", text)
    assert stores
    assert set(stores) == {"z"}


@pytest.mark.parametrize("dtype", ["float64", "int32", "int8"])
def test_other_dtypes(dtype: str) -> None:
    check_rule(Workload(op.add, lambda a, b: a + b, (5, 33), (5, 33), dtype=dtype), "elementwise")


def test_a_scalar() -> None:
    check_rule(relu(), "elementwise", seeds=0)


def test_nothing_to_do() -> None:
    rule, func = scheduled(relu(0, 5).func)
    assert rule is None
    relu(0, 5).check(func)


def test_a_fused_narrow_array_has_masks_in_its_rest_alone() -> None:
    _, func = scheduled(relu(1000, 3).func, target=SKYLAKE)
    text = print_func(lower(func, SKYLAKE).func)
    assert "in range(187):" in text  # 3000 = 187 * 16 + 8
    assert "Ramp(2992, 1, 8)" in text
    assert "predicate" not in text
    _, func = scheduled(relu(1001, 3).func, target=SKYLAKE)
    main, rest = (
        print_func(lower(func, SKYLAKE).func).split("in range(187):")[1].strip().split("\n")
    )
    assert "predicate" not in main
    assert rest.count("predicate") == 2  # 11 elements in 16 lanes: a load and a store


def test_runs_in_order() -> None:
    def first(workload: Workload) -> bool:
        return runs_in_order(blocks_in_order(workload.func)[0])

    assert first(relu(4, 5))
    assert first(relu("m", 5))
    assert not first(relu(4, "n"))
    assert not first(Workload(op.add, np.add, (4, 5), (5,)))
    assert not first(Workload(lambda a: op.permute_dims(a, (1, 0)), np.transpose, (4, 4)))
