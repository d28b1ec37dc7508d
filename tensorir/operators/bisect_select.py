"""One element of the order of many, found without ordering any: by halving the range of its key.

From its highest bit on, each bit of the wanted key is 1 if not more elements have smaller keys than
are to stand before it. Counting them is a run through keys in vectors, as many runs as a key has
bits; of equal keys, the wanted one is counted off.
"""

from __future__ import annotations

from ...support.dtype import DType
from ..buffer import Buffer
from ..expr import EQ, INDEX, LE, LT, BufferLoad, Expr, IntImm, Select, const, sub
from ..expr import cast as cast_expr
from ..intrinsics import call_intrin
from ..stmt import BufferStore, IfThenElse, Stmt, seq
from .order_entries import ONE, ZERO, Entries, OrderedRow, let
from .rows import loop

_NARROW = DType("int32")
"""What elements are counted in, where that suffices: vectors are those of the widest dtype."""


def bisection_steps(entries: Entries, length: Expr) -> Expr:
    """Some measure of the work, that of ``radix_steps``: a run in vectors for each bit, and one to
    count equal keys off."""
    per_key = 2 + entries.bits * entries.bits // 512
    return length * per_key + 8 * entries.bits


def bisect_select(row: OrderedRow) -> tuple[Stmt, list[Buffer]]:
    """The element after the ``row.skipped`` first ones, and the buffers it needs."""
    entries, length = row.entries, row.length
    kind = DType(f"uint{entries.bits}")
    keys = Buffer("keys", (length,), kind)
    low = Buffer("low", (ONE,), kind)
    fits = isinstance(length, IntImm) and length.value < 1 << (_NARROW.bits - 1)
    count = Buffer("count", (ONE,), _NARROW if fits else INDEX)
    place = Buffer("place", (ONE,), INDEX)
    none, skipped = const(0, count.dtype), const(row.skipped, count.dtype)

    def of(buffer: Buffer) -> Expr:
        return BufferLoad(buffer, (ZERO,))

    def put(buffer: Buffer, value: Expr) -> Stmt:
        return BufferStore(buffer, value, (ZERO,))

    def count_smaller(limit: Expr) -> Stmt:
        def step(k: Expr) -> Stmt:
            is_smaller = LT(BufferLoad(keys, (k,)), limit)
            return put(count, of(count) + cast_expr(is_smaller, count.dtype))

        return seq(put(count, none), loop("k", length, step))

    def bit(b: Expr) -> Stmt:
        shift = cast_expr(sub(IntImm(entries.bits - 1, INDEX), b), kind)
        set_bit = call_intrin("shift_left", const(1, kind), shift)

        def decide(limit: Expr) -> Stmt:
            is_reached = LE(of(count), skipped)
            return seq(count_smaller(limit), put(low, Select(is_reached, limit, of(low))))

        return let("limit", call_intrin("bitwise_or", of(low), set_bit), decide)

    def count_off(k: Expr) -> Stmt:
        found = IfThenElse(EQ(of(count), skipped), put(place, k))
        return IfThenElse(
            EQ(BufferLoad(keys, (k,)), of(low)), seq(found, put(count, of(count) + 1))
        )

    body = seq(
        loop("k", length, lambda k: BufferStore(keys, entries.key(row.load(k)), (k,))),
        put(low, const(0, kind)),
        put(place, ZERO),
        loop("b", IntImm(entries.bits, INDEX), bit),
        count_smaller(of(low)),
        loop("k", length, count_off),
        row.write(ZERO, of(place)),
    )
    return body, [keys, low, count, place]
