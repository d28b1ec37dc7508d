"""Which loop is shared among threads."""

from __future__ import annotations

import numpy as np
import pytest

from burnish.tensorir import operators as op
from burnish.tensorir.schedule import Schedule
from burnish.tests.tuner.rules.checking import SKYLAKE, Shape, Workload
from burnish.tuner.tiling.sharing import PARALLEL_GRAIN, points_of, share, share_parts, share_tiles
from burnish.tuner.workload import blocks_in_order


def relu(*shape: int | str) -> Schedule:
    return Schedule(Workload(op.relu, np.abs, shape).func, seed=0)


def kinds(sch: Schedule) -> list[str]:
    return [sch.get(loop).kind for loop in sch.get_loops("relu")]


@pytest.mark.parametrize(
    ("shape", "index"), [((200, 200), 0), ((1, 200, 200), 1), (("m", 3), 0), ((1, 1, 90000), 2)]
)
def test_the_first_loop_with_iterations(shape: Shape, index: int) -> None:
    sch = relu(*shape)
    points = points_of(blocks_in_order(sch.func)[0])
    assert share(sch, SKYLAKE, sch.get_loops("relu"), points)
    assert kinds(sch)[index] == "parallel"
    assert kinds(sch).count("parallel") == 1


@pytest.mark.parametrize(("shape", "threads"), [((4, 5), 0), ((200, 200), 1), ((1,), 2)])
def test_small_work_and_one_thread(shape: Shape, threads: int) -> None:
    sch = relu(*shape)
    target = SKYLAKE.with_options(threads=threads)
    points = points_of(blocks_in_order(sch.func)[0])
    assert not share(sch, target, sch.get_loops("relu"), points)
    assert "parallel" not in kinds(sch)


def test_nothing_to_share() -> None:
    assert not share(relu(), SKYLAKE, [], PARALLEL_GRAIN)


@pytest.mark.parametrize(
    ("shape", "index"), [((2, 9, 99), 1), ((2, 3, 2), 1), ((8, 9, 99), 0), ((2, "m", 99), 1)]
)
def test_the_first_loop_with_enough_tiles_or_the_longest(shape: Shape, index: int) -> None:
    sch = relu(*shape)
    loops = sch.get_loops("relu")
    assert share_tiles(sch, SKYLAKE, loops, PARALLEL_GRAIN)
    assert kinds(sch)[index] == "parallel"
    assert not share_tiles(sch, SKYLAKE, loops, PARALLEL_GRAIN)


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        # Few groups around many rows: the rows of the first part, and nothing around them.
        ((3, 26, 64), ["serial", "parallel", "serial", "serial"]),
        ((3, 27, 64), ["serial", "parallel", "serial", "parallel"]),
        # As many groups as threads want, or more than there are rows: the groups of both parts.
        ((8, 26, 64), ["parallel", "serial", "parallel", "serial"]),
        ((3, 4, 64), ["parallel", "serial", "parallel", "serial"]),
        # Nothing around: each part its own.
        ((26, 64, 1), ["parallel", "serial", "serial", "parallel"]),
    ],
)
def test_parts_side_by_side(shape: Shape, expected: list[str]) -> None:
    sch = relu(*shape)
    around = sch.get_loops("relu")[: 1 if shape[2] != 1 else 0]
    rows = sch.get_loops("relu")[len(around)]
    whole = sch.get(rows).extent.value // 25 * 25 or 2  # type: ignore[union-attr]
    parts = [sch.get_child_blocks(p)[0] for p in sch.loop_partition(rows, [whole, None])]
    share_parts(sch, SKYLAKE, parts, 2, PARALLEL_GRAIN)
    nests = [sch.get_loops(part)[:2] for part in parts]
    assert [sch.get(loop).kind for nest in nests for loop in nest] == expected
