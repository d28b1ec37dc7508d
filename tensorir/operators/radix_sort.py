"""The order of many elements: distributed by one byte of their keys after another, from the lowest.

Entries go from one half of a buffer to the other, those with a smaller byte to the front, equal
ones in the order they had. All bytes are counted in the run that makes the entries; one that all
keys share moves nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..buffer import Buffer
from ..expr import INDEX, LT, BufferLoad, Expr, IntImm, Var, add, sub
from ..stmt import BufferStore, IfThenElse, Stmt, seq
from .order_entries import (
    ONE,
    ZERO,
    Entries,
    Entry,
    OrderedRow,
    let,
    let_all,
    load_entry,
    store_entry,
)
from .rows import loop

_DIGITS = 256


def radix_steps(entries: Entries, length: Expr) -> Expr:
    """Some measure of the work: entries counted and moved, and places of digits."""
    return length * (2 + 2 * entries.passes) + _DIGITS * entries.passes


def radix_sort(row: OrderedRow) -> tuple[Stmt, list[Buffer]]:
    """The order of one element and more, and the buffers it needs."""
    entries = row.entries
    items = Buffer(
        "items", (IntImm(entries.words, INDEX), IntImm(2, INDEX), row.length), entries.word
    )
    counts = Buffer("counts", (IntImm(entries.passes, INDEX), IntImm(_DIGITS, INDEX)), INDEX)
    total, half = Buffer("total", (ONE,), INDEX), Buffer("half", (ONE,), INDEX)
    return _Radix(row, items, counts, total, half).sort(), [items, counts, total, half]


@dataclass(frozen=True)
class _Radix:
    """The sort of a row: ``items`` are the entries twice, ``half`` says where they are;
    ``counts`` has how often a digit occurs, then where the next entry with it goes."""

    row: OrderedRow
    items: Buffer
    counts: Buffer
    total: Buffer
    half: Buffer

    def sort(self) -> Stmt:
        passes, length = IntImm(self.row.entries.passes, INDEX), self.row.length
        return seq(
            loop("p", passes, self._clear),
            loop("k", length, self._enter),
            BufferStore(self.half, ZERO, (ZERO,)),
            loop("p", passes, self._unless_shared),
            let("last", BufferLoad(self.half, (ZERO,)), self._write),
        )

    def _entry(self, *at: Expr) -> Entry:
        return load_entry(self.items, self.row.entries.words, *at)

    def _clear(self, p: Var) -> Stmt:
        digits = IntImm(_DIGITS, INDEX)
        return loop("c", digits, lambda c: BufferStore(self.counts, ZERO, (p, c)))

    def _enter(self, k: Var) -> Stmt:
        def count(entry: Entry) -> Stmt:
            steps = [store_entry(self.items, entry, ZERO, k)]
            for number in range(self.row.entries.passes):
                p = IntImm(number, INDEX)
                at = (p, self.row.entries.digit(entry, p))
                steps.append(BufferStore(self.counts, BufferLoad(self.counts, at) + 1, at))
            return seq(*steps)

        return let_all("e", self.row.entry(k), count)

    def _unless_shared(self, p: Var) -> Stmt:
        def choose(source: Var) -> Stmt:
            first = self.row.entries.digit(self._entry(source, ZERO), p)
            alike = BufferLoad(self.counts, (p, first))
            return IfThenElse(LT(alike, self.row.length), self._distribute(p, source))

        return let("source", BufferLoad(self.half, (ZERO,)), choose)

    def _distribute(self, p: Var, source: Var) -> Stmt:
        target = sub(ONE, source)

        def put(entry: Entry, digit: Var) -> Stmt:
            def store(at: Var) -> Stmt:
                moved = BufferStore(self.counts, at + 1, (p, digit))
                return seq(store_entry(self.items, entry, target, at), moved)

            return let("at", BufferLoad(self.counts, (p, digit)), store)

        def move(entry: Entry) -> Stmt:
            return let("digit", self.row.entries.digit(entry, p), lambda d: put(entry, d))

        return seq(
            BufferStore(self.total, ZERO, (ZERO,)),
            loop("c", IntImm(_DIGITS, INDEX), lambda c: self._first_place(p, c)),
            loop("k", self.row.length, lambda k: let_all("e", self._entry(source, k), move)),
            BufferStore(self.half, target, (ZERO,)),
        )

    def _first_place(self, p: Var, c: Var) -> Stmt:
        def step(had: Var) -> Stmt:
            running = BufferLoad(self.total, (ZERO,))
            place = BufferStore(self.counts, running, (p, c))
            return seq(place, BufferStore(self.total, running + had, (ZERO,)))

        return let("had", BufferLoad(self.counts, (p, c)), step)

    def _write(self, last: Var) -> Stmt:
        def index(k: Var) -> Stmt:
            entry = self._entry(last, add(k, IntImm(self.row.skipped, INDEX)))
            return self.row.write(k, self.row.entries.place(entry))

        return loop("k", self.row.found, index)
