"""The order of few elements: how many stand before an element is its place."""

from __future__ import annotations

from functools import cache

from ..buffer import Buffer
from ..expr import INDEX, BufferLoad, Expr, IntImm, Var, floordiv
from ..expr import cast as cast_expr
from ..stmt import BufferStore, IfThenElse, Stmt, seq
from .order_entries import (
    ONE,
    ZERO,
    Entries,
    Entry,
    OrderedRow,
    let,
    let_all,
    precedes,
)
from .radix_sort import radix_steps
from .rows import loop

_VECTOR = 8


def rank_steps(entries: Entries, length: Expr) -> Expr:
    """Some measure of the work, that of ``radix_steps``."""
    return length * (floordiv(length * entries.words, IntImm(4, INDEX)) + 8)


@cache
def most_ranked(entries: Entries) -> int:
    """The most elements of a row for which comparing each with each is the least work."""
    length = _VECTOR

    def is_least(n: int) -> bool:
        size = IntImm(n, INDEX)
        ranked, distributed = rank_steps(entries, size), radix_steps(entries, size)
        assert isinstance(ranked, IntImm)
        assert isinstance(distributed, IntImm)
        return ranked.value <= distributed.value

    while is_least(length + 1):
        length += 1
    return length


def _padded(length: Expr) -> Expr:
    """``length`` in whole vectors."""
    return floordiv(length + (_VECTOR - 1), IntImm(_VECTOR, INDEX)) * _VECTOR


def rank_sort(row: OrderedRow) -> tuple[Stmt, list[Buffer]]:
    """The order of at most ``most_ranked`` elements, and the buffers it needs.

    Each entry is compared with all, those that fill up the last vector included: they stand behind
    every other.
    """
    entries, length = row.entries, row.length
    padded = _padded(length)
    most = padded if isinstance(padded, IntImm) else _padded(IntImm(most_ranked(entries), INDEX))
    firsts = Buffer("firsts", (most,), entries.word)
    before = Buffer("before", (ONE,), INDEX)

    def item(k: Expr) -> Entry:
        return (BufferLoad(firsts, (k,)), cast_expr(k, entries.word))[: entries.words]

    def count(own: Entry) -> Stmt:
        def step(j: Var) -> Stmt:
            stands = cast_expr(precedes(item(j), own), INDEX)
            return BufferStore(before, BufferLoad(before, (ZERO,)) + stands, (ZERO,))

        return seq(BufferStore(before, ZERO, (ZERO,)), loop("j", padded, step))

    def place(at: Var, i: Expr) -> Stmt:
        write = row.put(at, i)
        return write if row.found is length else IfThenElse(at < row.last, write)

    def ranked(i: Var) -> Stmt:
        counted = let_all("own", item(i), count)
        return seq(counted, let("at", BufferLoad(before, (ZERO,)), lambda at: place(at, i)))

    fill = loop("k", padded, lambda k: BufferStore(firsts, entries.last, (k,)))
    make = loop("k", length, lambda k: BufferStore(firsts, row.entry(k)[0], (k,)))
    return seq(fill, make, loop("i", length, ranked)), [firsts, before]
