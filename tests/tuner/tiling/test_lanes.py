"""Vectors and their rests."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from burnish.support.errors import ScheduleValueError
from burnish.tensorir import operators as op
from burnish.tensorir.expr import IntImm, Var
from burnish.tensorir.schedule import LoopRV, Schedule
from burnish.tensorir.te.compute import Tensor, create_prim_func, placeholder
from burnish.tests.tuner.rules.checking import HASWELL, SKYLAKE, Workload
from burnish.tuner.schedule_log import steps_given_up
from burnish.tuner.tiling import lanes
from burnish.tuner.tiling.lanes import has_masks, lanes_of, up_to_power, vectorize_loop, width_for
from burnish.tuner.workload import blocks_in_order


def test_up_to_power() -> None:
    assert [up_to_power(n) for n in (1, 2, 3, 4, 5, 9, 16)] == [1, 2, 4, 4, 8, 16, 16]


@pytest.mark.parametrize(
    ("extent", "width"),
    [(1, 1), (3, 4), (15, 16), (16, 16), (31, 16), (32, 32), (63, 32), (64, 64), (1000, 64)],
)
def test_widths(extent: int, width: int) -> None:
    assert width_for(IntImm(extent), 16, 4) == width


def test_the_width_of_a_symbolic_loop() -> None:
    assert width_for(Var("m"), 16, 4) == 64


def test_lanes_are_those_of_the_widest_dtype() -> None:
    def lanes(dtype: str, wanted: str) -> int:
        workload = Workload(lambda a: op.cast(a, wanted), np.abs, (4,), dtype=dtype)
        return lanes_of(SKYLAKE, blocks_in_order(workload.func)[0])

    assert lanes("float32", "float32") == 16
    assert lanes("float32", "float64") == 8
    assert lanes("int8", "float32") == 16
    assert lanes("int8", "int8") == 64
    block = blocks_in_order(Workload(op.relu, np.abs, (4,)).func)[0]
    assert lanes_of(HASWELL, block) == 8


@pytest.mark.parametrize(("function", "lanes"), [(op.take, 8), (op.gather_elements, 4)])
def test_an_index_counts_where_it_is_a_vector(function: Callable[..., Tensor], lanes: int) -> None:
    x, places = placeholder((4, 8), "float32"), placeholder((4, 8), "int64", name="places")
    func = create_prim_func([x, places, function(x, places, axis=0)])
    assert lanes_of(HASWELL, blocks_in_order(func)[0]) == lanes


@pytest.mark.parametrize(
    ("extent", "parts"),
    [
        (1, [(1, 1)]),
        (3, [(1, 4)]),
        (32, [(2, 16)]),
        (33, [(2, 16), (1, 1)]),
        (35, [(2, 16), (1, 4)]),
        (47, [(2, 16), (1, 16)]),
    ],
)
def test_parts(extent: int, parts: list[tuple[int, int]]) -> None:
    sch = Schedule(Workload(op.relu, np.abs, (extent,)).func, seed=0)
    loops = vectorize_loop(sch, sch.get_loops("relu")[0], min(16, up_to_power(extent)), 16)
    assert _found(sch, loops) == parts


def _found(sch: Schedule, loops: list[LoopRV]) -> list[tuple[int, int]]:
    """The iterations of loops, and the lanes of the vectors in them."""
    found = []
    for loop in loops:
        chain = sch.get_loops(sch.get_child_blocks(loop)[0])
        outer, inner = chain if len(chain) == 2 else (chain[0], None)
        if inner is not None:
            assert sch.get(inner).kind == "vectorized"
        sizes = [sch.get(x).extent for x in (outer, inner) if x is not None]
        values = [e.value for e in sizes if isinstance(e, IntImm)]
        found.append((values[0], values[1] if inner is not None else 1))
    return found


@pytest.mark.parametrize(
    ("extent", "parts"),
    [
        (64, [(2, 32)]),
        (56, [(1, 32), (1, 16), (1, 8)]),
        (45, [(1, 32), (1, 8), (1, 4), (1, 1)]),
        (13, [(1, 8), (1, 4), (1, 1)]),
    ],
)
def test_without_masks_the_rest_is_shorter_vectors(
    extent: int, parts: list[tuple[int, int]]
) -> None:
    sch = Schedule(Workload(op.relu, np.abs, (extent,), dtype="bfloat16").func)
    (loop,) = sch.get_loops("relu")
    width = min(32, up_to_power(extent))
    assert _found(sch, vectorize_loop(sch, loop, width, 16, masks=False)) == parts


def test_masks_are_for_lanes_of_32_bits_or_have_registers() -> None:
    assert has_masks(HASWELL, 8)
    assert not has_masks(HASWELL, 16)
    assert has_masks(SKYLAKE, 32)


def test_a_rest_without_vectors_stands_in_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = lanes._vectors

    def refuse_few(sch: Schedule, loop: LoopRV, width: int) -> LoopRV:
        if width == 4:
            raise ScheduleValueError("vectorize", "No.")
        return vectors(sch, loop, width)

    monkeypatch.setattr(lanes, "_vectors", refuse_few)
    sch = Schedule(Workload(op.relu, np.abs, (35,)).func, seed=0)
    with steps_given_up() as steps:
        full, rest = vectorize_loop(sch, sch.get_loops("relu")[0], 16, 16)
    assert steps == [("vectors of what remains of a loop", "vectorize: No.")]
    assert [sch.get(full).extent.value, sch.get(rest).extent.value] == [2, 3]
