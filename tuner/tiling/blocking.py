"""Blocking: a large matrix product keeps what it reads again in the caches.

    copy of the rows                    where they lie badly
    for jg                              groups of panels of columns, which stay in the L2 cache
      pack the group                    where the weight comes in another layout
      for i0                            tiles of rows, read once a group
        for jp                          the panels of the group
          for k0 (prefetch_distance)    the register tile, as without blocking

Rows are read as they are where that is fast. Rows a multiple of a page apart fall into one set of
the first cache, and are read from a copy: with other distances, or, where many columns pay for it,
in *slivers*, tile by tile in the order of reading. Of a transposed operand slivers bring together
what a step of k reads.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from ...support.abi import LINE_BYTES, PAGE_BYTES
from ...support.dtype import DType
from ...support.target import Target
from ...tensorir.expr import Expr, IntImm, Var
from ...tensorir.function import PrimFunc
from ...tensorir.schedule import Schedule
from ...tensorir.stmt import Block
from ..workload import Matmul, block_named, load_is_contiguous, static_extent
from .panels import copy_read, is_layout_free, producer_of, runs_over_layout
from .sharing import GROUPS, points_of, share
from .tile_model import TileShape, cycles_of_step, has_short_steps
from .tiles import CACHE_SHARE, MOST_STEPS, NEXT, bytes_of, divisor

MOST_PANELS = 8
"""Panels of a group."""
STRETCH = 768
"""Bytes of a row that a copy reads at once, where the groups are enough: memory gives long
stretches faster, and a group that does not stay in the second cache is in the third."""
IDLE_PANELS = 32
"""Panels for each of which one of zeros may be worked on in vain."""
STEPS = 4
"""Steps of k that a row of a sliver has side by side."""
AHEAD = 3
"""How far before it is read a tile is asked for, in ``MOST_STEPS`` steps of k."""
FEWEST_TURNS = 4
"""Tiles of rows from which on each asks for a part of the next group of panels."""
FAR_CYCLES = 90
"""Cycles that a line is on its way from the third cache, about."""
FROM_L2, FROM_L2_STRIDED = 0.5, 0.125
"""Parts of the L2 cache from which on a weight is worth asking for: packed, and as it is."""
MANY_PANELS = 8
"""Vectors of columns from which on a copy of the rows pays."""
MANY_MORE_PANELS = 32
"""Vectors of columns from which on it pays to order the copy."""
STEPS_ACROSS = 8
"""Steps of k that are copied of all slivers before the next: a set of the first cache has as many
lines."""
SLIVER = 8
"""Rows of a sliver of a transposed operand: a power of two, which one vector moves."""

MOST_CONVERTED = 3
"""Vectors of columns up to which elements of half precision are converted where they are used."""

AS_THEY_ARE, SPREAD, SLIVERS = 0, 1, 2
"""How the rows of X are read."""


def ways_of_rows(block: Block, matmul: Matmul, *, inner: bool) -> tuple[int, ...]:
    """How the rows of X may be read; ``inner`` says that a tile has rows of more than one axis."""
    if not matmul.rows:
        return (AS_THEY_ARE,)
    slivers = not inner and _fits_slivers(matmul, block)
    return (AS_THEY_ARE, SPREAD, SLIVERS) if slivers else (AS_THEY_ARE, SPREAD)


def best_way(
    block: Block, matmul: Matmul, tile: TileShape, ways: Sequence[int], target: Target
) -> int:
    """The one of the ``ways`` to read rows in tiles of this shape."""
    return min(_best_rows(block, matmul, tile, target), ways[-1]) if matmul.rows else 0


def best_distance(
    func: PrimFunc, matmul: Matmul, panel: int, tile_rows: int, tiles: int, target: Target
) -> int:
    """How far a product over panels of ``panel`` columns (0: W as it is) asks ahead for X and W, in
    ``MOST_STEPS`` steps of k (0: never; ``NEXT``: W alone, a group before), where there are so many
    ``tiles`` of ``tile_rows`` rows."""
    weights = bytes_of(matmul.w)
    share_of_l2 = FROM_L2 if panel else FROM_L2_STRIDED
    far = tiles > 1 and weights is not None and weights > share_of_l2 * target.l2_bytes
    if far and panel and tiles >= FEWEST_TURNS and _streams(func, matmul, panel, tile_rows, target):
        return NEXT
    return AHEAD * far


def group_sizes(
    block: Block, matmul: Matmul, panel: int, tiles: int, *, copied: bool = False
) -> tuple[int, ...]:
    """The numbers of panels that may be a group; 0: columns are no outer loop. Groups are whole: of
    a weight that is ``copied`` panels of zeros fill the last one, where these are few."""
    if not panel or tiles <= 1:
        return (0,)
    columns, depth = (static_extent(block, i) for i in (matmul.columns[-1], matmul.reduce[0]))
    if columns is None or depth is None:
        return (0, 1)
    panels = math.ceil(columns / panel)
    idle = panels // IDLE_PANELS if copied else 0
    return (0, *[g for g in range(1, MOST_PANELS + 1) if -panels % g <= idle])


def best_group(
    func: PrimFunc,
    matmul: Matmul,
    panel: int,
    tile_rows: int,
    tiles: int,
    target: Target,
    *,
    copied: bool = False,
) -> int:
    """The number of panels of a group: those that stay in the L2 cache, beside the next group where
    that is asked for ahead, or a ``STRETCH`` of what is copied. ``copied`` is as in
    ``group_sizes``."""
    block = block_named(func, matmul.block)
    sizes = group_sizes(block, matmul, panel, tiles, copied=copied)
    columns, depth = (static_extent(block, i) for i in (matmul.columns[-1], matmul.reduce[0]))
    outside = len(sizes) > 1 and _columns_first(func, matmul, target)
    if columns is None or depth is None:
        return int(outside)
    if not outside:
        return 0
    room = int(CACHE_SHARE * target.l2_bytes) // (panel * depth * matmul.w.dtype.bits // 8)
    room //= 1 + (best_distance(func, matmul, panel, tile_rows, tiles, target) == NEXT)
    if copied and producer_of(func, matmul.w.buffer) is None:
        stretch = STRETCH // (panel * matmul.w.dtype.itemsize)
        room = max(room, min(stretch, math.ceil(columns / panel) // GROUPS))
    best = max(g for g in sizes[1:] if g <= max(1, room))
    # One group of all panels is no blocking.
    return best if best < math.ceil(columns / panel) else 0


def iterations_ahead(ahead: int, unroll: int, steps: int | None) -> int:
    """``best_distance`` in iterations of a loop over k, of ``steps`` in all, that has ``unroll`` of
    them in each; 0 where that is beyond its end."""
    if ahead == NEXT:
        return NEXT
    distance = -(-ahead * MOST_STEPS // unroll)
    return distance if steps is None or distance * unroll < steps else 0


def _streams(func: PrimFunc, matmul: Matmul, panel: int, tile_rows: int, target: Target) -> bool:
    """Whether to ask for the next group of panels during the work on one: each is read once from
    far away. What tiles ask for that take longer for a step of k is there in time by itself."""
    summed = _summed(block_named(func, matmul.block))
    sums = tile_rows * panel // target.vector_lanes(summed)
    cycles = AHEAD * MOST_STEPS * cycles_of_step(sums, target.instructions.ports)
    return cycles < FAR_CYCLES and is_layout_free(func, matmul.w.buffer)


def _columns_first(func: PrimFunc, matmul: Matmul, target: Target) -> bool:
    """Whether groups of panels are the outer loop: each is packed where it is used, or all weights
    together are too large to stay in a core's cache from one tile of rows to the next."""
    weights = bytes_of(matmul.w)
    if weights is None:
        return False
    copied = not is_layout_free(func, matmul.w.buffer)
    return copied or weights > CACHE_SHARE * target.l2_bytes


def _best_rows(block: Block, matmul: Matmul, tile: TileShape, target: Target) -> int:
    if reads_across(block, matmul, target):
        return SLIVERS
    if not _rows_collide(block, matmul, tile, target):
        return SPREAD if _is_converted_often(block, matmul, target) else AS_THEY_ARE
    columns = static_extent(block, matmul.columns[-1])
    assert columns is not None
    many = columns >= MANY_MORE_PANELS * _lanes(matmul, target)
    return SLIVERS if many else SPREAD


def _is_converted_often(block: Block, matmul: Matmul, target: Target) -> bool:
    """Whether every step of k converts single elements of X, and all over again for each panel: the
    copy converts vectors of them, once."""
    columns = static_extent(block, matmul.columns[-1])
    lanes = max(1, target.vector_bits // _summed(block).bits)
    many = columns is None or columns > MOST_CONVERTED * lanes
    halves = matmul.x.dtype in ("float16", "bfloat16")
    return halves and _summed(block) == "float32" and many


def _summed(block: Block) -> DType:
    """The dtype in which a product is summed."""
    return block.writes[0].buffer.dtype


def _lanes(matmul: Matmul, target: Target) -> int:
    return target.vector_lanes(matmul.x.buffer.dtype)


def reads_across(block: Block, matmul: Matmul, target: Target) -> bool:
    """Whether X is transposed and read so often that a copy in slivers pays: every step of k lies
    in a line of its own, and all of them do not stay in the first cache."""
    columns = static_extent(block, matmul.columns[-1])
    k = block.iter_vars[matmul.reduce[0]].var
    size = bytes_of(matmul.x)
    if columns is None or size is None or not _fits_slivers(matmul, block):
        return False
    far = size > target.l1_bytes and columns >= MANY_PANELS * _lanes(matmul, target)
    return far and not load_is_contiguous(matmul.x, k)


def _rows_collide(block: Block, matmul: Matmul, tile: TileShape, target: Target) -> bool:
    """Whether the rows of a tile fall into few sets of the first cache, and are read so often that
    a copy with other distances pays."""
    *_, k = matmul.x.buffer.shape
    columns = static_extent(block, matmul.columns[-1])
    inner = block.iter_vars[matmul.reduce[0]].var
    if not isinstance(k, IntImm) or columns is None or not load_is_contiguous(matmul.x, inner):
        return False
    distance = k.value * matmul.x.buffer.dtype.bits // 8
    # A way of a set is left to the panel. Where steps of k are short, rows are read faster, and two
    # more are left to what the hardware fetches ahead of them (measured).
    left = 3 if has_short_steps(tile, target.instructions) else 1
    in_a_set = math.ceil(tile.rows * math.gcd(distance, PAGE_BYTES) / PAGE_BYTES)
    many = columns >= MANY_PANELS * _lanes(matmul, target)
    return in_a_set + left > target.memory.ways and many


def _fits_slivers(matmul: Matmul, block: Block) -> bool:
    """Whether X is a matrix, or a batch of them, of known size, whose rows are one axis."""
    if len(matmul.rows) != 1 or bytes_of(matmul.x) is None or len(matmul.x.indices) < 2:
        return False
    row, k = (block.iter_vars[i].var for i in (matmul.rows[0], matmul.reduce[0]))
    return all(i is row or i is k for i in matmul.x.indices[-2:])


def copy_rows(sch: Schedule, matmul: Matmul, way: int, tile_rows: int, target: Target) -> None:
    """Read X from a copy: with rows ``SPREAD``, or in ``SLIVERS`` of ``tile_rows`` rows."""
    if way == AS_THEY_ARE:
        return
    block = block_named(sch.func, matmul.block)
    copy = copy_read(sch, matmul.block, matmul.x_read, matmul.x)
    dtype = matmul.x.dtype
    if dtype.is_float and dtype is not _summed(block):
        dtype = _summed(block)
        sch.set_dtype(copy, 0, dtype)
    if way == SPREAD:
        line = LINE_BYTES // dtype.itemsize
        sch.storage_align(copy, 0, -2, 2 * line, line)
        return
    points = points_of(sch.get(copy))
    across = not load_is_contiguous(matmul.x, block.iter_vars[matmul.reduce[0]].var)
    sch.transform_layout(copy, ("write", 0), _slivers(tile_rows, across), pad_value=0.0)
    # With padding, the copy runs over the slivers, else over the rows and steps themselves.
    count = (3 if across else 4) if runs_over_layout(sch.get(copy)) else 2
    outer, own = sch.get_loops(copy)[:-count], sch.get_loops(copy)[-count:]
    if across:
        few = tile_rows & -tile_rows
        if len(own) == 3:
            sliver, k, row = own
        else:
            k, rows = own
            sliver, row = sch.split(rows, [None, tile_rows])
        # A line has the rows of several slivers: few steps of k at once, so that it is still in the
        # first cache when the next sliver reads on.
        together = divisor(static_extent(block, matmul.reduce[0]), STEPS_ACROSS)
        steps, k = sch.split(k, [None, together])
        sch.reorder(steps, sliver, k, row)
        more, lane = sch.split(row, [None, few])
        sch.unroll(more)
        sliver = steps
    else:
        if len(own) == 4:
            sliver, line_of, row, lane = own
        else:
            rows, k = own
            sliver, row = sch.split(rows, [None, tile_rows])
            line_of, lane = sch.split(k, [None, STEPS])
        lines = sch.get(line_of).extent
        together = 4 if isinstance(lines, IntImm) and lines.value % 4 == 0 else 1
        line_of, few_lines = sch.split(line_of, [None, together])
        sch.reorder(sliver, line_of, row, few_lines, lane)
        sch.unroll(few_lines)
    sch.vectorize(lane)
    share(sch, target, [*outer, sliver], points)


def _slivers(tile_rows: int, across: bool) -> Callable[..., tuple[Expr, ...]]:
    """The layout of slivers: a step of k has the rows of a tile side by side, or a row ``STEPS``
    steps of k."""

    def layout(*indices: Var) -> tuple[Expr, ...]:
        *batch, first, second = indices
        if across:
            return (*batch, second // tile_rows, first, second % tile_rows)
        return (*batch, first // tile_rows, second // STEPS, first % tile_rows, second % STEPS)

    return layout
