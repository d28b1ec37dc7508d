"""The first few of many elements in order, without ordering the others.

    elements  0 1 2 3 | 4 5 6 7 | 8 9       P = 4: part p has the elements p, p + P, p + 2P ...
    parts     0 1 2 3   0 1 2 3   0 1

One run through the row finds the first entry of each part, parts side by side in vectors. The first
of those is taken, and its part gives the first entry behind the one that was taken; and so on.
"""

from __future__ import annotations

from ..buffer import Buffer
from ..expr import INDEX, Expr, IntImm, Select, Var, add, floordiv, minimum, sub
from ..intrinsics import call_intrin
from ..stmt import Stmt, seq
from .order_entries import (
    ONE,
    Entries,
    Entry,
    OrderedRow,
    find_first,
    let,
    let_all,
    load_entry,
    precedes,
    store_entry,
)
from .rows import loop

FEWEST = 16
"""The fewest elements of a row from which a few are selected: it has at least as many as parts."""
_MOST_LOG = 11


def _shift_left(value: Expr, by: Expr) -> Expr:
    if isinstance(value, IntImm) and isinstance(by, IntImm):
        return IntImm(value.value << by.value, INDEX)
    return call_intrin("shift_left", value, by)


def _shift_right(value: Expr, by: Expr) -> Expr:
    if isinstance(value, IntImm) and isinstance(by, IntImm):
        return IntImm(value.value >> by.value, INDEX)
    return call_intrin("shift_right", value, by)


def log_parts(entries: Entries, length: Expr) -> Expr:
    """The binary logarithm of the number of parts: above half that of the length, since vectors
    compare parts, but not the elements of one."""
    if isinstance(length, IntImm):
        return IntImm(min(length.value.bit_length() // 2 + entries.words, _MOST_LOG), INDEX)
    bits = IntImm(64, INDEX) - call_intrin("clz", length)
    return minimum(floordiv(bits, IntImm(2, INDEX)) + entries.words, _MOST_LOG)


def selection_steps(entries: Entries, length: Expr, count: int) -> Expr:
    """Some measure of the work, that of ``radix_steps``: the run, and what an extraction reads."""
    log = log_parts(entries, length)
    parts = floordiv(_shift_left(ONE, log), IntImm(4, INDEX))
    return (length + (parts + _shift_right(length, log) * 2 + 32) * count) * entries.words


def select_first(row: OrderedRow) -> tuple[Stmt, list[Buffer]]:
    """The first ``row.last`` of at least ``FEWEST`` elements, and the buffers it needs."""
    entries, length = row.entries, row.length
    words = IntImm(entries.words, INDEX)
    static = log_parts(entries, length)
    most = 1 << static.value if isinstance(static, IntImm) else 1 << _MOST_LOG
    firsts = Buffer("firsts", (words, IntImm(most, INDEX)), entries.word)
    found = Buffer("found", (words,), entries.word)

    def with_parts(log: Expr) -> Stmt:
        parts = _shift_left(ONE, log)
        if isinstance(parts, IntImm):
            return build(log, parts)
        return let("parts", parts, lambda p: build(log, p))

    def build(log: Expr, parts: Expr) -> Stmt:
        def take(first: Expr, p: Expr) -> Stmt:
            def better(entry: Entry) -> Stmt:
                held = load_entry(firsts, entries.words, p)
                is_better = precedes(entry, held)
                kept = [Select(is_better, a, b) for a, b in zip(entry, held, strict=True)]
                return let_all("kept", kept, lambda new: store_entry(firsts, new, p))

            return let_all("e", row.entry(add(first, p)), better)

        def next_of(part: Var, taken: Entry) -> Stmt:
            extent = _shift_right(sub(sub(length, ONE), part), log) + 1
            return seq(
                find_first(
                    found,
                    extent,
                    lambda r: row.entry(_shift_left(r, log) + part),
                    lambda e: precedes(taken, e),
                ),
                store_entry(firsts, load_entry(found, entries.words), part),
            )

        def extract(k: Var) -> Stmt:
            def taken(entry: Entry) -> Stmt:
                def at(place: Var) -> Stmt:
                    inside = call_intrin("bitwise_and", place, sub(parts, ONE))
                    following = let("part", inside, lambda p: next_of(p, entry))
                    return seq(row.put(k, place), following)

                return let("place", entries.place(entry), at)

            return seq(
                find_first(found, parts, lambda p: load_entry(firsts, entries.words, p)),
                let_all("t", load_entry(found, entries.words), taken),
            )

        rounds = _shift_right(length, log)
        whole = _shift_left(rounds, log)
        return seq(
            loop("p", parts, lambda p: store_entry(firsts, row.entry(p), p)),
            loop(
                "r",
                sub(rounds, ONE),
                lambda r: loop("p", parts, lambda p: take(_shift_left(r + 1, log), p)),
            ),
            loop("p", sub(length, whole), lambda p: take(whole, p)),
            loop("k", row.last, extract),
        )

    body = with_parts(static) if isinstance(static, IntImm) else let("log", static, with_parts)
    return body, [firsts, found]
