"""The value of index arithmetic where its variables have values: integers of any size, or arrays of
NumPy that hold many."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np

from ..expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    BinaryOp,
    CompareOp,
    Expr,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mul,
    Or,
    Sub,
)

Operations: TypeAlias = Mapping[type[Expr], Callable[[Any, Any], Any]]

OPERATIONS: Operations = {
    Add: operator.add,
    Sub: operator.sub,
    Mul: operator.mul,
    FloorDiv: operator.floordiv,
    FloorMod: operator.mod,
    Min: min,
    Max: max,
}
"""Of Python's integers."""
OF_ARRAYS: Operations = {
    Add: np.add, Sub: np.subtract, Mul: np.multiply, FloorDiv: np.floor_divide, FloorMod: np.mod,
    Min: np.minimum, Max: np.maximum, And: np.logical_and, Or: np.logical_or, EQ: np.equal,
    NE: np.not_equal, LT: np.less, LE: np.less_equal, GT: np.greater, GE: np.greater_equal,
}  # fmt: skip
"""Of arrays of int64, and conditions on them."""


def evaluate(e: Expr, value_of: Callable[[Expr], Any], operations: Operations = OPERATIONS) -> Any:
    """The value of ``e``; ``value_of`` gives those of variables, and of whatever else is no number
    and none of ``operations``."""
    if isinstance(e, IntImm):
        return e.value
    operation = operations.get(type(e))
    if operation is None:
        return value_of(e)
    assert isinstance(e, BinaryOp | CompareOp | And | Or)
    return operation(evaluate(e.a, value_of, operations), evaluate(e.b, value_of, operations))
