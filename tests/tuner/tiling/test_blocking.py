"""How large products are blocked: what is decided, and that every way gives the right numbers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

from burnish.support.target import Target
from burnish.tensorir import operators as op
from burnish.tensorir.expr import IntImm
from burnish.tensorir.schedule import Schedule
from burnish.tensorir.text.printer import print_func
from burnish.tests.tuner.rules.checking import HASWELL, SKYLAKE, Shape, Workload, scheduled
from burnish.tuner.rules.matmul import match
from burnish.tuner.tiling.blocking import (
    AHEAD,
    AS_THEY_ARE,
    SLIVERS,
    SPREAD,
    best_distance,
    best_group,
    best_way,
    copy_rows,
    group_sizes,
    iterations_ahead,
    ways_of_rows,
)
from burnish.tuner.tiling.tile_model import TileShape
from burnish.tuner.tiling.tiles import NEXT
from burnish.tuner.workload import block_named

ONE = SKYLAKE.with_options(threads=1)


def product(a: Shape, b: Shape, *, ta: bool = False, tb: bool = False) -> Workload:
    def turned(x: np.ndarray, turn: bool) -> np.ndarray:
        return x.swapaxes(-1, -2) if turn else x

    return Workload(
        lambda x, y: op.matmul(x, y, transpose_a=ta, transpose_b=tb),
        lambda x, y: turned(x, ta) @ turned(y, tb),
        a,
        b,
    )


class Blocking(NamedTuple):
    """What the model suggests."""

    group: int
    rows: int
    ahead: int


def plan(
    work: Workload,
    *,
    panel: int = 32,
    rows: int = 14,
    tiles: int = 8,
    free: bool = True,
    target: Target = ONE,
) -> Blocking:
    func = work.func.with_attr("layout_free", [1]) if free else work.func
    matmul = match(func)
    assert matmul is not None
    block = block_named(func, matmul.block)
    tile = TileShape(rows, max(1, panel // target.vector_lanes("float32")))
    return Blocking(
        best_group(func, matmul, panel, rows, tiles, target),
        best_way(block, matmul, tile, ways_of_rows(block, matmul, inner=False), target),
        best_distance(func, matmul, panel, rows, tiles, target),
    )


def halves(rows: int, columns: int, depth: int, dtype: str) -> Workload:
    return Workload(op.matmul, np.matmul, (rows, depth), (depth, columns), dtype=dtype)


def test_half_precision_of_several_panels_is_copied() -> None:
    assert plan(halves(256, 256, 784, "float16")).rows == SPREAD
    assert plan(halves(256, 48, 784, "float16")).rows == AS_THEY_ARE
    assert plan(halves(256, 256, 784, "bfloat16")).rows == SPREAD


def test_small_products_are_not_blocked() -> None:
    assert plan(product((256, 256), (256, 256))) == Blocking(0, AS_THEY_ARE, 0)
    assert plan(product((256, 784), (784, 128))) == Blocking(0, AS_THEY_ARE, 0)


@pytest.mark.parametrize(
    ("depth", "columns", "group"),
    # Panels of 32 columns: as many as half a MiB holds, at most 8, of a number that divides all.
    [(512, 512, 8), (1000, 1024, 4), (2048, 2048, 2), (8192, 1024, 1), (512, 544, 1)],
)
def test_groups_fit_the_second_cache(depth: int, columns: int, group: int) -> None:
    assert plan(product((640, depth), (depth, columns))).group == group


@pytest.mark.parametrize(
    ("columns", "sizes"),
    # 257, 16 and 64 panels of 16 columns: of 257 eight may be in vain, of 16 none, of 64 two.
    [(4097, (0, 1, 2, 3, 4, 5, 6, 7, 8)), (256, (0, 1, 2, 4, 8)), (1024, (0, 1, 2, 3, 4, 5, 6, 8))],
)
def test_panels_of_zeros_fill_the_last_group_where_they_are_few(
    columns: int, sizes: tuple[int, ...]
) -> None:
    func = product((64, 768), (768, columns)).func
    matmul = match(func)
    assert matmul is not None
    block = block_named(func, matmul.block)
    assert group_sizes(block, matmul, 16, 8, copied=True) == sizes
    panels = -(-columns // 16)
    divisors = tuple([g for g in range(1, 9) if panels % g == 0])
    assert group_sizes(block, matmul, 16, 8) == (0, *divisors)


def test_a_copy_is_packed_group_by_group_even_where_it_is_small() -> None:
    work = product((256, 256), (256, 320), tb=False)
    assert plan(work, free=False).group == 5
    assert plan(work, free=True).group == 0


def test_large_weights_are_asked_for() -> None:
    assert plan(product((640, 1000), (1000, 1000))).ahead == AHEAD
    # Read as it is, a weight misses the first cache earlier.
    assert plan(product((256, 256), (256, 256)), panel=0, free=False).ahead == AHEAD
    assert plan(product(("m", 1000), (1000, 1000))).ahead == AHEAD
    assert plan(product((64, 1000), (1000, "n")), free=False).ahead == 0


@pytest.mark.parametrize(
    ("depth", "columns", "rows", "way"),
    [
        (1000, 1024, 14, AS_THEY_ARE),
        (1024, 1024, 14, SLIVERS),
        (1024, 256, 14, SPREAD),
        (1024, 64, 14, AS_THEY_ARE),  # too few columns to pay
        (1024, 1024, 5, AS_THEY_ARE),  # five rows leave room in a set
        (1024, 1024, 6, SLIVERS),  # short steps
        (512, 1024, 14, AS_THEY_ARE),  # seven rows in each of two sets
        (3072, 768, 8, SLIVERS),
    ],
)
def test_rows_that_share_a_set_are_copied(depth: int, columns: int, rows: int, way: int) -> None:
    assert plan(product((640, depth), (depth, columns)), rows=rows).rows == way


def test_tiles_with_short_steps_ask_for_the_next_group() -> None:
    few = HASWELL.with_options(threads=1)
    large = product((64, 768), (768, 3072))
    assert plan(large, panel=16, rows=6, target=few) == Blocking(1, AS_THEY_ARE, NEXT)
    assert plan(large, panel=16, rows=6, tiles=2, target=few) == Blocking(2, AS_THEY_ARE, AHEAD)
    # A copy of a group is in the cache already, and so is a small weight.
    assert plan(large, panel=16, rows=6, free=False, target=few).ahead == AHEAD
    small = product((64, 64), (64, 64))
    assert plan(small, panel=16, rows=6, target=few) == Blocking(0, AS_THEY_ARE, 0)
    # It is the tile that decides, 28 sums or 9, on whatever CPU.
    assert plan(large).ahead == AHEAD
    assert plan(large, panel=48, rows=3).ahead == NEXT


def test_six_rows_fill_a_set() -> None:
    few = HASWELL.with_options(threads=1)
    assert plan(product((64, 3072), (3072, 768)), panel=16, rows=6, target=few).rows == SLIVERS
    assert plan(product((64, 512), (512, 768)), panel=16, rows=6, target=few).rows == AS_THEY_ARE


def test_a_transposed_operand_is_read_in_slivers_where_that_pays() -> None:
    assert plan(product((256, 640), (256, 512), ta=True)).rows == SLIVERS
    assert plan(product((256, 640), (256, 64), ta=True)).rows == AS_THEY_ARE
    assert plan(product((16, 32), (16, 512), ta=True)).rows == AS_THEY_ARE


@pytest.mark.parametrize("ta", [False, True])
@pytest.mark.parametrize(("rows", "depth"), [(16, 32), (17, 32), (19, 30), (3, 5)])
@pytest.mark.parametrize("batch", [(), (2,)])
@pytest.mark.parametrize("way", [SPREAD, SLIVERS])
def test_copies_of_rows(batch: Shape, rows: int, depth: int, ta: bool, way: int) -> None:
    a = (depth, rows) if ta else (rows, depth)
    work = product((*batch, *a), (*batch, depth, 24), ta=ta)
    matmul = match(work.func)
    assert matmul is not None
    sch = Schedule(work.func, seed=0)
    copy_rows(sch, matmul, way, 8, ONE)
    copied = next(b for b in sch.func.root.alloc_buffers if b.name.startswith("a"))
    sizes = [d.value for d in copied.shape if isinstance(d, IntImm)][len(batch) :]
    slivers = [-(-rows // 8), depth, 8] if ta else [-(-rows // 8), -(-depth // 4), 8, 4]
    assert sizes == (slivers if way == SLIVERS else list(a))
    work.check(sch.func)


@pytest.mark.parametrize("target", [SKYLAKE, HASWELL])
@pytest.mark.parametrize(("ta", "tb"), [(False, False), (True, False), (False, True)])
def test_large_products(ta: bool, tb: bool, target: Target) -> None:
    rows, columns, depth = 130, 520, 1024
    a, b = (rows, depth), (depth, columns)
    work = product(a[::-1] if ta else a, b[::-1] if tb else b, ta=ta, tb=tb)
    rule, func = scheduled(work.func, target=target.with_options(threads=1))
    assert rule == "matmul"
    text = print_func(func)
    # Twelve steps of k, of which AVX-512 has one in each iteration, and AVX2 four.
    distance = 12 if target == SKYLAKE else 3
    assert f'"prefetch_distance": {distance}' in text
    assert ('"prefetch_distance": 16' in text) is not tb
    work.check(func, tolerance=2e-4)


def test_how_far_ahead_in_iterations() -> None:
    assert [iterations_ahead(3, unroll, 64) for unroll in (1, 2, 4, 8)] == [12, 6, 3, 2]
    assert [iterations_ahead(3, 4, steps) for steps in (12, 13, None)] == [0, 3, 3]
    assert [iterations_ahead(ahead, 1, 2) for ahead in (0, 3, NEXT)] == [0, 0, NEXT]


def test_a_batch_of_large_products() -> None:
    work = product((2, 130, 64), (2, 64, 1000))
    _, func = scheduled(work.func, target=ONE)
    assert "b_global" in print_func(func)
    work.check(func)


def test_threads_change_no_bit_of_a_blocked_product() -> None:
    work = product((130, 1024), (1024, 520))
    _, func = scheduled(work.func)
    assert "T.parallel" in print_func(func)
    work.check(func, tolerance=2e-4)
    work.check(func, tolerance=2e-4, threads=2)
