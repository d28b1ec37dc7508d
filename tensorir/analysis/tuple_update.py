"""Reductions of several values together: argmax with its index, sums side by side.

    v0 = Select(V[i] >= A[i, k], I[i], k)            x = (I[i], V[i])    what there is
    v1 = Select(V[i] >= A[i, k], V[i], A[i, k])      y = (k, A[i, k])    what comes to it
    I[i], V[i] = v0, v1

``match_tuple_update`` finds the terms ``y`` and how two results combine, and says whether results
may be regrouped. Each value is a sum, product, maximum or minimum by itself, or all of them are
chosen together, ``x`` or ``y``, by a condition that compares them value by value. Such a choice is
tried on all orders that two tuples may stand in: it must be that of one order of all tuples. Where
that order leaves some apart undecided (it looks at the elements and not at their places), the
first, or the last, of equal ones is chosen in the order of the program; partial results keep that
order by a value that grows along it, the ``place``, which ``rfactor`` looks for.

A NaN is in no order: after comparisons alone, what a choice of floats finds among NaNs depends on
how terms are grouped, whoever groups them, and it means what it says where none is NaN. A condition
that asks for NaN (``isnan(V[i]) or V[i] >= A[i, k]``) is tried with NaNs too, so that what it finds
is kept.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from ...support.node import Node, walk
from ..arith import Analyzer, expr_key
from ..buffer import Buffer
from ..expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    BufferLoad,
    Call,
    Cast,
    CompareOp,
    Expr,
    FloatImm,
    IntImm,
    Max,
    Min,
    Mul,
    Not,
    Or,
    Select,
    Var,
    cast,
    int_limits,
)
from ..stmt import Block, BufferStore, LetStmt, SeqStmt, Stmt
from ..visitor import Mutator, substitute
from .structure import COMBINERS, ReductionUpdate, is_identity, same_indices

Values = Sequence[Expr]
Table = dict[tuple[tuple[int, ...], tuple[int, ...]], bool]
"""Whether the first of two tuples is chosen."""
_MOST = 3
"""Values that a condition may compare: orders of so many are tried out."""
_NAN = 3
"""Among the values 0, 1 and 2 that are tried."""
_COMPARE: dict[type[CompareOp], Callable[[int], bool]] = {
    EQ: lambda sign: sign == 0,
    NE: lambda sign: sign != 0,
    LT: lambda sign: sign < 0,
    LE: lambda sign: sign <= 0,
    GT: lambda sign: sign > 0,
    GE: lambda sign: sign >= 0,
}


@dataclass(slots=True)
class Combination:
    """``buffers[i][indices[i]] = combine(own elements, terms)[i]``, beginning with
    ``identities``.

    Of ties that the ``choice`` leaves open the first is kept in the order of the program where
    ``keeps_first``, else the last; ``choice`` is None where there are none.
    """

    buffers: tuple[Buffer, ...]
    indices: tuple[tuple[Expr, ...], ...]
    terms: tuple[Expr, ...]
    identities: tuple[Expr, ...]
    combine: Callable[[Values, Values], list[Expr]]
    choice: Choice | None = None

    def finish(self, place: int, *, grows: bool) -> Callable[[Values, Values], list[Expr]]:
        """How partial results combine, of ties the one that came first, or last, by the value
        ``place``, which grows or falls in the order of the program."""
        choice = self.choice
        assert choice is not None

        def combined(x: Values, y: Values) -> list[Expr]:
            before = LT if grows == choice.keeps_first else GT
            earlier = Or(before(x[place], y[place]), EQ(x[place], y[place]))
            keeps, gives = choice.holds(x, y), choice.holds(y, x)
            wins: Expr
            if choice.keeps_first:
                wins = And(keeps, Or(Not(gives), earlier))
            else:
                wins = Or(keeps, And(Not(gives), earlier))
            made = self.combine(x, y)
            return [
                Select(wins, x[i], y[i]) if i in choice.chosen else value
                for i, value in enumerate(made)
            ]

        return combined


@dataclass(slots=True)
class Choice:
    """The values ``chosen`` are those of ``x`` where ``holds(x, y)``, else those of ``y``."""

    chosen: frozenset[int]
    holds: Callable[[Values, Values], Expr]
    keeps_first: bool


def as_combination(update: ReductionUpdate) -> Combination:
    """The update of one value."""
    return Combination(
        (update.buffer,),
        (update.indices,),
        (update.term,),
        (update.identity,),
        lambda x, y: [update.combine(x[0], y[0])],
    )


class NoCombination(Exception):
    """Why a block is no reduction of several values that may be regrouped."""


def match_tuple_update(block: Block) -> Combination:
    """The combination of a block with several stores; raises NoCombination with the reason."""
    stores = _stores(block.body, {})
    begun = {s.buffer: s for s in _stores(block.init, {})} if block.init is not None else {}
    buffers = tuple([s.buffer for s in stores])
    if len(set(buffers)) != len(buffers) or set(begun) != set(buffers):
        raise NoCombination("its init and its update do not store the same values, once each")
    for s in stores:
        if not same_indices(s.indices, begun[s.buffer].indices):
            raise NoCombination(f"{s.buffer.name!r} begins at another place than it is updated")
    analyzer = Analyzer()
    for it in block.iter_vars:
        analyzer.bind(it.var, it.dom)
    match = _Match(buffers, tuple([s.indices for s in stores]), analyzer)
    for position, s in enumerate(stores):
        match.add(position, s.value)
    identities = tuple([begun[b].value for b in buffers])
    if any(isinstance(n, BufferLoad) for e in identities for n in walk(e)):
        raise NoCombination("its values do not begin with numbers")
    choice = match.choice(identities)
    return Combination(
        buffers, match.indices, tuple(match.terms), identities, match.combined, choice
    )


def _stores(s: Stmt | None, lets: dict[Var, Expr]) -> list[BufferStore]:
    """The stores of a body, with the values of lets in place; none reads what one before it
    wrote."""
    found: list[BufferStore] = []
    match s:
        case LetStmt(var, value, body):
            return _stores(body, {**lets, var: substitute(value, lets)})
        case SeqStmt(stmts):
            for child in stmts:
                if not isinstance(child, BufferStore):
                    raise NoCombination("it is more than lets and one store for each value")
                found += _stores(child, lets)
        case BufferStore(buffer, value, indices, None):
            found.append(BufferStore(buffer, substitute(value, lets), indices))
        case _:
            raise NoCombination("it is more than lets and one store for each value")
    for n, later in enumerate(found):
        before = {x.buffer for x in found[:n]}
        # A let reads before all stores; what a store reads itself comes after those before it.
        if any(isinstance(x, BufferLoad) and x.buffer in before for x in walk(_unlet(s, n))):
            raise NoCombination(
                f"the value of {later.buffer.name!r} reads what a store before it wrote; bind the "
                "values to variables first"
            )
    return found


def _unlet(s: Stmt | None, n: int) -> Expr:
    """The value of the n-th store as it stands in the program."""
    if isinstance(s, SeqStmt):
        s = s.stmts[n]
    assert isinstance(s, BufferStore)
    return s.value


@dataclass(slots=True)
class _Match:
    """The values as functions of ``own`` (what there is) and ``other`` (what comes to it)."""

    buffers: tuple[Buffer, ...]
    indices: tuple[tuple[Expr, ...], ...]
    analyzer: Analyzer
    """What the axes are."""
    own: list[Var] = field(default_factory=list)
    other: list[Var] = field(default_factory=list)
    terms: list[Expr] = field(default_factory=list)
    values: list[Expr] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.own = [Var(f"x{i}", b.dtype) for i, b in enumerate(self.buffers)]
        self.other = [Var(f"y{i}", b.dtype) for i, b in enumerate(self.buffers)]

    def add(self, position: int, value: Expr) -> None:
        """The next value, and its term."""
        made = _NarrowCompare(self).visit(_unwidened(_Own(self).visit(value)))
        term = self._term(position, made)
        if term is None:
            name = self.buffers[position].name
            raise NoCombination(
                f"the value of {name!r} is none of a sum, product, max, min or choice (T.Select, "
                "T.if_then_else) of its own element and a term"
            )
        self.terms.append(term)
        self.values.append(made)

    def _term(self, position: int, value: Expr) -> Expr | None:
        own = self.own[position]
        match value:
            case Add(a, b) | Mul(a, b) | Max(a, b) | Min(a, b):
                pass
            case Select(_, a, b) | Call("if_then_else", (_, a, b)):
                pass
            case _:
                return None
        if (a is own) == (b is own):
            return None
        term = b if a is own else a
        return None if any(n in self.own for n in walk(term)) else term

    def combined(self, x: Values, y: Values) -> list[Expr]:
        change = dict(zip([*self.own, *self.other], [*x, *y], strict=True))
        return [substitute(v, change) for v in self.values]

    # -- whether results may be regrouped ----------------------------------------------------------
    def choice(self, identities: Values) -> Choice | None:
        """The choice of the program, where it leaves ties open; raises NoCombination where the
        values may not be regrouped."""
        keys = [expr_key(t) for t in self.terms]
        self.values = [_Other(self, keys, i).visit(value) for i, value in enumerate(self.values)]
        for buffer, value in zip(self.buffers, self.values, strict=True):
            if any(isinstance(n, (BufferLoad,)) for n in walk(value)) or any(
                isinstance(n, Var) and n not in (*self.own, *self.other) for n in walk(value)
            ):
                raise NoCombination(
                    f"the value of {buffer.name!r} depends on more than its elements and terms"
                )
        conditions = {
            i: c for i, v in enumerate(self.values) if (c := self._keeps(i, v)) is not None
        }
        compared = {
            i
            for c in conditions.values()
            for i, (x, y) in enumerate(zip(self.own, self.other, strict=True))
            if any(n is x or n is y for n in walk(c))
        }
        for i, value in enumerate(self.values):
            if i not in conditions and i not in compared:
                kind = type(value)
                if kind not in COMBINERS or not is_identity(kind, identities[i]):
                    raise NoCombination(
                        f"{self.buffers[i].name!r} does not begin with the neutral element"
                    )
        if not conditions:
            return None
        if len(set(keys)) < len(keys):
            raise NoCombination("two of its terms are the same, so that nobody can tell them apart")
        return self._ordered(conditions, sorted(compared))

    def _keeps(self, position: int, value: Expr) -> Expr | None:
        """The condition under which the own element stays, where a value is a choice."""
        match value:
            case Select(c, a, _) | Call("if_then_else", (c, a, _)):
                return c if a is self.own[position] else Not(c)
            case _:
                return None

    def _ordered(self, conditions: dict[int, Expr], compared: list[int]) -> Choice | None:
        if len(compared) > _MOST or not compared:
            raise NoCombination(f"its condition compares {len(compared)} values")
        asked = {i for c in conditions.values() for n in walk(c) for i in self._asked(n)}
        points = list(itertools.product(*[range(_NAN + (i in asked)) for i in compared]))
        tables = {i: self._table(c, compared, points) for i, c in conditions.items()}
        main = self._main(tables, compared)
        table, held = tables[main], conditions[main]
        for i in compared:
            if i not in conditions:
                self._require_extreme(i, compared.index(i), table)
        _require_order(table, points)
        undecided = [table[a, b] for a in points for b in points if table[a, b] == table[b, a]]
        is_decided = set(conditions) <= set(compared) and all(
            a == b or table[a, b] != table[b, a] for a in points for b in points
        )
        if len(set(undecided)) > 1:
            raise NoCombination("of equal values it keeps now the one and now the other")
        if is_decided:
            return None

        def holds(x: Values, y: Values) -> Expr:
            change = dict(zip([*self.own, *self.other], [*x, *y], strict=True))
            return substitute(held, change)

        return Choice(frozenset(conditions), holds, keeps_first=undecided[0])

    def _main(self, tables: Mapping[int, Table], compared: Sequence[int]) -> int:
        """The value whose condition chooses all of them: that of another one may differ from it
        where its own elements are equal, so that the choice is none."""
        for main, table in tables.items():
            if all(
                other[a, b] == table[a, b]
                for i, other in tables.items()
                for a, b in table
                if i not in compared or a[compared.index(i)] != b[compared.index(i)]
            ):
                return main
        raise NoCombination("its values are chosen by different conditions")

    def _table(
        self, condition: Expr, compared: list[int], points: Sequence[tuple[int, ...]]
    ) -> Table:
        """Whether the condition holds, by the values of both sides."""
        return {
            (a, b): self._holds(condition, dict(zip(compared, zip(a, b, strict=True), strict=True)))
            for a in points
            for b in points
        }

    def _holds(self, c: Expr, at: dict[int, tuple[int, int]]) -> bool:
        match c:
            case IntImm(value):
                return bool(value)
            case And(a, b):
                return self._holds(a, at) and self._holds(b, at)
            case Or(a, b):
                return self._holds(a, at) or self._holds(b, at)
            case Not(a):
                return not self._holds(a, at)
        found = self._compares(c, at)
        if found is None:
            raise NoCombination(
                "its condition is more than comparisons of elements with their terms and isnan of "
                "them, joined by and, or, not"
            )
        return found

    def _compares(self, c: Expr, at: dict[int, tuple[int, int]]) -> bool | None:
        """What a comparison of an element with its term gives, and a question for NaN; None for
        all else."""
        match c:
            case Call("isnan", (a,)) if (place := self._place(a)) is not None:
                i, side = place
                return at.get(i, (0, 0))[side] == _NAN
            case CompareOp(a=a, b=b):
                first, second = self._place(a), self._place(b)
                if first is None or second is None or first[0] != second[0] or first == second:
                    return None
                values = at.get(first[0], (0, 0))
                if _NAN in values:
                    return type(c) is NE
                return _COMPARE[type(c)](values[first[1]] - values[second[1]])
        return None

    def _place(self, e: Expr) -> tuple[int, int] | None:
        """Which value a variable is, and of which side."""
        for i, (own, other) in enumerate(zip(self.own, self.other, strict=True)):
            if e is own or e is other:
                return i, int(e is other)
        return None

    def _asked(self, n: Node) -> list[int]:
        """The value of which a part of a condition asks whether it is NaN."""
        place = self._place(n.args[0]) if isinstance(n, Call) and n.op == "isnan" else None
        return [] if place is None else [place[0]]

    def _require_extreme(self, position: int, at: int, table: Table) -> None:
        """A maximum or minimum that the condition looks at is the value that it chooses; both are
        NaN where one of their operands is."""
        value = self.values[position]
        sign = 1 if isinstance(value, Max) else -1 if isinstance(value, Min) else 0
        for (a, b), keeps in table.items():
            x, y = (sign * _NAN if v == _NAN else v for v in (a[at], b[at]))
            if not sign or (x != y and ((x - y) * sign > 0) is not keeps):
                raise NoCombination(
                    f"the value of {self.buffers[position].name!r} is not the one that the "
                    "condition chooses"
                )


def _require_order(
    table: Table,
    points: Sequence[tuple[int, ...]],
) -> None:
    """The choice is that of one order of all tuples, in which some may stand side by side."""
    beats = {(a, b) for a in points for b in points if table[a, b] and not table[b, a]}
    for a, b in beats:
        # What beats another one beats all that this one does not.
        if any((a, c) not in beats and (c, b) not in beats for c in points):
            raise NoCombination("its condition is no order of the values")


def _unwidened(value: Expr) -> Expr:
    """A choice of wider integers that is narrowed again as one of narrow ones, as where an int32
    and an index meet: ``int32(c ? int64(x) : k)`` is ``c ? x : int32(k)``."""
    if not isinstance(value, Cast) or not value.dtype.is_integer:
        return value
    match value.value:
        case Select(c, a, b):
            return Select(c, _unwidened(cast(a, value.dtype)), _unwidened(cast(b, value.dtype)))
        case Call("if_then_else", (c, a, b)):
            parts = [_unwidened(cast(x, value.dtype)) for x in (a, b)]
            return Call("if_then_else", (c, *parts), value.dtype)
        case Cast(dtype=wide, value=x) if (
            x.dtype is value.dtype and wide.is_integer and wide.bits > x.dtype.bits
        ):
            return x
    return value


class _Own(Mutator):
    """Puts variables for the own elements."""

    def __init__(self, match: _Match) -> None:
        self.match = match

    def visit_BufferLoad(self, n: BufferLoad) -> Expr:  # noqa: N802
        for x, buffer, indices in zip(
            self.match.own, self.match.buffers, self.match.indices, strict=True
        ):
            if n.buffer is buffer:
                if not same_indices(n.indices, indices):
                    raise NoCombination(f"it reads other elements of {buffer.name!r}")
                return x
        made: Expr = self.generic_visit(n)
        return made


class _NarrowCompare(Mutator):
    """Compares an own element that was widened to meet an index with the index narrowed, where
    that keeps all its values: ``int64(x) < k`` is ``x < int32(k)``, the term of ``x``."""

    def __init__(self, match: _Match) -> None:
        self.match = match

    def visit_LT(self, n: CompareOp) -> Expr:  # noqa: N802
        made: Expr = self.generic_visit(n)
        assert isinstance(made, CompareOp)
        a, b = self._narrow(made.a), self._narrow(made.b)
        if a is not None and self._fits(made.b, a):
            return type(made)(a, cast(made.b, a.dtype))
        if b is not None and self._fits(made.a, b):
            return type(made)(cast(made.a, b.dtype), b)
        return made

    visit_LE = visit_GT = visit_GE = visit_EQ = visit_NE = visit_LT

    def _narrow(self, n: Expr) -> Var | None:
        """The own element that is widened."""
        if not isinstance(n, Cast) or not n.dtype.is_integer or not isinstance(n.value, Var):
            return None
        x = n.value
        return x if x in self.match.own and x.dtype.is_integer else None

    def _fits(self, other: Expr, x: Var) -> bool:
        low, high = int_limits(x.dtype)
        found = self.match.analyzer.bounds(other)
        if found.min is None or found.max is None:
            return False
        return low <= found.min and found.max <= high


class _Other(Mutator):
    """Puts variables for the terms: for the operand of the value itself, and wherever else one
    of them stands."""

    def __init__(self, match: _Match, keys: Sequence[object], position: int) -> None:
        self.match, self.keys, self.position = match, keys, position

    def visit(self, n: object) -> Expr:
        if n is self.match.terms[self.position]:
            return self.match.other[self.position]
        if isinstance(n, Expr) and not isinstance(n, (IntImm, FloatImm)):
            key = expr_key(n)
            if key in self.keys:
                return self.match.other[self.keys.index(key)]
        made: Expr = super().visit(n)
        return made


__all__ = ["Choice", "Combination", "NoCombination", "as_combination", "match_tuple_update"]
