"""Panels: the weight of a matrix product as [columns / panel][k][panel], read from front to back.

A weight whose layout the schedule may choose simply has this layout. Any other may be copied into
it inside the function, which pays where the weight is read many times (many tiles of rows), or
where its columns do not lie side by side in memory and could not be read as vectors at all.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from ...support.target import Target
from ...tensorir.buffer import Buffer
from ...tensorir.expr import BufferLoad, Expr, IntImm, Var
from ...tensorir.function import PrimFunc
from ...tensorir.schedule import BlockRV, LoopRV, Schedule
from ...tensorir.stmt import Block
from ...tensorir.visitor import loads_in
from ..workload import (
    Matmul,
    block_named,
    blocks_in_order,
    is_same_element,
    is_spatial,
    load_is_contiguous,
    static_extent,
)
from .lanes import lanes_of
from .sharing import points_of, share
from .tile_model import TileShape, has_short_steps
from .tiles import fetch_ahead

MANY_TILES = 8
"""Tiles of rows from which on a copy of a weight with contiguous columns pays."""
FEW_TILES = 2
"""The same of tiles with short steps: two that read W as it is wait longer for it, row by row, than
a copy takes."""
FAR, FAR_FOR_SHORT_STEPS = 1536, 512
"""Bytes between rows from which on those of a panel no longer stay in the first cache, and a copy
pays; tiles with short steps read them more often."""

FEWEST_TURNED = 4
"""Lanes from which on a tile is transposed in registers."""
ROWS_AHEAD = 16
"""Rows that are asked for before they are packed: each lies in a page of its own, where the
hardware does not foresee them."""


def is_layout_free(func: PrimFunc, buffer: Buffer) -> bool:
    """Whether a buffer is a parameter whose layout the schedule may change."""
    params = [id(p) for p in func.params]
    free = func.attr("layout_free") or ()
    return id(buffer) in params and params.index(id(buffer)) in free


def lay_out(
    sch: Schedule,
    block: str,
    read: int,
    *index_maps: Callable[..., tuple[Expr, ...]],
    load: BufferLoad | None = None,
) -> BlockRV | None:
    """Give what a block reads the layout of index maps, one after another, padded with zeros: its
    own where that is free, else that of a copy, which is returned; ``load`` says which of several
    elements of the buffer is meant."""
    buffer = block_named(sch.func, block).reads[read].buffer
    copy = None
    if not is_layout_free(sch.func, buffer):
        copy = copy_read(sch, block, read, load)
    for n, index_map in enumerate(index_maps):
        if copy is None:
            sch.transform_layout(block, ("read", read), index_map, pad_value=0.0)
            continue
        sch.transform_layout(copy, ("write", 0), index_map, pad_value=0.0)
        if n + 1 < len(index_maps):
            # What is padded next is written at the copy's own axes.
            sch.transform_block_layout(copy, index_map)
    return copy


def copy_read(sch: Schedule, block: str, read: int, load: BufferLoad | None = None) -> BlockRV:
    """Let a block, and no other, read a copy of what it reads at that position: of several elements
    of one buffer ``load`` alone, since the other operand of a product may be one too."""
    reader = block_named(sch.func, block)
    if load is None or _reads_alone(reader, load):
        return sch.cache_read(block, read, "global", [block])
    # The copy has the dimensions of the buffer, of extent 1 where the block reads it at a constant.
    axes = {id(v.var): i for i, v in enumerate(reader.iter_vars)}
    indices = [axes.get(id(i)) for i in load.indices]
    copy = sch.reindex_cache_read(
        block, read, "global", lambda *v: [IntImm(0) if i is None else v[i] for i in indices]
    )
    used = [i for i in indices if i is not None]
    order = [sorted(used).index(i) for i in used]
    if order != sorted(order):
        sch.reorder_block_iter_var(copy, order)
        loops = sch.get_loops(copy)
        sch.reorder(*[loops[i] for i in order])
    return copy


def _reads_alone(reader: Block, load: BufferLoad) -> bool:
    """Whether a block reads nothing else of a load's buffer."""
    loads = loads_in(reader.body)
    return all(is_same_element(n, load) for n in loads if n.buffer is load.buffer)


def may_pack(func: PrimFunc, matmul: Matmul) -> tuple[int, ...]:
    """Whether W may be read in panels, and as it is: in panels always where that is free or its
    columns are not contiguous."""
    block = block_named(func, matmul.block)
    column = block.iter_vars[matmul.columns[-1]].var
    if is_layout_free(func, matmul.w.buffer) or not load_is_contiguous(matmul.w, column):
        return (1,)
    return (0,) if static_extent(block, matmul.columns[-1]) is None else (0, 1)


def wants_packing(
    func: PrimFunc, matmul: Matmul, tile: TileShape, rows: int | None, target: Target
) -> bool:
    """Whether W is to be packed, where there is a choice."""
    if len(may_pack(func, matmul)) == 1:
        return may_pack(func, matmul)[0] == 1
    columns = static_extent(block_named(func, matmul.block), matmul.columns[-1])
    assert columns is not None
    is_short = has_short_steps(tile, target.instructions)
    distance, tiles = (FAR_FOR_SHORT_STEPS, FEW_TILES) if is_short else (FAR, MANY_TILES)
    far = columns * matmul.w.dtype.bits // 8 >= distance
    return far and (rows is None or rows >= tiles * tile.rows)


def pack_columns(
    sch: Schedule, matmul: Matmul, panel: int, *, grouped: bool = False, width: int = 0
) -> BlockRV | None:
    """Give W the layout of panels: its own layout where that is free, else that of a copy, which is
    returned. Dimensions of a batch stay in front.

    A copy of whole panels that is to be placed under a loop over groups of them gets its layout
    there: it is by its own axes that ``compute_at`` tells what a group needs. So does one that is
    to have more panels than W fills, for groups of ``width`` columns.
    """
    block = block_named(sch.func, matmul.block)
    columns = static_extent(block, matmul.columns[-1])
    panels, wanted = (-(-(columns or 0) // n) * n for n in (panel, width or panel))
    plain = columns is not None and (columns == panels or panels < wanted)
    if grouped and plain and not is_layout_free(sch.func, matmul.w.buffer):
        return copy_read(sch, matmul.block, matmul.w_read, matmul.w)
    return lay_out(sch, matmul.block, matmul.w_read, panel_map(block, matmul, panel), load=matmul.w)


def panel_map(block: Block, matmul: Matmul, panel: int) -> Callable[..., tuple[Expr, ...]]:
    """The layout of panels, for indices in the order of W's."""
    dims = {id(i): d for d, i in enumerate(matmul.w.indices)}
    column = dims[id(block.iter_vars[matmul.columns[-1]].var)]
    depth = dims[id(block.iter_vars[matmul.reduce[0]].var)]

    def packed(*indices: Var) -> tuple[Expr, ...]:
        n, k = indices[column], indices[depth]
        batch = [i for d, i in enumerate(indices) if d not in (column, depth)]
        return (*batch, n // panel, k, n % panel)

    return packed


def runs_over_layout(copy: Block) -> bool:
    """Whether a copy runs over the layout that it was given (as those with padding do), not over
    the dimensions of what it copies."""
    return len(copy.iter_vars) == len(copy.writes[0].buffer.shape)


def _is_plain(copy: Block) -> bool:
    """Whether a copy has the layout of what it copies."""
    return all(isinstance(r.min, Var) for r in copy.writes[0].region) and len(
        copy.writes[0].region
    ) == len(copy.reads[0].region)


def place_copy(
    sch: Schedule, copy: BlockRV, matmul: Matmul, panel: int, *, grouped: bool = False
) -> None:
    """Pack each matrix of a batch where it is used, or, ``grouped``, each group of panels under the
    loop over groups."""
    count = len(matmul.batch) + len(matmul.columns) - 1
    if count or grouped:
        around = sch.get_loops(matmul.block)[count - 1 + grouped]
        sch.compute_at(copy, around, preserve_unit_loops=True)
    if _is_plain(sch.get(copy)):
        sch.transform_layout(
            copy, ("write", 0), panel_map(block_named(sch.func, matmul.block), matmul, panel)
        )


@dataclass(frozen=True)
class Packing:
    """What is known of a copy: ``column_first`` and ``contiguous`` say how the columns of W lie,
    ``placed`` that it stands under loops of the product, ``points`` how many elements it has."""

    copy: BlockRV
    panel: int
    column_first: bool
    contiguous: bool
    grouped: bool
    placed: bool
    points: int
    is_whole: bool
    """W has the columns of a panel at least."""
    together: int = 0
    """Steps of k that are taken out of one element of what W is computed of; 0: it is a copy."""


def packing_of(
    sch: Schedule, copy: BlockRV, matmul: Matmul, panel: int, *, grouped: bool
) -> Packing:
    """What there is to know of a copy before the product is cut into parts."""
    block = block_named(sch.func, matmul.block)
    column = block.iter_vars[matmul.columns[-1]].var
    placed = grouped or len(matmul.batch) + len(matmul.columns) > 1
    contiguous = load_is_contiguous(matmul.w, column)
    points = points_of(sch.get(copy))
    sizes = zip(matmul.w.indices, sch.get(copy).reads[0].buffer.shape, strict=False)
    columns = next((size for index, size in sizes if index is column), None)
    is_whole = not isinstance(columns, IntImm) or columns.value >= panel
    first = _column_first(sch, matmul)
    return Packing(copy, panel, first, contiguous, grouped, placed, points, is_whole)


def producer_of(func: PrimFunc, buffer: Buffer) -> Block | None:
    """The block that computes a weight of parameters whose layout is free alone: constants, which
    are taken apart where they are packed. None for any other weight."""
    found = [b for b in blocks_in_order(func) if any(w.buffer is buffer for w in b.writes)]
    if len(found) != 1 or not is_spatial(found[0]):
        return None
    free = all(is_layout_free(func, r.buffer) for r in found[0].reads)
    return found[0] if free else None


def compute_panels(sch: Schedule, packing: Packing, producer: Block, steps: int) -> Packing:
    """Compute a weight of so many ``steps`` of k where it is packed, of parameters in the layout of
    panels: (columns, ...) becomes (columns / panel, ..., panel)."""
    panel, copy = packing.panel, packing.copy

    def packed(n: Var, *rest: Var) -> tuple[Expr, ...]:
        return (n // panel, *rest, n % panel)

    sch.compute_inline(producer.name)
    reads = sch.get(copy).reads
    for read in range(len(reads)):
        sch.transform_layout(copy, ("read", read), packed, pad_value=0)
    sizes = [
        math.prod([d.value for d in r.buffer.shape[1:] if isinstance(d, IntImm)]) for r in reads
    ]
    return replace(packing, together=steps // max(sizes))


def _schedule_unpacking(sch: Schedule, packing: Packing, lanes: int, target: Target) -> None:
    """Compute panels of a weight of words: what is taken out of one word, vector by vector, is
    written out."""
    if runs_over_layout(sch.get(packing.copy)):
        *outer, panels, k, inside = sch.get_loops(packing.copy)
        vectors, lane = sch.split(inside, [None, lanes])
    else:
        *outer, n, k = sch.get_loops(packing.copy)
        panels, vectors, lane = sch.split(n, [None, packing.panel // lanes, lanes])
    words, numbers = sch.split(k, [None, packing.together])
    sch.reorder(panels, words, numbers, vectors, lane)
    sch.unroll(numbers)
    sch.unroll(vectors)
    sch.vectorize(lane)
    if not packing.placed:
        share(sch, target, [*outer, panels], packing.points)


def schedule_copy(sch: Schedule, packing: Packing, target: Target) -> None:
    """Copy in vectors along the panel. This comes after the product's own loops: where columns turn
    in registers two blocks write the copy, each a part of k, and no one of them has all that an
    iteration of a parallel loop reads."""
    copy = packing.copy
    block = sch.get(copy)
    lanes, panel = lanes_of(target, block), packing.panel
    while panel % lanes:
        lanes //= 2
    if packing.together:
        _schedule_unpacking(sch, packing, lanes, target)
        return
    if runs_over_layout(block):
        # With padding, the copy runs over the packed layout, ...
        *outer, panels, k, inside = sch.get_loops(copy)
        vectors, lane = sch.split(inside, [None, lanes])
    else:
        # ... else over the weight's own dimensions.
        *outer, first, second = sch.get_loops(copy)
        n, k = (first, second) if packing.column_first else (second, first)
        panels, vectors, lane = sch.split(n, [None, panel // lanes, lanes])
    if packing.contiguous:
        if packing.grouped:
            # Row by row of the group: what lies side by side is read at once.
            sch.reorder(k, panels, vectors, lane)
            fetch_ahead(sch, k, ROWS_AHEAD)
            sch.unroll(panels)
            sch.unroll(vectors)
        else:
            sch.reorder(panels, k, vectors, lane)
    else:
        # Vectors gather from as many rows as they have lanes, whose lines serve several k.
        sch.reorder(panels, vectors, k, lane)
        dims = sch.get(copy).reads[0].buffer.ndim
        if packing.is_whole and dims == len(block.iter_vars) - runs_over_layout(block):
            _transpose_tiles(sch, copy, k, lanes)
    sch.vectorize(lane)
    if not packing.placed:
        share(sch, target, [*outer, panels], packing.points)


def _transpose_tiles(sch: Schedule, copy: BlockRV, k: LoopRV, lanes: int) -> None:
    """Read the columns that a vector takes as rows into registers, ``lanes`` steps of k of each,
    where they turn by shuffles; the steps that fill no such tile are gathered."""
    extent = sch.get(k).extent
    if lanes < FEWEST_TURNED or not isinstance(extent, IntImm) or extent.value < lanes:
        return
    name = copy.name
    if extent.value % lanes:
        full, _ = sch.loop_partition(k, [extent.value // lanes * lanes, None])
        name = sch.get_child_blocks(full)[0].name
        k = full
    tiles, steps = sch.split(k, [None, lanes])
    rows = sch.cache_read(name, 0, "register", [name])
    sch.compute_at(rows, tiles)
    row, vector = sch.get_loops(rows)[-2:]
    sch.unroll(row)
    sch.vectorize(vector)
    sch.unroll(steps)


def _column_first(sch: Schedule, matmul: Matmul) -> bool:
    block = block_named(sch.func, matmul.block)
    column = block.iter_vars[matmul.columns[-1]].var
    k = block.iter_vars[matmul.reduce[0]].var
    order = [i for i in matmul.w.indices if i is column or i is k]
    return order[0] is column
