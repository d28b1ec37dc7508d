"""Sketches: formulas that agree with replays, counted replays, and the honest way out."""

from __future__ import annotations

import random

import numpy as np
import pytest

from burnish.support.target import Target
from burnish.tensorir.function import PrimFunc
from burnish.tensorir.schedule import Schedule
from burnish.tests.tuner.programs import matmul, tiled
from burnish.tests.tuner.spaces import doubled, four_levels, steered
from burnish.tuner.candidate import SpaceFunction
from burnish.tuner.cost.features import Floats, Machine, features_of
from burnish.tuner.cost.nest_summary import summarize
from burnish.tuner.search.decisions import redraw
from burnish.tuner.search.sketch import MOST_POINTS, Individual, Replayer, Sketch

MACHINE = Machine.of(Target("llvm -mcpu=haswell -cores=1"))


def products(sch: Schedule) -> None:
    """Tiles in several levels, a copy of the result at one of them, vectors, unrolling."""
    i, j, k = sch.get_loops("C")
    i0, i1, i2 = sch.split(i, sch.sample_perfect_tile(i, 3, 16))
    j0, j1, j2 = sch.split(j, sch.sample_perfect_tile(j, 3, 16))
    k0, k1 = sch.split(k, sch.sample_perfect_tile(k, 2, 16))
    sch.reorder(i0, j0, k0, i1, j1, k1, i2, j2)
    out = sch.cache_write("C", 0, "global")
    sch.reverse_compute_at(out, j0, preserve_unit_loops=True)
    sch.annotate("C", "pragma_auto_unroll_max_step", sch.sample_categorical([0, 16], [1, 1]))
    sch.vectorize(j2)


def rounded_up(sch: Schedule) -> None:
    """Factors that do not divide the extent."""
    i, j = sch.get_loops("B")
    sch.split(i, [None, sch.sample_categorical([3, 8, 16, 24, 32, 48], [1] * 6)])
    sch.split(j, [None, sch.sample_categorical([3, 7, 16, 20, 32, 48], [1] * 6)])


def looked_at_a_loop(sch: Schedule) -> None:
    """Steered by a decision it never asked for: by an extent that comes of it."""
    i, j = sch.get_loops("B")
    i0, _ = sch.split(i, sch.sample_perfect_tile(i, 2, 64))
    sch.split(j, sch.sample_perfect_tile(j, 2, 64))
    if sch.get(i0).extent.value > 16:
        sch.parallel(i0)


def sketch_of(space: SpaceFunction, func: PrimFunc, seed: int = 0) -> tuple[Sketch, Replayer]:
    replayer = Replayer(func, [space])
    return Sketch(replayer, replayer.run(0, (), seed), MACHINE, seed), replayer


def members(sketch: Sketch, count: int, seed: int = 7) -> list[Individual]:
    rng = random.Random(seed)
    found = []
    for _ in range(count):
        draws = list(sketch.origin.draws)
        for i in sketch.free:
            draws[i] = draws[i].with_decision(redraw(draws[i], rng))
        found.append(Individual(0, tuple(draws)))
    return found


def replayed(replayer: Replayer, member: Individual) -> Floats:
    summary = summarize(replayer.run(0, member.draws, 0).func)
    leaves = summary.leaves.astype(np.float64)[None, :]
    return features_of(summary.structure, leaves, MACHINE)[0]


@pytest.mark.parametrize(
    ("space", "func"),
    [
        (tiled, matmul(64)),
        (products, matmul(48)),
        (four_levels, doubled(96)),
        (rounded_up, doubled(100)),
    ],
)
def test_formulas_give_what_replays_give(space: SpaceFunction, func: PrimFunc) -> None:
    sketch, replayer = sketch_of(space, func)
    assert sketch.is_symbolic
    some = members(sketch, 12)
    found = sketch.features(some)
    assert np.allclose(found, [replayed(replayer, m) for m in some])


def test_a_thousand_members_cost_a_few_replays() -> None:
    sketch, replayer = sketch_of(products, matmul(48))
    sketch.features(members(sketch, 1000))
    assert replayer.replays <= MOST_POINTS
    before = replayer.replays
    sketch.features(members(sketch, 1000, seed=8))
    assert replayer.replays == before


def test_a_structure_that_varies_is_not_symbolic() -> None:
    sketch, replayer = sketch_of(looked_at_a_loop, doubled())
    assert not sketch.is_symbolic
    some = members(sketch, 10)
    found = sketch.features(some)
    assert np.allclose(found, [replayed(replayer, m) for m in some])
    before = replayer.replays
    assert not any(sketch.needs_replay(m) for m in some)
    sketch.features(some)
    assert replayer.replays == before  # remembered


def test_a_path_without_free_decisions_costs_nothing_more() -> None:
    def only(sch: Schedule) -> None:
        sch.get(sch.sample_categorical([1, 2], [1, 1]))

    sketch, replayer = sketch_of(only, doubled())
    assert sketch.free == []
    assert not sketch.needs_replay(sketch.origin)
    sketch.features([sketch.origin] * 5)
    assert replayer.replays == 1


def test_members_to_which_the_space_does_not_apply() -> None:
    def sometimes(sch: Schedule) -> None:
        i = sch.get_loops("B")[0]
        outer, inner = sch.sample_perfect_tile(i, 2, 64)
        i0, i1 = sch.split(i, [outer, inner])
        match sch.get(i0).extent.value:
            case 256:
                sch.get_block("nothing")
            case 64:
                sch.parallel(i0)
            case 32:
                sch.fuse(i0, i1)

    replayer = Replayer(doubled(), [sometimes])
    found = replayer.run(0, (_tile(64, 4),), 0)
    sketch = Sketch(replayer, found, MACHINE, 0)
    bad = Individual(0, (_tile(256, 1),))
    rows = sketch.features([bad, found.individual])
    assert np.isnan(rows[0]).all()
    assert np.isfinite(rows[1]).all()


def _tile(outer: int, inner: int) -> object:
    replayer = Replayer(
        doubled(), [lambda sch: sch.sample_perfect_tile(sch.get_loops("B")[0], 2, 64)]
    )
    return replayer.run(0, (), 0).individual.draws[0].with_decision((outer, inner))


def test_paths_by_their_control_decisions() -> None:
    replayer = Replayer(doubled(), [steered])
    runs = [replayer.run(0, (), seed).individual for seed in range(12)]
    assert len({r.control for r in runs}) == 3
    assert len({r.key for r in runs}) > 3
