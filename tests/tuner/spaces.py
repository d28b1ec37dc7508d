"""Small design spaces for the tests of searches, quick to replay, and a cost that is known."""

from __future__ import annotations

import json
import math

from burnish.tensorir.function import PrimFunc
from burnish.tensorir.schedule import Schedule
from burnish.tensorir.te import compute as te
from burnish.tuner.candidate import Candidate
from burnish.tuner.search.decisions import draws_of_trace


def doubled(n: int = 256) -> PrimFunc:
    """``B = 2 * A``, square."""
    a = te.placeholder((n, n), name="A")
    b = te.compute((n, n), lambda i, j: a[i, j] * 2.0, name="B")
    return te.create_prim_func([a, b])


def four_levels(sch: Schedule) -> None:
    """Tiles of both axes in four levels, and unrolling; nothing but decisions that are free."""
    i, j = sch.get_loops("B")
    i0, i1, i2, i3 = sch.split(i, sch.sample_perfect_tile(i, 4, 64))
    j0, j1, j2, j3 = sch.split(j, sch.sample_perfect_tile(j, 4, 64))
    sch.reorder(i0, j0, i1, j1, i2, j2, i3, j3)
    sch.annotate("B", "pragma_auto_unroll_max_step", sch.sample_categorical([0, 16, 64], [1, 1, 1]))


def steered(sch: Schedule) -> None:
    """A space whose first decision says what is done."""
    way = sch.get(sch.sample_categorical([0, 1, 2], [1, 1, 1]))
    i, j = sch.get_loops("B")
    if way == 0:
        sch.reorder(j, i)
    tile = sch.sample_perfect_tile(j, 2 + way, 64)
    inner = sch.split(j, tile)[-1]
    if way == 2:
        sch.vectorize(inner)


def known_cost(candidate: Candidate) -> float:
    """Seconds that depend on the decisions of ``four_levels`` alone: best at 2, 4, 4, 8 and
    8, 1, 2, 16."""
    rows, columns, _ = [d.decision for d in draws_of_trace(json.dumps(json.loads(candidate.trace)))]
    wanted = [(rows, (2, 4, 4, 8)), (columns, (8, 1, 2, 16))]
    far = sum(
        abs(math.log2(x) - math.log2(y))
        for found, best in wanted
        for x, y in zip(found, best, strict=True)  # type: ignore[arg-type]
    )
    return 1e-3 * (1.0 + far)
