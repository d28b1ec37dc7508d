"""Where threads hand values to one another: the search of ``split_threads``.

Threads run at once, each statement of all of them before the next; loops over them run the first
thread to its end before the second begins. Both give the same where, of every two accesses of an
element of which one writes it,

* both are the same thread's, whichever elements they are (``are_apart``), or
* the value is not seen: between the write and the read, or the end, its own thread surely writes
  the element again, and no other thread does after that, or
* they are one statement that runs once for each thread, or combines terms in any order.

All else is an exchange.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from ...support.node import replace, walk
from ..analysis.block_kinds import binding_map
from ..analysis.certain_writes import covered_within
from ..analysis.nested_blocks import Nested, blocks_below
from ..buffer import Buffer, BufferRegion
from ..expr import Add, BufferLoad, Max, Min, Mul
from ..stmt import BlockRealize, BufferStore, For, Stmt
from ..visitor import substitute, uses
from .thread_accesses import (
    accesses_below,
    are_apart,
    depends,
    have_an_order,
    is_same_place,
    tells_threads,
)

EXCHANGED = ("shared", "warp")
"""Scopes of memory through which threads exchange values."""

_IN_ANY_ORDER = (Add, Mul, Min, Max)


def is_threads(s: Stmt) -> bool:
    """Whether a statement is a loop over the threads of a block, or over the virtual ones of one of
    these."""
    return isinstance(s, For) and s.thread.startswith(("threadIdx", "vthread"))


def is_thread_blocks(s: Stmt) -> bool:
    """Whether a statement is a loop over blocks of threads."""
    return isinstance(s, For) and s.thread.startswith("blockIdx")


@dataclass(frozen=True, slots=True)
class _Access:
    position: int
    nested: Nested
    region: BufferRegion

    @property
    def is_one_store(self) -> bool:
        """Whether the regions are the elements of one store; those of other blocks are looked at
        inside."""
        return isinstance(self.nested.block.body, BufferStore)


@dataclass(frozen=True)
class Exchanges:
    """Exchanges through memory of ``shared`` scopes, and through other memory but ``own``: what is
    allocated inside of the thread loop. ``of_blocks`` asks about blocks of threads in place of
    threads: each has a copy of that memory, so that what is written last is nobody's matter, and
    only what one reads of another's counts."""

    shared: frozenset[Buffer]
    own: frozenset[Buffer] = frozenset()
    of_blocks: bool = False

    def of_loop(self, loop: For, outer: Sequence[For]) -> bool:
        """Whether the threads of a loop exchange values; those of a loop inside are another
        matter."""
        return self.below(loop, [*outer, loop], skip=1)

    def below(
        self, s: Stmt, fixed: Sequence[For], *, varied: Sequence[For] = (), skip: int = 0
    ) -> bool:
        """Whether the threads among the loops ``fixed`` exchange values below ``s``, also inside of
        its blocks.

        The first ``skip`` loops of ``s`` are among these; each thread runs the loops ``varied``.
        """
        found = accesses_below(s)
        nested = [Nested(n.realize, n.loops[skip:], n.conditions) for n in found]
        if _Search(self, nested, fixed, varied).found:
            return True
        for n in blocks_below(s):
            inner = n.loops[skip:]
            serial = [x for x in inner if not is_threads(x) and not is_thread_blocks(x)]
            kept = [*fixed, *serial]
            if self.inside(n.realize, kept, [*varied, *inner]):
                return True
        return False

    def inside(self, s: BlockRealize, fixed: Sequence[For], varied: Sequence[For] = ()) -> bool:
        """Whether statements inside of a block exchange values between the iterations that it runs
        in: its axes stand for these."""
        if isinstance(s.block.body, BufferStore):
            return False
        return self.below(substitute(s.block.body, binding_map(s)), fixed, varied=varied)


class _Search:
    """The accesses of one sequence of statements, in pairs."""

    def __init__(
        self,
        memory: Exchanges,
        nested: Sequence[Nested],
        fixed: Sequence[For],
        varied: Sequence[For],
    ) -> None:
        self.memory, self.fixed, self.varied = memory, fixed, varied
        at_once = is_thread_blocks if memory.of_blocks else is_threads
        self.threads = [loop for loop in fixed if at_once(loop)]
        self.reads: dict[Buffer, list[_Access]] = {}
        self.writes: dict[Buffer, list[_Access]] = {}
        for position, n in enumerate(nested):
            for r in n.block.reads:
                self.reads.setdefault(r.buffer, []).append(_Access(position, n, r))
            for w in n.block.writes:
                self.writes.setdefault(w.buffer, []).append(_Access(position, n, w))

    @property
    def found(self) -> bool:
        return any(self._is_met(b, writes) and self._hands_over(b) for b, writes in self._writes)

    @property
    def _writes(self) -> list[tuple[Buffer, list[_Access]]]:
        return list(self.writes.items())

    def _is_met(self, b: Buffer, writes: Sequence[_Access]) -> bool:
        """Whether other threads may look for what one of them writes. In other memory than shared
        one they meet where each has elements of its own; what all of them write is reused by one
        after the other."""
        if b in self.memory.shared:
            return True
        return b not in self.memory.own and any(
            tells_threads(w.nested, w.region, self.threads)
            or (b.scope == "global" and depends(w.nested, w.region, self.threads))
            for w in writes
        )

    def _hands_over(self, b: Buffer) -> bool:
        writes = self.writes[b]
        if any(self._sees_others(r, writes) for r in self.reads.get(b, ())):
            return True
        return not self.memory.of_blocks and (
            any(self._overwrites(a, z) for a, z in combinations(writes, 2))
            or any(w.is_one_store and not self._is_orderly(w) for w in writes)
        )

    def _are_apart(self, a: _Access, b: _Access) -> bool:
        varied = [*self.varied, *a.nested.loops, *b.nested.loops]
        return are_apart((a.nested, a.region), (b.nested, b.region), self.threads, varied)

    def _sees_others(self, r: _Access, writes: Sequence[_Access]) -> bool:
        """Whether a thread may read what another one wrote."""
        foreign = [w for w in writes if not self._is_own(r, w)]
        if not foreign:
            return False
        return not any(
            c.position < r.position
            and all(w is c or w.position < c.position for w in foreign)
            and self._covers(c, r)
            for c in writes
        )

    def _is_own(self, r: _Access, w: _Access) -> bool:
        """Whether a thread reads through ``r`` nothing that another one writes through ``w``."""
        if w.nested is r.nested and (not r.is_one_store or is_same_place(r.region, w.region)):
            return True  # looked at inside, or by _is_orderly
        return self._are_apart(r, w)

    def _overwrites(self, a: _Access, b: _Access) -> bool:
        """Whether the last value of an element may be another thread's than in the loops' order."""
        if a.nested is b.nested or self._are_apart(a, b):
            return False
        if not any(uses(x.nested.realize, t.var) for x in (a, b) for t in self.threads):
            return False
        return not self._covers(b, a)

    def _covers(self, c: _Access, r: _Access) -> bool:
        """Whether a thread surely writes through ``c`` all that ``r`` touches, each time in the
        iteration of the loops around both."""
        count = 0
        for x, y in zip(c.nested.loops, r.nested.loops, strict=False):
            if x is not y:
                break
            count += 1
        writer, reader = (
            replace(n.block, reads=reads, writes=writes)
            for n, reads, writes in (
                (c.nested, (), (c.region,)),
                (r.nested, (r.region,), ()),
            )
        )
        pair = [
            Nested(replace(n.realize, block=block), n.loops[count:], n.conditions)
            for n, block in ((c.nested, writer), (r.nested, reader))
        ]
        return covered_within(pair, [*self.fixed, *c.nested.loops[:count]]) is None

    def _is_orderly(self, w: _Access) -> bool:
        """Whether a statement leaves the same if its threads run one after the other: they write
        different elements, or each one in the same order."""
        loops = [*self.varied, *w.nested.loops]
        return (
            not loops
            or self._are_apart(w, w)
            or have_an_order(w.nested, w.region, self.threads, loops)
            or _combines_in_any_order(w.nested.block.body)
        )


def _combines_in_any_order(s: Stmt) -> bool:
    """Whether a store combines a term into its element, such as ``S[i] = S[i] + x``."""
    if not isinstance(s, BufferStore) or not isinstance(s.value, _IN_ANY_ORDER):
        return False
    return sum(isinstance(n, BufferLoad) and n.buffer is s.buffer for n in walk(s.value)) == 1 and (
        any(
            isinstance(x, BufferLoad) and x.buffer is s.buffer and is_same_place(x, s)
            for x in (s.value.a, s.value.b)
        )
    )
