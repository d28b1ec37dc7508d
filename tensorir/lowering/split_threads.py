"""Splits thread loops where threads hand values to one another, so that they run one after another.

The threads of a GPU's block run at once and wait for each other where one reads what another has
put into shared memory; a loop over them runs the first to its end before the second begins::

    for t in T.thread_binding(32, thread="threadIdx.x"):      for t in T.thread_binding(...):
        S[t] = A[t]                                     ->        S[t] = A[t]
        B[t] = S[31 - t]                                      for t in T.thread_binding(...):
                                                                  B[t] = S[31 - t]

Each statement between two such points gets thread loops of its own; loops that all threads run
alike, and conditions that they decide alike, move outside of them. A statement that reads what
other threads write with it computes all of its values before it stores the first; so do lets and
conditions that memory decides. What is private to a thread (memory other than shared one, whose
indices do not tell threads apart) gets a dimension of threads. Where an exchange stands in anything
else, there is no order of plain loops: that is an error, never an old value. A thread loop without
an exchange stays as it is. Virtual threads are threads; blocks of threads do not wait for each
other, so an exchange between them is an error everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...support.errors import CodegenError
from ...support.node import Node, replace, walk
from ..analysis.block_kinds import axis_bindings, binding_map, binds
from ..analysis.conditions import TRUE
from ..analysis.nested_blocks import Nested
from ..analysis.paths import all_buffers, fresh_name, walk_paths
from ..buffer import Buffer, BufferRegion, Range
from ..expr import BufferLoad, Expr, IntImm, Not, Var, all_of, is_const, sub
from ..function import PrimFunc
from ..stmt import (
    LEAVES,
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
from ..visitor import (
    Mutator,
    accessed_buffers,
    has_load,
    loads_in,
    replace_buffers,
    substitute,
    uses,
)
from .thread_accesses import accesses_below, depends, is_same_place, same_index, tells_threads
from .thread_exchanges import EXCHANGED, Exchanges, is_thread_blocks, is_threads


def split_threads(func: PrimFunc) -> PrimFunc:
    """``func`` whose thread loops may run one thread after another. Raises CodegenError where that
    cannot be had."""
    shared = frozenset([b for b in all_buffers(func) if b.scope in EXCHANGED])
    kinds = [(is_threads(p[-1]), is_thread_blocks(p[-1])) for p in walk_paths(func.body)]
    body = func.body
    if any(threads for threads, _ in kinds):
        split = _Split(func, shared)
        body = split.visit(func.body, [])
        if split.private:
            body = replace_buffers(body, split.private)
    if any(blocks for _, blocks in kinds):
        _require_blocks_apart(func.name, body, shared)
    return func if body is func.body else replace(func, body=body)


def _require_blocks_apart(name: str, body: Stmt, shared: frozenset[Buffer]) -> None:
    """No block of threads reads what another one wrote. In ``body`` each statement has thread loops
    of its own where that matters."""
    for path in walk_paths(body):
        loop = path[-1]
        if not isinstance(loop, For) or not is_thread_blocks(loop):
            continue
        own = frozenset(_allocated_in(loop))
        outer = [n for n in path[:-1] if isinstance(n, For)]
        if Exchanges(shared - own, own, of_blocks=True).of_loop(loop, outer):
            written = set(accessed_buffers(loop)[1])
            loads = loads_in(loop)
            read = {n.buffer.name for n in loads if n.buffer in written}
            raise CodegenError(
                f"{name}: the blocks of threads of the loop {loop.var.name!r} exchange values "
                f"through {', '.join(sorted(read))}, and no block waits for another. Write a loop "
                "over the blocks that ends before the exchange, and one after it."
            )


def _allocated_in(s: Stmt) -> Iterator[Buffer]:
    return (b for n in walk(s) if isinstance(n, Block) for b in n.alloc_buffers)


@dataclass(frozen=True, slots=True)
class _Threads:
    """The thread loops that statements are run by, and which of the threads: those for which all of
    ``taken`` hold."""

    loops: tuple[For, ...] = ()
    taken: tuple[Expr, ...] = ()

    def inside(self, loop: For) -> _Threads:
        return _Threads((*self.loops, loop), self.taken)

    def where(self, condition: Expr) -> _Threads:
        return _Threads(self.loops, (*self.taken, condition))

    def used_by(self, s: Stmt) -> list[For]:
        """The loops over those threads that a statement tells apart: what does not depend on a
        thread is the same for all of them, unless it goes on from what it left before."""
        if _goes_on(s):
            return list(self.loops)
        return [t for t in self.loops if any(uses(n, t.var) for n in (s, *self.taken))]

    def share(self, s: Stmt) -> bool:
        """Whether the threads share the work of a statement: another loop over them is in it."""
        axes = {t.thread for t in self.loops if t.thread.startswith("threadIdx")}
        return any(isinstance(n, For) and n.thread in axes for n in walk(s, LEAVES))

    def differ_in(self, e: Expr) -> bool:
        return any(uses(e, t.var) for t in self.loops)

    def run(self, s: Stmt) -> Stmt:
        """``s`` in loops of its own."""
        used = self.used_by(s)
        fresh: Mapping[Var, Expr] = {t.var: Var(t.var.name, t.var.dtype) for t in used}
        if self.taken:
            s = IfThenElse(all_of(self.taken), s)
        s = substitute(s, fresh)
        for t in reversed(used):
            var = fresh[t.var]
            assert isinstance(var, Var)
            s = replace(t, var=var, extent=substitute(t.extent, fresh), body=s)
        return s


class _Split:
    def __init__(self, func: PrimFunc, shared: frozenset[Buffer]) -> None:
        self.func = func
        self.all_shared = shared
        self.exchanges = Exchanges(shared)
        """Of the thread loop looked at."""
        self.private: dict[Buffer, Buffer] = {}
        self.taken: set[str] = set()
        """Names of the buffers that were made."""

    def _splits(self, loop: For, outer: Sequence[For]) -> bool:
        """Whether the threads of a loop exchange values through memory that is allocated outside
        of it."""
        own = frozenset(_allocated_in(loop))
        self.exchanges = Exchanges(self.all_shared - own, own)
        return self.exchanges.of_loop(loop, outer)

    # -- the walk ----------------------------------------------------------------------------------
    def visit(self, s: Stmt, outer: list[For]) -> Stmt:
        """``s`` with the thread loops in it split."""
        match s:
            case For():
                if is_threads(s):
                    self._require_own(s, outer)
                    if self._splits(s, outer) or _Threads((s,)).share(s.body):
                        return self.spread(self._with_private(s), outer, _Threads())
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

    def spread(self, s: Stmt, outer: list[For], by: _Threads) -> Stmt:
        """``s`` run by all of the threads, each of its statements to its end before the next."""
        if is_threads(s):
            assert isinstance(s, For)
            return self.spread(s.body, outer, by.inside(s))
        if isinstance(s, SeqStmt):
            return seq(*[self.spread(c, outer, by) for c in s.stmts])
        if not by.share(s) and not self.exchanges.below(s, [*outer, *by.loops]):
            return by.run(self.visit(s, [*outer, *by.loops]))
        match s:
            case For():
                self._require_alike(s, by)
                return replace(s, body=self.spread(s.body, [*outer, s], by))
            case IfThenElse():
                return self._spread_branches(s, outer, by)
            case LetStmt():
                return self._with_saved(
                    s, s.value, by, lambda x: self.spread(substitute(s.body, {s.var: x}), outer, by)
                )
            case BlockRealize(_, predicate, block):
                if block.init is not None or block.alloc_buffers or block.match_buffers:
                    raise self._refused(s, f"the block {block.name!r}")
                body = substitute(block.body, binding_map(s))
                plain = is_const(predicate, 1)
                return self.spread(body if plain else IfThenElse(predicate, body), outer, by)
            case BufferStore():
                self._require_no_sum(s, by)
                return self._with_saved(s, s.value, by, lambda x: by.run(replace(s, value=x)))
            case _:
                raise self._refused(s, "a statement that is no store")

    def _spread_branches(self, s: IfThenElse, outer: list[For], by: _Threads) -> Stmt:
        """Both branches, run by those threads that take them."""
        condition, other = s.condition, s.else_case
        if not by.differ_in(condition) and not has_load(condition):
            return IfThenElse(
                condition,
                self.spread(s.then_case, outer, by),
                None if other is None else self.spread(other, outer, by),
            )

        def branches(taken: Expr) -> Stmt:
            first = self.spread(s.then_case, outer, by.where(taken))
            if other is None:
                return first
            return seq(first, self.spread(other, outer, by.where(Not(taken))))

        return (
            self._with_saved(s, condition, by, branches)
            if has_load(condition)
            else (branches(condition))
        )

    def _with_saved(self, s: Stmt, value: Expr, by: _Threads, then: Callable[[Expr], Stmt]) -> Stmt:
        """A value of all threads, computed before any of them goes on, and what is done with it."""
        used = by.used_by(s)
        if value.dtype.lanes != 1 or not all(isinstance(t.extent, IntImm) for t in used):
            raise self._refused(s, "a statement of vectors or of threads of unknown number")
        names = {b.name for b in all_buffers(self.func)} | self.taken
        saved = Buffer(
            fresh_name(names, "saved"),
            tuple([t.extent for t in used]) or (IntImm(1),),
            value.dtype,
            "local",
        )
        self.taken.add(saved.name)
        place = tuple([sub(t.var, t.min) for t in used]) or (IntImm(0),)
        keep = by.run(BufferStore(saved, value, place))
        body = seq(keep, then(BufferLoad(saved, place)))
        block = Block(saved.name, (), (), (), body, alloc_buffers=(saved,))
        return BlockRealize((), TRUE, block)

    def _require_alike(self, loop: For, by: _Threads) -> None:
        """All threads run a loop alike."""
        for e in (loop.min, loop.extent):
            if by.differ_in(e):
                raise self._refused(loop, f"the loop {loop.var.name!r} that differs between them")
            if has_load(e):
                raise self._refused(loop, f"the loop {loop.var.name!r} that memory decides")

    def _require_no_sum(self, s: BufferStore, by: _Threads) -> None:
        """Each thread stores an element of its own. What several of them add up in one is no value
        that one of them may compute before the others."""
        if s.predicate is not None:
            raise self._refused(s, "a store that may leave out lanes")
        own = [n for n in walk(s) if isinstance(n, BufferLoad) and n.buffer is s.buffer]
        if any(n is x for n in own for i in s.indices for x in walk(i)):
            raise self._refused(s, "indices that the memory itself decides")
        if any(is_same_place(n, s) for n in own) and not any(map(has_load, s.indices)):
            summed = [t for t in by.loops if uses(s.value, t.var)]
            if not all(any(uses(i, t.var) for i in s.indices) for t in summed):
                raise self._refused(s, "a sum of several of them")

    def _refused(self, s: Stmt, where: str) -> CodegenError:
        names = [n.buffer.name for n in walk(s) if isinstance(n, BufferStore)]
        shared = self.exchanges.shared
        used = [b.name for b in shared if any(_touches(n, b) for n in walk(s))]
        return CodegenError(
            f"{self.func.name}: threads exchange values through the shared memory "
            f"{', '.join(sorted(set(used or names)))} inside of {where}. Threads run as loops "
            "here, each statement of all of them before the next, which is possible only outside "
            "of that: write a thread loop before the exchange and one after it."
        )

    # -- memory of each thread ---------------------------------------------------------------------
    def _require_own(self, loop: For, outer: Sequence[For]) -> None:
        """Raises CodegenError where a thread reads of memory that each has of its own (scopes local
        and register) what another one wrote."""
        every = frozenset(all_buffers(self.func))
        for b in every - frozenset(_allocated_in(loop)):
            if b.scope in (*EXCHANGED, "global") or not _is_common(b, _accesses_below(loop, b)):
                continue
            if Exchanges(frozenset([b]), every - {b}).of_loop(loop, outer):
                raise CodegenError(
                    f"{self.func.name}: threads of the loop {loop.var.name!r} read what others "
                    f"wrote to {b.name!r}, whose scope {b.scope!r} is memory of each thread's own. "
                    "What threads exchange is kept in the scope 'shared'."
                )

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
            around = {axis for _, _, threads in accesses for axis in _by_axis(threads)}
            axes = sorted(around - _summed_over(accesses))
            if not axes:
                continue
            sizes = [_extent_of(axis, accesses) for axis in axes]
            if None in sizes or b.strides or any(isinstance(x, MatchBuffer) for x in here):
                raise self._refused(top, f"loops of different threads around {b.name!r}")
            shape = (*[size for size in sizes if size is not None], *b.shape)
            new = replace(b, shape=shape, scope="local" if b.scope == "register" else b.scope)
            self.private[b] = new
            result = _PerThread(b, new, axes).visit(result)
        return result


def _goes_on(s: Stmt) -> bool:
    """Whether a statement reads memory that it writes."""
    nodes = list(walk(s))
    stored = {n.buffer for n in nodes if isinstance(n, BufferStore)}
    return any(isinstance(n, BufferLoad) and n.buffer in stored for n in nodes)


def _touches(n: Node, b: Buffer) -> bool:
    if isinstance(n, MatchBuffer):
        return n.source.buffer is b
    return isinstance(n, (BufferLoad, BufferStore, BufferRegion)) and n.buffer is b


def _accesses_below(s: Stmt, b: Buffer) -> list[tuple[Nested, BufferRegion, tuple[For, ...]]]:
    """The regions of a buffer that are touched below ``s``, with the thread loops around."""
    return [
        (n, r, tuple([loop for loop in n.loops if is_threads(loop)]))
        for n in accesses_below(s)
        for r in (*n.block.reads, *n.block.writes)
        if r.buffer is b
    ]


def _is_common(b: Buffer, accesses: Sequence[tuple[Nested, BufferRegion, tuple[For, ...]]]) -> bool:
    """Whether threads write different elements of global memory, and touch others too: one buffer
    for all of them is meant."""
    if len(same_index([(n, r) for n, r, _ in accesses])) == len(b.shape):
        return False
    return any(
        depends(n, r, threads) for n, r, threads in accesses if any(r is w for w in n.block.writes)
    )


def _summed_over(accesses: Sequence[tuple[Nested, BufferRegion, tuple[For, ...]]]) -> set[str]:
    """The axes whose threads put their terms together in one element: that is no thread's own."""
    return {
        axis
        for n, r, threads in accesses
        for axis, loop in _by_axis(threads).items()
        if any(r is w for w in n.block.writes)
        and binds(axis_bindings(n.realize, ("reduce",)), loop.var)
    }


def _extent_of(
    axis: str, accesses: Sequence[tuple[Nested, BufferRegion, tuple[For, ...]]]
) -> IntImm | None:
    """The number of threads of an axis around every access; None where it is not the same."""
    found: set[int] = set()
    for _, _, threads in accesses:
        loop = _by_axis(threads).get(axis)
        if loop is None or not isinstance(loop.extent, IntImm):
            return None
        found.add(loop.extent.value)
    return IntImm(found.pop()) if len(found) == 1 else None


def _by_axis(threads: Sequence[For]) -> dict[str, For]:
    """Nested thread loops by the names of their axes. Virtual threads have one name, and may be
    nested: the second loop of that name is another axis."""
    found: dict[str, For] = {}
    for loop in threads:
        found[_new_axis(loop, found)] = loop
    return found


def _new_axis(loop: For, outer: Iterable[str]) -> str:
    own = sum(axis.startswith(loop.thread) for axis in outer)
    return f"{loop.thread} {own}" if own else loop.thread


class _PerThread(Mutator):
    """Accesses of a private buffer get the variables of the threads around them."""

    def __init__(self, old: Buffer, new: Buffer, axes: Sequence[str]) -> None:
        self.old, self.new, self.axes = old, new, axes
        self.threads: dict[str, Var] = {}

    def visit_For(self, n: For) -> For:  # noqa: N802
        before = self.threads
        if is_threads(n):
            self.threads = before | {_new_axis(n, before): n.var}
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
