"""Elementwise operators: one block each, one element from the same place of every operand.

An operator without attributes is a row of ``ELEMENTWISE``: the formula of an element, or an
intrinsic, and the kinds of dtypes that it takes. The graph's row, its type rule and its
legalisation follow from that (``graphir/ops/elementwise.py``), its cost from the intrinsics in it.

Operands are broadcast as NumPy does and have one dtype; nothing is promoted. Special values follow
PyTorch: ``relu``, ``maximum``, ``minimum`` and ``clip`` propagate NaN, ``sign`` of NaN is 0,
division and remainder of floats round towards minus infinity exactly.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ...support.errors import ComputeError
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
    int_limits,
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
from ..intrinsics import call_intrin, intrinsic
from ..te.compute import Tensor, compute

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


# -- rows ----------------------------------------------------------------------------------------
FLOATS, BOOLS, ANY = ("float",), ("bool",), ("float", "int", "uint", "bool")
NUMBERS, INTEGERS, BITS = ("float", "int", "uint"), ("int", "uint"), ("int", "uint", "bool")


@dataclass(frozen=True)
class ElementwiseOperator:
    """A row: the names of the operands, the kinds of dtypes that they may have, whether bools come
    out (else their dtype), and the function of tensors."""

    name: str
    params: tuple[str, ...]
    kinds: tuple[str, ...]
    gives_bool: bool
    function: Callable[..., Tensor]


ELEMENTWISE: dict[str, ElementwiseOperator] = {}


def elementwise_operator(
    kinds: tuple[str, ...], *, gives_bool: bool = False, rounded_once: bool = False
) -> Callable[[Callable[..., Expr]], Callable[..., Tensor]]:
    """Makes a row of the formula of an element, whose parameters are the operands' names.

    ``rounded_once`` is for formulas of several steps: half precision is computed in float32.
    """

    def define(formula: Callable[..., Expr]) -> Callable[..., Tensor]:
        params = tuple(inspect.signature(formula).parameters)
        return _row(formula.__name__, params, kinds, gives_bool, formula, rounded_once)

    return define


def _row(
    name: str,
    params: tuple[str, ...],
    kinds: tuple[str, ...],
    gives_bool: bool,
    formula: Callable[..., Expr],
    rounded_once: bool = False,
) -> Callable[..., Tensor]:
    def operator(*operands: Operand) -> Tensor:
        whole = rounded_once and any(isinstance(x, Tensor) and _is_half(x) for x in operands)
        return elementwise(name, _in_single(formula) if whole else formula, *operands)

    operator.__name__ = operator.__qualname__ = name
    operator.__doc__ = formula.__doc__ or f"``{name}`` of each element, broadcast."
    ELEMENTWISE[name] = ElementwiseOperator(name, params, kinds, gives_bool, operator)
    return operator


def _is_half(x: Tensor) -> bool:
    return x.dtype.is_float and x.dtype.bits < 32


def _in_single(formula: Callable[..., Expr]) -> Callable[..., Expr]:
    def element(*values: Expr) -> Expr:
        return cast_expr(formula(*[cast_expr(v, FLOAT32) for v in values]), values[0].dtype)

    return element


def _rounded_once(name: str, fn: Callable[[Expr], Expr], x: Tensor) -> Tensor:
    """``elementwise`` for a formula of several steps with attributes, as ``rounded_once`` says."""
    return elementwise(name, _in_single(fn) if _is_half(x) else fn, x)


def _intrinsic(name: str, called: str = "") -> Callable[..., Tensor]:
    """The row of an intrinsic, which says what it takes."""
    row = intrinsic(called or name)
    params = ("x",) if row.arity == 1 else ("a", "b")
    return _row(name, params, row.kinds, row.result == "bool", lambda *v: call_intrin(row.name, *v))


# -- unary ---------------------------------------------------------------------------------------
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
asin = _intrinsic("asin")
acos = _intrinsic("acos")
atan = _intrinsic("atan")
sinh = _intrinsic("sinh")
cosh = _intrinsic("cosh")
asinh = _intrinsic("asinh")
acosh = _intrinsic("acosh")
atanh = _intrinsic("atanh")
exp2 = _intrinsic("exp2")
log10 = _intrinsic("log10")
erfc = _intrinsic("erfc")
atan2 = _intrinsic("atan2")
hypot = _intrinsic("hypot")
copysign = _intrinsic("copysign")
fmod = _intrinsic("fmod")
power = _intrinsic("power", "pow")
bitwise_not = _intrinsic("bitwise_not")
bitwise_and = _intrinsic("bitwise_and")
bitwise_or = _intrinsic("bitwise_or")
bitwise_xor = _intrinsic("bitwise_xor")


@elementwise_operator(NUMBERS)
def negative(x: Expr) -> Expr:
    """``-x``."""
    return -x


@elementwise_operator(NUMBERS)
def square(x: Expr) -> Expr:
    """``x * x``."""
    return x * x


@elementwise_operator(FLOATS)
def reciprocal(x: Expr) -> Expr:
    """``1 / x``."""
    return const(1, x.dtype) / x


@elementwise_operator(NUMBERS)
def sign(x: Expr) -> Expr:
    """-1, 0 or 1; 0 for NaN."""
    one, zero = const(1, x.dtype), const(0, x.dtype)
    if x.dtype.kind == "uint":
        return Select(x > zero, one, zero)
    return Select(x > zero, one, Select(x < zero, const(-1, x.dtype), zero))


def _relu(x: Expr) -> Expr:
    return max_expr(x, const(0, x.dtype))


@elementwise_operator(NUMBERS)
def relu(x: Expr) -> Expr:
    """``max(x, 0)``."""
    return _relu(x)


@elementwise_operator(FLOATS, rounded_once=True)
def silu(x: Expr) -> Expr:
    """``x * sigmoid(x)``."""
    return x * call_intrin("sigmoid", x)


def _softplus(x: Expr) -> Expr:
    return _relu(x) + call_intrin("log1p", call_intrin("exp", -call_intrin("abs", x)))


@elementwise_operator(FLOATS, rounded_once=True)
def softplus(x: Expr) -> Expr:
    """``log(1 + e ** x)``, written so that no large ``x`` overflows."""
    return _softplus(x)


@elementwise_operator(FLOATS, rounded_once=True)
def mish(x: Expr) -> Expr:
    """``x * tanh(log(1 + e ** x))``. Misra, "Mish", arXiv 1908.08681."""
    return x * call_intrin("tanh", _softplus(x))


def _relu6(v: Expr) -> Expr:
    return min_expr(_relu(v), const(6, v.dtype))


@elementwise_operator(FLOATS, rounded_once=True)
def hard_sigmoid(x: Expr) -> Expr:
    """``relu6(x + 3) / 6``."""
    return _relu6(x + 3) / const(6, x.dtype)


@elementwise_operator(FLOATS, rounded_once=True)
def hard_swish(x: Expr) -> Expr:
    """``x * relu6(x + 3) / 6``."""
    return x * _relu6(x + 3) / const(6, x.dtype)


@elementwise_operator(BOOLS)
def logical_not(x: Expr) -> Expr:
    """``not x``."""
    return not_expr(x)


# -- unary, with attributes ----------------------------------------------------------------------
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
    if like.dtype.is_float:
        return const(value, like.dtype)
    lowest, highest = int_limits(like.dtype)
    if lowest < value < highest:
        return const(towards(value), like.dtype)
    return const(lowest if value <= lowest else highest, like.dtype)


def cast(x: Tensor, dtype: str) -> Tensor:
    """Each element converted to ``dtype``; floats saturate into integers, and are true where not
    0.
    """

    def element(v: Expr) -> Expr:
        return v.not_equal(0) if dtype == "bool" and v.dtype != "bool" else cast_expr(v, dtype)

    return elementwise("cast", element, x)


def reinterpret(x: Tensor, dtype: str) -> Tensor:
    """The bits of each element as another dtype of the same width."""
    return elementwise("reinterpret", lambda v: call_intrin("reinterpret", v, dtype=dtype), x)


# -- binary --------------------------------------------------------------------------------------
def _has_sign_of_divisor(remainder: Expr, b: Expr) -> Expr:
    """Whether a truncated remainder is already the floored one: 0, or of the divisor's sign."""
    zero = const(0, b.dtype)
    return or_expr(EQ(remainder, zero), EQ(remainder < zero, b < zero))


@elementwise_operator(NUMBERS)
def floor_mod(a: Expr, b: Expr) -> Expr:
    """``a % b``, with the sign of ``b``."""
    if not a.dtype.is_float:
        return floormod(a, b)
    remainder = call_intrin("fmod", a, b)
    return Select(_has_sign_of_divisor(remainder, b), remainder, remainder + b)


@elementwise_operator(NUMBERS)
def floor_divide(a: Expr, b: Expr) -> Expr:
    """``a // b``."""
    if not a.dtype.is_float:
        return floordiv(a, b)
    # floor(a / b) is off by one where the quotient rounds up to an integer; the remainder is exact.
    remainder = call_intrin("fmod", a, b)
    exact = (a - remainder) / b
    quotient = Select(_has_sign_of_divisor(remainder, b), exact, exact - 1)
    nearest = call_intrin("round", quotient)
    return Select(EQ(b, const(0, b.dtype)), a / b, nearest)


def _binary(
    name: str, kinds: tuple[str, ...], formula: Callable[[Expr, Expr], Expr], *, gives_bool: bool
) -> Callable[..., Tensor]:
    return _row(name, ("a", "b"), kinds, gives_bool, formula)


add = _binary("add", NUMBERS, add_expr, gives_bool=False)
subtract = _binary("subtract", NUMBERS, sub_expr, gives_bool=False)
multiply = _binary("multiply", NUMBERS, mul_expr, gives_bool=False)
divide = _binary("divide", NUMBERS, div, gives_bool=False)
maximum = _binary("maximum", NUMBERS, max_expr, gives_bool=False)
minimum = _binary("minimum", NUMBERS, min_expr, gives_bool=False)
equal = _binary("equal", ANY, EQ, gives_bool=True)
not_equal = _binary("not_equal", ANY, NE, gives_bool=True)
less = _binary("less", ANY, LT, gives_bool=True)
less_equal = _binary("less_equal", ANY, LE, gives_bool=True)
greater = _binary("greater", ANY, GT, gives_bool=True)
greater_equal = _binary("greater_equal", ANY, GE, gives_bool=True)
logical_and = _binary("logical_and", BOOLS, and_expr, gives_bool=True)
logical_or = _binary("logical_or", BOOLS, or_expr, gives_bool=True)
logical_xor = _binary("logical_xor", BOOLS, NE, gives_bool=True)


def where(condition: Operand, x: Operand, y: Operand) -> Tensor:
    """``x`` where ``condition``, else ``y``, all three broadcast."""
    return elementwise("where", Select, condition, x, y)


# -- shifts --------------------------------------------------------------------------------------
def _shift(name: str, a: Expr, b: Expr) -> Expr:
    """Shifts by less than nothing or by all bits are undefined on the CPU, and 0 (or the sign)
    here."""
    bits = const(a.dtype.bits, b.dtype)
    inside = (b < bits) if b.dtype.kind == "uint" else and_expr(b < bits, b >= 0)
    zero = const(0, a.dtype)
    shifted = call_intrin(name, a, Select(inside, b, const(0, b.dtype)))
    outside: Expr = zero
    if name == "shift_right" and a.dtype.kind == "int":
        outside = Select(a < zero, const(-1, a.dtype), zero)
    return Select(inside, shifted, outside)


@elementwise_operator(INTEGERS)
def gcd(a: Expr, b: Expr) -> Expr:
    """The greatest common divisor, not negative; that of 0 and ``b`` is ``|b|``."""
    if a.dtype.kind == "int":
        a, b = call_intrin("abs", a), call_intrin("abs", b)
    zero, one = const(0, a.dtype), const(1, a.dtype)
    # Euclid's steps to the least remainder of either sign: each divides by 1 + sqrt(2) or more.
    for _ in range(math.ceil(a.dtype.bits / math.log2(1 + math.sqrt(2))) + 1):
        remainder = floormod(a, max_expr(b, one))
        a = Select(b > zero, b, a)
        b = min_expr(remainder, b - remainder)
    return a


@elementwise_operator(INTEGERS)
def shift_left(a: Expr, b: Expr) -> Expr:
    """``a << b``; 0 where ``b`` is negative or not less than the number of bits."""
    return _shift("shift_left", a, b)


@elementwise_operator(INTEGERS)
def shift_right(a: Expr, b: Expr) -> Expr:
    """``a >> b``, arithmetic for signed integers; where ``b`` is out of range as if it were the
    number of bits."""
    return _shift("shift_right", a, b)
