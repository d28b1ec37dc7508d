"""Which axes the blocks of a function have in common: the rows of a normalisation, say.

The *kept* axes of a reduction are its spatial axes; those of an elementwise block are the axes that
run with them through the buffers both touch. Blocks whose kept axes correspond can run under the
same loops over them, one row after another.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ...support.node import walk
from ...tensorir.arith.linear import same_extent
from ...tensorir.expr import BufferLoad, Expr, Var
from ...tensorir.stmt import Block, BufferStore
from ...tensorir.visitor import loads_in
from ..workload import is_reduction, non_unit_axes

Access = BufferLoad | BufferStore


@dataclass(frozen=True)
class Nest:
    """A block with its axes by role (positions in its iter vars): ``kept``, in the same order in
    all nests; ``units``, of one iteration; ``rest``, which runs within a row."""

    block: Block
    kept: tuple[int, ...]
    units: tuple[int, ...]
    rest: tuple[int, ...]


def common_nests(blocks: list[Block]) -> list[Nest] | None:
    """The blocks as nests over common kept axes, the first reduction's; None where they have not
    all got them."""
    first = next((b for b in blocks if is_reduction(b)), None)
    if first is None:
        return None
    kept: dict[str, tuple[int, ...]] = {}
    dims: dict[int, tuple[int, ...]] = {}
    wanted = [first.iter_vars[i].dom.extent for i in spatial_axes(first)]
    for b in blocks:
        if is_reduction(b):
            _note(b, spatial_axes(b), kept, dims)
    pending = [b for b in blocks if b.name not in kept]
    while pending:
        found = [(b, axes) for b in pending if (axes := _axes_through(b, dims)) is not None]
        if not found:
            return None
        for b, axes in found:
            _note(b, axes, kept, dims)
        pending = [b for b in pending if b.name not in kept]
    nests = [nest_of(b, kept[b.name]) for b in blocks]
    for n in nests:
        extents = [n.block.iter_vars[i].dom.extent for i in n.kept]
        if len(extents) != len(wanted) or not all(map(same_extent, extents, wanted)):
            return None
    return nests


def nest_of(block: Block, kept: tuple[int, ...]) -> Nest:
    """The block's axes by role, ``kept`` given."""
    many = non_unit_axes(block)
    units = tuple([i for i in range(len(block.iter_vars)) if i not in many])
    return Nest(block, kept, units, tuple([i for i in many if i not in kept]))


def in_memory_order(nest: Nest) -> Nest:
    """The nest of a reduction with its rest in the order in which the largest operand lies in
    memory; outermost the axes along which that is the same (of an expanded tensor)."""
    largest = next(iter(operands_of(nest)), None)
    indices = () if largest is None else largest.indices
    places = {n: d for d, index in enumerate(indices) for n in walk(index) if isinstance(n, Var)}
    axes = nest.block.iter_vars
    order = sorted(nest.rest, key=lambda axis: places.get(axes[axis].var, -1))
    return replace(nest, rest=tuple(order))


def operands_of(nest: Nest) -> list[BufferLoad]:
    """What a reduction loads, the largest first: what most of its axes run through, whichever of
    them its expression names first."""
    many = {nest.block.iter_vars[i].var for i in (*nest.kept, *nest.rest)}
    written = [w.buffer for w in nest.block.writes]
    loads = loads_in(nest.block.body)
    return sorted(
        [a for a in loads if a.buffer not in written],
        key=lambda a: (-len(many & {n for i in a.indices for n in walk(i)}), -len(a.indices)),
    )


def spatial_axes(block: Block) -> tuple[int, ...]:
    """The spatial axes of more than one iteration."""
    return tuple([i for i in non_unit_axes(block) if block.iter_vars[i].kind == "spatial"])


def accesses(block: Block) -> Iterator[Access]:
    """The loads and stores of a block's body, innermost operands last."""
    return (n for n in walk(block.body) if isinstance(n, BufferLoad | BufferStore))


def axis_of(block: Block, index: Expr) -> int | None:
    """The position of the axis that an index is."""
    return next((i for i, v in enumerate(block.iter_vars) if v.var is index), None)


def _note(
    block: Block,
    axes: tuple[int, ...],
    kept: dict[str, tuple[int, ...]],
    dims: dict[int, tuple[int, ...]],
) -> None:
    """Remember a block's kept axes, and which dimensions of what it touches they run through."""
    kept[block.name] = axes
    for a in accesses(block):
        places = {axis_of(block, i): d for d, i in enumerate(a.indices) if isinstance(i, Var)}
        if all(axis in places for axis in axes):
            dims.setdefault(id(a.buffer), tuple([places[axis] for axis in axes]))


def _axes_through(block: Block, dims: dict[int, tuple[int, ...]]) -> tuple[int, ...] | None:
    """The block's axes that run through the kept dimensions of a buffer it shares."""
    for a in accesses(block):
        where = dims.get(id(a.buffer))
        if where is None:
            continue
        axes = [axis_of(block, a.indices[d]) for d in where]
        if all(x is not None for x in axes) and len(set(axes)) == len(axes):
            return tuple([x for x in axes if x is not None])
    return None
