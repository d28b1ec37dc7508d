"""Elementwise functions: vectors, whatever the shape."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest

from burnish.support.node import walk
from burnish.support.target import Target
from burnish.tensorir import operators as op
from burnish.tensorir.function import PrimFunc
from burnish.tensorir.stmt import For
from burnish.tensorir.te.compute import Tensor, create_prim_func, placeholder
from burnish.tensorir.text.printer import print_func
from burnish.tests.native import call_native, lower
from burnish.tests.steps import steps_in_vectors, steps_of
from burnish.tests.tuner.rules.checking import (
    HASWELL,
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


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_what_is_repeated_and_fills_no_vector_is_not_read_lane_by_lane(dtype: str) -> None:
    """AVX2 has no gather under a mask that would pay, and would look at each lane."""
    x = placeholder((8, 29, 1), dtype, name="x")
    func = create_prim_func([x, op.broadcast_to(x, (8, 29, 2))])
    text = assembly_of(scheduled(func, target=HASWELL)[1], HASWELL)
    assert "vmov" in text
    assert not re.search(r"\b(?:testb|vpextr[bw]|vgather)", text)


@pytest.mark.parametrize("last", [64, 61])
@pytest.mark.parametrize("count", [2, 3, 4])
def test_tensors_that_are_stacked_or_taken_in_turn_are_shuffled(count: int, last: int) -> None:
    shape = (8, last)

    def stacked(*parts: Tensor) -> Tensor:
        return op.concat([op.expand_dims(op.relu(p), -1) for p in parts], axis=-1)

    def stack(*parts: np.ndarray) -> np.ndarray:
        return np.stack([np.maximum(p, 0) for p in parts], -1)

    in_turn = Workload(
        lambda *parts: op.interleave([op.relu(p) for p in parts]),
        lambda *parts: stack(*parts).reshape(8, -1),
        *[shape] * count,
    )
    for workload in (Workload(stacked, stack, *[shape] * count), in_turn):
        check_rule(workload, "elementwise")
        if last % 8 == 0:
            text = assembly_of(scheduled(workload.func, target=HASWELL)[1], HASWELL)
            assert not re.search(r"\b(?:vgather|vpextr|vpinsr|vmovss)", text)


def test_pairs_that_are_turned_are_shuffled() -> None:
    """A rotary embedding of neighbours: each lane reads its pair's other one."""
    x, table = placeholder((8, 64), name="x"), placeholder((8, 64), name="table")
    halves = [op.strided_slice(x, (0, n), (1, 2), (8, 32)) for n in (1, 0)]
    turned = op.interleave([op.negative(halves[0]), halves[1]])
    func = create_prim_func([x, table, op.multiply(turned, table)])
    text = assembly_of(scheduled(func, target=HASWELL)[1], HASWELL)
    assert not re.search(r"\b(?:vgather|vpextr|vpinsr|vmovss)", text)


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


@pytest.mark.parametrize("shape", [(40, 50), (7, 3), (3, 64)])
def test_outer_products_are_written_row_by_row(shape: tuple[int, int]) -> None:
    rows, columns = shape
    check_rule(Workload(op.matmul, np.matmul, (rows, 1), (1, columns)), "elementwise")
    layer = Workload(op.linear, lambda x, w, b: x @ w.T + b, (rows, 1), (columns, 1), (columns,))
    check_rule(layer, "elementwise")


def test_a_scalar() -> None:
    check_rule(relu(), "elementwise", seeds=0)


def test_a_scalar_beside_a_matrix() -> None:
    check_rule(Workload(op.add, np.add, (9, 100), ()), "elementwise")


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


def test_runs_in_order_from_an_axis_on() -> None:
    def first(build: Callable[..., Tensor], *shapes: tuple[int, ...], axis: int) -> bool:
        func = Workload(build, np.add, *shapes).func
        return runs_in_order(blocks_in_order(func)[0], axis)

    def cut(a: Tensor) -> Tensor:
        return op.strided_slice(a, (0, 3, 0), (1, 1, 1), (4, 5, 6))

    assert first(cut, (4, 9, 6), axis=1)
    assert not first(cut, (4, 9, 6), axis=0)
    assert not first(cut, (4, 9, 7), axis=1)
    # One number for a row, or for a plane, is the same wherever in it.
    assert first(op.add, (4, 5, 6), (4, 1, 1), axis=1)
    assert not first(op.add, (4, 5, 6), (4, 1, 1), axis=0)
    assert not first(op.add, (4, 5, 6), (4, 5, 1), axis=1)
    assert first(op.add, (4, 5, 6), (4, 5, 6), axis=1)


def test_runs_in_order_from_where_the_axes_before_tell() -> None:
    def windows(*shape: int) -> PrimFunc:
        x = placeholder(shape, name="x")
        how = {"kernel": (3, 4), "strides": (2, 2), "padding": (0,) * 4, "dilation": (1, 1)}
        return create_prim_func([x, op.im2col(x, **how)])

    for channels in (1, 3):
        (block,) = blocks_in_order(windows(1, 9, 20, channels))
        assert [runs_in_order(block, axis) for axis in range(6)] == [False] * 4 + [True] * 2
        # A row of a window is one run.
        name, func = scheduled(windows(1, 9, 20, channels), target=SKYLAKE)
        assert (name, "i4_i5_fused" in print_func(func)) == ("elementwise", True)
        text = assembly_of(func, SKYLAKE)
        assert "gather" not in text
        assert "%xmm" in text or "%zmm" in text


def take(dtype: str, *shape: int, count: int) -> PrimFunc:
    a, places = placeholder(shape, dtype, name="a"), placeholder((count,), "int64", name="places")
    return create_prim_func([a, places, op.take(a, places, axis=len(shape) - 1)])


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "int8"])
@pytest.mark.parametrize("count", [1, 7, 8, 33])
@pytest.mark.parametrize("rows", [1, 3, 9])
def test_places_of_the_last_axis(dtype: str, count: int, rows: int) -> None:
    func = take(dtype, rows, 50, count=count)
    rng = np.random.default_rng(0)
    a = rng.integers(-99, 99, (rows, 50)).astype(dtype)
    places = rng.integers(-50, 50, count)
    found = np.zeros((rows, count), dtype)
    call_native(scheduled(func)[1], a, places, found)
    np.testing.assert_array_equal(found, a[:, places])


def test_places_are_brought_inside_once() -> None:
    text = print_func(lower(scheduled(take("float32", 9, 50, count=32), target=SKYLAKE)[1]).func)
    table, rows = text.split("for i0")
    assert table.count("T.max") > 0
    assert "T.max" not in rows


def test_a_table_is_not_worth_it_for_few_rows() -> None:
    text = print_func(scheduled(take("float32", 3, 50, count=32))[1])
    assert "index_var" not in text


@pytest.mark.parametrize(
    ("rows", "width", "ahead"), [(9000, 64, 8), (900, 1024, 1), (90, 64, 0), (99999, 24, 0)]
)
def test_rows_of_a_large_table_are_looked_up_ahead(rows: int, width: int, ahead: int) -> None:
    a, places = placeholder((rows, width), name="a"), placeholder((40,), "int64", name="places")
    func = create_prim_func([a, places, op.exp(op.take(a, places, axis=0))])
    target = Target("llvm -mcpu=x86-64-v3 -l2=1M")
    made = scheduled(func, target=target)[1]
    assert (f'"prefetch_region": {ahead}}}' in made.script()) == (ahead > 0)
    assert ("prefetch_l2" in print_func(lower(made, target).func)) == (ahead > 0)
    rng = np.random.default_rng(0)
    table, chosen = rng.standard_normal((rows, width), "float32"), rng.integers(-rows, rows, 40)
    found = np.zeros((40, width), "float32")
    call_native(scheduled(func)[1], table, chosen, found)
    np.testing.assert_allclose(found, np.exp(table[chosen].astype("float64")), rtol=1e-6)


@pytest.mark.parametrize("target", ["haswell", "skylake-avx512", "x86-64", "x86-64-v4"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
def test_a_narrow_result_beyond_the_caches_fills_lines(target: str, dtype: str) -> None:
    a = placeholder((12000, 12000), dtype)
    for made in (op.greater(a, a), op.cast(a, "int8")):
        func = create_prim_func([a, made])
        rule, done = scheduled(func, target=Target(f"llvm -mcpu={target}"))
        assert rule == "elementwise"
        assert any(loop.kind == "vectorized" for loop in walk(done.body) if isinstance(loop, For))


def test_a_scalar_beside_rows_that_are_looked_up() -> None:
    """The constants of half precision are tensors without axes."""

    def rows(x: Tensor, places: Tensor, scale: Tensor) -> Tensor:
        return op.multiply(scale, op.take(x, places, axis=0))

    x, places = placeholder((4000, 512), "float32", "x"), placeholder((9,), "int64", "places")
    scale = placeholder((), "float32", "scale")
    func = create_prim_func([x, places, scale, rows(x, places, scale)])
    assert scheduled(func, target=SKYLAKE)[0] == "elementwise"


@pytest.mark.parametrize("shape", [(1, 3007), (3, 1003), (40_009, 7)])
def test_no_lane_asks_which_of_two_tensors_its_row_is_of(shape: tuple[int, int]) -> None:
    """Rows of odd length that are concatenated: lanes of one vector would be in both."""
    workload = Workload(
        lambda a, b: op.concat([op.relu(a), op.relu(b)], axis=0),
        lambda a, b: np.maximum(np.concatenate([a, b]), 0),
        shape, shape,
    )  # fmt: skip
    _, func = scheduled(workload.func, target=SKYLAKE)
    assert "gather" not in assembly_of(func, SKYLAKE)
    assert steps_of(func, SKYLAKE) < 2 * steps_in_vectors(workload.func, SKYLAKE)
    workload.check(scheduled(workload.func)[1])
