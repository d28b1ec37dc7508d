"""Dtypes as LLVM types, constants, and the conversions between dtypes.

A value of dtype bool is an ``i1`` in registers and a byte in memory. float16 is ``half``; bfloat16
is its bits in an ``i16``, since few CPUs know more of it than how to load it. Arithmetic on both
happens in float32 and is rounded back after each operation. Everything here emits instructions
every x86-64-v3 and AArch64 CPU has, and never a library call.
"""

from __future__ import annotations

import math
import struct
from functools import cache

from llvmlite import ir

from ...support.dtype import DType
from ...support.errors import CodegenError

I1, I8, I16, I32, I64 = (ir.IntType(n) for n in (1, 8, 16, 32, 64))
F32, F64 = ir.FloatType(), ir.DoubleType()
PTR = ir.PointerType()
VOID = ir.VoidType()

_SCALARS: dict[str, ir.Type] = {
    "float64": F64,
    "float32": F32,
    "float16": ir.HalfType(),
    "bfloat16": I16,
    "bool": I1,
    "handle": PTR,
}


class Literal(ir.Constant):
    """A constant given by its text, of any type."""

    def __init__(self, kind: ir.Type, text: str) -> None:
        self.type = kind
        self.constant = text

    def _to_string(self) -> str:
        return f"{self.type} {self.constant}"

    def get_reference(self) -> str:
        return str(self.constant)


@cache
def register_type(dtype: DType) -> ir.Type:
    """The type of a value of ``dtype`` in registers."""
    scalar = _SCALARS.get(dtype.scalar) or ir.IntType(dtype.bits)
    return scalar if dtype.lanes == 1 else ir.VectorType(scalar, dtype.lanes)


@cache
def memory_type(dtype: DType) -> ir.Type:
    """The type of a value of ``dtype`` in memory: a bool is a byte."""
    if dtype.is_bool:
        return I8 if dtype.lanes == 1 else ir.VectorType(I8, dtype.lanes)
    return register_type(dtype)


def type_suffix(t: ir.Type) -> str:
    """How an intrinsic's name spells a type: ``v16f32``."""
    if isinstance(t, ir.VectorType):
        return f"v{t.count}{t.element.intrinsic_name}"
    return str(t.intrinsic_name)


def is_half(dtype: DType) -> bool:
    """Whether arithmetic of ``dtype`` happens in float32."""
    return dtype.scalar in ("float16", "bfloat16")


def constant(dtype: DType, value: float) -> ir.Constant:
    """A constant in every lane; floats by their bits, so that NaN and infinity are exact."""
    t = register_type(dtype)
    if dtype.scalar == "bfloat16":
        text = str(bfloat16_bits(value))
    elif dtype.is_float:
        scalar = t.element if dtype.lanes > 1 else t
        text = _float_text(scalar, float(value))
    elif dtype.is_bool:
        text = "true" if value else "false"
    else:
        text = str(int(value))
    if dtype.lanes > 1:
        return Literal(t, f"splat ({t.element} {text})")
    return Literal(t, text)


def _float_text(t: ir.Type, value: float) -> str:
    if t is not F64 and math.isfinite(value):
        limit, code = (65504.0, "e") if str(t) == "half" else (3.4028234663852886e38, "f")
        try:
            value = struct.unpack(code, struct.pack(code, value))[0]
        except OverflowError:
            value = math.copysign(math.inf if abs(value) > limit * (1 + 2.0**-12) else limit, value)
    return f"0x{struct.unpack('Q', struct.pack('d', value))[0]:016X}"


def bfloat16_bits(value: float) -> int:
    """The bits of ``value`` rounded to bfloat16, ties to even."""
    if math.isnan(value):
        return 0x7FC0
    try:
        bits: int = struct.unpack("I", struct.pack("f", value))[0]
    except OverflowError:
        bits = struct.unpack("I", struct.pack("f", math.copysign(math.inf, value)))[0]
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16) & 0xFFFF


def alloca(b: ir.IRBuilder, kind: ir.Type, name: str = "", align: int = 0) -> ir.Value:
    """Stack memory, as a pointer without a type."""
    memory = b.alloca(kind, name=name)
    memory.type = PTR
    if align:
        memory.align = align
    return memory


def int_vector(bits: int, values: list[int]) -> ir.Constant:
    """A vector of integer constants."""
    scalar = ir.IntType(bits)
    body = ", ".join([f"i{bits} {v}" for v in values])
    return Literal(ir.VectorType(scalar, len(values)), f"<{body}>")


def call_intrinsic(
    builder: ir.IRBuilder,
    name: str,
    result: ir.Type,
    args: list[ir.Value],
    suffix: str | None = None,
    flags: tuple[str, ...] = (),
) -> ir.Value:
    """Call ``llvm.<name>.<suffix>``; the suffix is that of the result type unless given, and none
    where it is empty."""
    if suffix is None:
        suffix = type_suffix(result)
    full = f"llvm.{name}.{suffix}" if suffix else f"llvm.{name}"
    function = builder.module.globals.get(full)
    if function is None:
        function = ir.Function(
            builder.module, ir.FunctionType(result, [a.type for a in args]), full
        )
    return builder.call(function, args, fastmath=flags)


@cache
def shuffle_mask(lanes: tuple[int, ...]) -> ir.Constant:
    """The mask of a shufflevector."""
    return ir.Constant(ir.VectorType(I32, len(lanes)), list(lanes))


def splat(b: ir.IRBuilder, value: ir.Value, lanes: int) -> ir.Value:
    """``value`` in every lane."""
    poison = Literal(ir.VectorType(value.type, lanes), "poison")
    lane0 = b.insert_element(poison, value, constant(DType("int32"), 0))
    return b.shuffle_vector(lane0, poison, shuffle_mask((0,) * lanes))


# -- conversions -----------------------------------------------------------------------------------
def to_float32(b: ir.IRBuilder, value: ir.Value, dtype: DType) -> ir.Value:
    """A float16 or bfloat16 value as float32; exact. LLVM is kept from making operations of float16
    of those that follow: these it takes each from float16 and to it, or lane by lane."""
    wide = register_type(DType("float32").with_lanes(dtype.lanes))
    if dtype.scalar == "float16":
        return call_intrinsic(b, "arithmetic.fence", wide, [b.fpext(value, wide)])
    ints = DType("int32").with_lanes(dtype.lanes)
    bits = b.shl(b.zext(value, register_type(ints)), constant(ints, 16))
    return b.bitcast(bits, wide)


def _upper_halves(b: ir.IRBuilder, bits: ir.Value, lanes: int) -> ir.Value:
    """The upper 16 of each 32 bits; of vectors as one choice of every other half, which takes two
    registers to one without a shift of either."""
    if lanes == 1:
        return b.trunc(b.lshr(bits, constant(DType("int32"), 16)), I16)
    halves = b.bitcast(bits, ir.VectorType(I16, 2 * lanes))
    odd = shuffle_mask(tuple(range(1, 2 * lanes, 2)))
    return b.shuffle_vector(halves, Literal(halves.type, "poison"), odd)


def from_float32(
    b: ir.IRBuilder, value: ir.Value, dtype: DType, *, fits: bool = False, plain: bool = False
) -> ir.Value:
    """A float32 value rounded to float16 or bfloat16, ties to even; ``fits`` and ``plain`` are what
    ``half_values`` knows of it."""
    if dtype.scalar == "float16":
        return b.fptrunc(value, register_type(dtype))
    bits: ir.Value = b.bitcast(value, register_type(DType("int32").with_lanes(dtype.lanes)))
    if not fits:
        bits = rounded_bits(b, value, bits, dtype.lanes, plain=plain)
    return _upper_halves(b, bits, dtype.lanes)


def round_float32(b: ir.IRBuilder, value: ir.Value, dtype: DType, *, plain: bool) -> ir.Value:
    """A float32 value rounded as ``from_float32`` does, as float32."""
    if dtype.scalar == "float16":
        return to_float32(b, b.fptrunc(value, register_type(dtype)), dtype)
    ints = DType("int32").with_lanes(dtype.lanes)
    bits = b.bitcast(value, register_type(ints))
    rounded = rounded_bits(b, value, bits, dtype.lanes, plain=plain)
    return b.bitcast(b.and_(rounded, constant(ints, -0x10000)), value.type)


def rounded_bits(
    b: ir.IRBuilder, value: ir.Value, bits: ir.Value, lanes: int, *, plain: bool
) -> ir.Value:
    """Bits of which the upper 16 are those of the nearest bfloat16; ones for NaN unless it is
    ``plain``."""
    ints = DType("int32").with_lanes(lanes)
    odd = b.and_(b.lshr(bits, constant(ints, 16)), constant(ints, 1))
    rounded = b.add(b.add(bits, constant(ints, 0x7FFF)), odd)
    if plain:
        return rounded
    is_nan = b.fcmp_unordered("uno", value, value)
    return b.or_(rounded, b.sext(is_nan, register_type(ints)))


def _saturated_lanes(b: ir.IRBuilder, value: ir.Value, source: DType, target: DType) -> ir.Value:
    """Float lanes as integers; those of 8 or 16 bits through 32. LLVM would take saturating
    conversions of vectors one by one, so they are clamped to what fits, which is exact."""
    unsigned = target.kind == "uint"
    precision = 24 if source.bits == 32 else 53
    exponent = target.bits if unsigned else target.bits - 1
    low = 0.0 if unsigned else -(2.0**exponent)
    high = 2.0**exponent - 2.0 ** max(exponent - precision, 0)
    floor, ceiling = constant(source, low), constant(source, high)
    clamped = b.select(b.fcmp_ordered(">", value, floor), value, floor)  # NaN: the lower bound
    clamped = b.select(b.fcmp_ordered("<", clamped, ceiling), clamped, ceiling)
    t = register_type(target)
    if target.bits < 32:
        through = register_type(DType("int32").with_lanes(target.lanes))
        found = b.trunc(b.fptosi(clamped, through), t)
    else:
        found = b.fptoui(clamped, t) if unsigned else b.fptosi(clamped, t)
    if exponent > precision:
        beyond = b.fcmp_ordered(">=", value, constant(source, 2.0**exponent))
        found = b.select(beyond, constant(target, 2**exponent - 1), found)
    if unsigned:
        return found
    return b.select(b.fcmp_ordered("ord", value, value), found, constant(target, 0))


def emit_cast(  # noqa: C901 - one match over a closed set
    b: ir.IRBuilder, value: ir.Value, source: DType, target: DType
) -> ir.Value:
    """``value`` converted as the IR's Cast says: floats to integers saturate, NaN becomes 0."""
    if source is target:
        return value
    if is_half(source):
        wide = DType("float32").with_lanes(source.lanes)
        return emit_cast(b, to_float32(b, value, source), wide, target)
    if is_half(target):
        wide = DType("float32").with_lanes(target.lanes)
        return from_float32(b, emit_cast(b, value, source, wide), target)
    t = register_type(target)
    match source.kind, target.kind:
        case "float", "float":
            return b.fpext(value, t) if target.bits > source.bits else b.fptrunc(value, t)
        case "float", "int" | "uint":
            if target.lanes > 1:
                return _saturated_lanes(b, value, source, target)
            name = "fptosi.sat" if target.kind == "int" else "fptoui.sat"
            return call_intrinsic(
                b, name, t, [value], f"{type_suffix(t)}.{type_suffix(value.type)}"
            )
        case "float", "bool":
            return b.fcmp_unordered("!=", value, constant(source, 0.0))
        case "int", "float":
            return b.sitofp(value, t)
        case "uint" | "bool", "float":
            return b.uitofp(value, t)
        case "int" | "uint", "bool":
            return b.icmp_signed("!=", value, constant(source, 0))
        case "bool", "int" | "uint":
            return b.zext(value, t)
        case "int" | "uint", "int" | "uint":
            if target.bits == source.bits:
                return value
            if target.bits < source.bits:
                return b.trunc(value, t)
            return b.sext(value, t) if source.kind == "int" else b.zext(value, t)
        case _:
            raise CodegenError(f"There is no conversion from {source} to {target}.")
