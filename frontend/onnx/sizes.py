"""Arithmetic on shape values: what exporters write between Shape and Reshape, done at import.

Integer semantics are ONNX's: division truncates. Where a symbolic result could differ from that of
the dims' arithmetic, or a comparison cannot be decided for every size, there is no guess: it is
computed when the model runs, of the sizes as data.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from onnx import NodeProto

from ...graphir.dim import dim_equal, divide, fold_dim, is_nonnegative
from ...graphir.expr import Constant, constant
from ...support.errors import FrontendError
from ...tensorir.expr import Expr, IntImm, Mul, floordiv, floormod, maximum, minimum
from .registry import ShapeValue, node_name


def _divide(a: Expr, b: Expr) -> Expr | None:
    if isinstance(a, IntImm) and isinstance(b, IntImm) and b.value:
        quotient = abs(a.value) // abs(b.value)
        return IntImm(quotient if (a.value < 0) == (b.value < 0) else -quotient)
    if is_nonnegative(a) and isinstance(b, IntImm) and b.value > 0:
        return fold_dim(floordiv(a, b))
    if isinstance(b, IntImm):
        return None
    if isinstance(a, Mul) and (dim_equal(a.a, b) or dim_equal(a.b, b)):
        return a.a if dim_equal(a.b, b) else a.b
    return divide(a, b)


def _remainder(a: Expr, b: Expr) -> Expr | None:
    positive = isinstance(b, IntImm) and b.value > 0
    return fold_dim(floormod(a, b)) if positive and is_nonnegative(a) else None


_ARITHMETIC: dict[str, Callable[[Expr, Expr], Expr | None]] = {
    "Add": lambda a, b: fold_dim(a + b),
    "Sub": lambda a, b: fold_dim(a - b),
    "Mul": lambda a, b: fold_dim(a * b),
    "Div": _divide,
    "Mod": _remainder,
    "Max": maximum,
    "Min": minimum,
}


def _pairs(node: NodeProto, a: ShapeValue, b: ShapeValue) -> list[tuple[Expr, Expr]]:
    if len(a.dims) != len(b.dims) and 1 not in (len(a.dims), len(b.dims)):
        raise FrontendError(
            f"{node_name(node)}: sizes of the different lengths {len(a.dims)} and {len(b.dims)}."
        )
    count = 0 if not a.dims or not b.dims else max(len(a.dims), len(b.dims))
    return [(a.dims[i % len(a.dims)], b.dims[i % len(b.dims)]) for i in range(count)]


def size_arithmetic(node: NodeProto, a: ShapeValue, b: ShapeValue) -> ShapeValue | Constant | None:
    """The node's operator on sizes, element by element; None for one that has no meaning for sizes,
    and where the result is not known for every size.

    Raises FrontendError for lengths that do not fit.
    """
    scalar = a.scalar and b.scalar
    if node.op_type in ("Equal", "Greater", "Less", "GreaterOrEqual", "LessOrEqual"):
        found = [_compare(node, x, y) for x, y in _pairs(node, a, b)]
        decided = [f for f in found if f is not None]
        if len(decided) < len(found):
            return None
        return constant(np.array(decided[0] if scalar else decided, bool))
    if node.op_type not in _ARITHMETIC:
        return None
    dims: list[Expr] = []
    for x, y in _pairs(node, a, b):
        result = _ARITHMETIC[node.op_type](x, y)
        if result is None:
            return None
        dims.append(result)
    return ShapeValue(tuple(dims), scalar)


def _compare(node: NodeProto, x: Expr, y: Expr) -> bool | None:
    """What is so for every size; None where that differs."""
    if isinstance(x, IntImm) and isinstance(y, IntImm):
        table = {
            "Equal": x.value == y.value,
            "Greater": x.value > y.value,
            "Less": x.value < y.value,
            "GreaterOrEqual": x.value >= y.value,
            "LessOrEqual": x.value <= y.value,
        }
        return table[node.op_type]
    if dim_equal(x, y):
        return node.op_type not in ("Greater", "Less")
    if _is_negative(y) and is_nonnegative(x):
        return node.op_type.startswith("Greater")
    if _is_negative(x) and is_nonnegative(y):
        return node.op_type.startswith("Less")
    return None


def _is_negative(dim: Expr) -> bool:
    return isinstance(dim, IntImm) and dim.value < 0


def choose(condition: np.ndarray, a: ShapeValue, b: ShapeValue) -> ShapeValue:
    """Where of sizes, by a known condition."""
    picks = condition.reshape(-1)
    count = max(len(picks), len(a.dims), len(b.dims))
    dims = [
        (a.dims[i % len(a.dims)] if picks[i % len(picks)] else b.dims[i % len(b.dims)])
        for i in range(count)
    ]
    return ShapeValue(tuple(dims), condition.ndim == 0 and a.scalar and b.scalar)
