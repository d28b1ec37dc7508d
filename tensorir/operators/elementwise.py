"""Elementwise operators: one block each, one element from the same place of every operand.

Operands are broadcast as NumPy does and have one dtype; nothing is promoted. Special values follow
PyTorch: ``relu``, ``maximum``, ``minimum`` and ``clip`` propagate NaN, ``sign`` of NaN is 0,
division and remainder of floats round towards minus infinity exactly.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

from ...support.errors import ComputeError
from ..compute import Tensor, compute
from ..expr import (
    EQ,
    FLOAT32,
    GE,
    GT,
    INDEX,
    LE,
    LT,
    NE,
    BufferLoad,
    Expr,
    ExprLike,
    IntImm,
    Select,
    Var,
    as_expr,
    const,
    div,
    floordiv,
    floormod,
    is_const,
)
from ..expr import add as add_expr
from ..expr import cast as cast_expr
from ..expr import logical_and as and_expr
from ..expr import logical_not as not_expr
from ..expr import logical_or as or_expr
from ..expr import maximum as max_expr
from ..expr import minimum as min_expr
from ..expr import mul as mul_expr
from ..expr import sub as sub_expr
from ..intrinsics import call_intrin

Operand: TypeAlias = "Tensor | ExprLike"
"""A tensor, or a scalar (an expression or a Python number) that stands at every place."""


# -- broadcasting --------------------------------------------------------------------------------
def broadcast_shape(shapes: Sequence[Sequence[Expr]]) -> tuple[Expr, ...]:
    """The shape that these broadcast to. A symbolic dim against a constant other than 1 gives the
    constant, two different symbolic dims the first: that they agree is checked where the model is
    entered. Raises ComputeError for two constants that do not agree."""
    ndim = max([len(s) for s in shapes], default=0)
    dims: list[Expr] = []
    for d in range(-ndim, 0):
        result: Expr = IntImm(1, INDEX)
        for shape in shapes:
            if len(shape) >= -d:
                result = _broadcast_dim(result, shape[d])
        dims.append(result)
    return tuple(dims)


def _broadcast_dim(a: Expr, b: Expr) -> Expr:
    if is_const(a, 1):
        return b
    if is_const(b, 1) or a is b:
        return a
    if isinstance(a, IntImm) and isinstance(b, IntImm) and a.value != b.value:
        raise ComputeError(
            f"Dimensions of {a.value} and {b.value} do not broadcast: one must be 1."
        )
    return b if isinstance(b, IntImm) else a


def broadcast_load(x: Tensor, indices: Sequence[Expr], shape: Sequence[Expr]) -> BufferLoad:
    """The element of ``x`` that stands at ``indices`` of the broadcast ``shape``."""
    offset = len(indices) - x.ndim
    own: list[Expr] = []
    for d, dim in enumerate(x.shape):
        stretched = is_const(dim, 1) and not is_const(shape[d + offset], 1)
        own.append(IntImm(0, INDEX) if stretched else indices[d + offset])
    return BufferLoad(x, tuple(own))


def elementwise(name: str, fn: Callable[..., Expr], *operands: Operand) -> Tensor:
    """The tensor of ``fn(elements...)`` over the broadcast shape; the block is called ``name``.

    Python numbers take the dtype of the first tensor. Raises ComputeError without a tensor.
    """
    tensors = [t for t in operands if isinstance(t, Tensor)]
    if not tensors:
        raise ComputeError(f"{name}: expected at least one tensor.")
    shape = broadcast_shape([t.shape for t in tensors])

    def element(*indices: Var) -> Expr:
        values = [
            broadcast_load(x, indices, shape)
            if isinstance(x, Tensor)
            else as_expr(x, tensors[-1].dtype)
            for x in operands
        ]
        return fn(*values)

    return compute(shape, element, name)


def _rounded_once(name: str, fn: Callable[[Expr], Expr], x: Tensor) -> Tensor:
    """``elementwise`` for a formula of several steps: half precision is computed in float32."""
    if not x.dtype.is_float or x.dtype.bits >= 32:
        return elementwise(name, fn, x)
    return elementwise(name, lambda v: cast_expr(fn(cast_expr(v, FLOAT32)), v.dtype), x)


# -- unary ---------------------------------------------------------------------------------------
def _intrinsic(name: str, intrinsic: str = "") -> Callable[[Tensor], Tensor]:
    def operator(x: Tensor) -> Tensor:
        return elementwise(name, lambda v: call_intrin(intrinsic or name, v), x)

    operator.__name__ = operator.__qualname__ = name
    operator.__doc__ = f"``{intrinsic or name}`` of each element; the dtype and shape of ``x``."
    return operator


exp = _intrinsic("exp")
expm1 = _intrinsic("expm1")
log = _intrinsic("log")
log2 = _intrinsic("log2")
log1p = _intrinsic("log1p")
sqrt = _intrinsic("sqrt")
rsqrt = _intrinsic("rsqrt")
tanh = _intrinsic("tanh")
erf = _intrinsic("erf")
sigmoid = _intrinsic("sigmoid")
sin = _intrinsic("sin")
cos = _intrinsic("cos")
tan = _intrinsic("tan")
floor = _intrinsic("floor")
ceil = _intrinsic("ceil")
round = _intrinsic("round")
trunc = _intrinsic("trunc")
abs = _intrinsic("abs")
isnan = _intrinsic("isnan")
isinf = _intrinsic("isinf")
isfinite = _intrinsic("isfinite")


def negative(x: Tensor) -> Tensor:
    """``-x``."""
    return elementwise("negative", lambda v: -v, x)


def square(x: Tensor) -> Tensor:
    """``x * x``."""
    return elementwise("square", lambda v: v * v, x)


def reciprocal(x: Tensor) -> Tensor:
    """``1 / x`` of floats."""
    return elementwise("reciprocal", lambda v: const(1, v.dtype) / v, x)


def sign(x: Tensor) -> Tensor:
    """-1, 0 or 1; 0 for NaN."""

    def element(v: Expr) -> Expr:
        one, zero, minus = (const(c, v.dtype) for c in (1, 0, -1))
        return Select(v > zero, one, Select(v < zero, minus, zero))

    return elementwise("sign", element, x)


def relu(x: Tensor) -> Tensor:
    """``max(x, 0)``."""
    return elementwise("relu", lambda v: max_expr(v, const(0, v.dtype)), x)


def leaky_relu(x: Tensor, negative_slope: float = 0.01) -> Tensor:
    """``x`` where positive, else ``x * negative_slope``."""
    return elementwise(
        "leaky_relu", lambda v: Select(v > 0, v, v * const(negative_slope, v.dtype)), x
    )


def elu(x: Tensor, alpha: float = 1.0) -> Tensor:
    """``x`` where positive, else ``alpha * (e ** x - 1)``."""

    def element(v: Expr) -> Expr:
        return Select(v > 0, v, const(alpha, v.dtype) * call_intrin("expm1", v))

    return _rounded_once("elu", element, x)


def gelu(x: Tensor, approximate: str = "none") -> Tensor:
    """``x * P(N <= x)`` with erf, or (``approximate="tanh"``) its approximation with tanh.

    Hendrycks and Gimpel, "Gaussian Error Linear Units", arXiv 1606.08415.
    """
    if approximate not in ("none", "tanh"):
        raise ComputeError(f"gelu: expected approximate='none' or 'tanh', found {approximate!r}.")
    if approximate == "none" and x.dtype.bits < 32:
        return elementwise("gelu", lambda v: call_intrin("gelu", v), x)

    def element(v: Expr) -> Expr:
        half, one = const(0.5, v.dtype), const(1, v.dtype)
        if approximate == "none":
            return half * v * (one + call_intrin("erf", v * const(math.sqrt(0.5), v.dtype)))
        inner = v + const(0.044715, v.dtype) * v * v * v
        return (
            half * v * (one + call_intrin("tanh", const(math.sqrt(2 / math.pi), v.dtype) * inner))
        )

    return _rounded_once("gelu", element, x)


def silu(x: Tensor) -> Tensor:
    """``x * sigmoid(x)``."""
    return _rounded_once("silu", lambda v: v * call_intrin("sigmoid", v), x)


def softplus(x: Tensor) -> Tensor:
    """``log(1 + e ** x)``, written so that no large ``x`` overflows."""

    def element(v: Expr) -> Expr:
        tail = call_intrin("log1p", call_intrin("exp", -call_intrin("abs", v)))
        return max_expr(v, const(0, v.dtype)) + tail

    return _rounded_once("softplus", element, x)


def _relu6(v: Expr) -> Expr:
    return min_expr(max_expr(v, const(0, v.dtype)), const(6, v.dtype))


def hard_sigmoid(x: Tensor) -> Tensor:
    """``relu6(x + 3) / 6``."""
    return _rounded_once("hard_sigmoid", lambda v: _relu6(v + 3) / const(6, v.dtype), x)


def hard_swish(x: Tensor) -> Tensor:
    """``x * relu6(x + 3) / 6``."""
    return _rounded_once("hard_swish", lambda v: v * _relu6(v + 3) / const(6, v.dtype), x)


def clip(x: Tensor, min: float | None = None, max: float | None = None) -> Tensor:
    """``x`` no less than ``min`` and no more than ``max``; None bounds nothing, ``max`` wins a
    conflict.
    """

    def element(v: Expr) -> Expr:
        if min is not None:
            v = max_expr(v, _bound(min, v, math.ceil))
        if max is not None:
            v = min_expr(v, _bound(max, v, math.floor))
        return v

    return elementwise("clip", element, x)


def _bound(value: float, like: Expr, towards: Callable[[float], int]) -> Expr:
    """A bound in the dtype of the values; for integers the nearest one that excludes the same
    values.
    """
    if like.dtype.is_float or not math.isfinite(value):
        return const(value, like.dtype)
    return const(towards(value), like.dtype)


def cast(x: Tensor, dtype: str) -> Tensor:
    """Each element converted to ``dtype``; floats saturate into integers, and are true where not
    0.
    """

    def element(v: Expr) -> Expr:
        return v.not_equal(0) if dtype == "bool" and v.dtype != "bool" else cast_expr(v, dtype)

    return elementwise("cast", element, x)


def logical_not(x: Tensor) -> Tensor:
    """``not x`` of bools."""
    return elementwise("logical_not", not_expr, x)


# -- binary --------------------------------------------------------------------------------------
def _binary(
    name: str, doc: str, fn: Callable[[Expr, Expr], Expr]
) -> Callable[[Operand, Operand], Tensor]:
    def operator(a: Operand, b: Operand) -> Tensor:
        return elementwise(name, fn, a, b)

    operator.__name__ = operator.__qualname__ = name
    operator.__doc__ = f"``{doc}``, broadcast."
    return operator


def _has_sign_of_divisor(remainder: Expr, b: Expr) -> Expr:
    """Whether a truncated remainder is already the floored one: 0, or of the divisor's sign."""
    zero = const(0, b.dtype)
    return or_expr(EQ(remainder, zero), EQ(remainder < zero, b < zero))


def _floor_mod(a: Expr, b: Expr) -> Expr:
    if not a.dtype.is_float:
        return floormod(a, b)
    remainder = call_intrin("fmod", a, b)
    return Select(_has_sign_of_divisor(remainder, b), remainder, remainder + b)


def _fmod(a: Expr, b: Expr) -> Expr:
    return call_intrin("fmod", a, b)


def _floor_divide(a: Expr, b: Expr) -> Expr:
    if not a.dtype.is_float:
        return floordiv(a, b)
    # floor(a / b) is off by one where the quotient rounds up to an integer; the remainder is exact.
    remainder = call_intrin("fmod", a, b)
    exact = (a - remainder) / b
    quotient = Select(_has_sign_of_divisor(remainder, b), exact, exact - 1)
    nearest = call_intrin("round", quotient)
    return Select(EQ(b, const(0, b.dtype)), a / b, nearest)


def _logical_xor(a: Expr, b: Expr) -> Expr:
    return NE(a, b)


add = _binary("add", "a + b", add_expr)
subtract = _binary("subtract", "a - b", sub_expr)
multiply = _binary("multiply", "a * b", mul_expr)
divide = _binary("divide", "a / b (of integers truncated)", div)
floor_divide = _binary("floor_divide", "a // b", _floor_divide)
floor_mod = _binary("floor_mod", "a % b, with the sign of b", _floor_mod)
fmod = _binary("fmod", "remainder of a / b of floats, with the sign of a", _fmod)
power = _binary("power", "a ** b of floats", lambda a, b: call_intrin("pow", a, b))
maximum = _binary("maximum", "max(a, b)", max_expr)
minimum = _binary("minimum", "min(a, b)", min_expr)
equal = _binary("equal", "a == b", EQ)
not_equal = _binary("not_equal", "a != b", NE)
less = _binary("less", "a < b", LT)
less_equal = _binary("less_equal", "a <= b", LE)
greater = _binary("greater", "a > b", GT)
greater_equal = _binary("greater_equal", "a >= b", GE)
logical_and = _binary("logical_and", "a and b of bools", and_expr)
logical_or = _binary("logical_or", "a or b of bools", or_expr)
logical_xor = _binary("logical_xor", "a != b of bools", _logical_xor)


def where(condition: Operand, x: Operand, y: Operand) -> Tensor:
    """``x`` where ``condition``, else ``y``, all three broadcast."""
    return elementwise("where", Select, condition, x, y)
