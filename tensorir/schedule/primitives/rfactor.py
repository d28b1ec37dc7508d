"""rfactor: partial results of a reduction, and their sum."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ....support.errors import DependenceError, NotReductionBlockError, ScheduleValueError
from ....support.node import replace, walk
from ...analysis.affine import loop_bounds
from ...analysis.block_kinds import axis_bindings, binds
from ...analysis.buffers import buffer_names
from ...analysis.conditions import conjunction, conjuncts, simplify_condition
from ...analysis.loop_checks import require_once
from ...analysis.nested_blocks import blocks_below
from ...analysis.paths import (
    block_names,
    find_block,
    find_loop,
    fresh_name,
    loop_of,
    loops_above,
    realize_of,
    rebuild,
    scope_of,
    scope_path,
    with_body,
)
from ...analysis.preconditions import fail, require_reduction
from ...analysis.structure import ReductionUpdate, match_update
from ...arith import point_region
from ...buffer import Buffer, Range
from ...dim_align import DIM_ALIGN
from ...expr import BufferLoad, Call, Expr, IntImm, Var, is_const
from ...function import PrimFunc
from ...stmt import Block, BlockRealize, BufferStore, For, IterVar, Stmt, seq
from ...visitor import substitute
from ..arguments import require_int
from ..primitive import ATTR, LOOP, REDUCTIONS, primitive
from ..state import ScheduleState
from ..trace.handles import BlockHandle, BlockRV, LoopRV


class Rfactor(ScheduleState):
    @primitive(REDUCTIONS, loop=LOOP, factor_axis=ATTR)
    def rfactor(self, loop: LoopRV, factor_axis: int) -> BlockRV:
        """Make a reduce loop spatial, for partial results that a final block adds up; gives the
        block of partial results.

        The block is called ``name_rf``; the handle of the old one now means the final block, which
        follows the nest, or the loops of it below which nobody else uses the result.
        ``factor_axis`` is the place of the new dimension in the buffer of partial
        results, an int; negative counts from the end. The terms of a sum are regrouped: float
        results may differ in their last bits.

        Requires:

        - a reduction block whose update is a sum, product, max or min of its own element and a
          term, beginning with the neutral element (NotReductionBlockError);
        - ``factor_axis`` from -(d + 1) to d for a buffer of d dimensions (ScheduleValueError);
        - one block below the loop, and no other user of its buffer below a reduce loop; a serial
          loop from 0 over reduce axes alone, of an extent that depends on no other loop; no loop
          over spatial and reduce axes at once, none that repeats an instance, and no predicate that
          might leave a partial result without a term in some rows and not in others; where it
          leaves one without a term in all rows, that is the neutral element (DependenceError).

        Before::

            @T.prim_func
            def main(A: T.Buffer((4, 12), "float32"), B: T.Buffer((4,), "float32")):
                for i, k in T.grid(4, 12):
                    with T.block("B"):
                        vi, vk = T.axis.remap("SR", [i, k])
                        with T.init():
                            B[vi] = T.float32(0)
                        B[vi] = B[vi] + A[vi, vk]

        Schedule::

            i, k = sch.get_loops("B")
            outer, inner = sch.split(k, [None, 4])
            partial = sch.rfactor(inner, factor_axis=0)

        After::

            @T.prim_func
            def main(A: T.Buffer((4, 12), "float32"), B: T.Buffer((4,), "float32")):
                B_rf = T.alloc_buffer((4, 4))
                for i, k_0, k_1 in T.grid(4, 3, 4):
                    with T.block("B_rf"):
                        vi, vk_1, vk_0 = T.axis.remap("SSR", [i, k_1, k_0])
                        with T.init():
                            B_rf[vk_1, vi] = T.float32(0)
                        B_rf[vk_1, vi] = B_rf[vk_1, vi] + A[vi, vk_0 * 4 + vk_1]
                for i, k_1 in T.grid(4, 4):
                    with T.block("B"):
                        vi, vk_1 = T.axis.remap("SR", [i, k_1])
                        with T.init():
                            B[vi] = T.float32(0)
                        B[vi] = B[vi] + B_rf[vk_1, vi]
        """
        done = rfactor(self._functions[loop.func_name], loop.var, factor_axis)
        self._commit(loop.func_name, done.func)
        return BlockHandle(done.partial, loop.func_name)


@dataclass(slots=True)
class Factored:
    """The new function, and the names of the partial and the final block."""

    func: PrimFunc
    partial: str
    final: str


def rfactor(func: PrimFunc, loop_var: Var, factor_axis: int) -> Factored:
    """Make a reduce loop spatial: partial results in a buffer with one more dimension, then a final
    reduction over that.

    The final block keeps the block's name and the alignment of its buffer.
    """
    target = _rfactor_target(func, loop_var)
    path = find_block(func, target, "rfactor")
    realize = realize_of(path)
    block = realize.block
    loops = loops_above(path)
    rf_loop = next(loop for loop in loops if loop.var is loop_var)
    _require_own_extent(func, loops, rf_loop)
    require_reduction(func, block, "rfactor")
    update = match_update(block)
    if update is None:
        found = (
            f"The update of {block.name!r} is not one of sum, prod, max, min of its own element "
            "and a term, beginning with the neutral element, so its terms may not be regrouped."
        )
        raise fail(NotReductionBlockError, "rfactor", func, [block], found)
    ndim = len(update.buffer.shape)
    factor_axis = require_int(factor_axis, "factor_axis", "rfactor")
    axis = factor_axis + ndim + 1 if factor_axis < 0 else factor_axis
    if not 0 <= axis <= ndim:
        raise ScheduleValueError(
            "rfactor", f"factor_axis must be from {-ndim - 1} to {ndim}; found {factor_axis}."
        )
    empty = _require_factorable(func, realize, loops, rf_loop)
    names = set(block_names(func))
    rf_name = fresh_name(names, f"{block.name}_rf")
    shape = list(update.buffer.shape)
    shape.insert(axis, rf_loop.extent)
    rf_buffer = replace(
        update.buffer,
        name=fresh_name(buffer_names(func), f"{update.buffer.name}_rf"),
        shape=tuple(shape),
        strides=(),
        scope="global",
    )
    partial = _partial_block(realize, loops, rf_loop, update, rf_buffer, axis, rf_name, empty)
    own = _own_nest(func, realize, loops, update.buffer)
    final = _final_nest(realize, own, rf_loop, update, rf_buffer, axis)
    body = rebuild(path, partial)
    changed = with_body(func, body)
    new_path = find_block(changed, rf_name, "rfactor")
    top_index = next(
        i for i, s in enumerate(new_path) if isinstance(s, For) and s.var is own[0].var
    )
    changed = with_body(
        changed, rebuild(new_path[: top_index + 1], seq(new_path[top_index], final))
    )
    scope = scope_path(find_block(changed, rf_name, "rfactor"))
    holder = scope_of(find_block(changed, rf_name, "rfactor"))
    grown = replace(holder, alloc_buffers=(*holder.alloc_buffers, rf_buffer))
    return Factored(with_body(changed, rebuild(scope, grown)), rf_name, block.name)


def _own_nest(
    func: PrimFunc, realize: BlockRealize, loops: Sequence[For], buffer: Buffer
) -> Sequence[For]:
    """The loops that the final block follows: all of them, or, where others below the outer ones
    use the buffer, those below which nobody else does. Those above stay around the final block too,
    so that none of them may run over a reduce axis."""
    reduced = axis_bindings(realize, ("reduce",))
    for depth, loop in enumerate(loops):
        user = _other_user(loop, realize.block, buffer)
        if user is None:
            return loops[depth:]
        if binds(reduced, loop.var) or depth + 1 == len(loops):
            found = (
                f"{user.name!r} uses {buffer.name!r} inside the nest of {realize.block.name!r}, "
                "before the final block could write it."
            )
            raise fail(DependenceError, "rfactor", func, [user], found)
    return loops


def _other_user(loop: For, block: Block, buffer: Buffer) -> Block | None:
    """A block below a loop that uses the buffer of another."""
    for n in blocks_below(loop):
        uses = (*n.block.reads, *n.block.writes)
        if n.block is not block and any(r.buffer is buffer for r in uses):
            return n.block
    return None


def _rfactor_target(func: PrimFunc, loop_var: Var) -> str:
    path = find_loop(func, loop_var, "rfactor")
    nested = blocks_below(loop_of(path))
    if len(nested) != 1:
        names = ", ".join(repr(n.block.name) for n in nested) or "none"
        found = f"Expected one block below the loop {loop_var.name!r}; found {names}."
        raise fail(DependenceError, "rfactor", func, [path[-1]], found)
    return nested[0].block.name


def _require_own_extent(func: PrimFunc, loops: Sequence[For], rf_loop: For) -> None:
    own = {id(loop.var) for loop in loops}
    if any(isinstance(n, Var) and id(n) in own for n in walk(rf_loop.extent)):
        found = f"The extent of {rf_loop.var.name!r} depends on another loop."
        raise fail(DependenceError, "rfactor", func, [rf_loop], found)


def _require_factorable(
    func: PrimFunc, realize: BlockRealize, loops: Sequence[For], rf_loop: For
) -> list[Expr]:
    """Raises where a loop cannot be factored; the conditions under which some of its iterations
    have no term at all, which depend on reduce loops alone."""
    name = rf_loop.var.name
    if rf_loop.kind != "serial" or not is_const(rf_loop.min, 0):
        found = f"Expected a serial loop from 0; {name!r} is {rf_loop.kind}."
        raise fail(DependenceError, "rfactor", func, [rf_loop], found)
    if binds(axis_bindings(realize, ("spatial",)), rf_loop.var):
        found = f"The loop {name!r} runs over a spatial axis; there is nothing to factor."
        raise fail(DependenceError, "rfactor", func, [rf_loop], found)
    if not binds(axis_bindings(realize, ("reduce",)), rf_loop.var):
        found = f"The loop {name!r} runs over no reduce axis of {realize.block.name!r}."
        raise fail(DependenceError, "rfactor", func, [rf_loop], found)
    spatial = axis_bindings(realize, ("spatial",))
    reduced = axis_bindings(realize, ("reduce",))
    for loop in loops:
        if binds(spatial, loop.var) and binds(reduced, loop.var):
            found = f"The loop {loop.var.name!r} runs over a spatial and a reduce axis at once."
            raise fail(DependenceError, "rfactor", func, [loop], found)
    bounds = loop_bounds(loops)
    require_once(func, realize, loops, "rfactor")
    others: dict[Var, Expr] = {
        loop.var: loop.min for loop in loops if loop is not rf_loop and binds(reduced, loop.var)
    }
    empty = [
        c
        for c in conjuncts(realize.predicate)
        if binds([c], rf_loop.var) and not bounds.proves(substitute(c, others))
    ]
    kept = [loop.var for loop in loops if loop is not rf_loop and loop.var not in others]
    if any(binds(empty, var) for var in kept):
        found = (
            f"Under the predicate of {realize.block.name!r} some iterations of {name!r} might "
            "have no term at all in some rows, and their partial results no first value."
        )
        raise fail(DependenceError, "rfactor", func, [realize], found)
    return empty


def _partial_block(
    realize: BlockRealize,
    loops: Sequence[For],
    rf_loop: For,
    update: ReductionUpdate,
    rf_buffer: Buffer,
    axis: int,
    name: str,
    empty: Sequence[Expr],
) -> BlockRealize:
    """The block of partial results. What the conditions ``empty`` leave out is a neutral term, so
    that each partial result has a first value."""
    block = realize.block
    reduced = axis_bindings(realize, ("reduce",))
    factored = Var(f"v{rf_loop.var.name}")
    axes: list[IterVar] = []
    values: list[Expr] = []
    change: dict[Var, Expr] = {}
    for it, value in zip(block.iter_vars, realize.iter_values, strict=True):
        if it.kind == "spatial":
            fresh = Var(it.var.name)
            change[it.var] = fresh
            axes.append(IterVar(fresh, it.dom, "spatial"))
            values.append(value)
    axes.append(IterVar(factored, Range(IntImm(0), rf_loop.extent), "spatial"))
    values.append(rf_loop.var)
    of_loops: dict[Var, Expr] = {rf_loop.var: factored}
    for loop in loops:
        if loop is not rf_loop and binds(reduced, loop.var):
            fresh = Var(f"v{loop.var.name}")
            of_loops[loop.var] = fresh
            axes.append(IterVar(fresh, Range(loop.min, loop.extent), "reduce"))
            values.append(loop.var)
    for it, value in zip(block.iter_vars, realize.iter_values, strict=True):
        if it.kind == "reduce":
            change[it.var] = substitute(value, of_loops)
    indices = [substitute(i, change) for i in update.indices]
    indices.insert(axis, factored)
    point = tuple(indices)
    term = substitute(update.term, change)
    if empty:
        where = conjunction([substitute(c, of_loops) for c in empty])
        term = Call("if_then_else", (where, term, update.identity), term.dtype)
    store = BufferStore(rf_buffer, update.combine(BufferLoad(rf_buffer, point), term), point)
    init = BufferStore(rf_buffer, update.identity, point)
    partial = Block(
        name,
        tuple(axes),
        tuple([substitute(r, change) for r in block.reads if r.buffer is not update.buffer]),
        (point_region(rf_buffer, point),),
        store,
        init=init,
        annotations=tuple([(k, v) for k, v in block.annotations if k != DIM_ALIGN]),
    )
    others = [c for c in conjuncts(realize.predicate) if not any(c is e for e in empty)]
    return BlockRealize(tuple(values), conjunction(others), partial)


def _final_nest(
    realize: BlockRealize,
    loops: Sequence[For],
    rf_loop: For,
    update: ReductionUpdate,
    rf_buffer: Buffer,
    axis: int,
) -> Stmt:
    block = realize.block
    reduced = axis_bindings(realize, ("reduce",))
    kept = [loop for loop in loops if loop is rf_loop or not binds(reduced, loop.var)]
    fresh_loops = {loop.var: Var(loop.var.name) for loop in kept}
    change: dict[Var, Expr] = {}
    axes: list[IterVar] = []
    values: list[Expr] = []
    for it, value in zip(block.iter_vars, realize.iter_values, strict=True):
        if it.kind == "spatial":
            fresh = Var(it.var.name)
            change[it.var] = fresh
            axes.append(IterVar(fresh, it.dom, "spatial"))
            values.append(substitute(value, fresh_loops))
    factored = Var(f"v{rf_loop.var.name}")
    axes.append(IterVar(factored, Range(IntImm(0), rf_loop.extent), "reduce"))
    values.append(fresh_loops[rf_loop.var])
    indices = tuple([substitute(i, change) for i in update.indices])
    source = list(indices)
    source.insert(axis, factored)
    store = BufferStore(
        update.buffer,
        update.combine(BufferLoad(update.buffer, indices), BufferLoad(rf_buffer, tuple(source))),
        indices,
    )
    final = Block(
        block.name,
        tuple(axes),
        (point_region(rf_buffer, source),),
        (point_region(update.buffer, indices),),
        store,
        init=BufferStore(update.buffer, update.identity, indices),
        annotations=tuple([(k, v) for k, v in block.annotations if k == DIM_ALIGN]),
    )
    # An element has partial results where the block ran with its reduce loops at their beginning.
    first: dict[Var, Expr] = {loop.var: loop.min for loop in loops if loop.var not in fresh_loops}
    bounds = loop_bounds(kept)
    begun = [
        simplify_condition(substitute(c, first), bounds)
        for c in conjuncts(realize.predicate)
        if not any(n is rf_loop.var for n in walk(c))
    ]
    conditions = [substitute(c, fresh_loops) for c in begun if not bounds.proves(c)]
    nest: Stmt = BlockRealize(tuple(values), conjunction(conditions), final)
    for loop in reversed(kept):
        nest = For(fresh_loops[loop.var], loop.min, loop.extent, "serial", nest)
    return nest
