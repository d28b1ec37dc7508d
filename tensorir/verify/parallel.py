"""A law of parallel loops that users write: no iteration writes an element that another one writes
or reads.

``verify_parallel`` computes which elements some iterations touch, with their loops and conditions,
and refuses a loop of which it finds two that clash: that is a proof. What it cannot compute is let
pass: indices and conditions that memory decides, functions of C, vectors, and what only some
iterations of long loops do. ``Schedule.parallel`` asks the other way round: it wants a proof
that nothing clashes.

Two iterations may write one element where both store the same value. Memory that is used in one
loop alone belongs to its iterations, wherever it is allocated: lowering gives each its own. A
function of symbolic sizes is looked at with small and with large ones, and refused where each of
them with which the loop runs has a clash. Vectorised loops need no such law, since lowering runs
one by one what lanes cannot do; nor do loops that are bound to threads, whose exchanges
``lowering.split_threads`` puts in order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from ...support.dtype import DType
from ...support.errors import VerifyError
from ...support.node import Node, children, walk
from .. import expr as e
from ..arith.evaluate import OF_ARRAYS
from ..buffer import Buffer
from ..expr import AccessPtr, BufferLoad, Call, Expr, IntImm, Let, Not, Select, Var
from ..function import PrimFunc
from ..intrinsics import is_pure
from ..stmt import Block, BlockRealize, BufferStore, For, IfThenElse, LetStmt
from ..text.printer import print_marked

Ints = npt.NDArray[np.int64]

_POINTS = 1 << 16
"""Of the iterations of a parallel loop and those below it, so many are looked at, for all of its
accesses together."""
_LEAST = 256
"""Points of an access, however many there are."""
_ITERATIONS = 64
"""Of the parallel loop itself so many iterations, or more where few loops are below it."""
_AROUND = 256
"""Iterations of the loops around it, of which those are sought in which it runs."""
_PLACES = 4
"""Of those, so many are looked at."""
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
        first: _Clash | None = None
        sizes: list[dict[Var, int]] = []
        for trial in _trials(func.shape_vars):
            known = _Known(values, trial)
            places = _places(loop, around, known)
            if not places:  # the loop does not run
                continue
            found = _clash(loop, accesses, places, is_sure=_is_sure(around, known))
            if found is None:
                break
            first = first or found
            sizes.append(trial)
        else:
            if first is not None:
                raise _broken(func, loop, first, sizes)
    return func


def _broken(
    func: PrimFunc, loop: For, clash: _Clash, trials: Sequence[Mapping[Var, int]]
) -> VerifyError:
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
    sizes = [", ".join(f"{v.name} = {size}" for v, size in t.items()) for t in trials]
    if sizes[0]:
        found += f" (with {sizes[0]}"
        if len(sizes) > 1:
            found += f"; others clash with {'; '.join(sizes[1:])}"
        found += ")"
    found += (
        ". Make the loop serial (range), or give each iteration elements of its own, as "
        "Schedule.rfactor does to a sum"
    )
    marked = [clash.write] if clash.other is clash.write else [clash.write, clash.other]
    return VerifyError(law, found, print_marked(func, marked), clash.write.span)


def _parallel_loops(n: Node, around: tuple[Node, ...]) -> Iterator[tuple[For, tuple[Node, ...]]]:
    """The outermost parallel loops, and the loops and conditions that they stand in: one inside of
    another runs as a serial loop."""
    match n:
        case For(kind="parallel"):
            yield n, around
        case For():
            yield from _parallel_loops(n.body, (*around, n))
        case IfThenElse():
            yield from _parallel_loops(n.then_case, (*around, n.condition))
            if n.else_case is not None:
                yield from _parallel_loops(n.else_case, (*around, Not(n.condition)))
        case BlockRealize():
            yield from _parallel_loops(n.block, (*around, n.predicate))
        case _:
            for child in children(n):
                if not isinstance(child, Expr | Buffer):
                    yield from _parallel_loops(child, around)


def _trials(dims: Sequence[Var]) -> list[dict[Var, int]]:
    """Sizes to look at, small and large ones, of which none is always the larger one."""
    if not dims:
        return [{}]
    count = len(dims)
    small = [
        dict.fromkeys(dims, 8),
        {v: 6 + 3 * i for i, v in enumerate(dims)},
        {v: 6 + 3 * (count - i) for i, v in enumerate(dims)},
    ]
    return small + [{v: 512 * size + i for v, size in t.items()} for i, t in enumerate(small)]


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
            never = any(isinstance(c, IntImm) and not c.value for c in conditions)
            if n.predicate is None and not never:
                own = tuple([c for c in conditions if not isinstance(c, IntImm)])
                found.append(_Access(n, loops, own))
        case _:
            for child in children(n):
                if not isinstance(child, Buffer):
                    visit(child)


# -- arithmetic on many iterations at once ---------------------------------------------------------
_INT64 = e.int_limits(e.INDEX)


def _limits(dtype: DType) -> tuple[int, int]:
    """The least and the largest value of an integer or a condition that int64 holds, too."""
    low, high = e.int_limits(dtype)
    return low, min(high, _INT64[1])


def _held(values: Ints, dtype: DType) -> Ints | None:
    """Values of a dtype; None where it does not hold them all: they are others then."""
    low, high = _limits(dtype)
    if (low, high) != _INT64 and len(values) and (values.min() < low or values.max() > high):
        return None
    return values


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
                low, high = _limits(x.dtype)
                if not low <= x.value <= high:
                    return None
                return np.full(self.count, x.value, np.int64)
            case Var():
                if x in self.points:
                    return self.points[x]
                if x in self.sizes:
                    return np.full(self.count, self.sizes[x], np.int64)
                if x in self.values and x not in self.found:
                    self.found[x] = self.of(self.values[x])
                return self.found.get(x)
            case e.Cast() if x.dtype.is_integer and not x.value.dtype.is_float:
                a = self.of(x.value)
                return None if a is None else _held(a, x.dtype)
            case Not():
                a = self.of(x.a)
                return None if a is None else 1 - a
            case e.BinaryOp() | e.CompareOp() | e.And() | e.Or():
                return self._operation(x)
        return None

    def _operation(self, x: e.BinaryOp | e.CompareOp | e.And | e.Or) -> Ints | None:
        operation = OF_ARRAYS.get(type(x))
        if operation is None or x.dtype.is_float:
            return None
        a, b = self.of(x.a), self.of(x.b)
        if a is None or b is None or (isinstance(x, e.FloorDiv | e.FloorMod) and not b.all()):
            return None
        if isinstance(x, e.Mul) and (np.abs(a.astype(np.float64) * b) > _INT64[1] / 2).any():
            return None
        with np.errstate(over="ignore"):
            return _held(np.asarray(operation(a, b), np.int64), x.dtype)

    def run(self, loop: For, most: int) -> bool:
        """Give each point the iterations of a loop, ``most`` of them: the first, the last and
        those in the middle; whether they are known."""
        start, extent = self.of(loop.min), self.of(loop.extent)
        if start is None or extent is None:
            return False
        taken = np.clip(extent, 0, most)
        place = np.arange(int(taken.sum())) - np.repeat(np.cumsum(taken) - taken, taken)
        left_out = np.repeat(extent - taken, taken)
        is_first = place < np.repeat((taken + 2) // 3, taken)
        is_last = place >= np.repeat(taken - (taken + 1) // 3, taken)
        place = place + np.where(is_last, left_out, np.where(is_first, 0, left_out // 2))
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
@dataclass(frozen=True, slots=True, eq=False)
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


def _places(loop: For, around: Sequence[Node], known: _Known) -> list[_Known]:
    """``known`` in some iterations of the loops around in which ``loop`` has two iterations.
    Conditions that are not known are taken to hold."""
    left = sum(isinstance(n, For) for n in around)
    for n in around:
        if isinstance(n, For):
            most = max(2, int((_AROUND / max(known.count, 1)) ** (1 / left)))
            left -= 1
            if not known.run(n, most) or known.count > _POINTS:
                return []
        elif isinstance(n, Expr):
            known.where(n)
    extent = known.of(loop.extent)
    if extent is None:
        return []
    runs = np.flatnonzero(extent > 1)
    if not len(runs):
        return []
    places = []
    for at in np.unique(np.linspace(0, len(runs) - 1, _PLACES).astype(np.int64)):
        places.append(known.copy())
        places[-1].take(runs[at : at + 1])
    return places


def _is_sure(around: Sequence[Node], known: _Known) -> bool:
    """Whether what is not known of the conditions around is the same in all iterations."""
    unknown = [n for n in around if isinstance(n, Expr) and known.of(n) is None]
    return not known.uses(unknown) & known.points.keys()


def _clash(
    loop: For, accesses: Sequence[_Access], places: Sequence[_Known], *, is_sure: bool
) -> _Clash | None:
    """Two iterations of ``loop`` that clash: at one of the places, or, where it is not sure that
    the loop runs there, at the first of them if all have a clash."""
    written = {a.buffer for a in accesses if isinstance(a.node, BufferStore)}
    groups = [[a for a in accesses if a.buffer is buffer] for buffer in written]
    count = sum(map(len, groups)) * len(places)
    first: _Clash | None = None
    for place in places:
        points = _Points(loop, place, max(_LEAST, _POINTS // max(count, 1)))
        found = None
        for own in groups:
            touched = [t for t in map(points.touched, own) if t is not None]
            found = _clash_in(touched, written)
            if found is not None:
                break
        if (found is None) is not is_sure:
            return found
        first = first or found
    return first


class _Points:
    """The points at which the accesses of a loop are looked at, ``most`` of them an access. Those
    that stand in the same loops, under the same conditions, have the same."""

    def __init__(self, loop: For, known: _Known, most: int) -> None:
        self.loop, self.start, self.most = loop, known, most
        self.known: dict[tuple[object, ...], _Known | None] = {}

    def touched(self, access: _Access) -> _Touched | None:
        needed = self.start.uses([*access.node.indices, *access.conditions])
        for inner in reversed(access.loops):
            if inner.var in needed:
                needed |= self.start.uses([inner.min, inner.extent])
        used = [x.var in needed for x in access.loops]
        key = (*map(id, access.loops), *map(id, access.conditions), *used)
        if key not in self.known:
            self.known[key] = self._known(access, used)
        known = self.known[key]
        if known is None:
            return None
        rows = np.zeros((known.count, access.buffer.ndim), np.int64)
        for d, index in enumerate(access.node.indices):
            column = known.of(index)
            if column is None:
                return None
            rows[:, d] = column
        return _Touched(access, known, rows, known.points[self.loop.var])

    def _known(self, access: _Access, used: Sequence[bool]) -> _Known | None:
        known = self.start.copy()
        left = sum(used)
        share = int(self.most ** (1 / (left + 1)))
        iterations = max(share, min(_ITERATIONS, max(16, self.most >> left)))
        if not known.run(self.loop, iterations):
            return None
        for inner, is_used in zip(access.loops, used, strict=True):
            most = 1
            if is_used:
                most = max(2, int((self.most / max(known.count, 1)) ** (1 / left)))
                left -= 1
            if not known.run(inner, most) or known.count > 4 * _POINTS:
                return None
        return known if all(known.where(c) for c in access.conditions) else None


def _clash_in(touched: Sequence[_Touched], written: set[Buffer]) -> _Clash | None:
    """A clash among the accesses of one buffer."""
    writes = [isinstance(t.access.node, BufferStore) for t in touched]
    if not sum(len(t.rows) for t, is_one in zip(touched, writes, strict=True) if is_one):
        return None
    rows = np.concatenate([t.rows for t in touched])
    source = np.repeat(np.arange(len(touched)), [len(t.rows) for t in touched])
    iterations = np.concatenate([t.iterations for t in touched])
    is_write = np.array(writes)[source]
    key = _keys(rows)
    low = np.full(key.max() + 1, iterations.max())
    np.minimum.at(low, key, iterations)
    high = np.full(key.max() + 1, iterations.min())
    np.maximum.at(high, key, iterations)
    has_write = np.zeros(key.max() + 1, bool)
    has_write[key[is_write]] = True
    suspects = np.flatnonzero(has_write & (low < high))[:_GROUPS]
    if not len(suspects):
        return None
    place = np.concatenate([np.arange(len(t.rows)) for t in touched])
    for group in suspects:
        at = np.flatnonzero(key == group)

        def is_one(at: Ints) -> bool:
            return _are_alike(touched, source[at], place[at], iterations[at], is_write[at], written)

        if is_one(at):
            continue
        first = next(i for i in at if is_write[i])
        others = [i for i in at if iterations[i] != iterations[first]]
        others.sort(key=lambda i: not is_write[i])
        # One that writes another value, where it is soon found.
        pairs = ((i, np.array([first, i])) for i in others[:_ITERATIONS])
        other = next((i for i, pair in pairs if not is_one(pair)), others[0])
        return _Clash(
            touched[source[first]].access.node,
            touched[source[other]].access.node,
            int(iterations[first]),
            int(iterations[other]),
            tuple([int(i) for i in rows[first]]),
        )
    return None


def _keys(rows: Ints) -> Ints:
    """A number for each row, the same for equal ones, and not much larger than there are rows."""
    key, size = np.zeros(len(rows), np.int64), 1
    for column in rows.T:
        low, extent = int(column.min()), int(column.max()) - int(column.min()) + 1
        if extent > 1 << 30:
            found, column = np.unique(column, return_inverse=True)
            low, extent = 0, len(found)
        key = key * extent + (column - low)
        size *= extent
        if size > max(1 << 18, 4 * len(rows)):
            found, key = np.unique(key, return_inverse=True)
            size = len(found)
    return key


def _are_alike(
    touched: Sequence[_Touched],
    source: Ints,
    place: Ints,
    iterations: Ints,
    is_write: npt.NDArray[np.bool_],
    written: set[Buffer],
) -> bool:
    """Whether all that is written to an element is one value, read by none but who writes it."""
    if not set(iterations.tolist()) <= set(iterations[is_write].tolist()):
        return False
    values, at = [], []
    for writer in np.unique(source[is_write]):
        t = touched[writer]
        assert isinstance(t.access.node, BufferStore)
        values.append(t.access.node.value)
        at.append(t.known.copy())
        at[-1].take(place[is_write & (source == writer)])
    return _OneValue(at, written).holds(values)


class _OneValue:
    """Whether expressions have one value, each at all of its own points, as far as their integers
    tell."""

    def __init__(self, at: Sequence[_Known], written: set[Buffer]) -> None:
        self.at, self.written = at, written
        self.found: dict[tuple[int, ...], bool] = {}
        """Of what was asked: a let may be used many times."""

    def holds(self, values: Sequence[Expr]) -> bool:
        key = tuple(map(id, values))
        if key not in self.found:
            self.found[key] = self._holds(values)
        return self.found[key]

    def _holds(self, values: Sequence[Expr]) -> bool:
        first = values[0]
        if any(x.dtype is not first.dtype for x in values):
            return False
        number = self._is_one_number(values)
        if number is not None:
            return number
        lets = self.at[0].values
        if any(isinstance(x, Var) and x in lets for x in values):
            return self.holds([lets[x] if isinstance(x, Var) and x in lets else x for x in values])
        if isinstance(first, Var):
            return all(
                x is first and x not in k.points for x, k in zip(values, self.at, strict=True)
            )
        if isinstance(first, e.ExternCall) or (isinstance(first, Call) and not is_pure(first)):
            return False
        if isinstance(first, BufferLoad) and first.buffer in self.written:
            return False
        if any(_data(x) != _data(first) for x in values):
            return False
        parts = [[c for c in children(x) if isinstance(c, Expr)] for x in values]
        return all(map(self.holds, zip(*parts, strict=True)))

    def _is_one_number(self, values: Sequence[Expr]) -> bool | None:
        """Whether integers or conditions are one; None where they are not known."""
        dtype = values[0].dtype
        if not dtype.is_integer and not dtype.is_bool:
            return None
        found = [known.of(x) for x, known in zip(values, self.at, strict=True)]
        numbers = [a for a in found if a is not None]
        return len(np.unique(np.concatenate(numbers))) == 1 if len(numbers) == len(found) else None


def _data(x: Expr) -> tuple[object, ...]:
    """What an expression is beside its operands."""
    plain = [repr(getattr(x, f)) for f in x.init_fields if f not in x.child_fields]
    buffer = x.buffer if isinstance(x, BufferLoad) else None
    return type(x), buffer, len(children(x)), plain
