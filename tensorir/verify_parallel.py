"""A law of parallel loops that users write: no iteration writes an element that another one writes
or reads.

``verify_parallel`` computes which elements some iterations touch, with their loops and conditions,
and refuses a loop of which it finds two that clash: that is a proof. What it cannot compute is let
pass: indices and conditions that memory decides, functions of C, vectors, and what only iterations
in the middle of long loops do. ``Schedule.parallel`` asks the other way round: it wants a proof
that nothing clashes.

Two iterations may write one element where both store the same value. Memory that is used in one
loop alone belongs to its iterations, wherever it is allocated: lowering gives each its own. A
function of symbolic sizes is looked at with three sets of sizes, and refused where each of them has
a clash. Vectorised loops need no such law, since lowering runs one by one what lanes cannot do; nor
do loops that are bound to threads, whose exchanges ``lowering.split_threads`` puts in order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from ..support.errors import VerifyError
from ..support.node import Node, children, walk
from . import expr as e
from .buffer import Buffer
from .expr import AccessPtr, BufferLoad, Call, Expr, IntImm, Let, Not, Select, Var
from .function import PrimFunc
from .intrinsics import is_pure
from .printer import print_marked
from .stmt import Block, BlockRealize, BufferStore, For, IfThenElse, LetStmt

Ints = npt.NDArray[np.int64]

_POINTS = 1 << 16
"""Of the iterations of a parallel loop and those below it, so many are looked at an access."""
_ITERATIONS = 64
"""Iterations of the parallel loop that are looked at: the first and the last ones."""
_GROUPS = 16
"""Elements that are touched by several iterations, of which it is asked whether that is a clash."""


def verify_parallel(func: PrimFunc) -> PrimFunc:
    """``func`` itself; raises VerifyError for a parallel loop of which two iterations clash."""
    loops = list(_parallel_loops(func.body, ()))
    if not loops:
        return func
    values: dict[Var, Expr] = {}
    for n in walk(func.body):
        if isinstance(n, LetStmt | Let):
            values[n.var] = n.value
        elif isinstance(n, BlockRealize):
            axes = [it.var for it in n.block.iter_vars]
            values.update(zip(axes, n.iter_values, strict=True))
    for loop, around in loops:
        accesses = _accesses_of(func, loop)
        found = [
            _clash(loop, around, accesses, _Known(values, sizes))
            for sizes in _trials(func.shape_vars)
        ]
        first = found[0]
        if first is not None and None not in found:
            raise _broken(func, loop, first)
    return func


def _broken(func: PrimFunc, loop: For, clash: _Clash) -> VerifyError:
    law = "iterations of a parallel loop write elements of their own, and read none of another's"
    name, buffer = loop.var.name, clash.write.buffer.name
    element = f"{buffer}[{', '.join(map(str, clash.element))}]"
    if isinstance(clash.other, BufferStore):
        found = f"the iterations {name} = {clash.one} and {name} = {clash.two} both write {element}"
    else:
        found = (
            f"the iteration {name} = {clash.one} writes {element}, which the iteration "
            f"{name} = {clash.two} reads"
        )
    found += (
        ". Make the loop serial (range), or give each iteration elements of its own, as "
        "Schedule.rfactor does to a sum"
    )
    marked = [clash.write] if clash.other is clash.write else [clash.write, clash.other]
    return VerifyError(law, found, print_marked(func, marked), clash.write.span)


def _parallel_loops(n: Node, around: tuple[Node, ...]) -> Iterator[tuple[For, tuple[Node, ...]]]:
    """The outermost parallel loops, and the loops and conditions that they stand in: one inside of
    another runs as a serial loop."""
    if isinstance(n, For) and n.kind == "parallel":
        yield n, around
        return
    if isinstance(n, For | IfThenElse):
        around = (*around, n)
    for child in children(n):
        if not isinstance(child, Expr | Buffer):
            yield from _parallel_loops(child, around)


def _trials(dims: Sequence[Var]) -> list[dict[Var, int]]:
    """Sizes to look at: none is small, and none is always the larger one."""
    if not dims:
        return [{}]
    count = len(dims)
    return [
        dict.fromkeys(dims, 8),
        {v: 6 + 3 * i for i, v in enumerate(dims)},
        {v: 6 + 3 * (count - i) for i, v in enumerate(dims)},
    ]


# -- what an iteration touches ---------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class _Access:
    node: BufferLoad | BufferStore
    loops: tuple[For, ...]
    """Below the parallel one, the outermost first."""
    conditions: tuple[Expr, ...]

    @property
    def buffer(self) -> Buffer:
        return self.node.buffer


def _accesses_of(func: PrimFunc, loop: For) -> list[_Access]:
    """The accesses of memory that lives longer than an iteration of ``loop``."""
    inside = {id(n) for n in walk(loop)}
    outer = set(func.buffers)
    for n in walk(func.body):
        if isinstance(n, BufferLoad | BufferStore) and id(n) not in inside:
            outer.add(n.buffer)
    found: list[_Access] = []
    _collect(loop.body, (), (), found)
    return [a for a in found if a.buffer in outer]


def _collect(  # noqa: C901 - one case a node
    n: Node, loops: tuple[For, ...], conditions: tuple[Expr, ...], found: list[_Access]
) -> None:
    def visit(child: Node, *more: Expr) -> None:
        _collect(child, loops, (*conditions, *more), found)

    match n:
        case For():
            visit(n.min)
            visit(n.extent)
            _collect(n.body, (*loops, n), conditions, found)
        case BlockRealize():
            for value in (*n.iter_values, n.predicate):
                visit(value)
            visit(n.block.body, n.predicate)
        case Block() | Buffer():
            raise AssertionError("a block stands in its realize, a buffer in an access")
        case IfThenElse():
            visit(n.condition)
            visit(n.then_case, n.condition)
            if n.else_case is not None:
                visit(n.else_case, Not(n.condition))
        case Select(condition, true_value, false_value):
            visit(condition)
            visit(true_value, condition)
            visit(false_value, Not(condition))
        case Call(op="if_then_else"):
            visit(n.args[0])
            visit(n.args[1], n.args[0])
            visit(n.args[2], Not(n.args[0]))
        case e.And():
            visit(n.a)
            visit(n.b, n.a)
        case e.Or():
            visit(n.a)
            visit(n.b, Not(n.a))
        case AccessPtr():
            visit(n.offset)
        case Call() if not is_pure(n):
            for arg in n.args:  # an operand may be a place, which is not read
                for operand in arg.indices if isinstance(arg, BufferLoad) else (arg,):
                    visit(operand)
        case BufferLoad() | BufferStore():
            for part in children(n):
                if isinstance(part, Expr):
                    visit(part)
            if n.predicate is None:
                found.append(_Access(n, loops, conditions))
        case _:
            for child in children(n):
                if not isinstance(child, Buffer):
                    visit(child)


# -- arithmetic on many iterations at once ---------------------------------------------------------
_ARITHMETIC: dict[type[Expr], Callable[[Ints, Ints], Any]] = {
    e.Add: np.add,
    e.Sub: np.subtract,
    e.Mul: np.multiply,
    e.FloorDiv: np.floor_divide,
    e.FloorMod: np.remainder,
    e.Min: np.minimum,
    e.Max: np.maximum,
    e.EQ: np.equal,
    e.NE: np.not_equal,
    e.LT: np.less,
    e.LE: np.less_equal,
    e.GT: np.greater,
    e.GE: np.greater_equal,
    e.And: np.logical_and,
    e.Or: np.logical_or,
}


@dataclass(slots=True)
class _Known:
    """What variables are: lets and axes, sizes, and loops, these with a value for each point."""

    values: Mapping[Var, Expr]
    sizes: Mapping[Var, int]
    points: dict[Var, Ints] = field(default_factory=dict)
    count: int = 1
    found: dict[Var, Ints | None] = field(default_factory=dict)
    """Lets and axes at the points: one may be used many times."""

    def of(self, x: Expr) -> Ints | None:
        """An integer or a condition at each point; None for what is not known here."""
        match x:
            case IntImm():
                return np.full(self.count, x.value, np.int64)
            case Var():
                if x in self.points:
                    return self.points[x]
                if x in self.sizes:
                    return np.full(self.count, self.sizes[x], np.int64)
                if x in self.values and x not in self.found:
                    self.found[x] = self.of(self.values[x])
                return self.found.get(x)
            case e.Cast():
                return self.of(x.value) if x.dtype == "int64" or x.dtype == "int32" else None
            case Not():
                a = self.of(x.a)
                return None if a is None else 1 - a
        operation = _ARITHMETIC.get(type(x))
        if operation is None:
            return None
        assert isinstance(x, e.BinaryOp | e.CompareOp | e.And | e.Or)
        a, b = self.of(x.a), self.of(x.b)
        if a is None or b is None or (type(x) in (e.FloorDiv, e.FloorMod) and not b.all()):
            return None
        return np.asarray(operation(a, b), np.int64)

    def run(self, loop: For, most: int) -> bool:
        """Give each point the iterations of a loop, ``most`` of them, the first and the last;
        whether they are known."""
        start, extent = self.of(loop.min), self.of(loop.extent)
        if start is None or extent is None:
            return False
        taken = np.clip(extent, 0, most)
        place = np.arange(int(taken.sum())) - np.repeat(np.cumsum(taken) - taken, taken)
        left_out = np.repeat(extent - taken, taken)
        place = place + np.where(place >= np.repeat((taken + 1) // 2, taken), left_out, 0)
        first = np.repeat(start, taken)
        self.take(np.repeat(np.arange(self.count), taken))
        self.points[loop.var] = first + place
        return True

    def where(self, condition: Expr) -> bool:
        """Leave the points at which a condition holds; whether it is known."""
        holds = self.of(condition)
        if holds is None:
            return False
        self.take(np.flatnonzero(holds))
        return True

    def take(self, chosen: Ints) -> None:
        self.points = {v: values[chosen] for v, values in self.points.items()}
        self.count = len(chosen)
        self.found = {}

    def copy(self) -> _Known:
        return _Known(self.values, self.sizes, dict(self.points), self.count)

    def uses(self, parts: Sequence[Expr]) -> set[Var]:
        """The variables that expressions need, those of lets and axes too."""
        found: set[Var] = set()
        stack = [n for p in parts for n in walk(p) if isinstance(n, Var)]
        while stack:
            v = stack.pop()
            if v not in found:
                found.add(v)
                if v in self.values:
                    stack += [n for n in walk(self.values[v]) if isinstance(n, Var)]
        return found


# -- clashes ---------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class _Touched:
    """The elements that an access touches, one row a point, and the iteration that does."""

    access: _Access
    known: _Known
    rows: Ints
    iterations: Ints


@dataclass(frozen=True, slots=True)
class _Clash:
    write: BufferLoad | BufferStore
    other: BufferLoad | BufferStore
    one: int
    two: int
    element: tuple[int, ...]


def _clash(
    loop: For, around: Sequence[Node], accesses: Sequence[_Access], known: _Known
) -> _Clash | None:
    """Two iterations of ``loop`` that clash, in the first iterations of the loops around."""
    for n in around:
        if isinstance(n, For) and not known.run(n, 1):
            return None
    for n in around:
        if isinstance(n, IfThenElse):
            known.where(n.condition)
    if known.count != 1 or not known.run(loop, _ITERATIONS):
        return None
    written = {a.buffer for a in accesses if isinstance(a.node, BufferStore)}
    for buffer in written:
        own = [a for a in accesses if a.buffer is buffer]
        touched = [t for t in (_touched(loop, a, known.copy()) for a in own) if t is not None]
        found = _clash_in(touched, written)
        if found is not None:
            return found
    return None


def _touched(loop: For, access: _Access, known: _Known) -> _Touched | None:
    conditions = [c for c in access.conditions if not isinstance(c, IntImm)]
    needed = known.uses([*access.node.indices, *conditions])
    for inner in reversed(access.loops):
        if inner.var in needed:
            needed |= known.uses([inner.min, inner.extent])
    left = len([x for x in access.loops if x.var in needed])
    for inner in access.loops:
        most = 1
        if inner.var in needed:
            most = max(2, int((_POINTS / max(known.count, 1)) ** (1 / left)))
            left -= 1
        if not known.run(inner, most) or known.count > 4 * _POINTS:
            return None
    if not all(known.where(c) for c in conditions):
        return None
    rows = np.zeros((known.count, access.buffer.ndim), np.int64)
    for d, index in enumerate(access.node.indices):
        column = known.of(index)
        if column is None:
            return None
        rows[:, d] = column
    return _Touched(access, known, rows, known.points[loop.var])


def _clash_in(touched: Sequence[_Touched], written: set[Buffer]) -> _Clash | None:
    """A clash among the accesses of one buffer."""
    writes = [t for t in touched if isinstance(t.access.node, BufferStore)]
    if not writes or not sum(len(t.rows) for t in writes):
        return None
    rows = np.concatenate([t.rows for t in touched])
    source = np.repeat(np.arange(len(touched)), [len(t.rows) for t in touched])
    place = np.concatenate([np.arange(len(t.rows)) for t in touched])
    iterations = np.concatenate([t.iterations for t in touched])
    is_write = np.array([t in writes for t in touched])[source]
    key = np.zeros(len(rows), np.int64)
    if rows.shape[1]:
        key = np.unique(rows, axis=0, return_inverse=True)[1].reshape(-1)
    low = np.full(key.max() + 1, iterations.max())
    np.minimum.at(low, key, iterations)
    high = np.full(key.max() + 1, iterations.min())
    np.maximum.at(high, key, iterations)
    has_write = np.zeros(key.max() + 1, bool)
    has_write[key[is_write]] = True
    for group in np.flatnonzero(has_write & (low < high))[:_GROUPS]:
        at = np.flatnonzero(key == group)
        if _are_alike(touched, source[at], place[at], iterations[at], is_write[at], written):
            continue
        first = next(i for i in at if is_write[i])
        others = [i for i in at if iterations[i] != iterations[first]]
        other = next((i for i in others if is_write[i]), others[0])
        return _Clash(
            touched[source[first]].access.node,
            touched[source[other]].access.node,
            int(iterations[first]),
            int(iterations[other]),
            tuple([int(i) for i in rows[first]]),
        )
    return None


def _are_alike(
    touched: Sequence[_Touched],
    source: Ints,
    place: Ints,
    iterations: Ints,
    is_write: npt.NDArray[np.bool_],
    written: set[Buffer],
) -> bool:
    """Whether all that is written to an element is one value, read by none but who writes it."""
    writers = set(source[is_write].tolist())
    if len(writers) > 1 or not set(iterations.tolist()) <= set(iterations[is_write].tolist()):
        return False
    t = touched[writers.pop()]
    assert isinstance(t.access.node, BufferStore)
    known = t.known.copy()
    known.take(place[is_write])
    return _is_one_value(t.access.node.value, known, written)


def _is_one_value(x: Expr, known: _Known, written: set[Buffer]) -> bool:
    """Whether an expression is the same at all points, as far as its integers tell."""
    if x.dtype.is_integer or x.dtype.is_bool:
        at = known.of(x)
        if at is not None:
            return bool((at == at[0]).all())
    match x:
        case Var():
            if x in known.values:
                return _is_one_value(known.values[x], known, written)
            return x not in known.points
        case BufferLoad():
            if x.buffer in written:
                return False
        case e.ExternCall():
            return False
        case Call() if not is_pure(x):
            return False
    return all(_is_one_value(c, known, written) for c in children(x) if isinstance(c, Expr))
