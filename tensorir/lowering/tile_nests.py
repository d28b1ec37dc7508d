"""Loop nests that tile registers compute, recognised by what they do.

A schedule says of a nest of serial loops, by the annotation ``tile_registers`` of the outermost,
that registers which are tiles are to compute it (AMX on x86). The nest stays what it is, loops
that any target runs, and all passes see what it reads and writes; code generation asks here for the
roles of its loops and emits instructions where the target has them:

    for j, i:            C[i, j] = 0                                          a tile of sums
    for j, i, k2, k1:    C[i, j] += X[i, k2 * g + k1] * W[k2, j, k1]          a product of tiles

``i`` are at most 16 rows (there is no such loop where there is one), ``j`` at most 16 columns,
``k2`` at most 16 groups of ``g`` elements, which are 32 bits together. Rows may be at any constant
distance in each operand; the elements of a row lie side by side.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeGuard

from ...support.node import walk
from ..arith.linear import Linear
from ..buffer import Buffer
from ..expr import Add, BufferLoad, Call, Cast, Expr, FloatImm, IntImm, Mul, Var
from ..stmt import BufferStore, For, IfThenElse, LetStmt, SeqStmt, Stmt, annotation

TILE_REGISTERS = "tile_registers"
"""The annotation; its value is 1."""

MOST = 16
"""Rows, columns and groups of a tile."""

_GROUP_BYTES = 4
ROW_BYTES = MOST * _GROUP_BYTES
"""Bytes of a tile's row."""


@dataclass(frozen=True, slots=True)
class TileSide:
    """An operand of a nest: where its tile begins, and the elements between two rows."""

    buffer: Buffer
    start: Linear
    pitch: int

    @property
    def pitch_bytes(self) -> int:
        return self.pitch * self.buffer.dtype.itemsize


@dataclass(frozen=True, slots=True)
class TileNest:
    """A recognised nest. ``operands`` are X and W, none where the sums are set to zero; ``groups``
    those of k."""

    total: TileSide
    rows: int
    columns: int
    operands: tuple[TileSide, TileSide] | None = None
    groups: int = 0

    @property
    def kinds(self) -> tuple[str, str, str]:
        """The dtypes of X, W and the sums."""
        assert self.operands is not None
        x, w = self.operands
        return str(x.buffer.dtype), str(w.buffer.dtype), str(self.total.buffer.dtype)


def is_marked(s: Stmt) -> bool:
    """Whether a statement is a nest that tile registers are to compute."""
    return isinstance(s, For) and annotation(s, TILE_REGISTERS) == 1


def holds_only_nests(s: Stmt) -> bool:
    """Whether a statement consists of marked nests, and of loops and sequences of such."""
    match s:
        case For():
            return is_marked(s) or (s.kind == "serial" and holds_only_nests(s.body))
        case SeqStmt(stmts):
            return all(map(holds_only_nests, stmts))
        case _:
            return False


def marked_nests(s: Stmt) -> list[For]:
    """The marked nests in a statement, in order."""
    match s:
        case For():
            return [s] if is_marked(s) else marked_nests(s.body)
        case SeqStmt(stmts):
            return [n for x in stmts for n in marked_nests(x)]
        case IfThenElse(_, then_case, else_case):
            return [n for x in (then_case, else_case) if x is not None for n in marked_nests(x)]
        case LetStmt(_, _, body):
            return marked_nests(body)
        case _:
            return []


def recognise(nest: For, linear: Callable[[Expr], Linear]) -> TileNest | None:
    """The roles of a nest's loops, on flat buffers; None where it is not of the form above."""
    loops: list[tuple[Var, int]] = []
    body: Stmt = nest
    while isinstance(body, For):
        if not (
            body.kind == "serial"
            and isinstance(body.extent, IntImm)
            and isinstance(body.min, IntImm)
            and body.min.value == 0
        ):
            return None
        loops.append((body.var, body.extent.value))
        body = body.body
    if not isinstance(body, BufferStore) or body.predicate is not None or len(body.indices) != 1:
        return None
    total = linear(body.indices[0])
    if isinstance(body.value, (IntImm, FloatImm)) and body.value.value == 0:
        return _zeros(body.buffer, total, loops)
    return _product(body, total, loops, linear)


def _zeros(buffer: Buffer, total: Linear, loops: list[tuple[Var, int]]) -> TileNest | None:
    columns = next((v for v, n in loops if total.step(v) == 1 and 1 < n <= MOST), None)
    rows = [(v, n) for v, n in loops if v is not columns]
    if columns is None or len(rows) > 1 or any(n > MOST for _, n in rows):
        return None
    side = _side(buffer, total, loops, rows[0][0] if rows else None)
    extents = dict(loops)
    count = rows[0][1] if rows else 1
    if side is None or not _are_apart(side, count, extents[columns]):
        return None
    return TileNest(side, count, extents[columns])


def _product(
    body: BufferStore, total: Linear, loops: list[tuple[Var, int]], linear: Callable[[Expr], Linear]
) -> TileNest | None:
    loads = _operands(body, total, linear)
    if loads is None or any(load.buffer is body.buffer for load in loads):
        return None
    x_at, w_at = (linear(load.indices[0]) for load in loads)
    group = _GROUP_BYTES // loads[0].dtype.itemsize
    steps = {v: (total.step(v), x_at.step(v), w_at.step(v)) for v, _ in loops}
    row = [(v, n) for v, n in loops if steps[v][2] == 0]
    column = [(v, n) for v, n in loops if steps[v] == (1, 0, group)]
    inner = [(v, n) for v, n in loops if steps[v] == (0, 1, 1)]
    outer = [(v, n) for v, n in loops if steps[v][:2] == (0, group) and steps[v][2] not in (0, 1)]
    found = len(row) + len(column) + len(inner) + len(outer)
    if found != len(loops) or len(column) != 1 or len(inner) != 1 or len(row) > 1 or len(outer) > 1:
        return None
    if inner[0][1] != group or any(n > MOST for _, n in (*row, *column, *outer)):
        return None
    first = row[0][0] if row else None
    sides = (
        _side(body.buffer, total, loops, first),
        _side(loads[0].buffer, x_at, loops, first),
        _side(loads[1].buffer, w_at, loops, outer[0][0] if outer else None),
    )
    if sides[0] is None or sides[1] is None or sides[2] is None:
        return None
    rows = row[0][1] if row else 1
    if not _are_apart(sides[0], rows, column[0][1]):
        return None
    return TileNest(
        sides[0],
        rows,
        column[0][1],
        (sides[1], sides[2]),
        outer[0][1] if outer else 1,
    )


def _are_apart(total: TileSide, rows: int, columns: int) -> bool:
    """Whether the rows of a tile of sums have no element in common."""
    return rows == 1 or total.pitch >= columns


def _side(
    buffer: Buffer, at: Linear, loops: list[tuple[Var, int]], row: Var | None
) -> TileSide | None:
    """Where an operand's tile begins, with the distance of its rows; None where that moves."""
    pitch = at.step(row) if row is not None else 0
    if pitch is None or pitch < 0:
        return None
    inside = {v for v, _ in loops}
    start = Linear({a: c for a, c in at.terms.items() if a not in inside}, at.const)
    if any(n in inside for atom in start.terms for n in walk(atom) if isinstance(n, Var)):
        return None
    return TileSide(buffer, start, pitch)


def _operands(
    body: BufferStore, total: Linear, linear: Callable[[Expr], Linear]
) -> tuple[BufferLoad, BufferLoad] | None:
    """The loads of ``C += cast(X) * cast(W)``."""
    for mine, x, w in _sums_of_products(body.value):
        if (
            isinstance(mine, BufferLoad)
            and mine.buffer is body.buffer
            and mine.predicate is None
            and linear(mine.indices[0]).key == total.key
        ):
            first, second = (p.value if isinstance(p, Cast) else p for p in (x, w))
            if _is_plain(first) and _is_plain(second) and first.dtype.bits == second.dtype.bits:
                return first, second
    return None


def _is_plain(e: Expr) -> TypeGuard[BufferLoad]:
    """Whether an operand is an element of 8 or 16 bits."""
    return isinstance(e, BufferLoad) and e.predicate is None and e.dtype.bits in (8, 16)


def _sums_of_products(value: Expr) -> list[tuple[Expr, Expr, Expr]]:
    """The readings of a value as ``c + x * w``."""
    match value:
        case Call("fma", (x, w, c)):
            return [(c, x, w)]
        case Add(a, b):
            return [(c, p.a, p.b) for c, p in ((a, b), (b, a)) if isinstance(p, Mul)]
        case _:
            return []
