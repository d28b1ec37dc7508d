"""Rows of the elementwise operators: unary, binary with broadcasting, comparison, where, cast,
clip.

Operands of one call have one dtype: no row promotes. ``divide`` of integers truncates, as in C;
``floor_divide`` and ``floor_mod`` round towards minus infinity; comparisons and logic give bool.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ...support.dtype import DType
from ...support.errors import TypeInferenceError
from ..expr import Call
from ..op import REQUIRED, Op, attr, register
from ..type import TensorType, Type
from .operands import (
    as_prim_func,
    broadcast,
    by_operator,
    fail,
    inputs,
    operator_function,
    require_float,
    same_as_first,
    same_dtype,
    tensor,
    tensors,
)

BOOL = DType("bool")


def _numeric(call: Call) -> Type:
    kind = tensor(call, 0)
    if kind.dtype.is_bool:
        raise fail(call, "this operator needs numbers", "a float or integer operand")
    return kind


def _predicate(call: Call) -> Type:
    kind = tensor(call, 0)
    require_float(call, [kind])
    return TensorType(kind.shape, BOOL)


def _gelu(call: Call) -> Type:
    if attr(call, "approximate") not in ("none", "tanh"):
        raise fail(call, f"approximate={attr(call, 'approximate')!r}", "'none' or 'tanh'")
    return same_as_first(call)


def _register(op: Op) -> None:
    register(replace(op, is_elementwise=True))


for _name in (
    "sigmoid",
    "silu",
    "tanh",
    "exp",
    "expm1",
    "log",
    "log1p",
    "log2",
    "sqrt",
    "rsqrt",
    "erf",
    "sin",
    "cos",
    "tan",
    "ceil",
    "floor",
    "round",
    "trunc",
    "hard_sigmoid",
    "hard_swish",
    "softplus",
    "reciprocal",
):
    _register(Op(_name, ("x",), same_as_first, by_operator()))
for _name in ("relu", "abs", "negative", "sign", "square"):
    _register(Op(_name, ("x",), _numeric, by_operator()))
for _name in ("isnan", "isinf", "isfinite"):
    _register(Op(_name, ("x",), _predicate, by_operator()))
_register(Op("gelu", ("x",), _gelu, by_operator(), {"approximate": "none"}))
_register(Op("leaky_relu", ("x",), same_as_first, by_operator(), {"negative_slope": 0.01}))
_register(Op("elu", ("x",), same_as_first, by_operator(), {"alpha": 1.0}))


def _logical_not(call: Call) -> Type:
    kind = tensor(call, 0)
    if not kind.dtype.is_bool:
        raise fail(call, "logic needs bools", "a bool operand")
    return kind


_register(Op("logical_not", ("x",), _logical_not, by_operator()))


# -- binary ------------------------------------------------------------------------------------
def _binary(call: Call) -> Type:
    kinds = tensors(call)
    dtype = same_dtype(call, kinds)
    if dtype.is_bool:
        raise fail(call, "arithmetic needs numbers", "float or integer operands")
    return TensorType(broadcast(call, kinds), dtype)


def _float_binary(call: Call) -> Type:
    require_float(call, tensors(call))
    return _binary(call)


def _integer_or_float_compare(call: Call) -> Type:
    kinds = tensors(call)
    same_dtype(call, kinds)
    return TensorType(broadcast(call, kinds), BOOL)


def _logical(call: Call) -> Type:
    kinds = tensors(call)
    if not all(k.dtype.is_bool for k in kinds):
        raise fail(call, "logic needs bools", "bool operands")
    return TensorType(broadcast(call, kinds), BOOL)


def _rows(names: tuple[str, ...], rule: Callable[[Call], Type]) -> None:
    for name in names:
        _register(Op(name, ("a", "b"), rule, by_operator()))


_rows(
    ("add", "subtract", "multiply", "divide", "floor_divide", "floor_mod", "maximum", "minimum"),
    _binary,
)
_rows(("fmod", "power"), _float_binary)
_rows(
    ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal"),
    _integer_or_float_compare,
)
_rows(("logical_and", "logical_or", "logical_xor"), _logical)


# -- where, cast, clip -------------------------------------------------------------------------
def _where(call: Call) -> Type:
    condition, x, y = tensors(call)
    if not condition.dtype.is_bool:
        raise fail(call, "the condition is no bool tensor", "a bool condition")
    dtype = same_dtype(call, [x, y])
    return TensorType(broadcast(call, [condition, x, y]), dtype)


def _astype(call: Call) -> Type:
    dtype = attr(call, "dtype")
    if not isinstance(dtype, str):
        raise TypeInferenceError(call.op, f"dtype={dtype!r}.", "the name of a dtype", call.span)
    return TensorType(tensor(call, 0).shape, DType(dtype))


def _clip(call: Call) -> Type:
    low, high = attr(call, "min"), attr(call, "max")
    if low is None and high is None:
        raise fail(call, "neither min nor max is given", "at least one bound")
    return _numeric(call)


def _legalize_clip(call: Call) -> object:
    (x,) = inputs(call)
    return as_prim_func(
        call, [x], operator_function("clip")(x, attr(call, "min"), attr(call, "max"))
    )


_register(Op("where", ("condition", "x", "y"), _where, by_operator()))
_register(Op("astype", ("x",), _astype, by_operator("cast"), {"dtype": REQUIRED}))
_register(Op("clip", ("x",), _clip, by_operator(), {"min": None, "max": None}))
