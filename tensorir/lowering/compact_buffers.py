"""Gives each intermediate buffer its place and only the memory that is live there.

A buffer allocated at the root but produced and consumed under one loop moves below that loop and
keeps the region accessed in one iteration of it; its indices are taken relative to the region's
start. This is what makes the tile of a ``cache_write`` small enough for registers.

A buffer may move below a loop only if each iteration reads nothing it has not written itself, as
far as the region's position depends on the loop: the region read lies in the region written. Its
memory keeps its address from one iteration to the next, so an accumulator under a guarded init
survives. What is written only where a loop stands at one value (a panel packed in its first
iteration) outlives that loop, and so does what the loop's annotation ``lift_allocation`` names.
Runs on simplified loops, before buffers are flattened. A buffer that a block wants aligned gets its
strides here, where its shape is final. One that a called function has a pointer to stays where and
as it is, unless the function keeps to a box and is told the strides that come out.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ...support.errors import CodegenError
from ...support.node import map_children, walk
from ..arith.linear import ZERO, Linear, render
from ..buffer import Buffer
from ..dim_align import DIM_ALIGN, PADDED, Alignment, aligned_strides, is_compact
from ..expr import EQ, INDEX, AccessPtr, BufferLoad, BufferStride, Expr, IntImm, Let, Var
from ..function import PrimFunc
from ..rolling import ROLLING
from ..stmt import (
    LIFTED,
    Allocate,
    BufferStore,
    For,
    IfThenElse,
    LetStmt,
    SeqStmt,
    Stmt,
    annotation,
)
from .scope import Scope


def compact_buffers(func: PrimFunc) -> PrimFunc:
    """``func`` with its ``Allocate``s moved inwards and shrunk."""
    finder = _Accesses(func)
    finder.stmt(func.body)
    if not finder.found:
        return func
    plans = {
        key: _aligned(_plan(u, finder), u.alignment, pinned=u.pinned)
        for key, u in finder.found.items()
    }
    body = _Rewrite(plans, finder.scope).stmt(func.body)
    return PrimFunc(func.params, body, func.attrs, func.name)


@dataclass(slots=True)
class _Access:
    """One load or store: the loops around it and the linear forms of its indices."""

    loops: tuple[For, ...]
    indices: tuple[Linear, ...]
    is_store: bool


@dataclass(slots=True)
class _Uses:
    buffer: Buffer
    depth: int
    """Number of loops around the Allocate."""
    alignment: Alignment
    stays: bool
    """The buffer is circular: its content passes between the iterations below, and so does its
    layout."""
    accesses: list[_Access] = field(default_factory=list)
    pinned: bool = False
    """A called function has a pointer to it."""
    deepest: int | None = None
    """Number of loops that may at most be around the buffer at its new place."""

    def outlives(self, depth: int) -> None:
        """The buffer's content passes between the iterations of the loop at ``depth``."""
        self.deepest = depth if self.deepest is None else min(self.deepest, depth)


@dataclass(slots=True)
class _Plan:
    """Where a buffer goes: below ``loop`` (where it was, if None), as ``buffer``, starting at
    ``mins``."""

    loop: For | None
    buffer: Buffer
    mins: tuple[Linear, ...]
    padded: bool = False


class _Accesses:
    """Finds the accesses of all allocated buffers; outside of all loops again when it is done."""

    def __init__(self, func: PrimFunc) -> None:
        self.scope = Scope()
        self.scope_vars = {id(v) for v in func.shape_vars}
        for var in func.shape_vars:
            self.scope.declare_dim(var)
        self.scope_vars |= {id(p) for p in func.params if isinstance(p, Var)}
        self.loops: list[For] = []
        self.conditions: list[Expr] = []
        self.found: dict[int, _Uses] = {}

    def stmt(self, s: Stmt) -> None:
        match s:
            case For():
                self.expr(s.extent)
                with self.scope.loop(s.var, s.min, s.extent):
                    self.loops.append(s)
                    self.stmt(s.body)
                    self.loops.pop()
            case SeqStmt(stmts):
                for x in stmts:
                    self.stmt(x)
            case Allocate(buffer, body):
                entries: list[list[int]] = annotation(s, DIM_ALIGN, [])
                alignment = {axis: (factor, offset) for axis, factor, offset in entries}
                stays = annotation(s, ROLLING, False)
                self.found[id(buffer)] = _Uses(buffer, len(self.loops), alignment, stays)
                self.stmt(body)
            case IfThenElse(condition, then_case, else_case):
                self.expr(condition)
                self.conditions.append(condition)
                self.stmt(then_case)
                self.conditions.pop()
                if else_case is not None:
                    self.stmt(else_case)
            case LetStmt(_, value, body):
                self.expr(value)
                self.stmt(body)
            case BufferStore(buffer, value, indices):
                self.expr(value)
                for i in indices:
                    self.expr(i)
                self._record(buffer, indices, is_store=True)
            case _:
                self.expr(s)  # type: ignore[arg-type]

    def expr(self, e: Expr) -> None:
        for n in walk(e, (Buffer,)):
            if type(n) is BufferLoad:
                self._record(n.buffer, n.indices, is_store=False)
            elif type(n) is AccessPtr and id(n.buffer) in self.found:
                self._point(n)

    def _point(self, p: AccessPtr) -> None:
        """A function touches a box, which its corners tell; or nobody knows what."""
        if not p.extents:
            self.found[id(p.buffer)].pinned = True
            return
        first = p.element.indices
        last = [i + (n - 1) for i, n in zip(first, p.extents, strict=True)]
        for corner in (first, tuple(last)):
            if p.is_written:
                self._record(p.buffer, corner, is_store=True)
            if "r" in p.mask:
                self._record(p.buffer, corner, is_store=False)

    def _record(self, buffer: Buffer, indices: tuple[Expr, ...], *, is_store: bool) -> None:
        uses = self.found.get(id(buffer))
        if uses is not None:
            forms = tuple([self.scope.linear(i) for i in indices])
            uses.accesses.append(_Access(tuple(self.loops), forms, is_store))
            for depth, loop in enumerate(self.loops):
                if buffer.name in annotation(loop, LIFTED, ()) or (
                    is_store and loop.kind == "serial" and self._at_one_value(loop.var)
                ):
                    uses.outlives(depth)

    def _at_one_value(self, var: Var) -> bool:
        """Whether the conditions here say that a loop stands at one value."""
        return any(
            isinstance(n, EQ) and any(v is var for v in walk(n))
            for c in self.conditions
            for n in walk(c)
        )


def _plan(uses: _Uses, outside: _Accesses) -> _Plan:
    buffer = uses.buffer
    paths = [a.loops for a in uses.accesses]
    if not paths or buffer.strides or uses.pinned:
        return _Plan(None, buffer, (ZERO,) * buffer.ndim)
    depth = uses.depth
    while not uses.stays and all(len(p) > depth and p[depth] is paths[0][depth] for p in paths):
        if paths[0][depth].kind == "vectorized":
            break
        depth += 1
    if uses.deepest is not None:
        depth = max(min(depth, uses.deepest), uses.depth)
    for d in range(depth, uses.depth, -1):
        region = _region(buffer, uses.accesses, d, outside)
        if region is None:
            continue
        if not _depends(region, paths[0][:d][uses.depth :]) or _is_covered(
            buffer, uses, d, outside
        ):
            return _place(buffer, paths[0][d - 1], region)
    region = _region(buffer, uses.accesses, uses.depth, outside)
    return _place(buffer, None, region or [None] * buffer.ndim)


_Side = tuple[Linear, Linear] | None
"""First and last index of a dimension; None for all of it."""


def _region(buffer: Buffer, accesses: list[_Access], depth: int, outside: _Accesses) -> list[_Side]:
    """The hull of the accesses below the first ``depth`` loops, one side a dimension."""
    sides: list[_Side] = []
    for axis in range(buffer.ndim):
        side: _Side = None
        for n, access in enumerate(accesses):
            one = _relaxed(access.indices[axis], access.loops, depth, outside)
            side = one if n == 0 else _hull(side, one)
            if side is None:
                break
        sides.append(side)
    return sides


def _relaxed(form: Linear, loops: tuple[For, ...], depth: int, outside: _Accesses) -> _Side:
    """The first and last value of an index over the loops from ``depth`` inwards."""
    if any(a.dtype.lanes > 1 for a in form.terms):
        return None
    low = high = form
    for loop in reversed(loops[depth:]):
        start = outside.scope.linear(loop.min)
        end = (start + outside.scope.linear(loop.extent)).shift(-1)
        result = _substituted(low, high, loop.var, start, end)
        if result is None:
            return None
        low, high = result
    known = outside.scope_vars | {id(x.var) for x in loops[:depth]}
    for n in (n for atom in (*low.terms, *high.terms) for n in walk(atom)):
        if isinstance(n, BufferLoad | Let) or (isinstance(n, Var) and id(n) not in known):
            return None
    return low, high


def _substituted(low: Linear, high: Linear, var: Var, start: Linear, end: Linear) -> _Side:
    ends: list[Linear] = []
    for form, upper in ((low, False), (high, True)):
        step = form.step(var)
        if step is None:
            return None
        value = end if upper == (step > 0) else start
        ends.append(form - Linear({var: step}) + value.scale(step) if step else form)
    return ends[0], ends[1]


def _hull(a: _Side, b: _Side) -> _Side:
    if a is None or b is None:
        return None
    low, high = a[0] - b[0], a[1] - b[1]
    if low.terms or high.terms:
        return None
    return (a[0] if low.const <= 0 else b[0]), (a[1] if high.const >= 0 else b[1])


def _depends(region: list[_Side], loops: tuple[For, ...]) -> bool:
    """Whether the region's position depends on one of the loops, or is not known."""
    moving = {id(x.var) for x in loops}
    atoms = [atom for side in region if side is not None for atom in side[0].terms]
    return any(id(n) in moving for atom in atoms for n in walk(atom))


def _is_covered(buffer: Buffer, uses: _Uses, depth: int, outside: _Accesses) -> bool:
    """Whether the region read below ``depth`` lies in the region written there."""
    stores = [a for a in uses.accesses if a.is_store]
    loads = [a for a in uses.accesses if not a.is_store]
    if not stores:
        return False
    written = _region(buffer, stores, depth, outside)
    read = _region(buffer, loads, depth, outside) if loads else written
    for size, w, r in zip(buffer.shape, written, read, strict=True):
        whole = (ZERO, outside.scope.linear(size).shift(-1))
        w, r = w or whole, r or whole
        below, above = r[0] - w[0], w[1] - r[1]
        if below.terms or above.terms or below.const < 0 or above.const < 0:
            return False
    return True


def _place(buffer: Buffer, loop: For | None, region: list[_Side]) -> _Plan:
    shape: list[Expr] = []
    mins: list[Linear] = []
    for size, side in zip(buffer.shape, region, strict=True):
        extent = side[1] - side[0] if side is not None else None
        small = extent is not None and not extent.terms
        if small and extent is not None and isinstance(size, IntImm):
            small = extent.const + 1 < size.value
        if small and extent is not None and side is not None:
            shape.append(IntImm(max(extent.const + 1, 1), INDEX))
            mins.append(side[0])
        else:
            shape.append(size)
            mins.append(ZERO)
    same = all(a is b for a, b in zip(shape, buffer.shape, strict=True))
    if not same:
        buffer = Buffer(
            buffer.name, tuple(shape), buffer.dtype, buffer.scope, alignment=buffer.alignment
        )
    return _Plan(loop, buffer, tuple(mins))


def _aligned(plan: _Plan, alignment: Alignment, *, pinned: bool) -> _Plan:
    """The plan with strides as the program asks for them."""
    old = plan.buffer
    if not alignment or old.strides:
        return plan
    if pinned:
        raise CodegenError(
            f"The rows of {old.name!r} are to be aligned (storage_align), and a function is called "
            "with a pointer to it, whose layout the program has told it."
        )
    strides = aligned_strides(old.shape, alignment)
    if is_compact(old.shape, strides):
        return plan
    buffer = Buffer(
        old.name, old.shape, old.dtype, old.scope, tuple(strides), alignment=old.alignment
    )
    return _Plan(plan.loop, buffer, plan.mins, padded=True)


class _Rewrite:
    """Moves the Allocates and rebases the accesses."""

    def __init__(self, plans: dict[int, _Plan], scope: Scope) -> None:
        self.plans = plans
        self.scope = scope
        self.below: dict[int, list[_Plan]] = {}
        for plan in plans.values():
            if plan.loop is not None:
                self.below.setdefault(id(plan.loop), []).append(plan)

    def stmt(self, s: Stmt) -> Stmt:
        match s:
            case For():
                body = self.stmt(s.body)
                for plan in reversed(self.below.get(id(s), [])):
                    body = _allocated(plan, body, ())
                extent = self.node(s.extent)
                if body is s.body and extent is s.extent:
                    return s
                return For(s.var, s.min, extent, s.kind, body, s.thread, s.annotations)
            case Allocate(buffer, body, annotations):
                plan = self.plans[id(buffer)]
                inner = self.stmt(body)
                return inner if plan.loop is not None else _allocated(plan, inner, annotations)
            case BufferStore(buffer, value, indices, predicate):
                target, where = self._rebased(buffer, indices)
                return BufferStore(target, self.node(value), where, predicate)
            case _:
                return map_children(s, self._child)

    def _child(self, n: Any) -> Any:
        return self.node(n) if isinstance(n, Expr) else self.stmt(n)

    def node(self, n: Any) -> Any:
        if type(n) is BufferLoad:
            buffer, where = self._rebased(n.buffer, n.indices)
            same = buffer is n.buffer and all(a is b for a, b in zip(where, n.indices, strict=True))
            return n if same else BufferLoad(buffer, where, n.predicate)
        if isinstance(n, Buffer | Var):
            return n
        if type(n) is AccessPtr:
            return AccessPtr(self.node(n.element), self.node(n.offset), n.mask)
        if type(n) is BufferStride:
            plan = self.plans.get(id(n.buffer))
            return n if plan is None else BufferStride(plan.buffer, n.axis)
        return map_children(n, self.node)

    def _rebased(
        self, buffer: Buffer, indices: tuple[Expr, ...]
    ) -> tuple[Buffer, tuple[Expr, ...]]:
        where = tuple([self.node(i) for i in indices])
        plan = self.plans.get(id(buffer))
        if plan is None:
            return buffer, where
        rebased = [
            i if m.key == ZERO.key else render(self.scope.linear(i) - m)
            for i, m in zip(where, plan.mins, strict=True)
        ]
        return plan.buffer, tuple(rebased)


def _allocated(plan: _Plan, body: Stmt, annotations: tuple[tuple[str, Any], ...]) -> Allocate:
    """The Allocate of a planned buffer. The alignment asked for has become strides; ``PADDED`` says
    that they are row-major ones with gaps, and not the program's own."""
    kept = [(k, v) for k, v in annotations if k not in (DIM_ALIGN, ROLLING)]
    if plan.padded:
        kept.append((PADDED, True))
    return Allocate(plan.buffer, body, tuple(kept))
