"""Powers of integers, as PyTorch and NumPy compute them: modulo the range of the dtype.

The bits of the exponent choose among the squares of the base (Knuth, The Art of Computer
Programming 2, 4.6.3). A negative exponent gives what is left of the reciprocal: 1 of 1, 1 or -1 of
-1, else 0.
"""

from __future__ import annotations

from ..graphir.expr import Atom, Constant, constant
from ..support.dtype import DType
from ..tensorir.expr import wrap_integer
from .integer_division import Emitter


def integer_power(context: Emitter, base: Atom, exponent: Atom) -> Atom:
    """``base ** exponent``, element by element, of one integer dtype."""
    dtype = context.type(exponent).dtype
    one, zero = constant(1, dtype), constant(0, dtype)
    signed = dtype.kind == "int"
    square = base
    result: Atom = context.op("add", context.op("multiply", exponent, zero), one)
    for bit in range(dtype.bits - signed):
        known = _number(context, square)
        if known == 1:
            break
        if known == 0:  # and so are the squares of it: every larger exponent gives 0
            is_larger = context.op("less", _constant((1 << bit) - 1, dtype), exponent)
            result = context.op("where", is_larger, zero, result)
            break
        is_set = context.op("bitwise_and", exponent, _constant(1 << bit, dtype))
        factor = context.op("where", context.op("equal", is_set, zero), one, square)
        result = context.op("multiply", result, factor)
        if known is None:
            square = context.op("multiply", square, square)
        else:
            square = _constant(known * known, dtype)
    return _with_reciprocals(context, base, exponent, result) if signed else result


def _with_reciprocals(context: Emitter, base: Atom, exponent: Atom, result: Atom) -> Atom:
    """``result``, and what negative exponents give."""
    dtype = context.type(exponent).dtype
    one, zero, minus = (constant(n, dtype) for n in (1, 0, -1))
    is_odd = context.op("equal", context.op("bitwise_and", exponent, one), one)
    of_minus = context.op("where", is_odd, minus, one)
    others = context.op("where", context.op("equal", base, one), one, zero)
    reciprocal = context.op("where", context.op("equal", base, minus), of_minus, others)
    return context.op("where", context.op("less", exponent, zero), reciprocal, result)


def _number(context: Emitter, atom: Atom) -> int | None:
    """The one number that is known to stand everywhere."""
    return int(context.array(atom)) if isinstance(atom, Constant) and not atom.shape else None


def _constant(value: int, dtype: DType) -> Constant:
    return constant(wrap_integer(value, dtype), dtype)
