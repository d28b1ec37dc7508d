"""rfactor: partial results of a reduction, and their sum."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ....support.errors import DependenceError, NotReductionBlockError, ScheduleValueError
from ....support.node import replace, walk
from ...analysis.affine import Bounds, loop_bounds
from ...analysis.block_kinds import axis_bindings, binding_map, binds
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
from ...analysis.structure import match_update
from ...analysis.tuple_update import (
    Combination,
    NoCombination,
    as_combination,
    match_tuple_update,
)
from ...arith import point_region
from ...buffer import Buffer, Range
from ...dim_align import DIM_ALIGN
from ...expr import BufferLoad, Call, Cast, Expr, IntImm, Var, add, is_const, sub
from ...function import PrimFunc
from ...stmt import Block, BlockRealize, BufferStore, For, IterVar, LetStmt, Stmt, seq
from ...visitor import has_load, substitute
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

        Of equal elements an argmax keeps the one that it kept before. Where its condition looks at
        the index too (``x[1] > y[1] or (x[1] == y[1] and x[0] < y[0])``: the lowest of equal ones)
        any regrouping does; where it does not (``x[1] >= y[1]``: the first), partial results are
        compared by the index as well, which must grow with the reduce loops as they stand, and
        begin below 0 (NotReductionBlockError).

        With a NaN among the elements, ``x[1] >= y[1]`` is not associative: what is found then
        depends on how the terms are grouped, and changes with the grouping. Nothing can tell
        beforehand, so this is not refused. A condition that asks for NaN has an order with it, and
        finds the same: ``isnan(x[1]) or x[1] >= y[1]`` the first NaN, ``isnan(y[1]) or
        x[1] >= y[1]`` (the value chosen by it too) the greatest of the numbers.

        Requires:

        - a reduction block whose update is a sum, product, max or min of its own element and a
          term, beginning with the neutral element; or of several values together, each such an
          update, or all of them chosen by a condition that compares own elements with terms, and
          may ask whether they are NaN, an order of all tuples (NotReductionBlockError);
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
    update = _combination(func, block)
    ndims = {len(b.shape) for b in update.buffers}
    if len(ndims) > 1:
        names = ", ".join(repr(b.name) for b in update.buffers)
        found = f"The buffers {names} have different numbers of dimensions."
        raise fail(NotReductionBlockError, "rfactor", func, [block], found)
    ndim = ndims.pop()
    factor_axis = require_int(factor_axis, "factor_axis", "rfactor")
    axis = factor_axis + ndim + 1 if factor_axis < 0 else factor_axis
    if not 0 <= axis <= ndim:
        raise ScheduleValueError(
            "rfactor", f"factor_axis must be from {-ndim - 1} to {ndim}; found {factor_axis}."
        )
    empty = _require_factorable(func, realize, loops, rf_loop)
    rf_name = fresh_name(set(block_names(func)), f"{block.name}_rf")
    finish = _finish(func, realize, loops, update)
    rf_buffers = _partial_buffers(func, update, rf_loop, axis)
    partial = _partial_block(realize, loops, rf_loop, update, rf_buffers, axis, rf_name, empty)
    nests = [_own_nest(func, realize, loops, b) for b in update.buffers]
    own = min(nests, key=len)
    final = _final_nest(realize, own, rf_loop, update, finish, rf_buffers, axis)
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
    grown = replace(holder, alloc_buffers=(*holder.alloc_buffers, *rf_buffers))
    return Factored(with_body(changed, rebuild(scope, grown)), rf_name, block.name)


def _combination(func: PrimFunc, block: Block) -> Combination:
    """How two results of the block combine; raises NotReductionBlockError where they may not."""
    update = match_update(block)
    if update is not None:
        return as_combination(update)
    if isinstance(block.body, BufferStore):
        found = (
            f"The update of {block.name!r} is not one of sum, prod, max, min of its own element "
            "and a term, beginning with the neutral element, so its terms may not be regrouped."
        )
        raise fail(NotReductionBlockError, "rfactor", func, [block], found)
    try:
        return match_tuple_update(block)
    except NoCombination as why:
        found = f"The terms of {block.name!r} may not be regrouped: {why}."
        raise fail(NotReductionBlockError, "rfactor", func, [block], found) from None


def _finish(
    func: PrimFunc, realize: BlockRealize, loops: Sequence[For], update: Combination
) -> Callable[[Sequence[Expr], Sequence[Expr]], list[Expr]]:
    """How partial results combine: as terms do, and where these leave ties open, in the order of
    the program, which some value must tell."""
    if update.choice is None:
        return update.combine
    reduced = axis_bindings(realize, ("reduce",))
    inner = [loop for loop in loops if binds(reduced, loop.var)]
    bounds = loop_bounds(loops)
    for place in sorted(update.choice.chosen):
        grows = _grows(update.terms[place], realize, inner, bounds)
        first = update.identities[place]
        if grows is None or not isinstance(first, IntImm):
            continue
        # What it begins with comes before all terms.
        ends = {x.var: x.min if grows else add(x.min, sub(x.extent, 1)) for x in inner}
        least = substitute(_place_of(update.terms[place], realize), ends)
        ahead = (IntImm(first.value + 1), least) if grows else (least, IntImm(first.value - 1))
        if bounds.proves_le(*ahead):
            return update.finish(place, grows=grows)
    which = "first" if update.choice.keeps_first else "last"
    found = (
        f"Of equal terms {realize.block.name!r} keeps the {which} one, and none of its values "
        "tells their order: a value that is chosen must grow with the reduce loops as they stand, "
        "and begin below. Compare the index as well where elements are equal: x[1] > y[1] or "
        "(x[1] == y[1] and x[0] < y[0])."
    )
    raise fail(NotReductionBlockError, "rfactor", func, [realize.block], found)


def _place_of(term: Expr, realize: BlockRealize) -> Expr:
    """A term as an index over loops."""
    while isinstance(term, Cast) and term.value.dtype.is_integer:
        term = term.value
    return substitute(term, binding_map(realize))


def _grows(term: Expr, realize: BlockRealize, loops: Sequence[For], bounds: Bounds) -> bool | None:
    """Whether a term grows from each iteration of the reduce loops to the next, or falls; None
    where it does neither."""
    if not term.dtype.is_integer or has_load(term):
        return None
    form = bounds.linear(_place_of(term, realize))
    if any(not isinstance(a, Var) for a in form.terms):
        return None
    span, signs = 0, set()
    for loop in reversed(loops):
        k = form.terms.get(loop.var, 0)
        if is_const(loop.extent, 1):
            continue
        if abs(k) <= span or (loop is not loops[0] and not isinstance(loop.extent, IntImm)):
            return None
        signs.add(k > 0)
        if isinstance(loop.extent, IntImm):
            span += abs(k) * (loop.extent.value - 1)
    return signs.pop() if len(signs) == 1 else None


def _partial_buffers(func: PrimFunc, update: Combination, rf_loop: For, axis: int) -> list[Buffer]:
    """The buffers of partial results, with one more dimension."""
    taken = set(buffer_names(func))
    made: list[Buffer] = []
    for b in update.buffers:
        shape = [*b.shape[:axis], rf_loop.extent, *b.shape[axis:]]
        name = fresh_name(taken, f"{b.name}_rf")
        taken.add(name)
        made.append(replace(b, name=name, shape=tuple(shape), strides=(), scope="global"))
    return made


def _stored(
    buffers: Sequence[Buffer], indices: Sequence[tuple[Expr, ...]], values: Sequence[Expr]
) -> Stmt:
    """The stores of several values, all of which are computed before."""
    if len(buffers) == 1:
        return BufferStore(buffers[0], values[0], indices[0])
    names = [Var(f"v_{b.name}", b.dtype) for b in buffers]
    stores = [BufferStore(b, v, i) for b, v, i in zip(buffers, names, indices, strict=True)]
    made: Stmt = seq(*stores)
    for var, value in reversed(list(zip(names, values, strict=True))):
        made = LetStmt(var, value, made)
    return made


def _begun(
    buffers: Sequence[Buffer], indices: Sequence[tuple[Expr, ...]], values: Sequence[Expr]
) -> Stmt:
    pairs = zip(buffers, values, indices, strict=True)
    return seq(*[BufferStore(b, v, i) for b, v, i in pairs])


def _loaded(buffers: Sequence[Buffer], indices: Sequence[tuple[Expr, ...]]) -> list[Expr]:
    return [BufferLoad(b, i) for b, i in zip(buffers, indices, strict=True)]


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
    update: Combination,
    rf_buffers: Sequence[Buffer],
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
    points = _points(update, change, axis, factored)
    terms = [substitute(t, change) for t in update.terms]
    if empty:
        where = conjunction([substitute(c, of_loops) for c in empty])
        terms = [
            Call("if_then_else", (where, t, first), t.dtype)
            for t, first in zip(terms, update.identities, strict=True)
        ]
    combined = update.combine(_loaded(rf_buffers, points), terms)
    store = _stored(rf_buffers, points, combined)
    init = _begun(rf_buffers, points, update.identities)
    partial = Block(
        name,
        tuple(axes),
        tuple([substitute(r, change) for r in block.reads if r.buffer not in update.buffers]),
        tuple([point_region(b, p) for b, p in zip(rf_buffers, points, strict=True)]),
        store,
        init=init,
        annotations=tuple([(k, v) for k, v in block.annotations if k != DIM_ALIGN]),
    )
    others = [c for c in conjuncts(realize.predicate) if not any(c is e for e in empty)]
    return BlockRealize(tuple(values), conjunction(others), partial)


def _points(
    update: Combination, change: Mapping[Var, Expr], axis: int, factored: Var
) -> list[tuple[Expr, ...]]:
    """The places of the partial results of one element."""
    made = []
    for at in update.indices:
        indices = [substitute(i, change) for i in at]
        made.append(tuple([*indices[:axis], factored, *indices[axis:]]))
    return made


def _final_nest(
    realize: BlockRealize,
    loops: Sequence[For],
    rf_loop: For,
    update: Combination,
    finish: Callable[[Sequence[Expr], Sequence[Expr]], list[Expr]],
    rf_buffers: Sequence[Buffer],
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
    indices = [tuple([substitute(i, change) for i in at]) for at in update.indices]
    sources = _points(update, change, axis, factored)
    made = finish(_loaded(update.buffers, indices), _loaded(rf_buffers, sources))
    store = _stored(update.buffers, indices, made)
    final = Block(
        block.name,
        tuple(axes),
        tuple([point_region(b, p) for b, p in zip(rf_buffers, sources, strict=True)]),
        tuple([point_region(b, p) for b, p in zip(update.buffers, indices, strict=True)]),
        store,
        init=_begun(update.buffers, indices, update.identities),
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
