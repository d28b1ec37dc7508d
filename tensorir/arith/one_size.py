"""Dims of one named size as functions of it: whether two are equal for every size from 0 up.

    max(min(1, n) + n - 1, 0)     is n: both are 0 where n is 0, and n where it is more

The canonical form (``linear``) cannot see that, for it looks at one term at a time. Here
all is decided: sums, differences and multiples, quotients and remainders by numbers, and the
smaller and larger of two are, from some size on, linear on each class of sizes that a period
parts; so it is enough to compare the growth on each class, and the values up to there.

    (n + 1) // 2      begins 0, period 2, and grows by 1 on both classes
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import lcm

from ..expr import (
    Add,
    BinaryOp,
    Expr,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mul,
    Sub,
    Var,
)
from ..visitor import free_vars
from .evaluate import evaluate

MOST_SIZES = 1 << 12
"""That are looked at one by one."""
LONGEST = 64
"""Dims of more numbers, names and operators are left as they are."""


@dataclass(frozen=True)
class _Tail:
    """How a dim grows: on the class of sizes ``begin + r``, ``begin + r + period`` ... by
    ``growth[r]`` each time."""

    begin: int
    growth: tuple[int, ...]

    @property
    def period(self) -> int:
        return len(self.growth)

    def on(self, begin: int, period: int) -> tuple[int, ...]:
        """The growth from a later size on, by a multiple of the period."""
        shift, times = begin - self.begin, period // self.period
        return tuple([self.growth[(r + shift) % self.period] * times for r in range(period)])


def simplest(dim: Expr) -> Expr:
    """The shortest part of a dim that is equal to it for every size; where none is, the dim made of
    the simplest of its parts."""
    parts = [*_parts(dim)]
    if len(parts) > LONGEST or not any(isinstance(p, (Min, Max)) for p in parts):
        return dim
    if len(free_vars([dim])) != 1:
        return _of_simplest(dim)
    lengths = {id(p): sum(1 for _ in _parts(p)) for p in parts}
    for part in sorted(parts[1:], key=lambda p: lengths[id(p)]):
        if not isinstance(part, IntImm) and is_same(dim, part):
            return part
    return _of_simplest(dim)


def _of_simplest(dim: Expr) -> Expr:
    if not isinstance(dim, BinaryOp):
        return dim
    a, b = simplest(dim.a), simplest(dim.b)
    return dim if a is dim.a and b is dim.b else type(dim)(a, b)


def is_same(a: Expr, b: Expr) -> bool:
    """Whether two dims of one size are proved equal for each value of it from 0 up."""
    if len(free_vars([a, b])) != 1 or any(_value(a, n) != _value(b, n) for n in range(4)):
        return False
    one, other = _tail(a), _tail(b)
    if one is None or other is None:
        return False
    begin, period = max(one.begin, other.begin), lcm(one.period, other.period)
    if begin + period > MOST_SIZES or one.on(begin, period) != other.on(begin, period):
        return False
    return all(_value(a, n) == _value(b, n) for n in range(begin + period))


def _parts(dim: Expr) -> Iterator[Expr]:
    yield dim
    if isinstance(dim, BinaryOp):
        yield from _parts(dim.a)
        yield from _parts(dim.b)


def _value(dim: Expr, size: int) -> int | None:
    """Of a size; None for what is no dim, and where something is divided by 0."""

    def value_of(e: Expr) -> int:
        if isinstance(e, Var):
            return size
        raise KeyError(e)

    try:
        return int(evaluate(dim, value_of))
    except (KeyError, ZeroDivisionError):
        return None


def _tail(dim: Expr) -> _Tail | None:
    """None for what is not of this kind, and what would take too long."""
    if isinstance(dim, (IntImm, Var)):
        return _Tail(0, (int(isinstance(dim, Var)),))
    if not isinstance(dim, BinaryOp):
        return None
    a, b = _tail(dim.a), _tail(dim.b)
    if a is None or b is None:
        return None
    if isinstance(dim, (Mul, FloorDiv, FloorMod)):
        return _by_number(dim, a, b)
    begin, period = max(a.begin, b.begin), lcm(a.period, b.period)
    if begin + period > MOST_SIZES:
        return None
    pairs = list(zip(a.on(begin, period), b.on(begin, period), strict=True))
    match dim:
        case Add():
            return _Tail(begin, tuple([x + y for x, y in pairs]))
        case Sub():
            return _Tail(begin, tuple([x - y for x, y in pairs]))
        case Min() | Max():
            return _chosen(dim, begin, pairs)
    return None


def _by_number(dim: Mul | FloorDiv | FloorMod, a: _Tail, b: _Tail) -> _Tail | None:
    if isinstance(dim, Mul) and isinstance(dim.a, IntImm):
        return _Tail(b.begin, tuple([g * dim.a.value for g in b.growth]))
    if not isinstance(dim.b, IntImm):
        return None
    number = dim.b.value
    if isinstance(dim, Mul):
        return _Tail(a.begin, tuple([g * number for g in a.growth]))
    period = a.period * number
    if number <= 0 or a.begin + period > MOST_SIZES:
        return None
    growth = [g // number for g in a.on(a.begin, period)]
    return _Tail(a.begin, tuple(growth) if isinstance(dim, FloorDiv) else (0,) * period)


def _chosen(dim: Min | Max, begin: int, pairs: list[tuple[int, int]]) -> _Tail | None:
    """From where on it is known which of the two it is, on each class of sizes."""
    period, last = len(pairs), begin
    for r, (x, y) in enumerate(pairs):
        if x == y:
            continue
        a, b = _value(dim.a, begin + r), _value(dim.b, begin + r)
        if a is None or b is None:
            return None
        last = max(last, begin + (abs(a - b) // abs(x - y) + 1) * period)
    if last + period > MOST_SIZES:
        return None
    pick = min if isinstance(dim, Min) else max
    return _Tail(last, tuple([pick(x, y) for x, y in pairs]))
