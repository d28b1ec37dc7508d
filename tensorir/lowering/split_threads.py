"""Splits thread loops where threads hand values to one another, so that they run one after another.

The threads of a GPU's block run at once and wait for each other where one reads what another has
put into shared memory; a loop over them runs the first to its end before the second begins::

    for t in T.thread_binding(32, thread="threadIdx.x"):      for t in T.thread_binding(...):
        S[t] = A[t]                                     ->        S[t] = A[t]
        B[t] = S[31 - t]                                      for t in T.thread_binding(...):
                                                                  B[t] = S[31 - t]

Each statement between two such points gets thread loops of its own; loops that all threads run
alike, and conditions that they decide alike, move outside of them. What is private to a thread
(memory other than shared one, whose indices do not tell threads apart) gets a dimension of threads.
Where an exchange stands in anything else, there is no order of plain loops: that is an error, never
an old value. A thread loop without an exchange stays as it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...support.errors import CodegenError
from ...support.node import Node, replace, walk
from ..analysis.certain_writes import covered_within
from ..analysis.paths import (
    Nested,
    all_buffers,
    binding_map,
    blocks_below,
    walk_paths,
)
from ..buffer import Buffer, BufferRegion, Range
from ..expr import BufferLoad, Expr, IntImm, Var
from ..function import PrimFunc
from ..stmt import (
    Block,
    BlockRealize,
    BufferStore,
    For,
    IfThenElse,
    LetStmt,
    MatchBuffer,
    SeqStmt,
    Stmt,
    seq,
)
from ..visitor import Mutator, replace_buffers, substitute, uses
from .thread_accesses import accesses_below, bound, each_its_own, same_index, tells_threads

EXCHANGED = ("shared", "warp")
"""Scopes of memory through which threads exchange values."""


def split_threads(func: PrimFunc) -> PrimFunc:
    """``func`` whose thread loops may run one thread after another. Raises CodegenError where that
    cannot be had."""
    shared = {b for b in all_buffers(func) if b.scope in EXCHANGED}
    if not any(_is_threads(p[-1]) for p in walk_paths(func.body)):
        return func
    split = _Split(func, shared)
    body = split.visit(func.body, [])
    if split.private:
        body = replace_buffers(body, split.private)
    return func if body is func.body else replace(func, body=body)


def _is_threads(s: Stmt) -> bool:
    return isinstance(s, For) and s.thread.startswith("threadIdx")


class _Split:
    def __init__(self, func: PrimFunc, shared: set[Buffer]) -> None:
        self.func = func
        self.all_shared = self.shared = shared
        self.own: set[Buffer] = set()
        """Memory that is allocated inside of the thread loop looked at."""
        self.private: dict[Buffer, Buffer] = {}

    # -- where threads exchange values -------------------------------------------------------------
    def exchanges(self, s: Stmt, fixed: Sequence[For], skip: int = 0) -> bool:
        """Whether, below ``s``, an iteration of the loops ``fixed`` reads what it has not surely
        written itself before; the first ``skip`` loops of ``s`` are among these."""
        threads = [loop for loop in fixed if _is_threads(loop)]
        found = accesses_below(s)
        shared = self._meeting(found, threads)
        nested = []
        for n in found:
            reads = tuple([r for r in n.block.reads if r.buffer in shared])
            writes = tuple([r for r in n.block.writes if r.buffer in shared])
            if reads or writes:
                block = replace(n.block, reads=reads, writes=writes)
                realize = replace(n.realize, block=block)
                nested.append(Nested(realize, n.loops[skip:], n.conditions))
        return covered_within(nested, fixed) is not None

    def _meeting(self, found: Sequence[Nested], threads: Sequence[For]) -> set[Buffer]:
        """The memory through which threads may hand values to one another."""
        regions: dict[Buffer, list[tuple[Nested, BufferRegion]]] = {}
        shared: set[Buffer] = set()
        for n in found:
            for r in (*n.block.reads, *n.block.writes):
                regions.setdefault(r.buffer, []).append((n, r))
            for w in n.block.writes:
                # In other memory than shared one, threads meet where each has elements of its own;
                # what all of them write is reused by one after the other.
                b = w.buffer
                if b in self.shared or (b not in self.own and _is_met(n, w, threads)):
                    shared.add(b)
        return {b for b in shared if not each_its_own(regions[b], threads)}

    def any_exchange(self, loop: For, outer: Sequence[For]) -> bool:
        """Whether the threads of a loop exchange values; those of a loop inside are another
        matter."""
        if self.exchanges(loop, [*outer, loop], 1):
            return True
        return any(
            self.exchanges_inside(n.realize, [*outer, loop]) for n in blocks_below(loop.body)
        )

    def _splits(self, loop: For, outer: Sequence[For]) -> bool:
        """``any_exchange`` through memory that is allocated outside of the loop."""
        self.own = {b for n in walk(loop) if isinstance(n, Block) for b in n.alloc_buffers}
        self.shared = {b for b in self.all_shared if b not in self.own}
        return self.any_exchange(loop, outer)

    def exchanges_inside(self, s: BlockRealize, fixed: Sequence[For]) -> bool:
        """Whether blocks inside of a block exchange values between the iterations that it runs in:
        its axes stand for these."""
        if isinstance(s.block.body, BufferStore):
            return False
        body = substitute(s.block.body, binding_map(s))
        if self.exchanges(body, fixed):
            return True
        return any(self.exchanges_inside(n.realize, [*fixed, *n.loops]) for n in blocks_below(body))

    # -- the walk ----------------------------------------------------------------------------------
    def visit(self, s: Stmt, outer: list[For]) -> Stmt:
        """``s`` with the thread loops in it split."""
        match s:
            case For():
                if _is_threads(s) and self._splits(s, outer):
                    return self.spread(self._with_private(s), outer, [])
                body = self.visit(s.body, [*outer, s])
                return s if body is s.body else replace(s, body=body)
            case BlockRealize():
                body = self.visit(s.block.body, outer)
                if body is s.block.body:
                    return s
                return replace(s, block=replace(s.block, body=body))
            case SeqStmt(stmts):
                new = [self.visit(c, outer) for c in stmts]
                return s if all(a is b for a, b in zip(new, stmts, strict=True)) else seq(*new)
            case IfThenElse(_, then_case, else_case):
                other = None if else_case is None else self.visit(else_case, outer)
                return replace(s, then_case=self.visit(then_case, outer), else_case=other)
            case LetStmt():
                return replace(s, body=self.visit(s.body, outer))
            case _:
                return s

    def spread(self, s: Stmt, outer: list[For], threads: list[For]) -> Stmt:
        """``s`` run by all of the threads, each of its statements to its end before the next."""
        if _is_threads(s):
            assert isinstance(s, For)
            return self.spread(s.body, outer, [*threads, s])
        match s:
            case SeqStmt(stmts):
                return seq(*[self.spread(c, outer, threads) for c in stmts])
            case For() | IfThenElse() | LetStmt() if not self.exchanges(s, [*outer, *threads]):
                return _run_by(threads, self.visit(s, [*outer, *threads]))
            case For():
                self._require_alike((s.min, s.extent), threads, s)
                return replace(s, body=self.spread(s.body, [*outer, s], threads))
            case IfThenElse():
                self._require_alike((s.condition,), threads, s)
                other = s.else_case
                return IfThenElse(
                    s.condition,
                    self.spread(s.then_case, outer, threads),
                    None if other is None else self.spread(other, outer, threads),
                )
            case LetStmt():
                if any(isinstance(n, BufferLoad) for n in walk(s.value)):
                    raise self._refused(s, "a let that reads memory")
                return self.spread(substitute(s.body, {s.var: s.value}), outer, threads)
            case BlockRealize():
                fixed = [*outer, *threads]
                if self.exchanges(s, fixed) or self.exchanges_inside(s, fixed):
                    raise self._refused(s, f"the block {s.block.name!r}")
                return _run_by(threads, s)
            case _:
                return _run_by(threads, s)

    def _require_alike(self, parts: Sequence[Expr], threads: Sequence[For], s: Stmt) -> None:
        """All threads run a loop or decide a condition alike."""
        what = f"the loop {s.var.name!r}" if isinstance(s, For) else "a condition"
        for e in parts:
            if any(uses(e, t.var) for t in threads):
                raise self._refused(s, f"{what} that differs between them")
            if any(isinstance(n, BufferLoad) for n in walk(e)):
                raise self._refused(s, f"{what} that memory decides")

    def _refused(self, s: Stmt, where: str) -> CodegenError:
        names = [n.buffer.name for n in walk(s) if isinstance(n, BufferStore)]
        used = [b.name for b in self.shared if any(_touches(n, b) for n in walk(s))]
        return CodegenError(
            f"{self.func.name}: threads exchange values through the shared memory "
            f"{', '.join(sorted(set(used or names)))} inside of {where}. Threads run as loops "
            "here, each statement of all of them before the next, which is possible only outside "
            "of that: write a thread loop before the exchange and one after it."
        )

    # -- memory of each thread ---------------------------------------------------------------------
    def _with_private(self, top: For) -> For:
        """The nest with a dimension of threads for each buffer that threads would share now."""
        inside = {n for n in walk(top) if isinstance(n, Block)}
        own = {b for block in inside for b in block.alloc_buffers}
        result = top
        for b in all_buffers(self.func):
            users = [x for x in walk(self.func.body) if _touches(x, b)]
            here = [x for x in walk(top) if _touches(x, b)]
            private = b.scope not in EXCHANGED and b not in self.func.buffers
            if not private or b in own or not here or len(here) != len(users):
                continue
            accesses = _accesses_below(top, b)
            if all(tells_threads(n, r, threads) for n, r, threads in accesses):
                continue
            if b.scope == "global" and _is_common(b, accesses):
                continue
            axes = sorted({t.thread for _, _, threads in accesses for t in threads})
            sizes = [_extent_of(axis, accesses) for axis in axes]
            if None in sizes or b.strides or any(isinstance(x, MatchBuffer) for x in here):
                raise self._refused(top, f"loops of different threads around {b.name!r}")
            shape = (*[size for size in sizes if size is not None], *b.shape)
            new = replace(b, shape=shape, scope="local" if b.scope == "register" else b.scope)
            self.private[b] = new
            result = _PerThread(b, new, axes).visit(result)
        return result


def _touches(n: Node, b: Buffer) -> bool:
    if isinstance(n, MatchBuffer):
        return n.source.buffer is b
    return isinstance(n, (BufferLoad, BufferStore, BufferRegion)) and n.buffer is b


def _run_by(threads: Sequence[For], s: Stmt) -> Stmt:
    """``s`` in loops of its own over the threads that it tells apart: what does not depend on a
    thread is the same for all of them."""
    used = [t for t in threads if uses(s, t.var)]
    fresh: Mapping[Var, Expr] = {t.var: Var(t.var.name, t.var.dtype) for t in used}
    s = substitute(s, fresh)
    for t in reversed(used):
        var = fresh[t.var]
        assert isinstance(var, Var)
        s = replace(t, var=var, extent=substitute(t.extent, fresh), body=s)
    return s


def _accesses_below(s: Stmt, b: Buffer) -> list[tuple[Nested, BufferRegion, tuple[For, ...]]]:
    """The regions of a buffer that are touched below ``s``, with the thread loops around."""
    return [
        (n, r, tuple([loop for loop in n.loops if _is_threads(loop)]))
        for n in accesses_below(s)
        for r in (*n.block.reads, *n.block.writes)
        if r.buffer is b
    ]


def _is_met(n: Nested, w: BufferRegion, threads: Sequence[For]) -> bool:
    """Whether other threads may look for what one of them writes, in memory that is not shared by
    its scope."""
    if tells_threads(n, w, threads):
        return True
    return w.buffer.scope == "global" and _depends(n, w, threads)


def _depends(n: Nested, r: BufferRegion, threads: Sequence[For]) -> bool:
    return any(uses(x.min, t.var) for x in bound(n, r) for t in threads)


def _is_common(b: Buffer, accesses: Sequence[tuple[Nested, BufferRegion, tuple[For, ...]]]) -> bool:
    """Whether threads write different elements of global memory, and touch others too: one buffer
    for all of them is meant."""
    if len(same_index([(n, r) for n, r, _ in accesses])) == len(b.shape):
        return False
    return any(
        _depends(n, r, threads) for n, r, threads in accesses if any(r is w for w in n.block.writes)
    )


def _extent_of(
    axis: str, accesses: Sequence[tuple[Nested, BufferRegion, tuple[For, ...]]]
) -> IntImm | None:
    """The number of threads of an axis around every access; None where it is not the same."""
    found: set[int] = set()
    for _, _, threads in accesses:
        own = [t.extent.value for t in threads if t.thread == axis and isinstance(t.extent, IntImm)]
        if not own:
            return None
        found.add(own[-1])
    return IntImm(found.pop()) if len(found) == 1 else None


class _PerThread(Mutator):
    """Accesses of a private buffer get the variables of the threads around them."""

    def __init__(self, old: Buffer, new: Buffer, axes: Sequence[str]) -> None:
        self.old, self.new, self.axes = old, new, axes
        self.threads: dict[str, Var] = {}

    def visit_For(self, n: For) -> For:  # noqa: N802
        before = self.threads
        if _is_threads(n):
            self.threads = before | {n.thread: n.var}
        result: For = self.generic_visit(n)
        self.threads = before
        return result

    def _place(self) -> tuple[Var, ...]:
        return tuple([self.threads[a] for a in self.axes])

    def visit_BufferLoad(self, n: BufferLoad) -> Any:  # noqa: N802
        load: BufferLoad = self.generic_visit(n)
        if n.buffer is not self.old:
            return load
        return BufferLoad(self.new, (*self._place(), *load.indices), load.predicate)

    def visit_BufferStore(self, n: BufferStore) -> Any:  # noqa: N802
        store: BufferStore = self.generic_visit(n)
        if n.buffer is not self.old:
            return store
        return BufferStore(self.new, store.value, (*self._place(), *store.indices), store.predicate)

    def visit_BufferRegion(self, n: BufferRegion) -> Any:  # noqa: N802
        region: BufferRegion = self.generic_visit(n)
        if n.buffer is not self.old:
            return region
        own = [Range(v, IntImm(1)) for v in self._place()]
        return BufferRegion(self.new, (*own, *region.region))
