"""Two vectors as one of twice the lanes: the lanes of one, and behind them those of the other.

    a[0:8] + b[0:8], a[8:16] + b[8:16]    ->    a[0:16] + b[0:16]

Possible where both are computed alike. Loads that stand one behind the other in memory are one
load; of other loads both are kept (``Joined``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ...support.node import children
from ..arith import expr_key
from ..arith.linear import Linear
from ..expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    Broadcast,
    BufferLoad,
    Call,
    Cast,
    Div,
    Expr,
    IntImm,
    Max,
    Min,
    Mul,
    Not,
    Or,
    Ramp,
    Select,
    Sub,
    Var,
)

ELEMENTWISE = (
    Add, Sub, Mul, Div, Min, Max, EQ, NE, LT, LE, GT, GE, And, Or, Not, Select, Cast,
)  # fmt: skip
"""What is computed lane by lane, besides calls."""


class Halves(NamedTuple):
    """A variable, and the two loads that its lanes are of."""

    var: Var
    first: BufferLoad
    second: BufferLoad


class Joined(NamedTuple):
    """A vector, and the variables in it by their ids."""

    value: Expr
    halves: dict[int, Halves]


def joined(a: Expr, b: Expr, linear: Callable[[Expr], Linear]) -> Joined | None:
    """The lanes of ``a`` and behind them those of ``b``; None where these are computed otherwise.
    ``linear`` gives the linear form of an index."""
    beside = _Beside(linear)
    value = beside.of(a, b)
    return None if value is None else Joined(value, beside.halves)


class _Beside:
    def __init__(self, linear: Callable[[Expr], Linear]) -> None:
        self.linear = linear
        self.halves: dict[int, Halves] = {}

    def of(self, a: Expr, b: Expr) -> Expr | None:
        match a, b:
            case Ramp(first, IntImm(1), lanes), Ramp(second, IntImm(1)):
                follows = self.linear(first).shift(lanes).key == self.linear(second).key
                return Ramp(first, IntImm(1), 2 * lanes) if follows else None
            case Broadcast(x, lanes), Broadcast(y):
                return Broadcast(x, 2 * lanes) if expr_key(x) == expr_key(y) else None
            case BufferLoad(buffer), BufferLoad(other):
                return self._loads(a, b) if buffer is other else None
            case _ if type(a) is type(b) and isinstance(a, (*ELEMENTWISE, Call)):
                return self._parts(a, b)
            case _:
                return None

    def _loads(self, a: BufferLoad, b: BufferLoad) -> Expr | None:
        """One load, or a variable of two that read under a mask (at the border of an image)."""
        if a.predicate is b.predicate is None:
            index = self.of(a.indices[0], b.indices[0])
            return None if index is None else BufferLoad(a.buffer, (index,))
        if a.dtype is not b.dtype or not isinstance(a.indices[0], Ramp):
            return None
        both = Var(a.buffer.name, a.dtype.with_lanes(2 * a.dtype.lanes))
        self.halves[id(both)] = Halves(both, a, b)
        return both

    def _parts(self, a: Expr, b: Expr) -> Expr | None:
        below: list[Expr] = []
        for x, y in zip(children(a), children(b), strict=False):
            if not (isinstance(x, Expr) and isinstance(y, Expr)):
                return None
            part = self.of(x, y)
            if part is None:
                return None
            below.append(part)
        wide = a.dtype.with_lanes(2 * a.dtype.lanes)
        if isinstance(a, Call) and isinstance(b, Call):
            same = a.op == b.op and len(a.args) == len(b.args)
            return Call(a.op, tuple(below), wide) if same else None
        if isinstance(a, Cast):
            return Cast(wide, below[0]) if a.dtype is b.dtype else None
        made: Any = type(a)
        return made(*below)  # type: ignore[no-any-return]
