"""Vectors: a spatial loop in full vectors, and what does not fill one in a part of its own.

    for j in range(100)    ->    for j0 in range(3): for jl in vectorized(32)
                                 for jl in vectorized(4)

so that full vectors carry no mask. Widths are powers of two. AVX2 has masks for lanes of 32 and 64
bits alone; for narrower ones what does not fill a vector is cut into shorter vectors.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...support.errors import ScheduleError
from ...support.node import walk
from ...support.remembered import remembered
from ...support.target import Target
from ...tensorir.buffer import Buffer
from ...tensorir.expr import BufferLoad, Expr, IntImm
from ...tensorir.schedule import LoopRV, Schedule
from ...tensorir.stmt import Block, BufferStore
from ..schedule_log import give_up

FEWEST_LANES = 2
_MASKED_BITS = 32
"""The narrowest lanes that masks without registers of their own are for."""


def lanes_of(target: Target, block: Block) -> int:
    """Elements of the widest dtype that a block touches in one vector register. A load that is an
    index, and the same along the last axis, is not counted: it is no vector."""
    return max(1, target.vector_bits // _widest(block))


@remembered
def _widest(block: Block) -> int:
    """The bits of that dtype, 8 at least."""
    parts = [p for p in (block.body, block.init) if p is not None]
    accesses = [
        n for p in parts for n in walk(p, (Buffer,)) if isinstance(n, BufferLoad | BufferStore)
    ]
    last = block.iter_vars[-1].var if block.iter_vars else None
    places = {
        id(n)
        for a in accesses
        for index in a.indices
        for n in walk(index)
        if isinstance(n, BufferLoad) and not any(v is last for v in walk(n))
    }
    bits = [n.buffer.dtype.bits for n in accesses if id(n) not in places]
    return max([8, *bits])


def width_for(extent: Expr, lanes: int, wanted: int) -> int:
    """How many elements of a loop to take at once: ``lanes * wanted``, or less where a constant
    extent has not as many; all of them, rounded up to a power of two, where they do not fill one
    vector."""
    if not isinstance(extent, IntImm):
        return lanes * wanted
    if extent.value < lanes:
        return up_to_power(extent.value)
    while lanes * wanted > extent.value:
        wanted //= 2
    return lanes * wanted


def up_to_power(n: int) -> int:
    """The smallest power of two that is at least ``n``."""
    return 1 << max(0, n - 1).bit_length()


def write_out(
    sch: Schedule, unrolled: Iterable[LoopRV], lane: LoopRV, lanes: int = FEWEST_LANES
) -> None:
    """Unroll loops, and vectorise the one over so many lanes, unless they are too few."""
    for loop in unrolled:
        sch.unroll(loop)
    if lanes >= FEWEST_LANES:
        sch.vectorize(lane)


def has_masks(target: Target, lanes: int) -> bool:
    """Whether loads and stores of so many lanes a register can leave some of them out."""
    return target.instructions.masks or lanes * _MASKED_BITS <= target.vector_bits


def vectorize_loop(
    sch: Schedule, loop: LoopRV, width: int, lanes: int, *, masks: bool = True
) -> list[LoopRV]:
    """Cut a loop around one block into vectors of ``width`` elements (whole registers of ``lanes``,
    or less than one) and a rest, which is masked or, of constant extent and without ``masks``, cut
    into shorter ones; the outer loop of each part, which stand where the loop stood."""
    if width < FEWEST_LANES:
        return [loop]
    extent = sch.get(loop).extent
    constant = extent.value if isinstance(extent, IntImm) else None
    if constant is not None and constant % width and not masks:
        return _whole_vectors(sch, loop, constant, width, lanes)
    if constant is not None and (constant % width == 0 or constant < width):
        return [_vectors(sch, loop, width)]
    full, rest = sch.loop_partition(loop, [extent // width * width, None])
    parts = [_vectors(sch, full, width)]
    few = lanes if constant is None else min(lanes, up_to_power(constant % width))
    # Where fused axes have a symbolic extent, it may not be provable that a rest is a vector.
    trial = sch.copy()
    try:
        parts.append(_vectors(trial, rest, few))
    except ScheduleError as error:
        give_up("vectors of what remains of a loop", error)
        return [*parts, rest]
    sch.become(trial)
    return parts


def _whole_vectors(
    sch: Schedule, loop: LoopRV, extent: int, width: int, lanes: int
) -> list[LoopRV]:
    """Vectors of ``width``, of ``lanes``, and of each half of that as far as elements remain."""
    sizes = [width]
    size = min(lanes, width)
    while size:
        sizes.append(size)
        size //= 2
    pieces: list[tuple[int, int]] = []
    for size in sizes:
        taken = extent // size * size
        extent -= taken
        if taken:
            pieces.append((taken, size))
    cuts = [taken for taken, _ in pieces[:-1]]
    parts = sch.loop_partition(loop, [*cuts, None]) if cuts else [loop]
    return [_vectors(sch, part, size) for part, (_, size) in zip(parts, pieces, strict=True)]


def _vectors(sch: Schedule, loop: LoopRV, width: int) -> LoopRV:
    if width < FEWEST_LANES:
        return loop
    outer, inner = sch.split(loop, [None, width])
    sch.vectorize(inner)
    return outer
