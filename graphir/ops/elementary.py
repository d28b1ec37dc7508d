"""Rows of the elementary functions and of the operators on the bits of integers."""

from __future__ import annotations

from dataclasses import replace

from ...support.dtype import DType
from ..expr import Call
from ..op import REQUIRED, Op, attr, register
from ..type import TensorType, Type
from .operands import (
    broadcast,
    by_operator,
    fail,
    require_float,
    same_as_first,
    same_dtype,
    tensors,
)


def _register(op: Op) -> None:
    register(replace(op, is_elementwise=True))


def _float_binary(call: Call) -> Type:
    kinds = tensors(call)
    require_float(call, kinds)
    return TensorType(broadcast(call, kinds), same_dtype(call, kinds))


def _bits(call: Call) -> Type:
    kinds = tensors(call)
    dtype = same_dtype(call, kinds)
    if dtype.is_float or (dtype.is_bool and call.op.startswith("shift")):
        raise fail(call, "this operator works on bits", "integer operands")
    return TensorType(broadcast(call, kinds), dtype)


def _reinterpret(call: Call) -> Type:
    kind, dtype = tensors(call)[0], DType(attr(call, "dtype"))
    if dtype.bits != kind.dtype.bits or "bool" in (dtype, kind.dtype):
        raise fail(call, f"dtype={dtype!r}", "a dtype of the same width, other than bool")
    return TensorType(kind.shape, dtype)


for _name in (
    "asin",
    "acos",
    "atan",
    "sinh",
    "cosh",
    "asinh",
    "acosh",
    "atanh",
    "exp2",
    "log10",
    "erfc",
):
    _register(Op(_name, ("x",), same_as_first, by_operator()))
for _name in ("atan2", "hypot", "copysign"):
    _register(Op(_name, ("a", "b"), _float_binary, by_operator()))
_register(Op("bitwise_not", ("x",), _bits, by_operator()))
_register(Op("reinterpret", ("x",), _reinterpret, by_operator(), {"dtype": REQUIRED}))
for _name in ("bitwise_and", "bitwise_or", "bitwise_xor", "shift_left", "shift_right"):
    _register(Op(_name, ("a", "b"), _bits, by_operator()))
