"""Random questions about index arithmetic: what is known of variables, and claims about them.

A ``Known`` is what an analyzer is told: dimensions, loops with constant and symbolic ends,
variables that stand for expressions, conditions. Claims are made near the edge: two expressions are
compared at points that satisfy what is known, and the claim is that their difference is at least
the least that was seen, or one less, or one more.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

from burnish.tensorir.arith import Analyzer
from burnish.tensorir.buffer import Range
from burnish.tensorir.expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    And,
    Div,
    Expr,
    IntImm,
    Not,
    Or,
    Select,
    Var,
    as_expr,
    maximum,
    minimum,
)
from burnish.tests.tensorir.arith.evaluate import UndefinedError, evaluate

Point = dict[Var, int]
TRIES = 70
MOST_POINTS = 24
REDRAWN = 4
"""How often conditions are drawn again that no point was found for."""
SIZES = (0, 1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 24, 31, 32)
CONSTANTS = (1, 2, 2, 3, 4, 4, 5, 8, 8, 16)
COMPARED = (EQ, NE, LT, LE, GT, GE)


@dataclass
class Known:
    """What is known of variables. ``loops`` have a least and a last value; ``exact`` ones are
    another expression; ``given`` are conditions."""

    dims: list[Var] = field(default_factory=list)
    free: list[Var] = field(default_factory=list)
    loops: list[tuple[Var, Expr, Expr]] = field(default_factory=list)
    exact: list[tuple[Var, Expr]] = field(default_factory=list)
    given: list[Expr] = field(default_factory=list)

    def tell(self, a: Analyzer, stack: ExitStack) -> None:
        """Bind and assume it all in an analyzer, until the stack ends."""
        stack.enter_context(a.scope())
        for v in self.dims:
            a.declare_dim(v)
        for v, least, last in self.loops:
            if isinstance(least, IntImm) and isinstance(last, IntImm):
                a.bind(v, (least.value, last.value))
            else:
                a.bind(v, Range(least, last - least + 1))
        for v, e in self.exact:
            a.bind_expr(v, e)
        for c in self.given:
            stack.enter_context(a.constraint(c))

    def conditions(self) -> list[Expr]:
        """The same as conditions that hold."""
        found: list[Expr] = [GE(v, as_expr(0)) for v in self.dims]
        for v, least, last in self.loops:
            found += [GE(v, least), LE(v, last)]
        return [*found, *[EQ(v, e) for v, e in self.exact], *self.given]

    def points(self, rng: random.Random) -> list[Point]:
        """Some values of the variables for which it all holds."""
        found: list[Point] = []
        for _ in range(TRIES):
            point = self._point(rng)
            if point is not None:
                found.append(point)
                if len(found) == MOST_POINTS:
                    break
        return found

    def _point(self, rng: random.Random) -> Point | None:
        point = {v: rng.choice(SIZES) for v in self.dims}
        point |= {v: rng.randint(-20, 40) for v in self.free}
        try:
            for v, least, last in self.loops:
                low, high = evaluate(least, point), evaluate(last, point)
                if low > high:
                    return None
                point[v] = rng.choice((low, high, rng.randint(low, high)))
            for v, e in self.exact:
                point[v] = evaluate(e, point)
            return point if all(evaluate(c, point) for c in self.given) else None
        except UndefinedError:
            return None


class Questions:
    """Draws what is known, and expressions and claims over it."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.known = Known()
        self.known.dims = [Var("m"), Var("n")][: rng.choice((0, 1, 1, 2))]
        self.known.free = [Var("x"), Var("y")][: rng.choice((0, 0, 1, 2))]
        for name in "ijk"[: rng.choice((1, 2, 2, 3))]:
            self.known.loops.append((Var(name), *self._ends()))
        if rng.random() < 0.15:
            self.known.exact.append((Var("z"), self.linear()))
        for _ in range(REDRAWN):
            self.known.given = [self.condition() for _ in range(rng.choice((0, 0, 0, 1, 1, 2)))]
            self.points = self.known.points(rng)
            if self.points:
                break

    @property
    def variables(self) -> list[Var]:
        k = self.known
        return [*k.dims, *k.free, *[v for v, *_ in k.loops], *[v for v, _ in k.exact]]

    # -- what is known -----------------------------------------------------------------------------
    def _ends(self) -> tuple[Expr, Expr]:
        rng = self.rng
        if not self.known.dims or rng.random() < 0.6:
            least = rng.choice((0, 0, 0, 0, 1, -3, 5))
            return as_expr(least), as_expr(least + rng.choice((0, 1, 3, 7, 7, 11, 15, 31)))
        m, c = rng.choice(self.known.dims), rng.choice((2, 4, 8))
        extents: list[Expr] = [
            m, m // c, (m + (c - 1)) // c, m // c % 2, minimum(m, c), m % c, m * c, m + c,
            (m + (c - 1)) // c * c, maximum(m - c, 0),
        ]  # fmt: skip
        others = [v for v, *_ in self.known.loops]
        if others:
            j = rng.choice(others)
            extents += [minimum(m - j * c, c), m - j, j + 1]
        least = as_expr(rng.choice((0, 0, 0, 1)))
        return least, least + rng.choice(extents) - 1

    def condition(self) -> Expr:
        """Something that holds at some points, mostly."""
        rng = self.rng
        a = self.linear() if rng.random() < 0.7 else self.expr(2)
        kind = rng.randrange(8)
        if kind == 0:
            c = rng.choice((2, 3, 4, 8))
            return EQ(a % c, as_expr(rng.randrange(c)))
        if kind == 1:
            return rng.choice((And, Or))(self._compared(a), self._compared(self.linear()))
        if kind == 2:
            return Not(self._compared(a))
        return self._compared(a)

    def _compared(self, a: Expr) -> Expr:
        rng = self.rng
        kind = rng.choice((LT, LE, GT, GE, LT, LE, EQ, NE))
        b = self.linear() if rng.random() < 0.6 else as_expr(rng.randrange(-4, 33))
        return kind(a, b)

    # -- expressions -------------------------------------------------------------------------------
    def linear(self) -> Expr:
        """A short sum of multiples of variables."""
        rng = self.rng
        e: Expr = rng.choice(self.variables)
        if rng.random() < 0.4:
            e = e * rng.choice((2, 4, 8, 3, -1, -2))
        for _ in range(rng.choice((0, 0, 1, 2))):
            e = e + rng.choice(self.variables) * rng.choice((1, 1, -1, 2, 4, -8))
        return e + rng.choice((0, 0, 0, 1, -1, 3, 7, -8)) if rng.random() < 0.5 else e

    def expr(self, depth: int) -> Expr:
        """An int64 expression of some depth; divisors are constants or dimensions."""
        rng = self.rng
        if depth <= 0 or rng.random() < 0.15:
            return self.linear()
        a = self.expr(depth - 1)
        c = rng.choice(CONSTANTS)
        forms = [
            lambda: a // c,
            lambda: a % c,
            lambda: a // c * c,
            lambda: (a + (c - 1)) // c,
            lambda: (a + (c - 1)) // c * c,
            lambda: a // c * c + a % c,
            lambda: a // c % rng.choice((2, 3, 4)),
            lambda: a * c + self.expr(depth - 2),
            lambda: a - self.expr(depth - 1),
            lambda: minimum(a, self.expr(depth - 1)),
            lambda: maximum(a, self.linear()),
            lambda: minimum(a, rng.choice((0, 4, 7, 16))),
            lambda: Select(self._compared(self.linear()), a, self.linear()),
            lambda: Div(a, as_expr(rng.choice((c, c, -c)))),
            lambda: a // -c,
            lambda: a % -c,
        ]
        if self.known.dims:
            m = rng.choice(self.known.dims)
            forms += [
                lambda: a * m,
                lambda: a // m,
                lambda: a % m,
                lambda: a * m + self.linear(),
                lambda: a // m * m + a % m,
            ]
        return rng.choice(forms)()

    def related(self, a: Expr) -> Expr:
        """Something of which it is not plain whether it is less than an expression."""
        rng = self.rng
        c = rng.choice(CONSTANTS)
        forms = [
            a // c * c, (a + (c - 1)) // c * c, a - a % c, minimum(a, self.linear()),
            maximum(a, self.linear()), a // c, a % c, a + rng.choice(self.variables), a * c,
            a // c % 2 * c + a % c, a // (2 * c) * (2 * c),
        ]  # fmt: skip
        return rng.choice(forms)

    def pair(self) -> tuple[Expr, Expr]:
        """Two expressions to compare."""
        rng = self.rng
        a = self.expr(rng.choice((1, 1, 2, 2, 3)))
        return a, self.related(a) if rng.random() < 0.5 else self.expr(rng.choice((0, 1, 2)))

    def claim(self) -> Expr:
        """A condition that may hold for all values."""
        rng = self.rng
        first = self._bound(*self.pair())
        if rng.random() < 0.85:
            return first
        second = self._bound(*self.pair())
        return rng.choice((And(first, second), Or(first, second), Not(first)))

    def _bound(self, a: Expr, b: Expr) -> Expr:
        rng = self.rng
        seen = differences(a, b, self.points)
        if not seen or rng.random() < 0.1:
            return rng.choice(COMPARED)(a, b)
        low, high = min(seen), max(seen)
        off = rng.choice((0, 0, 0, 0, 1, -1, -1, -4))
        if low == high and rng.random() < 0.5:
            return EQ(a, b + low)
        match rng.randrange(5):
            case 0:
                return GE(a, b + (low + off))
            case 1:
                return GT(a, b + (low + off - 1))
            case 2:
                return LE(a, b + (high - off))
            case 3:
                return LT(a - b, as_expr(high - off + 1))
            case _:
                return NE(a, b + (low - 1 + off))


def differences(a: Expr, b: Expr, points: Sequence[Point]) -> list[int]:
    """What the difference of two expressions is at the points where it is defined."""
    found: list[int] = []
    for p in points:
        try:
            found.append(evaluate(a, p) - evaluate(b, p))
        except UndefinedError:
            continue
    return found
