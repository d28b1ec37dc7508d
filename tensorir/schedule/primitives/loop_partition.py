"""loop_partition: cutting a loop into consecutive ranges, each with its own copy of the body.

``for i in range(m)`` with ``[m // 8 * 8, None]`` becomes ``for i_p0 in range(m // 8 * 8)`` over the
body and ``for i_p1 in range(m - m // 8 * 8)`` over a copy of it with ``i_p1 + m // 8 * 8``. Every
part can then be scheduled by itself: the first without predicates, the rest small. Blocks of the
copies are called ``name_1``, ``name_2``, ...

An intermediate buffer whose uses fall apart into groups that share no element is given once to each
group, so that each part can keep its own in a small place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

from ....support.errors import DependenceError, ScheduleValueError
from ....support.node import map_children, replace
from ....support.structural import structural_equal
from ...analysis.affine import Bounds, loop_bounds
from ...analysis.block_kinds import as_update, axis_bindings, binds
from ...analysis.buffers import buffer_names
from ...analysis.hidden_accesses import require_declared
from ...analysis.loop_checks import require_plain_serial
from ...analysis.nested_blocks import blocks_below, map_outer_realizes, scope_blocks
from ...analysis.paths import (
    Path,
    all_loops_above,
    block_names,
    find_block,
    find_loop,
    fresh_name,
    loop_of,
    path_below,
    realize_of,
    rebuild,
    scope_of,
    scope_path,
    with_body,
)
from ...analysis.preconditions import fail
from ...analysis.region_cover import Whole, apart, whole_boxes
from ...arith.linear import offset_of
from ...buffer import Buffer, Range
from ...expr import INDEX, Expr, FloorDiv, IntImm, Let, Var, add, as_expr, mul, sub
from ...function import PrimFunc
from ...stmt import Allocate, Block, For, LetStmt, Stmt, seq
from ...visitor import Mutator, free_vars, replace_buffers, substitute
from ..primitive import INPUT, LOOP, LOOPS, primitive
from ..state import IntLike, ScheduleState
from ..trace.handles import LoopHandle, LoopRV
from .split import render_factors


class LoopPartition(ScheduleState):
    @primitive(LOOPS, loop=LOOP, factors=INPUT)
    def loop_partition(self, loop: LoopRV, factors: Sequence[IntLike | None]) -> list[LoopRV]:
        """Cut a loop into consecutive ranges, each with a copy of the body; gives a loop for each.

        ``factors`` are the extents of the parts, ints or expressions of symbolic dimensions; one
        may be None for what the others leave. Where they make less than the loop, the rest is one
        more part. Blocks of the second and later parts are called
        ``name_1``, ``name_2``, ... A part that does not begin a reduction has the update alone. An
        intermediate buffer of which the parts use different elements becomes one buffer a part.

        Requires:

        - a serial loop from 0, without annotations (LoopKindError);
        - at least one extent, of which one may be None; each provably from 0 to what remains
          (ScheduleValueError);
        - for a loop over a reduce axis, that it is known which part comes first; intermediate
          buffers that only blocks use (DependenceError).

        Before::

            @T.prim_func
            def main(A: T.Buffer((30,), "float32"), B: T.Buffer((30,), "float32")):
                for i in range(30):
                    with T.block("B"):
                        vi = T.axis.spatial(30, i)
                        B[vi] = A[vi] + T.float32(1)

        Schedule::

            (i,) = sch.get_loops("B")
            whole, rest = sch.loop_partition(i, [24, None])

        After::

            @T.prim_func
            def main(A: T.Buffer((30,), "float32"), B: T.Buffer((30,), "float32")):
                for i_p0 in range(24):
                    with T.block("B"):
                        vi = T.axis.spatial(30, i_p0)
                        B[vi] = A[vi] + T.float32(1)
                for i_p1 in range(6):
                    with T.block("B_1"):
                        vi = T.axis.spatial(30, i_p1 + 24)
                        B[vi] = A[vi] + T.float32(1)
        """
        resolved = self._factors(factors, "loop_partition")
        done = loop_partition(self._functions[loop.func_name], loop.var, resolved)
        self._commit(loop.func_name, done.func)
        return [LoopHandle(v, loop.func_name) for v in done.loops]


@dataclass(slots=True)
class Partitioned:
    """The new function and the loop of each part, in order."""

    func: PrimFunc
    loops: list[Var]


def loop_partition(func: PrimFunc, var: Var, factors: Sequence[int | Expr | None]) -> Partitioned:
    """Cut a loop into consecutive ranges of the given extents, of which one may be None.

    Extents may be expressions of symbolic dimensions. Each must be provably from 0 up to what
    remains of the loop. What all of them leave is a part of its own.
    """
    path = find_loop(func, var, "loop_partition")
    loop = loop_of(path)
    require_plain_serial(func, loop, "loop_partition")
    bounds = loop_bounds(all_loops_above(path))
    extents = _extents(func, loop, factors)
    scope = scope_of(path)
    # Buffers are given to the parts by the regions of blocks: nothing else may use them.
    require_declared(func, scope.body, "loop_partition", scope.alloc_buffers)
    taken = set(block_names(func))
    outer = {*func.shape_vars, *bounds.ranges, *_axes_and_views(path)}
    parts: list[Stmt] = []
    loops: list[Var] = []
    offset: Expr = IntImm(0)
    for i, extent in enumerate(extents):
        part_var = Var(f"{var.name}_p{i}")
        body = loop.body if i == 0 else _copy(loop.body, taken, outer)
        inner = [below for n in blocks_below(body) for below in n.loops]
        part = For(part_var, IntImm(0), extent, "serial", body)
        known = bounds | loop_bounds([part, *inner])
        body = map_outer_realizes(body, {var: known.simplify(add(part_var, offset))}, known, None)
        if i:
            body = _continue_reductions(func, loop, body, part_var, known)
        parts.append(For(part_var, IntImm(0), extent, "serial", body))
        loops.append(part_var)
        offset = bounds.simplify(add(offset, extent))
    changed = with_body(func, rebuild(path, seq(*parts)))
    scope_name = realize_of(scope_path(path)[:-1]).block.name
    return Partitioned(_separate_buffers(changed, scope_name), loops)


def _axes_and_views(path: Path) -> Iterator[Var]:
    """The axes of the blocks on a path, and the variables that their views bring along."""
    for s in path:
        if isinstance(s, Block):
            yield from (it.var for it in s.iter_vars)
            for m in s.match_buffers:
                yield from free_vars([*m.buffer.strides, m.buffer.elem_offset])


def _continue_reductions(func: PrimFunc, loop: For, body: Stmt, part: Var, bounds: Bounds) -> Stmt:
    """A later part of a reduce loop never runs the init: its blocks become updates."""
    for n in blocks_below(body):
        reduced = axis_bindings(n.realize, ("reduce",))
        if n.block.init is None or not binds(reduced, part):
            continue
        known = bounds | loop_bounds(n.loops)
        pairs = zip(n.block.iter_vars, n.realize.iter_values, strict=True)
        if not any(
            it.kind == "reduce" and known.proves_le(add(it.dom.min, 1), value)
            for it, value in pairs
        ):
            found = (
                f"The loop {loop.var.name!r} runs over a reduce axis of {n.block.name!r}, and "
                "which part comes first depends on the sizes; decompose_reduction first."
            )
            raise fail(DependenceError, "loop_partition", func, [loop], found)
        path = path_below(body, n.realize)
        body = rebuild(path, replace(n.realize, block=as_update(n.block)))
    return body


def _extents(func: PrimFunc, loop: For, factors: Sequence[int | Expr | None]) -> list[Expr]:
    bounds = loop_bounds([loop])
    if not factors or sum(f is None for f in factors) > 1:
        raise ScheduleValueError(
            "loop_partition",
            f"Expected extents, of which one may be None; found {render_factors(factors)}.",
        )
    given = [f for f in factors if f is not None]
    total: Expr = IntImm(0)
    for f in given:
        total = bounds.simplify(add(total, f))
    missing = bounds.simplify(sub(loop.extent, total))
    parts: list[int | Expr] = [missing if f is None else f for f in factors]
    if len(given) == len(factors) and not bounds.proves_equal(total, loop.extent):
        parts.append(missing)
    used: Expr = IntImm(0)
    extents: list[Expr] = []
    named, known = _as_a_dim(func, loop, bounds)
    for part in parts:
        rest, given_part = sub(loop.extent, used), as_expr(part)
        if not _lies_within(given_part, rest, bounds) and not _lies_within(
            named.visit(given_part), named.visit(rest), known
        ):
            found = (
                f"It cannot be proved that part {len(extents)} of {render_factors(factors)} lies "
                f"within the loop {loop.var.name!r}."
            )
            raise fail(ScheduleValueError, "loop_partition", func, [loop], found)
        extents.append(bounds.simplify(given_part))
        used = add(used, given_part)
    return extents


def _lies_within(part: Expr, rest: Expr, bounds: Bounds) -> bool:
    part = bounds.simplify(part)
    return bounds.proves_le(IntImm(0), part) and bounds.proves_le(part, bounds.simplify(rest))


def _as_a_dim(func: PrimFunc, loop: For, bounds: Bounds) -> tuple[_Named, Bounds]:
    """What makes expressions over a loop's extent ones over a variable, and what is known of that,
    where the extent is the size of a dimension of a parameter, as ``n - 2`` or ``(n - 3) // 2 + 1``
    of what windows leave: such a size is not negative, whatever is known of ``n``, which is said
    by the size, and by what a division leaves."""
    extent = bounds.simplify(loop.extent)
    sizes = [d for p in func.buffers for d in p.shape if not isinstance(d, IntImm | Var)]
    if not any(structural_equal(bounds.simplify(d), extent) for d in sizes):
        return _Named({}), bounds
    size, rest = Var("size", INDEX), Var("rest", INDEX)
    ranges = {loop.var: Range(IntImm(0), size)}
    names: dict[Expr, Expr] = {loop.extent: size}
    core, more = offset_of(extent)
    whole = sub(size, IntImm(more))
    if isinstance(core, Var):
        names[core] = whole
    elif isinstance(core, FloorDiv) and isinstance(core.b, IntImm):
        dim, offset = offset_of(core.a)
        if isinstance(dim, Var):
            names[dim] = add(sub(mul(whole, core.b), IntImm(offset)), rest)
            ranges[rest] = Range(IntImm(0), core.b)
    return _Named(names), Bounds(ranges)


class _Named(Mutator):
    """Expressions under other names, wherever they stand."""

    def __init__(self, names: Mapping[Expr, Expr]) -> None:
        self.names = names

    def visit(self, n: Any) -> Any:
        for known, name in self.names.items():
            if n is known or (type(n) is type(known) and structural_equal(n, known)):
                return name
        return super().visit(n)


class _Copy(Mutator):
    """A copy that binds its own variables, with fresh names of blocks."""

    def __init__(self, taken: set[str], outer: Set[Var]) -> None:
        self.taken, self.outer = taken, outer
        self.names: dict[Var, Var] = {}
        self.buffers: dict[Buffer, Buffer] = {}

    def _bind(self, v: Var) -> Var:
        return self.names.setdefault(v, Var(v.name, v.dtype))

    def visit_Var(self, n: Var) -> Var:  # noqa: N802
        return self.names.get(n, n)

    def visit_Buffer(self, n: Buffer) -> Buffer:  # noqa: N802
        return self.buffers.get(n, n)

    def visit_For(self, n: For) -> Stmt:  # noqa: N802
        self._bind(n.var)
        return map_children(n, self.visit)

    def visit_LetStmt(self, n: LetStmt) -> Stmt:  # noqa: N802
        self._bind(n.var)
        return map_children(n, self.visit)

    def visit_Let(self, n: Let) -> Expr:  # noqa: N802
        self._bind(n.var)
        return map_children(n, self.visit)

    def visit_Allocate(self, n: Allocate) -> Stmt:  # noqa: N802
        self.buffers[n.buffer] = replace_identity(n.buffer)
        return map_children(n, self.visit)

    def visit_Block(self, n: Block) -> Block:  # noqa: N802
        for it in n.iter_vars:
            self._bind(it.var)
        for b in n.alloc_buffers:
            self.buffers[b] = replace_identity(b)
        for m in n.match_buffers:
            layout = (*m.buffer.strides, m.buffer.elem_offset)
            for v in free_vars(layout):
                if v not in self.names and v not in self.outer:
                    self._bind(v)  # a stride or offset that the view brings along
            self.buffers[m.buffer] = replace(
                replace_identity(m.buffer),
                strides=tuple([substitute(s, self.names) for s in m.buffer.strides]),
                elem_offset=substitute(m.buffer.elem_offset, self.names),
            )
        name = fresh_name(self.taken, n.name)
        self.taken.add(name)
        return replace(map_children(n, self.visit), name=name)


def replace_identity(b: Buffer) -> Buffer:
    """A new buffer like another."""
    return Buffer(b.name, b.shape, b.dtype, b.scope, b.strides, b.elem_offset, b.alignment)


def _copy(s: Stmt, taken: set[str], outer: Set[Var]) -> Stmt:
    """A copy that binds variables, buffers and block names of its own; ``outer`` are the
    variables that stand for the same in both."""
    result: Stmt = _Copy(taken, outer).visit(s)
    return result


def _separate_buffers(func: PrimFunc, scope_name: str) -> PrimFunc:
    """Give each group of blocks that shares no element of an intermediate buffer with the others a
    buffer of its own."""
    scope_realize = realize_of(find_block(func, scope_name, "loop_partition"))
    nested = scope_blocks(scope_realize.block)
    changed = func
    added: list[Buffer] = []
    for buffer in scope_realize.block.alloc_buffers:
        users = [
            n.block.name
            for n in nested
            if any(r.buffer is buffer for r in (*n.block.reads, *n.block.writes))
        ]
        for group in _groups(func, users, buffer)[1:]:
            name = fresh_name(buffer_names(changed) | {b.name for b in added}, buffer.name)
            new = replace(buffer, name=name)
            added.append(new)
            for user in group:
                path = find_block(changed, user, "loop_partition")
                realize = realize_of(path)
                block = replace_buffers(realize.block, {buffer: new})
                changed = with_body(changed, rebuild(path, replace(realize, block=block)))
    if not added:
        return changed
    path = find_block(changed, scope_name, "loop_partition")
    realize = realize_of(path)
    block = replace(realize.block, alloc_buffers=(*realize.block.alloc_buffers, *added))
    return with_body(changed, rebuild(path, replace(realize, block=block)))


def _groups(func: PrimFunc, users: Sequence[str], buffer: Buffer) -> list[list[str]]:
    """The users of a buffer, joined where their boxes may meet, in program order."""
    if len(users) < 2:
        return [[name] for name in users]
    boxes = {name: whole_boxes(find_block(func, name, "loop_partition"), buffer) for name in users}
    groups: list[list[str]] = []
    for name in users:
        meeting = [g for g in groups if any(_meet(boxes, name, other) for other in g)]
        joined = [n for g in meeting for n in g] + [name]
        groups = [g for g in groups if not any(g is m for m in meeting)]
        groups.append(joined)
    order = {name: i for i, name in enumerate(users)}
    for g in groups:
        g.sort(key=lambda n: order[n])
    groups.sort(key=lambda g: order[g[0]])
    return groups


def _meet(boxes: dict[str, list[Whole]], a: str, b: str) -> bool:
    return any(not apart(x.box, y.box, x.bounds | y.bounds) for x in boxes[a] for y in boxes[b])
