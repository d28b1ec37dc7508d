"""The values of index expressions in Python: what the laws of the arithmetic compare with.

int64 overflow is undefined in index arithmetic, so Python's unbounded integers will do.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping

from burnish.tensorir.expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    Div,
    Expr,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mul,
    Not,
    Or,
    Select,
    Sub,
    Var,
)


class UndefinedError(Exception):
    """The expression divides by zero at this point."""


def truncated(a: int, b: int) -> int:
    """The quotient rounded towards zero."""
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


OPERATIONS: dict[type, Callable[[int, int], int]] = {
    Add: operator.add,
    Sub: operator.sub,
    Mul: operator.mul,
    FloorDiv: operator.floordiv,
    FloorMod: operator.mod,
    Div: truncated,
    Min: min,
    Max: max,
    EQ: operator.eq,
    NE: operator.ne,
    LT: operator.lt,
    LE: operator.le,
    GT: operator.gt,
    GE: operator.ge,
    And: operator.and_,
    Or: operator.or_,
}


def evaluate(e: Expr, env: Mapping[Var, int]) -> int:
    """The value of an int64 or bool expression; Select evaluates what it needs. Raises
    UndefinedError where it divides by zero."""
    match e:
        case Var():
            return env[e]
        case IntImm():
            return e.value
        case Not():
            return 1 - evaluate(e.a, env)
        case Select():
            chosen = e.true_value if evaluate(e.condition, env) else e.false_value
            return evaluate(chosen, env)
    a, b = evaluate(e.a, env), evaluate(e.b, env)  # type: ignore[attr-defined]
    if isinstance(e, FloorDiv | FloorMod | Div) and b == 0:
        raise UndefinedError
    return int(OPERATIONS[type(e)](a, b))
