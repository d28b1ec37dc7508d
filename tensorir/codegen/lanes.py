"""Lanes: the arithmetic that the elementary functions are written in, one method an instruction.

A ``Lanes`` wraps an IRBuilder and a float format (float32 or float64, scalar or vector), so that a
function of the ``math_*`` files reads as its formula and holds for every width. It emits nothing
that a target might turn into a library call: ``fma`` is ``llvm.fmuladd`` (fused where the target
fuses, a product and a sum elsewhere), rounding is an addition of a large number, and conversions
between integers and floats go through the bits. What it emits never branches and carries no
fast-math flag. It is not the expression code generator: that one lives beside it and calls
``math.emit_math``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import llvmlite.ir as ir
import numpy as np

from ...support.dtype import DType
from ...support.errors import DTypeError
from .held_constants import held
from .llvm_types import shuffle_mask

LN2 = Fraction("0.693147180559945309417232121458176568075500134360255254120680009493")
LOG2_E = Fraction("1.442695040888963407359924681001892137426645954152985934135449406931")
LOG10_E = Fraction("0.434294481903251827651128918916605082294397005803666566114453783165")
LOG10_2 = Fraction("0.301029995663981195213738894724493026768189881462108541310427461127")
PI = Fraction("3.141592653589793238462643383279502884197169399375105820974944592307816406")

MOST_TOGETHER = 4
"""Registers of one vector that are kept ``together``; of more there are none left for the rest."""


def intrinsic(
    builder: ir.IRBuilder, name: str, kind: ir.Type, args: Sequence[ir.Value]
) -> ir.Value:
    """Call ``llvm.<name>.<kind>`` whose operands and result are all of type ``kind``."""
    lanes = f"v{kind.count}" if isinstance(kind, ir.VectorType) else ""
    scalar = kind.element if isinstance(kind, ir.VectorType) else kind
    full = f"llvm.{name}.{lanes}{scalar.intrinsic_name}"
    function = builder.module.globals.get(full)
    if function is None:
        function = ir.Function(builder.module, ir.FunctionType(kind, [kind] * len(args)), full)
    return builder.call(function, list(args))


class Lanes:
    """One float format under one builder. ``has_scale`` says that the CPU has AVX-512, which
    multiplies by powers of two in one instruction; ``stepwise`` how many bits its registers have
    where the vectors of a wide one are to stay ``together``, else 0. Raises DTypeError for anything
    but float32 and float64."""

    def __init__(
        self, builder: ir.IRBuilder, dtype: DType, *, has_scale: bool = False, stepwise: int = 0
    ) -> None:
        if dtype.scalar not in ("float32", "float64"):
            raise DTypeError(str(dtype), ("float32", "float64"), "a format to compute in")
        self.builder, self.dtype, self.bits = builder, dtype, dtype.bits
        self.has_scale, self.stepwise = has_scale, stepwise
        self.mantissa = 23 if dtype.bits == 32 else 52
        self.bias = 127 if dtype.bits == 32 else 1023
        self.round = np.float32 if dtype.bits == 32 else np.float64
        scalar = ir.FloatType() if dtype.bits == 32 else ir.DoubleType()
        self.float_type = self._shaped(scalar)
        self.int_type = self._shaped(ir.IntType(dtype.bits))

    def _shaped(self, scalar: ir.Type) -> ir.Type:
        return scalar if self.dtype.lanes == 1 else ir.VectorType(scalar, self.dtype.lanes)

    # -- constants ------------------------------------------------------------------------------
    def const(self, value: float | Fraction) -> ir.Value:
        """A float constant in every lane, rounded to the format."""
        number = float(self.round(float(value)))
        return held(self.builder, ir.Constant(self.float_type, self._splat(number)))

    def int_const(self, value: int) -> ir.Constant:
        """An integer constant of the format's width in every lane, modulo its range."""
        return ir.Constant(self.int_type, self._splat(value % (1 << self.bits)))

    def _splat(self, value: float) -> object:
        return value if self.dtype.lanes == 1 else [value] * self.dtype.lanes

    def pieces(self, value: Fraction, widths: Sequence[int]) -> list[float]:
        """``value`` cut into a sum of floats: piece i holds the next ``widths[i]`` bits of the
        binary expansion below the leading bit, the last one is the rest, rounded to the format."""
        out: list[float] = []
        unit = Fraction(2) ** (math.frexp(float(value))[1] - 1)
        for width in widths:
            unit /= 2 ** (width - 1)
            piece = value // unit * unit
            out.append(float(piece))
            value -= piece
            unit /= 2
        out.append(float(self.round(float(value))))
        return out

    # -- floats ---------------------------------------------------------------------------------
    def add(self, a: ir.Value, b: ir.Value) -> ir.Value:
        return self.builder.fadd(a, b)

    def sub(self, a: ir.Value, b: ir.Value) -> ir.Value:
        return self.builder.fsub(a, b)

    def mul(self, a: ir.Value, b: ir.Value) -> ir.Value:
        return self.builder.fmul(a, b)

    def div(self, a: ir.Value, b: ir.Value) -> ir.Value:
        return self.builder.fdiv(a, b)

    def neg(self, a: ir.Value) -> ir.Value:
        return self.builder.fneg(a)

    def fma(self, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
        """``a * b + c``, rounded once or twice as the target has it: no result may depend on
        which."""
        return intrinsic(self.builder, "fmuladd", self.float_type, [a, b, c])

    def sqrt(self, a: ir.Value) -> ir.Value:
        return intrinsic(self.builder, "sqrt", self.float_type, [a])

    def abs(self, a: ir.Value) -> ir.Value:
        return intrinsic(self.builder, "fabs", self.float_type, [a])

    def copysign(self, magnitude: ir.Value, sign: ir.Value) -> ir.Value:
        return intrinsic(self.builder, "copysign", self.float_type, [magnitude, sign])

    def poly(self, x: ir.Value, coefficients: Sequence[float]) -> ir.Value:
        """Horner's rule; coefficients from the constant term upwards."""
        value: ir.Value = self.const(coefficients[-1])
        for coefficient in reversed(coefficients[:-1]):
            value = self.together(self.fma(value, x, self.const(coefficient)))
        return value

    def together(self, x: ir.Value) -> ir.Value:
        """``x``, a vector of several registers, all of which are computed before any is used.

        LLVM would rather finish one register's polynomial after the other, with a register for each
        coefficient meanwhile. It cannot look into an inline assembly, which here has no text.
        """
        total, lanes = self.bits * self.dtype.lanes, self.dtype.lanes
        count = total // self.stepwise if self.stepwise else 1
        if total % max(self.stepwise, 1) or not 1 < count <= MOST_TOGETHER:
            return x
        size = lanes // count
        parts = [self._piece(x, range(k, k + size)) for k in range(0, lanes, size)]
        kinds = [part.type for part in parts]
        constraints = [*["=x"] * count, *[str(k) for k in range(count)]]
        function = ir.FunctionType(ir.LiteralStructType(kinds), kinds)
        done = self.builder.asm(function, "", ",".join(constraints), parts, False)
        parts = [self.builder.extract_value(done, k) for k in range(count)]
        return self.joined(parts)

    def part(self, x: ir.Value, start: int, size: int) -> ir.Value:
        """``size`` lanes of ``x``, from ``start`` on."""
        return self._piece(x, range(start, start + size))

    def joined(self, parts: Sequence[ir.Value]) -> ir.Value:
        """The lanes of vectors of one size, one after the other."""
        joined = list(parts)
        size = 1 if len(joined) < 2 else joined[0].type.count
        while len(joined) > 1:
            pairs = list(zip(joined[::2], joined[1::2], strict=False))
            size *= 2
            joined = [self._piece(a, range(size), b) for a, b in pairs]
        return joined[0]

    def _piece(self, a: ir.Value, places: range, b: ir.Value | None = None) -> ir.Value:
        """The lanes at ``places`` of ``a``, or of ``a`` and ``b`` behind it."""
        other = b if b is not None else ir.Constant(a.type, ir.Undefined)
        mask = ir.Constant(ir.VectorType(ir.IntType(32), len(places)), list(places))
        return self.builder.shuffle_vector(a, other, mask)

    def poly_pairs(self, x: ir.Value, coefficients: Sequence[float]) -> ir.Value:
        """The same polynomial in pairs, pairs of pairs and so on (Estrin): a few products more
        than Horner's rule, and a chain as short as a tree is high."""
        level: list[ir.Value] = [self.const(c) for c in coefficients]
        power = x
        while len(level) > 1:
            pairs = [self.fma(b, power, a) for a, b in zip(level[::2], level[1::2], strict=False)]
            level = pairs + level[len(level) // 2 * 2 :]
            if len(level) > 1:
                power = self.mul(power, power)
        return level[0]

    # -- comparisons, all false for NaN ---------------------------------------------------------
    def compare(self, op: str, a: ir.Value, b: ir.Value) -> ir.Value:
        """Ordered comparison: ``op`` is one of ``< <= > >= ==``."""
        return self.builder.fcmp_ordered(op, a, b)

    def select(self, mask: ir.Value, a: ir.Value, b: ir.Value) -> ir.Value:
        return self.builder.select(mask, a, b)

    def any(self, mask: ir.Value) -> ir.Value:
        """Whether some lane of a comparison holds, as one ``i1``."""
        if self.dtype.lanes == 1:
            return mask
        packed = self.builder.bitcast(mask, ir.IntType(self.dtype.lanes))
        return self.builder.icmp_unsigned("!=", packed, ir.Constant(packed.type, 0))

    def at_least(self, x: ir.Value, low: float) -> ir.Value:
        """``max(x, low)``; NaN stays NaN."""
        limit = self.const(low)
        return self.select(self.compare("<", x, limit), limit, x)

    def at_most(self, x: ir.Value, high: float) -> ir.Value:
        """``min(x, high)``; NaN stays NaN."""
        limit = self.const(high)
        return self.select(self.compare(">", x, limit), limit, x)

    # -- bits -----------------------------------------------------------------------------------
    def to_bits(self, x: ir.Value) -> ir.Value:
        return self.builder.bitcast(x, self.int_type)

    def from_bits(self, i: ir.Value) -> ir.Value:
        return self.builder.bitcast(i, self.float_type)

    def split_sign(self, x: ir.Value) -> tuple[ir.Value, ir.Value]:
        """``(|x|, bits)``: what ``with_sign`` gives its sign back with."""
        bits = self.to_bits(x)
        sign = self.builder.and_(bits, self.int_const(1 << (self.bits - 1)))
        return self.from_bits(self.builder.xor(bits, sign)), sign

    def with_sign(self, magnitude: ir.Value, sign: ir.Value) -> ir.Value:
        """``magnitude``, which must not be negative, with the sign that ``split_sign`` took off;
        one instruction where ``copysign`` takes three."""
        return self.from_bits(self.builder.or_(self.to_bits(magnitude), sign))

    def shift_left(self, i: ir.Value, count: int) -> ir.Value:
        return self.builder.shl(i, self.int_const(count))

    def shift_right(self, i: ir.Value, count: int) -> ir.Value:
        """Logical shift: 64-bit lanes have no arithmetic one below AVX-512."""
        return self.builder.lshr(i, self.int_const(count))

    def masked(self, x: ir.Value, low_bits: int) -> ir.Value:
        """``x`` with its lowest mantissa bits cleared, so that products of such values are
        exact."""
        return self.from_bits(self.builder.and_(self.to_bits(x), self.int_const(-(1 << low_bits))))

    def round_integral(self, x: ir.Value) -> ir.Value:
        """The nearest integral value, halves to even, for ``|x| < 2**(mantissa - 1)``."""
        magic = self.const(1.5 * 2.0**self.mantissa)
        return self.sub(self.add(x, magic), magic)

    @property
    def scales(self) -> bool:
        """Whether ``scale`` is one instruction for vectors of this size."""
        return self.has_scale and self.bits * self.dtype.lanes in (512, 1024)

    def scale(self, x: ir.Value, exponent: ir.Value) -> ir.Value:
        """``x * 2**exponent`` for an integral float, rounded once; where ``scales`` holds."""
        if self.bits * self.dtype.lanes > 512:
            return self._scale_halves(x, exponent)
        kind = "ps" if self.bits == 32 else "pd"
        name = f"llvm.x86.avx512.mask.scalef.{kind}.512"
        mask, rounding = ir.IntType(self.dtype.lanes), ir.IntType(32)
        function = self.builder.module.globals.get(name)
        if function is None:
            kinds = [x.type, x.type, x.type, mask, rounding]
            function = ir.Function(self.builder.module, ir.FunctionType(x.type, kinds), name)
        # All lanes, rounded as the CPU is set to.
        every, current = ir.Constant(mask, -1), ir.Constant(rounding, 4)
        return self.builder.call(function, [x, exponent, self.const(0.0), every, current])

    def _scale_halves(self, x: ir.Value, exponent: ir.Value) -> ir.Value:
        count = self.dtype.lanes // 2
        part = Lanes(self.builder, self.dtype.scalar.with_lanes(count), has_scale=True)
        scaled: list[ir.Value] = []
        for k in (0, count):
            mask = shuffle_mask(tuple(range(k, k + count)))
            a, b = (self.builder.shuffle_vector(v, v, mask) for v in (x, exponent))
            scaled.append(part.scale(a, b))
        whole = shuffle_mask(tuple(range(2 * count)))
        return self.builder.shuffle_vector(scaled[0], scaled[1], whole)

    # -- unevaluated sums -----------------------------------------------------------------------
    def two_sum(self, a: ir.Value, b: ir.Value) -> tuple[ir.Value, ir.Value]:
        """``(fl(a + b), error)``, exact for finite operands of any order (Knuth)."""
        total = self.add(a, b)
        b_part = self.sub(total, a)
        a_part = self.sub(total, b_part)
        return total, self.add(self.sub(a, a_part), self.sub(b, b_part))

    def fast_two_sum(self, a: ir.Value, b: ir.Value) -> tuple[ir.Value, ir.Value]:
        """``(fl(a + b), error)`` for ``|a| >= |b|`` (Dekker)."""
        total = self.add(a, b)
        return total, self.sub(b, self.sub(total, a))

    def two_product(self, a: ir.Value, b: ir.Value) -> tuple[ir.Value, ir.Value]:
        """``(fl(a * b), error)`` from halves of the mantissas (Veltkamp, Dekker): the same with fma
        and without. The error itself is right to one unit of the product of the low halves."""
        low_bits = (self.mantissa + 2) // 2
        a_high, b_high = self.masked(a, low_bits), self.masked(b, low_bits)
        a_low, b_low = self.sub(a, a_high), self.sub(b, b_high)
        product = self.mul(a, b)
        error = self.fma(a_high, b_high, self.neg(product))
        error = self.fma(a_high, b_low, error)
        error = self.fma(a_low, b_high, error)
        return product, self.fma(a_low, b_low, error)

    # -- other formats --------------------------------------------------------------------------
    def widened(self) -> Lanes:
        """The float64 lanes beside these float32 ones."""
        wide = DType("float64").with_lanes(self.dtype.lanes)
        return Lanes(self.builder, wide, has_scale=self.has_scale, stepwise=self.stepwise)

    def narrowed(self) -> Lanes:
        """The float32 lanes beside these float64 ones."""
        narrow = DType("float32").with_lanes(self.dtype.lanes)
        return Lanes(self.builder, narrow, has_scale=self.has_scale, stepwise=self.stepwise)

    def extend(self, x: ir.Value) -> ir.Value:
        """A float32 value (or any narrower native float) in this format, exactly."""
        return self.builder.fpext(x, self.float_type)

    def truncate(self, x: ir.Value) -> ir.Value:
        """A float64 value rounded to this format."""
        return self.builder.fptrunc(x, self.float_type)
