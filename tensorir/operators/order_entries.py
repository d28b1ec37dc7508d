"""Elements and their places as unsigned integers that compare in the order of a stable sort.

    element ──> key: integers are in order as the elements are, from the first on
    (key, place) ──> one word of 64 bits where the key has at most 32, else a word each;
                     of short axes one of 32 bits where the key has at most 16

An entry is the tuple of its words, and no two are equal: what orders entries is stable whichever
way it goes through them. NaN stands above everything else and the two zeros are equal, as in
PyTorch; where the order descends, every bit of the key is turned over.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...support.dtype import DType
from ...support.errors import ComputeError
from ..buffer import Buffer
from ..expr import (
    EQ,
    GE,
    GT,
    INDEX,
    LT,
    BufferLoad,
    Expr,
    IntImm,
    Select,
    Var,
    add,
    const,
    logical_and,
    logical_or,
    max_value,
    minimum,
    sub,
)
from ..expr import cast as cast_expr
from ..intrinsics import call_intrin
from ..stmt import BufferStore, IfThenElse, LetStmt, Stmt, seq
from .rows import loop

WORD = DType("uint64")
ZERO, ONE = IntImm(0, INDEX), IntImm(1, INDEX)
NARROW_WORD = DType("uint32")

Entry = tuple[Expr, ...]

_INFINITY = {"float16": 0x7C00, "bfloat16": 0x7F80, "float32": 0x7F800000,
             "float64": 0x7FF0000000000000}  # fmt: skip


def let(name: str, value: Expr, body: Callable[[Var], Stmt]) -> Stmt:
    """``body`` of a variable that holds ``value``."""
    v = Var(name, value.dtype)
    return LetStmt(v, value, body(v))


def let_all(name: str, values: Sequence[Expr], body: Callable[[Entry], Stmt]) -> Stmt:
    """``body`` of variables that hold ``values``."""
    variables = [Var(f"{name}{w}", v.dtype) for w, v in enumerate(values)]
    made = body(tuple(variables))
    for v, value in reversed(list(zip(variables, values, strict=True))):
        made = LetStmt(v, value, made)
    return made


def order_key(x: Expr, *, descending: bool) -> Expr:
    """``x`` as an unsigned integer of its width: smaller where ``x`` stands before."""
    if x.dtype.is_bool:
        key = cast_expr(x, "uint8")
    elif x.dtype.kind == "uint":
        key = x
    else:
        unsigned = f"uint{x.dtype.bits}"
        bits = call_intrin("reinterpret", x, dtype=unsigned)
        sign = const(1 << (x.dtype.bits - 1), unsigned)
        if x.dtype.is_float:
            key = _float_key(bits, sign, const(_INFINITY[x.dtype], unsigned))
        else:
            key = call_intrin("bitwise_xor", bits, sign)
    return call_intrin("bitwise_not", key) if descending else key


def _float_key(bits: Expr, sign: Expr, infinity: Expr) -> Expr:
    """The magnitude counts upwards from the sign bit, or downwards where the number is negative."""
    magnitude = call_intrin("bitwise_and", bits, call_intrin("bitwise_not", sign))
    negative = call_intrin("bitwise_not", bits)
    number = Select(GE(bits, sign), negative, call_intrin("bitwise_or", bits, sign))
    number = Select(EQ(magnitude, const(0, bits.dtype)), sign, number)
    return Select(GT(magnitude, infinity), max_value(bits.dtype), number)


@dataclass(frozen=True)
class Entries:
    """How the elements of one dtype become entries. A ``word`` is half key and half place, or all
    of one of them."""

    dtype: DType
    descending: bool
    word: DType = WORD

    @property
    def bits(self) -> int:
        """The bits of a key."""
        return self.dtype.bits

    @property
    def passes(self) -> int:
        """The bytes of a key."""
        return self.bits // 8

    @property
    def half(self) -> int:
        """The bits of half a word."""
        return self.word.bits // 2

    @property
    def is_packed(self) -> bool:
        """Whether key and place are one word."""
        return self.bits <= self.half

    @property
    def words(self) -> int:
        """The words of an entry."""
        return 1 if self.is_packed else 2

    @property
    def last(self) -> Expr:
        """A word that no entry has in all of its words: it stands behind every entry."""
        return max_value(self.word)

    def check_length(self, length: Expr) -> None:
        """Raises ComputeError for an axis whose places have no room in an entry."""
        if self.is_packed and isinstance(length, IntImm) and length.value >> self.half:
            raise ComputeError(
                f"argsort: expected an axis of less than 2**{self.half} {self.dtype} elements, "
                f"found {length.value}."
            )

    def key(self, x: Expr) -> Expr:
        """The key of ``x``, of its width."""
        return order_key(x, descending=self.descending)

    def entry(self, x: Expr, place: Expr) -> Entry:
        """The entry of element ``x`` at ``place``."""
        key, number = cast_expr(self.key(x), self.word), cast_expr(place, self.word)
        if not self.is_packed:
            return key, number
        high = call_intrin("shift_left", key, self.half)
        return (call_intrin("bitwise_or", high, number),)

    def place(self, entry: Entry) -> Expr:
        """Where the element of ``entry`` stands, an index."""
        number = entry[-1]
        if self.is_packed:
            number = call_intrin("bitwise_and", number, (1 << self.half) - 1)
        return cast_expr(number, INDEX)

    def digit(self, entry: Entry, p: Expr) -> Expr:
        """Byte ``p`` of the key from below, an index."""
        first = self.half if self.is_packed else 0
        shift = cast_expr(p * 8 + first, self.word)
        moved = call_intrin("shift_right", entry[0], shift)
        return cast_expr(call_intrin("bitwise_and", moved, 255), INDEX)


def entries_of(dtype: DType, length: Expr, *, descending: bool) -> Entries:
    """Entries for an axis, of the narrowest words that hold key and place: a vector has most of
    those. Raises ComputeError for an axis whose places have no room in an entry."""
    half = NARROW_WORD.bits // 2
    is_short = isinstance(length, IntImm) and not length.value >> half
    entries = Entries(dtype, descending, NARROW_WORD if is_short and dtype.bits <= half else WORD)
    entries.check_length(length)
    return entries


def precedes(a: Entry, b: Entry) -> Expr:
    """Whether entry ``a`` stands strictly before ``b``."""
    before: Expr = LT(a[-1], b[-1])
    for x, y in reversed(list(zip(a[:-1], b[:-1], strict=True))):
        before = logical_or(LT(x, y), logical_and(EQ(x, y), before))
    return before


def load_entry(buffer: Buffer, words: int, *at: Expr) -> Entry:
    """The entry of a buffer whose first axis is the word."""
    return tuple([BufferLoad(buffer, (IntImm(w, INDEX), *at)) for w in range(words)])


def store_entry(buffer: Buffer, entry: Entry, *at: Expr) -> Stmt:
    """Puts ``entry`` where ``load_entry`` finds it."""
    return seq(
        *[BufferStore(buffer, value, (IntImm(w, INDEX), *at)) for w, value in enumerate(entry)]
    )


def find_first(
    found: Buffer,
    extent: Expr,
    entry_of: Callable[[Expr], Entry],
    wanted: Callable[[Entry], Expr] | None = None,
) -> Stmt:
    """Puts the first of the wanted entries into ``found``, what stands behind every entry where
    there is none.

    One word at a time, so that each is the minimum of a loop, which vectors compute.
    """
    parts: list[Stmt] = []
    last, words = max_value(found.dtype), found.shape[0]
    assert isinstance(words, IntImm)
    for w in range(words.value):
        at = IntImm(w, INDEX)

        def step(k: Var, w: int = w, at: IntImm = at) -> Stmt:
            def keep(entry: Entry) -> Stmt:
                condition = wanted(entry) if wanted else const(True, "bool")
                for v in range(w):
                    same = EQ(entry[v], BufferLoad(found, (IntImm(v, INDEX),)))
                    condition = logical_and(condition, same)
                candidate = entry[w]
                if not isinstance(condition, IntImm):
                    candidate = Select(condition, candidate, last)
                least = minimum(BufferLoad(found, (at,)), candidate)
                return BufferStore(found, least, (at,))

            return let_all("e", entry_of(k), keep)

        parts += [BufferStore(found, last, (at,)), loop("k", extent, step)]
    return seq(*parts)


@dataclass(frozen=True)
class OrderedRow:
    """A row: its ``length`` elements, and where indices go, one at a time: ``found`` of them, after
    the ``skipped`` first ones."""

    entries: Entries
    length: Expr
    found: Expr
    load: Callable[[Expr], Expr]
    write: Callable[[Expr, Expr], Stmt]
    skipped: int = 0

    @property
    def last(self) -> Expr:
        """The place behind the last index that is wanted."""
        return add(self.found, IntImm(self.skipped, INDEX))

    def entry(self, k: Expr) -> Entry:
        """The entry of element ``k``."""
        return self.entries.entry(self.load(k), k)

    def put(self, at: Expr, index: Expr) -> Stmt:
        """Writes the index that stands at place ``at``, below ``last``, unless it is skipped."""
        first = IntImm(self.skipped, INDEX)
        write = self.write(sub(at, first), index)
        return IfThenElse(at >= first, write) if self.skipped else write
