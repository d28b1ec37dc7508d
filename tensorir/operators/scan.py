"""Scans: cumulative sums, products and extremes along an axis.

Along the last axis a row is scanned a vector at a time. Each element is combined with the one 1,
then 2, then 4 ... places before it, so that it stands for as many elements as a vector has, and
then with the result one vector before

    x4       x5       x6       x7         in front of a row stand identities
    x34      x45      x56      x67        combined with 1 place before
    x1234    x2345    x3456    x4567      combined with 2 places before
    x01234   x012345  ...                 combined with the results of 4 places before

so that vectors wait for each other for one operation only, and no lane has to be spread over a
vector. Of long rows that need no wider accumulator, what stands 1 to 3 places before is loaded,
as ports for loads are idle and those for shuffles are not; from 4 places on, and of other rows,
vectors of results are shuffled. Along any other axis each column is scanned in order, and columns
are lanes: pieces of rows whose state stays in the first cache, row after row. In which order
elements are combined depends on shapes alone. Where a sum of float64 neighbours overflows, the
result is infinite or NaN even if the sum from the beginning is finite. Products of floats are taken
in order, as neighbours' products overflow easily and zero times infinity is NaN. Each float is
rounded once, as a result: float32 accumulates in float64, half precision in float32.

Where running extremes stand is a scan of its own (``last_match``): that of the places at which an
element is what the extreme has become.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from ...support.dtype import DType
from ...support.errors import ComputeError
from ..buffer import Buffer
from ..expr import (
    EQ,
    GE,
    INDEX,
    LE,
    BufferLoad,
    Expr,
    IntImm,
    Select,
    add,
    const,
    floordiv,
    floormod,
    logical_or,
    max_value,
    maximum,
    min_value,
    minimum,
    mul,
    sub,
)
from ..expr import cast as cast_expr
from ..function import PrimFunc
from ..intrinsics import call_intrin
from ..stmt import BufferStore, For, IfThenElse, Stmt, seq
from ..te.compute import Tensor
from .reduce import accumulator, normal_axes
from .rows import function_of_rows, loop, plain_buffer

WINDOW = 8
"""Elements of a row that are worked on at once. Twice as many take another shuffle for each vector,
which costs CPUs that cut it in two more than it saves."""
WINDOW_BYTES = 32
"""Of the state of a short row: one that has few vectors has a part of one as well."""
SHORT = 64
"""Elements of a short row."""
FEW_VECTORS = 8
"""Vectors of a row for which the first one is not worth code of its own."""
LOADED = 2
"""Distances, 1 and 2 places, at which elements are loaded from before a vector."""
VECTOR_BYTES = 64
"""Of the state of columns: the widest vector there is, several of lesser CPUs."""
PIECE_BYTES = 1 << 14
"""Of the state of columns that are scanned together: it stays in the first cache, and what is read
and written beside it are long stretches of memory."""


@dataclass(frozen=True)
class _Scan:
    """What is scanned and how: ``combine`` of what ``load`` gives at each place, from ``neutral``
    on, along axis ``d``. ``in_order`` combines elements one after another, ``again`` loads one
    again where that is less work than to shuffle it."""

    combine: Callable[[Expr, Expr], Expr]
    neutral: Expr
    sources: tuple[Buffer, ...]
    load: Callable[[Sequence[Expr]], Expr]
    out: Buffer
    d: int
    exclusive: bool = False
    reverse: bool = False
    in_order: bool = False
    again: bool = False

    @property
    def wide(self) -> DType:
        """The dtype of the state."""
        return self.neutral.dtype

    @property
    def length(self) -> Expr:
        return self.out.shape[self.d]

    def store(self, value: Expr, place: Sequence[Expr]) -> Stmt:
        return BufferStore(self.out, cast_expr(value, self.out.dtype), tuple(place))


def _index(n: int) -> IntImm:
    return IntImm(n, INDEX)


def _lanes(size: int, dtype: DType, extent: Expr) -> int:
    """Elements of a vector of ``size`` bytes; not many more than there are."""
    lanes = size // dtype.itemsize
    if isinstance(extent, IntImm):
        lanes = min(lanes, 1 << max(0, extent.value - 1).bit_length())
    return lanes


def _window(scan: _Scan) -> int:
    """Elements of a row that are worked on at once."""
    length = scan.length
    if isinstance(length, IntImm) and length.value <= SHORT:
        return _lanes(WINDOW_BYTES, scan.wide, length)
    return min(WINDOW, _lanes(VECTOR_BYTES, scan.wide, length))


def _vector(lanes: int, body: Callable[[Expr], Stmt]) -> Stmt:
    made = loop("l", _index(lanes), body)
    return For(made.var, made.min, made.extent, "vectorized", made.body)


# -- along the last axis ---------------------------------------------------------------------------
class _Row:
    """The statements that scan a row, and the registers that they need."""

    def __init__(self, scan: _Scan, lead: Sequence[Expr]) -> None:
        self.scan, self.lead = scan, lead
        self.lanes = 1 if scan.in_order else _window(scan)
        # A window has the vector before beside the present one, on the side where scanning begins.
        self.own, self.beside, self.before = (
            (0, self.lanes, 1) if scan.reverse else (self.lanes, 0, -1)
        )
        # One for each distance, and one for the results.
        names = [str(1 << n) for n in range(self.lanes.bit_length() - 1)] + ["out"]
        self.windows = [self._register(f"window_{name}", 2 * self.lanes) for name in names]
        self.earlier = [self._register(f"earlier_{name}", self.lanes) for name in names]

    @property
    def buffers(self) -> list[Buffer]:
        return [*self.windows, *self.earlier]

    def _register(self, name: str, extent: int) -> Buffer:
        return Buffer(name, (_index(extent),), self.scan.wide, scope="register")

    def _vector(self, body: Callable[[Expr], Stmt]) -> Stmt:
        return _vector(self.lanes, body)

    def start(self) -> Stmt:
        """Nothing stands before the first vector."""
        return seq(*[self._fill(earlier, lambda _: self.scan.neutral) for earlier in self.earlier])

    def _fill(self, buffer: Buffer, value: Callable[[Expr], Expr], first: int = 0) -> Stmt:
        return self._vector(lambda lane: BufferStore(buffer, value(lane), (lane + first,)))

    def _enter(self, n: int, value: Callable[[Expr], Expr]) -> list[Stmt]:
        """Put a vector into window ``n``, and the one before it beside."""
        window, earlier = self.windows[n], self.earlier[n]
        return [
            self._fill(window, lambda lane: BufferLoad(earlier, (lane,)), self.beside),
            self._fill(window, value, self.own),
            self._fill(earlier, lambda lane: BufferLoad(window, (lane + self.own,))),
        ]

    def vector(self, base: Expr, count: Expr | None = None, *, first: bool = True) -> Stmt:
        """Scan the elements from ``base`` on: a vector of them, or the first ``count``. Unless it
        may be the ``first`` vector, neighbours are loaded, which is less work than to shuffle."""
        scan, combine = self.scan, self.scan.combine
        loaded = LOADED if scan.again and not first else 0

        def given(lane: Expr) -> Expr:
            value = scan.load((*self.lead, base + lane))
            if count is None:
                return value
            return call_intrin("if_then_else", lane < count, value, scan.neutral)

        def reloaded(n: int, lane: Expr) -> Expr:
            """What window ``n`` has at a place that may lie before this vector."""
            if n == 0:
                return given(lane)
            behind = reloaded(n - 1, lane + self.before * (1 << (n - 1)))
            return combine(behind, reloaded(n - 1, lane))

        def doubled(n: int, lane: Expr) -> Expr:
            window, distance = self.windows[n], self.before * (1 << n)
            if n < loaded:
                behind = reloaded(n, lane + distance)
            else:
                behind = BufferLoad(window, (lane + (self.own + distance),))
            return combine(behind, BufferLoad(window, (lane + self.own,)))

        def written(lane: Expr) -> Stmt:
            at = self.own + self.before if scan.exclusive else self.own
            value = BufferLoad(self.windows[-1], (lane + at,))
            stored = scan.store(value, (*self.lead, base + lane))
            return stored if count is None else IfThenElse(lane < count, stored)

        last = len(self.windows) - 1
        made = given
        parts: list[Stmt] = []
        for n in range(last):
            parts += self._enter(n, made)
            made = partial(doubled, n)
        whole = made
        parts += self._enter(
            last, lambda lane: combine(BufferLoad(self.earlier[-1], (lane,)), whole(lane))
        )
        return seq(*parts, self._vector(written))


def _rows(scan: _Scan) -> PrimFunc:
    def row(lead: Sequence[Expr]) -> tuple[Stmt, list[Buffer]]:
        made = _Row(scan, lead)
        lanes = _index(made.lanes)
        whole, rest = floordiv(scan.length, lanes), floormod(scan.length, lanes)

        def full(k: Expr, *, first: bool) -> Stmt:
            base = sub(scan.length, (k + 1) * lanes) if scan.reverse else k * lanes
            return made.vector(base, first=first)

        parts = [made.start()]
        if isinstance(whole, IntImm) and whole.value > FEW_VECTORS and made.lanes > 1:
            parts.append(full(_index(0), first=True))
            parts.append(loop("k", _index(whole.value - 1), lambda k: full(k + 1, first=False)))
        else:
            parts.append(loop("k", whole, lambda k: full(k, first=True)))
        if not (isinstance(rest, IntImm) and rest.value == 0):
            parts.append(made.vector(_index(0) if scan.reverse else whole * lanes, rest))
        return seq(*parts), made.buffers

    return function_of_rows(scan.out.name, [*scan.sources, scan.out], scan.out.shape[:-1], row)


# -- along another axis ----------------------------------------------------------------------------
def _columns(scan: _Scan) -> PrimFunc:
    inner = scan.out.shape[scan.d + 1 :]
    width: Expr = _index(1)
    for extent in inner:
        width = width * extent
    lanes = _lanes(VECTOR_BYTES, scan.wide, width)
    size = PIECE_BYTES // scan.wide.itemsize
    if isinstance(width, IntImm):
        size = max(1, min(size, -(-width.value // lanes) * lanes))
    is_one = size == lanes
    held = Buffer("held", (_index(size),), scan.wide, scope="register" if is_one else "global")
    is_whole = isinstance(width, IntImm) and width.value % size == 0

    def behind(j: Expr) -> list[Expr]:
        """The indices of column ``j``."""
        found: list[Expr] = []
        for extent in reversed(inner[1:]):
            found.append(floormod(j, extent))
            j = floordiv(j, extent)
        return [j, *reversed(found)]

    def row(at: Sequence[Expr]) -> tuple[Stmt, list[Buffer]]:
        *lead, piece = at
        first = piece * size
        count = _index(size) if is_whole else minimum(_index(size), sub(width, first))

        def all_vectors(body: Callable[[Expr], Stmt]) -> Stmt:
            """``body`` of all columns of the piece."""

            def rest(start: Expr) -> Stmt:
                return _vector(
                    lanes, lambda lane: IfThenElse(start + lane < count, body(start + lane))
                )

            if is_one:
                return _vector(lanes, body) if is_whole else rest(_index(0))
            vectors = floordiv(count, _index(lanes))
            full = loop("j", vectors, lambda j: _vector(lanes, lambda lane: body(j * lanes + lane)))
            return full if is_whole else seq(full, rest(vectors * lanes))

        def step(k: Expr, j: Expr) -> Stmt:
            place = (*lead, sub(scan.length, k + 1) if scan.reverse else k, *behind(first + j))
            now = BufferLoad(held, (j,))
            moved = BufferStore(held, scan.combine(now, scan.load(place)), (j,))
            written = scan.store(now, place)
            return seq(written, moved) if scan.exclusive else seq(moved, written)

        start = all_vectors(lambda j: BufferStore(held, scan.neutral, (j,)))
        scanned = loop("k", scan.length, lambda k: all_vectors(lambda j: step(k, j)))
        return seq(start, scanned), [held]

    pieces = floordiv(width + (size - 1), _index(size))
    rows = (*scan.out.shape[: scan.d], pieces)
    return function_of_rows(scan.out.name, [*scan.sources, scan.out], rows, row)


def _scanned(scan: _Scan) -> PrimFunc:
    return _rows(scan) if scan.d == scan.out.ndim - 1 else _columns(scan)


def _scan(
    name: str,
    combine: Callable[[Expr, Expr], Expr],
    neutral: Expr,
    x: Tensor,
    axis: int,
    exclusive: bool = False,
    reverse: bool = False,
) -> PrimFunc:
    """The scan of a tensor's elements, in the dtype of ``neutral``."""
    if x.dtype.is_bool:
        raise ComputeError(f"{name}: expected numbers, found {x.dtype}.")
    (d,) = normal_axes(axis, x.ndim)
    source, wide = plain_buffer(x), neutral.dtype

    def load(place: Sequence[Expr]) -> Expr:
        return cast_expr(BufferLoad(source, tuple(place)), wide)

    out = Buffer(name, x.shape, x.dtype)
    in_order, again = combine is mul and wide.is_float, x.dtype is wide
    found = (exclusive, reverse, in_order, again)
    return _scanned(_Scan(combine, neutral, (source,), load, out, d, *found))


def _accumulator(dtype: DType) -> DType:
    """The dtype of a running sum: float64 of float32, as a sum along a million elements has a
    million roundings."""
    return DType("float64") if dtype == "float32" else accumulator(dtype)


def cumsum(x: Tensor, axis: int, *, exclusive: bool = False, reverse: bool = False) -> PrimFunc:
    """The function of ``x`` and the result: sums of the elements up to each place along ``axis``.

    ``exclusive`` leaves the element itself out, ``reverse`` starts at the end. Raises ComputeError
    for bools.
    """
    zero = const(0, _accumulator(x.dtype))
    return _scan("cumsum", add, zero, x, axis, exclusive, reverse)


def cumprod(x: Tensor, axis: int, *, exclusive: bool = False, reverse: bool = False) -> PrimFunc:
    """As cumsum, with products."""
    one = const(1, _accumulator(x.dtype))
    return _scan("cumprod", mul, one, x, axis, exclusive, reverse)


def _later(before: Expr, here: Expr, *, largest: bool) -> Expr:
    """The more extreme of two elements, of equal ones the later; NaN above and below everything."""
    wins: Expr = GE(here, before) if largest else LE(here, before)
    if here.dtype.is_float:
        wins = logical_or(wins, call_intrin("isnan", here))
    return Select(wins, here, before)


def cummax(x: Tensor, axis: int) -> PrimFunc:
    """The function of ``x`` and the result: the largest element up to each place along ``axis``;
    NaN from the first NaN on. Raises ComputeError for bools."""
    least = min_value(accumulator(x.dtype))
    return _scan("cummax", partial(_later, largest=True), least, x, axis)


def cummin(x: Tensor, axis: int) -> PrimFunc:
    """As cummax, the smallest."""
    most = max_value(accumulator(x.dtype))
    return _scan("cummin", partial(_later, largest=False), most, x, axis)


def last_match(x: Tensor, y: Tensor, axis: int) -> PrimFunc:
    """The function of ``x``, ``y`` of its shape and dtype, and the result (int64): up to each place
    along ``axis`` the last at which ``x`` has what ``y`` has there, or has NaN; 0 where there is
    none. Of a running extreme ``y`` this is where it stands."""
    (d,) = normal_axes(axis, x.ndim)
    length, narrow = x.shape[d], DType("int32")
    fits = isinstance(length, IntImm) and length.value < 1 << (narrow.bits - 1)
    zero = const(0, narrow if fits else INDEX)
    source, other = plain_buffer(x), plain_buffer(y)

    def load(place: Sequence[Expr]) -> Expr:
        value = BufferLoad(source, tuple(place))
        matches: Expr = EQ(value, BufferLoad(other, tuple(place)))
        if x.dtype.is_float:
            matches = logical_or(matches, call_intrin("isnan", value))
        return Select(matches, cast_expr(place[d], zero.dtype), zero)

    out = Buffer("last_match", x.shape, INDEX)
    return _scanned(_Scan(maximum, zero, (source, other), load, out, d))
