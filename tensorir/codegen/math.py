"""Elementary functions as vector IR, for the calls of ``tensorir.intrinsics`` that name one.

Every function is a range reduction and a polynomial, emitted inline for the width at hand: no call
into a mathematics library, no table but one (``payne_hanek``), no branch but the one in which large
arguments of sin, cos and tan call a function of our own, no loop but that of fmod. NaN, infinities,
signed zeros and denormals are honoured on both sides. Errors are a few units in the last place:
``docs/math.md`` has the measured table, and ``tests/tensorir/codegen/test_math.py`` keeps it. One
family a file: ``math_exp``, ``math_log``, ``math_tanh_erf``, ``math_trig``, ``math_atan``,
``math_pow``, ``math_fmod``.

float16 and bfloat16 are computed in float32 and rounded once more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import llvmlite.ir as ir

from ...support.dtype import DType
from ...support.errors import CodegenError, DTypeError, nearest
from . import (
    math_atan,
    math_exp,
    math_fmod,
    math_half,
    math_log,
    math_pow,
    math_tanh_erf,
    math_trig,
)
from .lanes import Lanes

Emitter = Callable[..., ir.Value]


@dataclass(frozen=True, slots=True)
class MathFunction:
    """A row of the table: how many operands, and what emits it."""

    arity: int
    emit: Emitter


MATH_FUNCTIONS: dict[str, MathFunction] = {
    "exp": MathFunction(1, math_exp.exp),
    "exp_negative": MathFunction(1, math_exp.exp_negative),
    "exp2": MathFunction(1, math_exp.exp2),
    "expm1": MathFunction(1, math_exp.expm1),
    "sigmoid": MathFunction(1, math_exp.sigmoid),
    "sinh": MathFunction(1, math_exp.sinh),
    "cosh": MathFunction(1, math_exp.cosh),
    "log": MathFunction(1, math_log.log),
    "log2": MathFunction(1, math_log.log2),
    "log10": MathFunction(1, math_log.log10),
    "log1p": MathFunction(1, math_log.log1p),
    "tanh": MathFunction(1, math_tanh_erf.tanh),
    "erf": MathFunction(1, math_tanh_erf.erf),
    "erfc": MathFunction(1, math_tanh_erf.erfc),
    "sin": MathFunction(1, math_trig.sin),
    "cos": MathFunction(1, math_trig.cos),
    "tan": MathFunction(1, math_trig.tan),
    "atan": MathFunction(1, math_atan.atan),
    "asin": MathFunction(1, math_atan.asin),
    "acos": MathFunction(1, math_atan.acos),
    "atan2": MathFunction(2, math_atan.atan2),
    "pow": MathFunction(2, math_pow.pow_),
    "rsqrt": MathFunction(1, math_pow.rsqrt),
    "fmod": MathFunction(2, math_fmod.fmod),
}
"""All the functions that ``emit_math`` knows."""

SHORT_FUNCTIONS: dict[str, Emitter] = {
    "gelu": math_half.short_gelu,
    "sin": math_half.short_sin,
    "cos": math_half.short_cos,
}
"""Those that results of half precision are computed with, in float32."""

SPLITS_BLOCK = frozenset({"sin", "cos", "tan", "fmod"})
"""Functions that leave the builder in another basic block than it was in."""


def emit_math(
    builder: ir.IRBuilder,
    name: str,
    args: Sequence[ir.Value],
    dtype: DType,
    *,
    has_scale: bool = False,
    stepwise: int = 0,
) -> ir.Value:
    """Emit ``name(*args)`` at the builder's position and return its value.

    ``dtype`` is the dtype of the operands and of the result, scalar or vector: float64, float32,
    float16 (LLVM ``half``) or bfloat16 (LLVM ``i16`` holding its bits, as llvmlite has no such
    type). After ``sin``, ``cos``, ``tan`` and ``fmod`` the builder may stand in another basic
    block: a caller that records predecessors reads ``builder.block`` afterwards. ``has_scale``
    and ``stepwise`` are those of ``Lanes``; no result depends on them. Raises
    CodegenError for a name that is no function of the table or a wrong number of operands,
    DTypeError for a dtype that is no float.
    """
    function = MATH_FUNCTIONS.get(name)
    if function is None:
        raise CodegenError(
            f"{name!r} is no elementary function of code generation.{nearest(name, MATH_FUNCTIONS)}"
        )
    if len(args) != function.arity:
        raise CodegenError(
            f"{name} takes {function.arity} operand{'s' if function.arity > 1 else ''}, "
            f"found {len(args)}."
        )
    is_half = dtype.scalar in ("float16", "bfloat16")
    computed = DType("float32").with_lanes(dtype.lanes) if is_half else dtype
    if computed.scalar not in ("float32", "float64"):
        floats = ("float16", "bfloat16", "float32", "float64")
        raise DTypeError(str(dtype), floats, "a float dtype")
    lanes = Lanes(builder, computed, has_scale=has_scale, stepwise=stepwise)
    match dtype.scalar:
        case "float16":
            value = emit_short(lanes, name, [lanes.extend(arg) for arg in args], dtype)
            return builder.fptrunc(value, args[0].type)
        case "bfloat16":
            value = emit_short(lanes, name, [extend_bfloat16(lanes, arg) for arg in args], dtype)
            return truncate_bfloat16(lanes, value)
        case _:
            return function.emit(lanes, *args)


def emit_short(lanes: Lanes, name: str, args: Sequence[ir.Value], narrow: DType) -> ir.Value:
    """``name(*args)`` in float32, of values of half precision and accurate enough to be rounded to
    it, which ``narrow`` is."""
    short = SHORT_FUNCTIONS.get(name)
    if short is None:
        return MATH_FUNCTIONS[name].emit(lanes, *args)
    return short(lanes, *args, narrow=str(narrow.scalar))


def extend_bfloat16(lanes: Lanes, bits: ir.Value) -> ir.Value:
    """The float32 value of bfloat16 bits (``i16``): they are its upper half."""
    wide = lanes.builder.zext(bits, lanes.int_type)
    return lanes.from_bits(lanes.shift_left(wide, 16))


def truncate_bfloat16(lanes: Lanes, value: ir.Value) -> ir.Value:
    """The bfloat16 bits (``i16``) nearest to a float32 value, ties to even; NaN becomes quiet."""
    builder = lanes.builder
    bits = lanes.to_bits(value)
    odd = builder.and_(lanes.shift_right(bits, 16), lanes.int_const(1))
    rounded = builder.add(builder.add(bits, lanes.int_const(0x7FFF)), odd)
    quiet = builder.or_(bits, lanes.int_const(1 << 22))
    is_nan = builder.fcmp_unordered("uno", value, value)
    upper = lanes.shift_right(builder.select(is_nan, quiet, rounded), 16)
    half = ir.IntType(16)
    kind = half if lanes.dtype.lanes == 1 else ir.VectorType(half, lanes.dtype.lanes)
    return builder.trunc(upper, kind)
