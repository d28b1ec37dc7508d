"""reorder_block_iter_var and transform_block_layout: rewrites of a block's own iteration space.

The iter vars of a block are the coordinates of its instances. Both primitives give the same
instances other coordinates: the first permutes them, the second replaces them by an affine
bijection of them and makes loops over the new ones. What the block computes stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ....support.errors import DependenceError, LayoutError, NonAffineError, ScheduleValueError
from ....support.node import replace, walk
from ...analysis.affine import loop_bounds, undetermined
from ...analysis.block_kinds import reads_other_instances
from ...analysis.loop_checks import own_nest, require_plain_serial
from ...analysis.paths import Path, find_block, loops_above, realize_of, rebuild, with_body
from ...analysis.preconditions import fail
from ...analysis.region_cover import instances_clash
from ...arith import Analyzer, IndexMap, is_affine_binding
from ...buffer import Range
from ...expr import BufferLoad, Expr, IntImm, Var, is_const
from ...function import PrimFunc
from ...stmt import Block, BufferStore, For, IterVar, Stmt
from ...visitor import Mutator, substitute
from ..primitive import ATTR, BLOCK, BLOCKS, primitive
from ..rewriting.index_maps import as_index_map
from ..rewriting.nests import nest_over_axes
from ..state import BlockLike, ScheduleState

_TRANSFORM = "transform_block_layout"


class TransformBlockLayout(ScheduleState):
    @primitive(BLOCKS, block=BLOCK, index_map=ATTR)
    def transform_block_layout(
        self, block: BlockLike, index_map: IndexMap | Callable[..., Any]
    ) -> None:
        """Replace the axes of a block by an affine bijection of them, and its loops by one loop for
        each new axis.

        ``index_map`` is an index map, or a Python function of as many indices as the block has
        axes: ``lambda i, j: (i // 4, j, i % 4)``. The new axes are called v0, v1 and so on, the new
        loops ax0, ax1 and so on; they are serial, in the order of the axes. The block computes the
        same instances in another order.

        Requires:

        - a map of as many indices as the block has axes, at least one (ScheduleValueError);
        - an affine bijection of the iteration space (LayoutError);
        - spatial and reduce axes, not mixed in one new axis, and a block that neither reads nor
          writes what its other instances write (DependenceError);
        - loops of the block's own that run through the whole iteration space, each instance once
          (NonAffineError), all of them plain serial loops (LoopKindError).

        Before::

            @T.prim_func
            def main(A: T.Buffer((8, 6), "float32"), B: T.Buffer((8, 6), "float32")):
                for i, j in T.grid(8, 6):
                    with T.block("B"):
                        vi, vj = T.axis.remap("SS", [i, j])
                        B[vi, vj] = A[vi, vj] + T.float32(1)

        Schedule::

            sch.transform_block_layout("B", lambda i, j: (i // 4, j, i % 4))

        After::

            @T.prim_func
            def main(A: T.Buffer((8, 6), "float32"), B: T.Buffer((8, 6), "float32")):
                for ax0, ax1, ax2 in T.grid(2, 6, 4):
                    with T.block("B"):
                        v0, v1, v2 = T.axis.remap("SSS", [ax0, ax1, ax2])
                        B[v0 * 4 + v2, v1] = A[v0 * 4 + v2, v1] + T.float32(1)
        """
        owner, name = self._block(block)
        func = self._functions[owner]
        m = block_index_map(func, name, index_map)
        self._note(index_map=m)
        self._commit(owner, transform_block_layout(func, name, self._index_map(m)))


def transform_block_layout(
    func: PrimFunc, block_name: str, index_map: IndexMap | Callable[..., object]
) -> PrimFunc:
    """Replace the iter vars of a block by an affine bijection of them, and its loops by one loop
    for each new iter var."""
    path = find_block(func, block_name, _TRANSFORM)
    realize = realize_of(path)
    block = realize.block
    top = own_nest(path)
    own = loops_above(path)[-(len(path) - len(top)) :] if len(path) > len(top) else []
    _require_plain_block(func, block)
    _require_whole_loops(func, path, own)
    m = block_index_map(func, block_name, index_map)
    sizes = [it.dom.extent for it in block.iter_vars]
    try:
        extents = m.map_shape(sizes)
        inverse = m.inverse(sizes)
    except LayoutError as error:
        shown = " x ".join([str(s.value) if isinstance(s, IntImm) else "?" for s in sizes])
        found = (
            f"The map is no affine bijection of the iteration space ({shown}) of {block.name!r}: "
            "each instance must get coordinates of its own, and all of them must be taken. Split "
            "with a factor that divides the axis, or pad first."
        )
        raise fail(LayoutError, _TRANSFORM, func, [block], found) from error
    kinds = _kinds(func, block, m)
    axes = [Var(f"v{k}") for k in range(len(extents))]
    names: dict[Var, Expr] = dict(zip(inverse.inputs, axes, strict=True))
    analyzer = Analyzer()
    for v, e in zip(axes, extents, strict=True):
        analyzer.bind(v, Range(IntImm(0), e))
    change = {
        it.var: analyzer.simplify(substitute(o, names))
        for it, o in zip(block.iter_vars, inverse.outputs, strict=True)
    }
    new_block = replace(
        _Indices(analyzer).visit(substitute(_without_axes(block), change)),
        iter_vars=tuple(
            [
                IterVar(v, Range(IntImm(0), e), kind)
                for v, e, kind in zip(axes, extents, kinds, strict=True)
            ]
        ),
    )
    return with_body(func, rebuild(top, nest_over_axes(new_block)))


class _Indices(Mutator):
    """Simplify the indices of what a block reads and writes: an axis that was taken apart and is
    asked for a digit again is that digit."""

    def __init__(self, analyzer: Analyzer) -> None:
        self.analyzer = analyzer

    def visit_BufferLoad(self, n: BufferLoad) -> Expr:  # noqa: N802
        return replace(n, indices=self._simplified(n.indices))

    def visit_BufferStore(self, n: BufferStore) -> Stmt:  # noqa: N802
        return replace(n, indices=self._simplified(n.indices), value=self.visit(n.value))

    def visit_Range(self, n: Range) -> Range:  # noqa: N802
        return replace(n, min=self.analyzer.simplify(n.min))

    def _simplified(self, indices: Sequence[Expr]) -> tuple[Expr, ...]:
        return tuple([self.analyzer.simplify(self.visit(i)) for i in indices])


def _without_axes(block: Block) -> Block:
    """The block with its axes free, so that they can be substituted."""
    return replace(block, iter_vars=())


def block_index_map(
    func: PrimFunc, block_name: str, index_map: IndexMap | Callable[..., object]
) -> IndexMap:
    """An index map of a block's axes, from itself or from a Python function; raises
    ScheduleValueError for another number of axes."""
    block = realize_of(find_block(func, block_name, _TRANSFORM)).block
    count = len(block.iter_vars)
    found = ""
    m = IndexMap((), ())
    if isinstance(index_map, IndexMap):
        m = index_map
        found = f"found one of {len(m.inputs)}"
    else:
        try:
            m = as_index_map(index_map, count)
        except LayoutError as error:
            found = error.found
    if len(m.inputs) != count or count == 0:
        found = f"Expected an index map of the {count} axes of {block.name!r}; {found}."
        if count == 0:
            found = f"The block {block.name!r} has no axes to transform."
        raise fail(ScheduleValueError, _TRANSFORM, func, [block], found)
    return m


def _require_plain_block(func: PrimFunc, block: Block) -> None:
    for it in block.iter_vars:
        if it.kind not in ("spatial", "reduce"):
            found = f"The axis {it.var.name!r} is {it.kind}: its order is part of its meaning."
            raise fail(DependenceError, _TRANSFORM, func, [block], found)
        if not is_const(it.dom.min, 0):
            found = f"The axis {it.var.name!r} does not begin at 0."
            raise fail(NonAffineError, _TRANSFORM, func, [block], found)
    if reads_other_instances(block):
        found = (
            f"The block {block.name!r} reads elements of its own output that other instances "
            "write, so that their order matters."
        )
        raise fail(DependenceError, _TRANSFORM, func, [block], found)
    if instances_clash(block, [it.var for it in block.iter_vars]):
        found = (
            f"Several instances of the block {block.name!r} write the same element, so that their "
            "order matters, although its axes are spatial."
        )
        raise fail(DependenceError, _TRANSFORM, func, [block], found)


def _require_whole_loops(func: PrimFunc, path: Path, own: Sequence[For]) -> None:
    """The loops that are made anew must run through the iteration space, each instance once."""
    realize = realize_of(path)
    name = realize.block.name
    for loop in own:
        require_plain_serial(func, loop, _TRANSFORM)
    mine = {id(loop.var) for loop in own}
    for loop in loops_above(path):
        used = any(
            n is loop.var for e in (*realize.iter_values, realize.predicate) for n in walk(e)
        )
        if used and id(loop.var) not in mine:
            found = (
                f"The loop {loop.var.name!r} around {name!r} also holds other statements, so it "
                "cannot be made anew; do this before blocks are put under it."
            )
            raise fail(NonAffineError, _TRANSFORM, func, [loop], found)
    analyzer = Analyzer()
    for n in [n for loop in own for n in walk(loop.extent)]:
        if isinstance(n, Var) and id(n) not in mine:
            analyzer.declare_dim(n)
    extents = {loop.var: loop.extent for loop in own}
    if not is_affine_binding(realize, extents, analyzer):
        found = (
            f"It cannot be proved that the loops of {name!r} run through its whole iteration space."
        )
        raise fail(NonAffineError, _TRANSFORM, func, [realize], found)
    repeated = undetermined(realize.iter_values, loop_bounds(own))
    if repeated is None or repeated:
        which = f"The loop {repeated[0].name!r} repeats" if repeated else "The loops may repeat"
        found = f"{which} instances of {name!r}; each must run once."
        raise fail(NonAffineError, _TRANSFORM, func, [realize], found)


def _kinds(func: PrimFunc, block: Block, m: IndexMap) -> list[str]:
    """The kinds of the new axes: that of the old ones each is made of."""
    of_input = {v: it.kind for v, it in zip(m.inputs, block.iter_vars, strict=True)}
    result = []
    for k, o in enumerate(m.outputs):
        kinds = {of_input[n] for n in walk(o) if isinstance(n, Var) and n in of_input}
        if len(kinds) > 1:
            found = (
                f"Output {k} of the map mixes spatial and reduce axes of {block.name!r}; an axis "
                "is one or the other."
            )
            raise fail(DependenceError, _TRANSFORM, func, [block], found)
        result.append(kinds.pop() if kinds else "spatial")
    return result
