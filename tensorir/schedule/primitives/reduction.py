"""decompose_reduction and rfactor: rewrites of reduction blocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ....support.errors import DependenceError, NotReductionBlockError, ScheduleValueError
from ....support.node import replace, walk
from ...analysis.affine import loop_bounds, undetermined
from ...analysis.hidden_accesses import require_declared
from ...analysis.paths import (
    Nested,
    Path,
    all_loops_above,
    as_update,
    axis_bindings,
    binds,
    block_names,
    blocks_below,
    conjunction,
    conjuncts,
    fail,
    find_block,
    find_loop,
    fresh_name,
    loop_of,
    loops_above,
    realize_of,
    rebuild,
    require_ancestor,
    require_reduction,
    scope_path,
    simplify_condition,
    with_body,
)
from ...analysis.region_cover import apart
from ...analysis.structure import ReductionUpdate, match_update
from ...arith import infer_regions
from ...buffer import Buffer, BufferRegion, Range
from ...dim_align import DIM_ALIGN
from ...expr import BufferLoad, Expr, IntImm, Var, is_const
from ...function import PrimFunc
from ...stmt import Block, BlockRealize, BufferStore, For, IterVar, Stmt, seq
from ...visitor import substitute
from ..arguments import require_int
from .annotate import buffer_names
from .merge import LoopOrder


# -- decompose_reduction ---------------------------------------------------------------------------
@dataclass(slots=True)
class Decomposed:
    """The new function, and the names of its init and update blocks."""

    func: PrimFunc
    init: str
    update: str


def decompose_reduction(
    func: PrimFunc, block_name: str, loop_var: Var, *, checks: bool = True
) -> Decomposed:
    """Split the init of a reduction off, into a block of its own directly before a loop.

    ``for k, j: C (init, update)`` becomes ``for j_init: C_init`` and ``for k, j: C_update``. The
    init has copies of the spatial loops at and below the loop. All reduce loops must be at or below
    it, and no loop there may repeat an instance of the block, which would add its term again.
    """
    path = find_block(func, block_name, "decompose_reduction")
    realize = realize_of(path)
    block = realize.block
    require_reduction(func, block, "decompose_reduction")
    require_ancestor(func, path, loop_var, "decompose_reduction")
    loops = loops_above(path)
    at = next(i for i, loop in enumerate(loops) if loop.var is loop_var)
    reduce_values = axis_bindings(realize, ("reduce",))
    spatial_values = axis_bindings(realize, ("spatial",))
    for loop in loops[:at]:
        if binds(reduce_values, loop.var):
            raise fail(
                DependenceError,
                "decompose_reduction",
                func,
                [loop],
                f"The loop {loop.var.name!r} runs over a reduce axis and stands outside of "
                f"{loop_var.name!r}: the init would run once for each of its iterations. Choose "
                f"{loop.var.name!r} or a loop further out.",
            )
    if checks:
        _require_separate(func, realize, loops[at:], spatial_values, reduce_values)
        _require_guard_known(func, realize, loops[:at], loops[at:], spatial_values)
        require_once(func, realize, loops[at:], "decompose_reduction")
        _require_init_may_come_first(func, path, loops[at:], all_loops_above(path))
    init_loops = [loop for loop in loops[at:] if binds(spatial_values, loop.var)]
    names = set(block_names(func))
    init_name = fresh_name(names, f"{block.name}_init")
    update_name = fresh_name(names, f"{block.name}_update")
    init = _init_nest(realize, init_loops, init_name, loops[at:])
    update = replace(as_update(block), name=update_name)
    body = rebuild(path, replace(realize, block=update))
    changed = with_body(func, body)
    new_path: list[Stmt] = []
    for s in find_block(changed, update_name, "decompose_reduction"):
        new_path.append(s)
        if isinstance(s, For) and s.var is loop_var:
            break
    top = new_path[-1]
    return Decomposed(
        with_body(func, rebuild(tuple(new_path), seq(init, top))), init_name, update_name
    )


def _require_separate(
    func: PrimFunc,
    realize: BlockRealize,
    loops: Sequence[For],
    spatial: Sequence[Expr],
    reduced: Sequence[Expr],
) -> None:
    for loop in loops:
        if binds(spatial, loop.var) and binds(reduced, loop.var):
            found = (
                f"The loop {loop.var.name!r} runs over a spatial and a reduce axis of "
                f"{realize.block.name!r} at once; split them apart first."
            )
            raise fail(DependenceError, "decompose_reduction", func, [loop], found)
    inner_reduce = {id(v.var) for v in loops if binds(reduced, v.var)}
    for c in conjuncts(realize.predicate):
        used = {id(n) for n in walk(c) if isinstance(n, Var)}
        spatial_inner = {id(v.var) for v in loops if binds(spatial, v.var)}
        if used & inner_reduce and used & spatial_inner:
            found = f"A predicate of {realize.block.name!r} joins spatial and reduce loops."
            raise fail(DependenceError, "decompose_reduction", func, [realize], found)


def _require_guard_known(
    func: PrimFunc,
    realize: BlockRealize,
    outer: Sequence[For],
    below: Sequence[For],
    spatial: Sequence[Expr],
) -> None:
    """The init has the conditions on its own loops; one on these and on loops that it does not have
    could leave iterations of the outer loops to the init alone, which would undo the update. Not
    where it always holds at the beginning of the loops that the init does not have."""
    first: dict[Var, Expr] = {v.var: v.min for v in below if not binds(spatial, v.var)}
    lost = {id(v) for v in first}
    around = {id(loop.var) for loop in outer if not is_const(loop.extent, 1)}
    bounds = loop_bounds([*outer, *below])
    for c in conjuncts(realize.predicate):
        used = {id(n) for n in walk(c) if isinstance(n, Var)}
        if used & lost and used & around and not bounds.proves(substitute(c, first)):
            found = (
                f"A predicate of {realize.block.name!r} is about loops outside of the init and "
                "loops that only the update has, so that the init might run without it."
            )
            raise fail(DependenceError, "decompose_reduction", func, [realize], found)


def _require_init_may_come_first(
    func: PrimFunc, path: Path, loops: Sequence[For], above: Sequence[For]
) -> None:
    """No other block below the loop uses an element before its init in the old order, or writes
    what the init reads: in the new order all inits come first."""
    realize = realize_of(path)
    block = realize.block
    assert block.init is not None
    require_declared(func, loops[0], "decompose_reduction", [w.buffer for w in block.writes])
    nested = blocks_below(loops[0])
    reads, _ = infer_regions(block.init, None, block.iter_vars)
    used = {id(r.buffer) for r in (*reads, *block.writes)}
    first = replace(block, reads=tuple(reads), body=block.init, init=None)
    own = next(i for i, n in enumerate(nested) if n.block is block)
    for i, n in enumerate(nested):
        if i == own or all(id(r.buffer) not in used for r in (*n.block.reads, *n.block.writes)):
            continue
        shared = [loop for loop in n.loops if any(loop is x for x in loops)]
        order = LoopOrder([x for x in above if all(x is not y for y in loops)], shared)
        inner = [x for x in loops if all(x is not y for y in shared)]
        init = Nested(replace(realize, block=first), inner, [])
        other = Nested(n.realize, n.loops[len(shared) :], n.conditions)
        for a in order.touches(init):
            for b in order.touches(other):
                if a.region.buffer is not b.region.buffer or not (a.written or b.written):
                    continue
                bounds = loop_bounds([*order.fixed, *inner, *other.loops])
                now = i > own or apart(a.box, b.box, bounds)
                if not (now and order.are_apart(a, b)):
                    found = (
                        f"{n.block.name!r} uses {a.region.buffer.name!r} below the loop "
                        f"{loops[0].var.name!r}, perhaps before {block.name!r} begins with the "
                        "same element; before the loop its init would come too early. Choose a "
                        "loop further in."
                    )
                    raise fail(DependenceError, "decompose_reduction", func, [n.block], found)


def require_once(
    func: PrimFunc, realize: BlockRealize, loops: Sequence[For], primitive: str
) -> None:
    """Raises DependenceError where the loops might run an instance of the block more than once."""
    name = realize.block.name
    repeated = undetermined(realize.iter_values, loop_bounds(loops))
    if repeated is None:
        found = (
            f"It cannot be proved that the loops run each instance of {name!r} once: its bindings "
            "are not an affine map of them."
        )
        raise fail(DependenceError, primitive, func, [realize], found)
    for loop in loops:
        if any(v is loop.var for v in repeated):
            found = (
                f"The loop {loop.var.name!r} runs {name!r} several times for the same elements, "
                "as compute_at made it: terms would be added more than once. Do this before "
                "compute_at, or name a loop further in."
            )
            raise fail(DependenceError, primitive, func, [loop], found)


def _init_nest(
    realize: BlockRealize, loops: Sequence[For], name: str, below: Sequence[For]
) -> Stmt:
    block = realize.block
    assert block.init is not None
    fresh_loops = {loop.var: Var(f"{loop.var.name}_init") for loop in loops}
    skipped = {id(loop.var) for loop in below if loop.var not in fresh_loops}
    pairs = [
        (it, value)
        for it, value in zip(block.iter_vars, realize.iter_values, strict=True)
        if it.kind == "spatial"
    ]
    fresh_axes = {it.var: Var(it.var.name) for it, _ in pairs}
    predicate = conjunction(
        [
            substitute(c, fresh_loops)
            for c in conjuncts(realize.predicate)
            if not any(id(n) in skipped for n in walk(c))
        ]
    )
    axes = tuple([IterVar(fresh_axes[it.var], it.dom, it.kind) for it, _ in pairs])
    body = substitute(block.init, fresh_axes)
    init = Block(
        name,
        axes,
        tuple(infer_regions(body, None, axes)[0]),
        tuple([substitute(w, fresh_axes) for w in block.writes]),
        body,
        annotations=block.annotations,
    )
    nest: Stmt = BlockRealize(
        tuple([substitute(v, fresh_loops) for _, v in pairs]), predicate, init
    )
    for loop in reversed(loops):
        nest = For(
            fresh_loops[loop.var],
            substitute(loop.min, fresh_loops),
            substitute(loop.extent, fresh_loops),
            loop.kind,
            nest,
            loop.thread,
            loop.annotations,
        )
    return nest


# -- rfactor ---------------------------------------------------------------------------------------
@dataclass(slots=True)
class Factored:
    """The new function, and the names of the partial and the final block."""

    func: PrimFunc
    partial: str
    final: str


def rfactor(func: PrimFunc, loop_var: Var, factor_axis: int) -> Factored:
    """Make a reduce loop spatial: partial results in a buffer with one more dimension, then a final
    reduction over that.

    ``B[i] += A[i, k]`` with ``k = k_0 * 4 + k_1`` and the loop ``k_1`` becomes ``B_rf[k_1, i] +=
    A[i, k_0 * 4 + k_1]`` and ``B[i] += B_rf[k_1, i]``. The partial block keeps the loops; the final
    one, which keeps the block's name and the alignment of its buffer, follows the whole nest, or
    the part of it that nobody else who uses the buffer stands in.
    ``factor_axis`` is the place of the new dimension; negative counts from the end.
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
            f"The update of {block.name!r} is not one of sum, prod, max, min of its own "
            "element and a term, "
            "beginning with the neutral element, so its terms may not be regrouped."
        )
        raise fail(NotReductionBlockError, "rfactor", func, [block], found)
    ndim = len(update.buffer.shape)
    factor_axis = require_int(factor_axis, "factor_axis", "rfactor")
    axis = factor_axis + ndim + 1 if factor_axis < 0 else factor_axis
    if not 0 <= axis <= ndim:
        raise ScheduleValueError(
            "rfactor", f"factor_axis must be from {-ndim - 1} to {ndim}; found {factor_axis}."
        )
    _require_factorable(func, realize, loops, rf_loop)
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
    partial = _partial_block(realize, loops, rf_loop, update, rf_buffer, axis, rf_name)
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
    holder = scope[-1]
    assert isinstance(holder, Block)
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
        raise fail(
            DependenceError,
            "rfactor",
            func,
            [path[-1]],
            f"Expected one block below the loop {loop_var.name!r}; found {names}.",
        )
    return nested[0].block.name


def _require_own_extent(func: PrimFunc, loops: Sequence[For], rf_loop: For) -> None:
    own = {id(loop.var) for loop in loops}
    if any(isinstance(n, Var) and id(n) in own for n in walk(rf_loop.extent)):
        found = f"The extent of {rf_loop.var.name!r} depends on another loop."
        raise fail(DependenceError, "rfactor", func, [rf_loop], found)


def _require_factorable(
    func: PrimFunc, realize: BlockRealize, loops: Sequence[For], rf_loop: For
) -> None:
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
    for c in conjuncts(realize.predicate):
        if binds([c], rf_loop.var) and not bounds.proves(substitute(c, others)):
            found = (
                f"Under the predicate of {realize.block.name!r} some iterations of {name!r} might "
                "have no term at all, and their partial results no first value."
            )
            raise fail(DependenceError, "rfactor", func, [realize], found)


def _partial_block(
    realize: BlockRealize,
    loops: Sequence[For],
    rf_loop: For,
    update: ReductionUpdate,
    rf_buffer: Buffer,
    axis: int,
    name: str,
) -> BlockRealize:
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
    return BlockRealize(tuple(values), realize.predicate, partial)


def point_region(buffer: Buffer, indices: Sequence[Expr]) -> BufferRegion:
    """The region of one element."""
    return BufferRegion(buffer, tuple([Range(i, IntImm(1)) for i in indices]))


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
