"""Writes the composed intrinsics with those that have machine code of their own.

``asinh`` and its kin are a few operations around ``log`` and ``log1p``, arranged so that nothing
cancels near 0 and nothing overflows before the result does. Half precision is computed in
float32 and rounded once. Runs first, on scalar expressions: vectors come later.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from ...support.dtype import DType
from ..analysis.anywhere import anywhere
from ..expr import (
    EQ,
    FLOAT32,
    GT,
    LT,
    Call,
    Expr,
    Let,
    Max,
    Min,
    Or,
    Select,
    Var,
    cast,
    const,
)
from ..function import PrimFunc
from ..intrinsics import call_intrin
from ..visitor import Mutator

Expansion = Callable[..., Expr]

_LN2 = math.log(2)


def expand_intrinsics(func: PrimFunc) -> PrimFunc:
    """``func`` without composed intrinsics; itself where it has none."""
    if not _COMPOSED.within(func.body):
        return func
    return PrimFunc(func.params, _Expand().visit(func.body), func.attrs, func.name)


class _Expand(Mutator):
    def visit_Call(self, n: Call) -> Expr:  # noqa: N802
        args = [self.visit(a) for a in n.args]
        expansion = EXPANSIONS.get(n.op)
        if expansion is None:
            same = all(a is b for a, b in zip(args, n.args, strict=True))
            return n if same else Call(n.op, tuple(args), n.dtype)
        wide = n.dtype if n.dtype.bits >= 32 else FLOAT32.with_lanes(n.dtype.lanes)
        # Each operand is computed once, however often the expansion uses it.
        names = [Var(f"x{i}", wide) for i in range(len(args))]
        body = expansion(*names)
        for name, a in zip(reversed(names), reversed(args), strict=True):
            body = Let(name, cast(a, wide), body)
        return cast(body, n.dtype)


def _abs(x: Expr) -> Expr:
    return call_intrin("abs", x)


def _exp10(x: Expr) -> Expr:
    return call_intrin("pow", const(10.0, x.dtype), x)


def _large(dtype: DType) -> Expr:
    """From here on ``x * x + 1`` is ``x * x``."""
    return const(1e9 if dtype.bits == 64 else 1e4, dtype)


def _asinh(x: Expr) -> Expr:
    one = const(1.0, x.dtype)
    a = _abs(x)
    square = a * a
    near = call_intrin("log1p", a + square / (one + call_intrin("sqrt", square + one)))
    far = call_intrin("log", a) + const(_LN2, x.dtype)
    return call_intrin("copysign", Select(GT(a, _large(x.dtype)), far, near), x)


def _acosh(x: Expr) -> Expr:
    one, two = const(1.0, x.dtype), const(2.0, x.dtype)
    t = x - one
    near = call_intrin("log1p", t + call_intrin("sqrt", t * (t + two)))
    far = call_intrin("log", x) + const(_LN2, x.dtype)
    value = Select(GT(x, _large(x.dtype)), far, near)
    return Select(LT(x, one), const(math.nan, x.dtype), value)


def _atanh(x: Expr) -> Expr:
    one, two = const(1.0, x.dtype), const(2.0, x.dtype)
    a = _abs(x)
    value = call_intrin("log1p", two * a / (one - a)) * const(0.5, x.dtype)
    return call_intrin("copysign", value, x)


def _hypot(x: Expr, y: Expr) -> Expr:
    one, infinity = const(1.0, x.dtype), const(math.inf, x.dtype)
    a, b = _abs(x), _abs(y)
    longer, shorter = Max(a, b), Min(a, b)
    ratio = shorter / longer
    value = longer * call_intrin("sqrt", one + ratio * ratio)
    value = Select(EQ(longer, const(0.0, x.dtype)), longer, value)
    return Select(Or(EQ(a, infinity), EQ(b, infinity)), infinity, value)


EXPANSIONS: dict[str, Expansion] = {
    "exp10": _exp10,
    "asinh": _asinh,
    "acosh": _acosh,
    "atanh": _atanh,
    "hypot": _hypot,
}
"""How each composed intrinsic is computed from its operands, of float32 or float64."""

_COMPOSED = anywhere(lambda n: isinstance(n, Call) and n.op in EXPANSIONS)
