"""The intrinsics of ``tensorir.intrinsics`` as instructions.

What is one instruction, or a few, is here; the elementary functions are ``math.emit_math``.
float16 and bfloat16 are computed in float32 (``emit_single``), and rounded by who asked for it.
"""

from __future__ import annotations

import math

from llvmlite import ir

from ...support.dtype import DType
from ...support.errors import CodegenError
from ..expr import FLOAT32, Call
from .lanes import Lanes
from .llvm_types import (
    call_intrinsic,
    constant,
    from_float32,
    is_half,
    register_type,
    to_float32,
)
from .math import SHORT_FUNCTIONS, emit_math, emit_short

_SINGLE = {
    "sqrt": "sqrt",
    "floor": "floor",
    "ceil": "ceil",
    "trunc": "trunc",
    "round": "roundeven",
    "copysign": "copysign",
    "fma": "fmuladd",
}
"""Intrinsics of floats that are one LLVM intrinsic, and one instruction or two on every target."""


def emit_intrinsic(
    b: ir.IRBuilder,
    call: Call,
    args: list[ir.Value],
    *,
    has_scale: bool = False,
    stepwise: int = 0,
) -> ir.Value:
    """The value of ``call`` on its emitted arguments; ``has_scale`` and ``stepwise`` as in
    ``Lanes``.

    Raises CodegenError where the intrinsic is not known.
    """
    dtype = call.args[0].dtype
    if is_half(dtype) and call.op in ("abs", "neg"):
        return _sign_bit(b, call.op, args[0], dtype)
    return _emit(b, call, args, dtype, has_scale=has_scale, stepwise=stepwise)


def emit_single(
    b: ir.IRBuilder, call: Call, args: list[ir.Value], *, has_scale: bool, stepwise: int
) -> ir.Value:
    """``call`` of half precision on its arguments in float32: a float32 to be rounded, or a bool.
    As ``emit_intrinsic`` otherwise."""
    dtype = FLOAT32.with_lanes(call.args[0].dtype.lanes)
    if call.op in SHORT_FUNCTIONS:
        lanes = Lanes(b, dtype, has_scale=has_scale, stepwise=stepwise)
        return emit_short(lanes, call.op, args, call.args[0].dtype)
    return _emit(b, call, args, dtype, has_scale=has_scale, stepwise=stepwise)


def _sign_bit(b: ir.IRBuilder, op: str, x: ir.Value, dtype: DType) -> ir.Value:
    """Without its sign, or with the other one: no arithmetic of half precision."""
    ints = DType("int16").with_lanes(dtype.lanes)
    bits = b.bitcast(x, register_type(ints))
    if op == "abs":
        return b.bitcast(b.and_(bits, constant(ints, 0x7FFF)), x.type)
    return b.bitcast(b.xor(bits, constant(ints, -0x8000)), x.type)


def _emit(
    b: ir.IRBuilder,
    call: Call,
    args: list[ir.Value],
    dtype: DType,
    *,
    has_scale: bool,
    stepwise: int,
) -> ir.Value:
    if dtype.is_float:
        name = _SINGLE.get(call.op)
        if name is not None:
            return call_intrinsic(b, name, args[0].type, args)
        return _float(b, call, args, dtype, has_scale=has_scale, stepwise=stepwise)
    return _integer(b, call, args, dtype)


def _float(
    b: ir.IRBuilder,
    call: Call,
    args: list[ir.Value],
    dtype: DType,
    *,
    has_scale: bool,
    stepwise: int,
) -> ir.Value:
    x = args[0]
    match call.op:
        case "abs":
            return call_intrinsic(b, "fabs", x.type, [x])
        case "neg":
            return b.fneg(x)
        case "isnan":
            return b.fcmp_unordered("uno", x, x)
        case "isinf" | "isfinite":
            magnitude = call_intrinsic(b, "fabs", x.type, [x])
            infinity = constant(dtype, float("inf"))
            op = "==" if call.op == "isinf" else "<"
            return b.fcmp_ordered(op, magnitude, infinity)
        case "rsqrt":
            return b.fdiv(constant(dtype, 1.0), call_intrinsic(b, "sqrt", x.type, [x]))
        case "reinterpret":
            return _reinterpret(b, call, x)
        case "gelu":
            inner = b.fmul(x, constant(dtype, math.sqrt(0.5)))
            share = b.fadd(constant(dtype, 1.0), emit_math(b, "erf", [inner], dtype))
            return b.fmul(b.fmul(constant(dtype, 0.5), x), share)
        case _:
            return emit_math(b, call.op, args, dtype, has_scale=has_scale, stepwise=stepwise)


def _integer(  # noqa: C901 - one match over a closed set
    b: ir.IRBuilder, call: Call, args: list[ir.Value], dtype: DType
) -> ir.Value:
    x = args[0]
    match call.op:
        case "abs":
            if dtype.kind != "int":
                return x
            flag = ir.Constant(ir.IntType(1), 0)
            return call_intrinsic(b, "abs", x.type, [x, flag])
        case "popcount":
            return call_intrinsic(b, "ctpop", x.type, [x])
        case "clz":
            return call_intrinsic(b, "ctlz", x.type, [x, ir.Constant(ir.IntType(1), 0)])
        case "bitwise_and":
            return b.and_(x, args[1])
        case "bitwise_or":
            return b.or_(x, args[1])
        case "bitwise_xor":
            return b.xor(x, args[1])
        case "bitwise_not":
            return b.xor(x, constant(dtype, 1 if dtype.is_bool else -1))
        case "shift_left":
            return b.shl(x, args[1])
        case "shift_right":
            return b.ashr(x, args[1]) if dtype.kind == "int" else b.lshr(x, args[1])
        case "reinterpret":
            return _reinterpret(b, call, x)
        case _:
            raise CodegenError(
                f"No machine code is known for the intrinsic {call.op!r} of {dtype}."
            )


def _reinterpret(b: ir.IRBuilder, call: Call, x: ir.Value) -> ir.Value:
    if call.dtype.is_bool or call.args[0].dtype.is_bool:
        raise CodegenError("A bool has no bits to reinterpret; cast it instead.")
    t = register_type(call.dtype)
    return x if x.type == t else b.bitcast(x, t)


def floor_divide(
    b: ir.IRBuilder, x: ir.Value, y: ir.Value, dtype: DType, *, is_div: bool
) -> ir.Value:
    """Floor division of floats, or its remainder with the sign of the divisor."""
    if is_half(dtype):
        wide = DType("float32").with_lanes(dtype.lanes)
        value = floor_divide(
            b, to_float32(b, x, dtype), to_float32(b, y, dtype), wide, is_div=is_div
        )
        return from_float32(b, value, dtype)
    if is_div:
        return call_intrinsic(b, "floor", x.type, [b.fdiv(x, y)])
    rest = emit_math(b, "fmod", [x, y], dtype)
    zero = constant(dtype, 0.0)
    signs_differ = b.xor(b.fcmp_ordered("<", rest, zero), b.fcmp_ordered("<", y, zero))
    wrong = b.and_(b.fcmp_ordered("!=", rest, zero), signs_differ)
    return b.select(wrong, b.fadd(rest, y), rest)
