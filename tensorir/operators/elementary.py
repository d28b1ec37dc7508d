"""Elementary functions beside those of ``elementwise``, and operators on the bits of integers."""

from __future__ import annotations

from collections.abc import Callable

from ..compute import Tensor
from ..expr import Expr, Select, const, logical_and
from ..intrinsics import call_intrin
from .elementwise import Operand, elementwise


def _unary(name: str) -> Callable[[Tensor], Tensor]:
    def operator(x: Tensor) -> Tensor:
        return elementwise(name, lambda v: call_intrin(name, v), x)

    operator.__name__ = operator.__qualname__ = name
    operator.__doc__ = f"``{name}`` of each element; the dtype and shape of ``x``."
    return operator


def _binary(name: str) -> Callable[[Operand, Operand], Tensor]:
    def operator(a: Operand, b: Operand) -> Tensor:
        return elementwise(name, lambda u, v: call_intrin(name, u, v), a, b)

    operator.__name__ = operator.__qualname__ = name
    operator.__doc__ = f"``{name}(a, b)``, broadcast."
    return operator


asin = _unary("asin")
acos = _unary("acos")
atan = _unary("atan")
sinh = _unary("sinh")
cosh = _unary("cosh")
asinh = _unary("asinh")
acosh = _unary("acosh")
atanh = _unary("atanh")
exp2 = _unary("exp2")
log10 = _unary("log10")
erfc = _unary("erfc")
atan2 = _binary("atan2")
hypot = _binary("hypot")
copysign = _binary("copysign")
bitwise_not = _unary("bitwise_not")
bitwise_and = _binary("bitwise_and")
bitwise_or = _binary("bitwise_or")
bitwise_xor = _binary("bitwise_xor")


def _shift(name: str, a: Expr, b: Expr) -> Expr:
    """Shifts by less than nothing or by all bits are undefined on the CPU, and 0 (or the sign)
    here."""
    bits = const(a.dtype.bits, b.dtype)
    inside = (b < bits) if b.dtype.kind == "uint" else logical_and(b < bits, b >= 0)
    zero = const(0, a.dtype)
    shifted = call_intrin(name, a, Select(inside, b, const(0, b.dtype)))
    outside: Expr = zero
    if name == "shift_right" and a.dtype.kind == "int":
        outside = Select(a < zero, const(-1, a.dtype), zero)
    return Select(inside, shifted, outside)


def shift_left(a: Operand, b: Operand) -> Tensor:
    """``a << b``, broadcast; 0 where ``b`` is negative or not less than the number of bits."""
    return elementwise("shift_left", lambda u, v: _shift("shift_left", u, v), a, b)


def shift_right(a: Operand, b: Operand) -> Tensor:
    """``a >> b``, arithmetic for signed integers, broadcast; where ``b`` is out of range as if it
    were the number of bits."""
    return elementwise("shift_right", lambda u, v: _shift("shift_right", u, v), a, b)


def reinterpret(x: Tensor, dtype: str) -> Tensor:
    """The bits of each element as another dtype of the same width."""
    return elementwise("reinterpret", lambda v: call_intrin("reinterpret", v, dtype=dtype), x)
