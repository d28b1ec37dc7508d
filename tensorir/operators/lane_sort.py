"""The order of many short rows at once: a lane of vectors has a row of its own.

Entries are exchanged in pairs, the first of two to the front, whatever they are: no step depends on
data, so that all lanes take the same ones.

    whole rows      a sorting network: Batcher's odd-even merge sort, for any number of elements
                    (Knuth, The Art of Computer Programming 3, 5.2.2, algorithm M)
    the first few   each element is exchanged with the first few that were found before it

Short networks and the first few are in registers. Where neighbouring rows are neighbours in memory
too, vectors are loaded and stored; else a row after the other is turned into its lane and back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ...support.dtype import DType
from ..buffer import Buffer
from ..expr import INDEX, BufferLoad, Expr, IntImm, Select, const, floordiv, floormod, maximum
from ..expr import minimum as least_of
from ..intrinsics import call_intrin
from ..stmt import BufferStore, For, IfThenElse, Stmt, seq
from .order_entries import Entries, Entry, let_all, load_entry, precedes, store_entry
from .rows import loop

VECTOR_BYTES = 64
"""Of an entry's word in all lanes: the widest vector there is, several of lesser CPUs."""
IN_REGISTERS = 16
"""Words of each lane that registers hold."""
_EXCHANGE, _MOVE = 2, 2
"""Steps, of which ``radix_steps`` counts some, of an exchange of one word in all lanes, and of
turning an element into its lane and back."""


def lane_count(entries: Entries) -> int:
    """The rows that are put in order at once."""
    return VECTOR_BYTES // entries.word.itemsize


def network_stages(length: int) -> Iterator[tuple[int, int, int]]:
    """The stages of the network, each as ``(run, distance, first)``: places ``i`` and ``i +
    distance`` are exchanged for all ``i`` in runs of ``run`` places, from ``first`` on every other
    one. No place occurs twice in a stage."""
    top = 1 << max(0, (length - 1).bit_length() - 1)
    run = top if length > 1 else 0
    while run:
        merged, first, distance = top, 0, run
        while True:
            yield run, distance, first
            if merged == run:
                break
            distance, merged, first = merged - run, merged // 2, run
        run //= 2


def _exchanges(length: int, run: int, distance: int, first: int) -> int:
    """How many pairs a stage exchanges."""
    whole, rest = divmod(max(0, length - distance - first), 2 * run)
    return whole * run + min(run, rest)


def lane_steps(entries: Entries, length: int, last: int, *, side_by_side: bool) -> int:
    """Some measure of the work for all lanes, that of ``radix_steps``."""
    if _keeps_few(entries, length, last):
        exchanges = length * last // 2
    else:
        exchanges = sum([_exchanges(length, *stage) for stage in network_stages(length)])
    each = 1 if entries.is_packed else 3
    moved = length * (1 if side_by_side else _MOVE * lane_count(entries))
    return exchanges * _EXCHANGE * each + moved


def _keeps_few(entries: Entries, length: int, last: int) -> bool:
    """Whether going through the first few is less work than the network."""
    pairs = sum([_exchanges(length, *stage) for stage in network_stages(length)])
    return last * entries.words <= IN_REGISTERS and length * last < 2 * pairs


@dataclass(frozen=True)
class Lanes:
    """Rows of ``length`` elements: ``load`` of a place and a lane, ``write`` of an index there,
    the ``skipped``-th and so on, ``found`` in all. Only the first ``count`` lanes have rows, all
    of them where that is None; those ``side_by_side`` are neighbours in memory."""

    entries: Entries
    length: int
    found: int
    load: Callable[[Expr, Expr], Expr]
    write: Callable[[Expr, Expr, Expr], Stmt]
    count: Expr | None
    side_by_side: bool
    skipped: int = 0


def _index(n: int) -> IntImm:
    return IntImm(n, INDEX)


def lane_sort(rows: Lanes) -> tuple[Stmt, list[Buffer]]:
    """The order of each lane's row, and the buffers it needs."""
    return _Sort(rows).sort()


class _Sort:
    """The statements, and the buffers: ``words`` are the entries that are exchanged, word, place
    and lane; ``turned`` has the elements where rows are no neighbours, ``places`` their order."""

    def __init__(self, rows: Lanes) -> None:
        self.rows, self.entries, self.lanes = rows, rows.entries, lane_count(rows.entries)
        last = rows.skipped + rows.found
        self.few = _keeps_few(self.entries, rows.length, last)
        held = last if self.few else rows.length
        self.short = held * self.entries.words <= IN_REGISTERS
        scope = "register" if self.short else "global"
        shape = (_index(self.entries.words), _index(held), _index(self.lanes))
        self.words = Buffer("words", shape, self.entries.word, scope=scope)
        self.turned = self._plane("turned", rows.length, self.entries.dtype)
        self.places = self._plane("places", rows.found, INDEX)

    def _plane(self, name: str, extent: int, dtype: DType) -> Buffer:
        return Buffer(name, (_index(extent), _index(self.lanes)), dtype)

    def sort(self) -> tuple[Stmt, list[Buffer]]:
        rows, work = self.rows, self._keep_few() if self.few else self._network()
        if rows.side_by_side:
            return seq(work, self._write()), [self.words]
        count = _index(self.lanes) if rows.count is None else rows.count
        length, found = _index(rows.length), _index(rows.found)

        def enter(lane: Expr, k: Expr) -> Stmt:
            return BufferStore(self.turned, rows.load(k, lane), (k, lane))

        def leave(lane: Expr, k: Expr) -> Stmt:
            return rows.write(k, lane, BufferLoad(self.places, (k, lane)))

        entered = loop("l", count, lambda lane: loop("k", length, lambda k: enter(lane, k)))
        left = loop("l", count, lambda lane: loop("k", found, lambda k: leave(lane, k)))
        return seq(entered, work, self._write(), left), [self.words, self.turned, self.places]

    # -- parts --------------------------------------------------------------------------------
    def _vector(self, body: Callable[[Expr], Stmt]) -> Stmt:
        made = loop("lane", _index(self.lanes), body)
        return For(made.var, made.min, made.extent, "vectorized", made.body)

    def _each(self, extent: int, body: Callable[[Expr], Stmt]) -> Stmt:
        """``body`` of places, one after another: written out where words are in registers."""
        if self.short:
            return seq(*[body(_index(k)) for k in range(extent)])
        return loop("k", _index(extent), body)

    def _entry(self, k: Expr, lane: Expr) -> Entry:
        """The entry of element ``k``; of a lane without a row any."""
        if not self.rows.side_by_side:
            return self.entries.entry(BufferLoad(self.turned, (k, lane)), k)
        value = self.rows.load(k, lane)
        if self.rows.count is not None:
            none = const(0, value.dtype)
            value = call_intrin("if_then_else", lane < self.rows.count, value, none)
        return self.entries.entry(value, k)

    def _ordered(self, a: Entry, b: Entry) -> tuple[list[Expr], list[Expr]]:
        """The first of two entries, and the other."""
        if len(a) == 1:
            return [least_of(a[0], b[0])], [maximum(a[0], b[0])]
        turns = precedes(b, a)
        pairs = list(zip(a, b, strict=True))
        return [Select(turns, y, x) for x, y in pairs], [Select(turns, x, y) for x, y in pairs]

    # -- the first few ------------------------------------------------------------------------
    def _keep_few(self) -> Stmt:
        """Each entry goes through those that are kept, and takes the place of the first behind it,
        which goes on."""
        kept = self.rows.skipped + self.rows.found

        def through(lane: Expr, j: int, entry: Entry) -> Stmt:
            def exchange(held: Entry) -> Stmt:
                first, other = self._ordered(held, entry)
                stored = store_entry(self.words, tuple(first), _index(j), lane)
                if j + 1 == kept:
                    return stored
                return let_all("e", other, lambda e: seq(stored, through(lane, j + 1, e)))

            return let_all(
                "h", load_entry(self.words, self.entries.words, _index(j), lane), exchange
            )

        def step(k: Expr) -> Stmt:
            return self._vector(
                lambda lane: let_all("e", self._entry(k, lane), lambda e: through(lane, 0, e))
            )

        last = (self.entries.last,) * self.entries.words
        fill = self._each(
            kept, lambda j: self._vector(lambda lane: store_entry(self.words, last, j, lane))
        )
        return seq(fill, loop("k", _index(self.rows.length), step))

    # -- whole rows ---------------------------------------------------------------------------
    def _network(self) -> Stmt:
        length = self.rows.length

        def fill(k: Expr) -> Stmt:
            return self._vector(lambda lane: store_entry(self.words, self._entry(k, lane), k, lane))

        return seq(
            self._each(length, fill),
            *[self._stage(*stage) for stage in network_stages(length)],
        )

    def _stage(self, run: int, distance: int, first: int) -> Stmt:
        def exchange(c: Expr) -> Stmt:
            width = _index(run)
            i = floordiv(c, width) * (2 * run) + floormod(c, width) + first
            return self._vector(lambda lane: self._exchange(i, i + distance, lane))

        return self._each(_exchanges(self.rows.length, run, distance, first), exchange)

    def _exchange(self, i: Expr, j: Expr, lane: Expr) -> Stmt:
        words = self.entries.words

        def store(a: Entry, b: Entry) -> Stmt:
            first, other = self._ordered(a, b)
            return seq(
                store_entry(self.words, tuple(first), i, lane),
                store_entry(self.words, tuple(other), j, lane),
            )

        return let_all(
            "a",
            load_entry(self.words, words, i, lane),
            lambda a: let_all("b", load_entry(self.words, words, j, lane), lambda b: store(a, b)),
        )

    # -- results ------------------------------------------------------------------------------
    def _write(self) -> Stmt:
        """The places of the wanted entries: to memory, or where lanes are turned back."""

        def one(k: Expr, lane: Expr) -> Stmt:
            entry = load_entry(self.words, self.entries.words, k + self.rows.skipped, lane)
            place = self.entries.place(entry)
            if not self.rows.side_by_side:
                return BufferStore(self.places, place, (k, lane))
            write = self.rows.write(k, lane, place)
            return write if self.rows.count is None else IfThenElse(lane < self.rows.count, write)

        return self._each(self.rows.found, lambda k: self._vector(lambda lane: one(k, lane)))
