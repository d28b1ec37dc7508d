"""Register tiles: what all rules do that sum in registers and store from there.

A product is followed by the blocks that take its results out, its *outlets*: one that computes
the epilogue on the registers, or, where that is costly, one that copies them to a tile in the
cache and one that computes the epilogue from it. The costly code is then a loop, and not written
out once for each register of the tile.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...support.node import walk
from ...support.target import Target
from ...tensorir.expr import BufferLoad, Expr
from ...tensorir.function import PrimFunc
from ...tensorir.lowering.block_sums import SUM_BLOCK
from ...tensorir.lowering.place_prefetches import PREFETCH, PREFETCH_NEXT
from ...tensorir.schedule import LoopRV, Schedule
from ..workload import block_named, buffer_bytes, is_spatial, uses_intrinsic
from .lanes import write_out
from .partial_sums import LONGEST

CACHE_SHARE = 0.5
"""The part of a core's cache that one operand may fill."""

NEXT = -1
"""In place of a distance: what the loops around will move on to."""

MOST_STEPS = 4
"""Steps of k that a tile of few sums has written out."""
MANY_SUMS = 14
"""Sums of a tile from which on a step is work enough: two units are busy for seven cycles, in which
a CPU that issues four instructions a cycle has issued its loads and the loop's own beside them."""


def outlets(sch: Schedule, product: str) -> tuple[str, ...]:
    """The blocks that take a product's results out of registers, in order; see the module."""
    consumers = sch.get_consumers(product)
    if len(consumers) == 1 and reads_in_order(sch.func, consumers[0].name, product):
        name = consumers[0].name
        if uses_intrinsic(block_named(sch.func, name)):
            return (sch.cache_write(product, 0, "register").name, name)
        sch.set_scope(product, 0, "register")
        return (name,)
    return (sch.cache_write(product, 0, "register").name,)


def consumer_or_copy(sch: Schedule, block: str, scope: str) -> str:
    """The block that takes a block's results out of ``scope``: its one consumer, where that reads
    them element by element, or a copy made for it."""
    consumers = sch.get_consumers(block)
    if len(consumers) == 1 and reads_in_order(sch.func, consumers[0].name, block):
        sch.set_scope(block, 0, scope)
        return consumers[0].name
    return sch.cache_write(block, 0, scope).name


def reads_in_order(func: PrimFunc, consumer: str, producer: str) -> bool:
    """Whether a spatial block reads what another writes at its own axes, all of them, in order."""
    block, written = block_named(func, consumer), block_named(func, producer).writes[0].buffer
    axes = [v.var for v in block.iter_vars]
    loads = [n for n in walk(block.body) if isinstance(n, BufferLoad) and n.buffer is written]
    return is_spatial(block) and all(
        len(n.indices) == len(axes) and all(i is a for i, a in zip(n.indices, axes, strict=True))
        for n in loads
    )


def partition_together(
    sch: Schedule, blocks: tuple[str, ...], places: int | tuple[int, ...], extents: list[Expr]
) -> list[tuple[str, ...]]:
    """Cut a loop of each block alike, the one at its place among the block's loops; the names of
    the blocks in each part."""
    if len(extents) == 1:
        return [blocks]
    at = places if isinstance(places, tuple) else (places,) * len(blocks)
    loops = [sch.get_loops(name)[place] for name, place in zip(blocks, at, strict=True)]
    cut = [sch.loop_partition(loop, [*extents[:-1], None]) for loop in loops]
    return [
        tuple([sch.get_child_blocks(p)[0].name for p in part]) for part in zip(*cut, strict=True)
    ]


def steps_unrolled(target: Target, sums: int, steps: int | None = None) -> int:
    """How many of a product's ``steps`` a tile of so many sums has written out, at most.

    One where the sums alone keep the units busy beside the loop's own instructions: more are as
    fast at best, LLVM may spill sums between them, and they cost the compiler as often as they are
    written; but all of a few, which need no loop. One as well where a product needs a register of
    its own before it is added: none are left to move sums and loads between steps."""
    few = sums < target.vector_registers // 2
    most = MOST_STEPS if target.instructions.fma or few else 1
    is_loop = steps is None or steps > most
    return 1 if sums >= MANY_SUMS and is_loop else most


def store_tile(
    sch: Schedule, stored: Sequence[str], place: LoopRV, lanes: int, *, in_registers: bool = True
) -> None:
    """Put the outlets behind the sums at ``place``, in vectors; those that read registers are
    written out, the others loop over rows. ``in_registers`` says that the sums are there."""
    for n, name in enumerate(stored):
        sch.reverse_compute_at(name, place, preserve_unit_loops=True)
        depth = depth_below(sch, place, name)
        *rows, columns = sch.get_loops(name)[depth:]
        vectors, inner = sch.split(columns, [None, lanes])
        write_out(sch, [*rows, vectors] if n == 0 and in_registers else [], inner, lanes)


def depth_below(sch: Schedule, place: LoopRV, block: str) -> int:
    """The number of a block's loops down to ``place``."""
    loops = sch.get_loops(block)
    return next(i for i, loop in enumerate(loops) if loop.var is place.var) + 1


def pad_columns(sch: Schedule, product: str, width: int) -> None:
    """Compute whole panels of columns; the packed weight is zero there."""
    axes = block_named(sch.func, product).iter_vars
    last = max(i for i, v in enumerate(axes) if v.kind == "spatial")
    sch.pad_einsum(product, [width if i == last else 1 for i in range(len(axes))])


def fetch_ahead(sch: Schedule, loop: LoopRV, distance: int) -> None:
    """Ask for what a loop reads ``distance`` iterations before it does; 0 asks for nothing and
    ``NEXT`` for what it reads when the loops around have moved on."""
    if distance == NEXT:
        sch.annotate(loop, PREFETCH_NEXT, 1)
    elif distance:
        sch.annotate(loop, PREFETCH, distance)


def annotate_sum_blocks(sch: Schedule, product: str, loop: LoopRV, terms: int | None) -> None:
    """Add up what a loop sums in blocks of LONGEST terms; ``terms`` is how many there are of each
    sum (None: symbolic). Nothing changes where one block holds all, or where sums are exact."""
    is_exact = not block_named(sch.func, product).writes[0].buffer.dtype.is_float
    if not is_exact and (terms is None or terms > LONGEST):
        sch.annotate(loop, SUM_BLOCK, LONGEST)


def divisor(extent: int | None, wanted: int) -> int:
    """The largest power of two up to ``wanted`` that divides ``extent``."""
    while extent is not None and wanted > 1 and extent % wanted:
        wanted //= 2
    return wanted if extent is not None else 1


def bytes_of(load: BufferLoad) -> int | None:
    """The size of an operand; None where it is symbolic."""
    return buffer_bytes(load.buffer)
