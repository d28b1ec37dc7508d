"""Dtypes of ONNX that are none of ours: floats of 8 bits and fewer, integers of 4 and 2.

They are stored as ONNX and ml_dtypes store them in memory, an element a byte: a float as its code,
an integer as its value. Arithmetic on them there is none; they are widened and narrowed, exactly
as IEEE 754 rounds. A code of a float is read off a table. It is made by arithmetic: with ``m`` bits
of mantissa, the least exponent ``low`` and the exponent ``e = max(floor(log2 |x|), low)`` of x,

    code = (e - low) * 2**m + round(|x| * 2**(m - e))

for normal and subnormal numbers alike, and what rounds up to the next exponent carries over.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import ml_dtypes
import numpy as np
from onnx import TensorProto

from ...graphir.expr import Atom, Var, constant
from ...graphir.type import TensorType
from ...support.dtype import DType
from ...support.errors import ArgumentError

FLOAT32, INT32 = DType("float32"), DType("int32")


class Emitter(Protocol):
    """The part of the context that emits operators."""

    def op(self, name: str, *args: Atom, **attrs: Any) -> Var: ...
    def type(self, atom: Atom) -> TensorType: ...
    def cast(self, atom: Atom, dtype: DType) -> Atom: ...


@dataclass(frozen=True)
class NarrowKind:
    """One such dtype; ``name`` is that of ml_dtypes."""

    name: str

    @cached_property
    def numpy(self) -> np.dtype[Any]:
        return np.dtype(getattr(ml_dtypes, self.name))

    @property
    def is_float(self) -> bool:
        return self.name.startswith("float")

    @property
    def bits(self) -> int:
        info = ml_dtypes.finfo if self.is_float else ml_dtypes.iinfo
        return int(info(self.numpy).bits)

    @property
    def stored(self) -> DType:
        return DType("int8" if self.name.startswith("int") else "uint8")

    @property
    def values(self) -> np.ndarray:
        """What each code of a float stands for."""
        return np.arange(2**self.bits, dtype=np.uint8).view(self.numpy).astype(np.float32)

    @property
    def range(self) -> tuple[float, float]:
        info = ml_dtypes.finfo if self.is_float else ml_dtypes.iinfo
        return float(info(self.numpy).min), float(info(self.numpy).max)

    def code(self, value: float) -> int:
        """The code of a float."""
        return int(np.array(value, np.float32).astype(self.numpy).view(np.uint8))


_BY_NUMBER = {
    "FLOAT8E4M3FN": "float8_e4m3fn", "FLOAT8E4M3FNUZ": "float8_e4m3fnuz",
    "FLOAT8E5M2": "float8_e5m2", "FLOAT8E5M2FNUZ": "float8_e5m2fnuz",
    "FLOAT8E8M0": "float8_e8m0fnu", "FLOAT6E2M3": "float6_e2m3fn", "FLOAT6E3M2": "float6_e3m2fn",
    "FLOAT4E2M1": "float4_e2m1fn", "INT4": "int4", "UINT4": "uint4", "INT2": "int2",
    "UINT2": "uint2",
}  # fmt: skip
NARROW: dict[int, NarrowKind] = {
    number: NarrowKind(_BY_NUMBER[name])
    for name, number in TensorProto.DataType.items()
    if name in _BY_NUMBER
}
"""By the number that ONNX knows the dtype by; which there are depends on its version."""


def widen(context: Emitter, stored: Atom, kind: NarrowKind) -> Atom:
    """The values: float32 of a float, the stored integers of others."""
    if not kind.is_float:
        return stored
    codes = context.cast(stored, INT32)
    return context.op("take", constant(kind.values, "float32"), codes, axis=0)


def narrow(
    context: Emitter, x: Atom, kind: NarrowKind, *, saturate: bool = True, rounding: str = "up"
) -> Atom:
    """``x`` in memory of the narrow dtype. Floats beyond its range become its largest, or what
    it has for infinity, or NaN, without ``saturate``; integers keep their low bits. ``rounding``
    is that of exponents alone (FLOAT8E8M0): up, down or nearest."""
    if not kind.is_float:
        return _low_bits(context, context.cast(x, INT32), kind)
    x = context.cast(context.cast(x, FLOAT32), FLOAT32)
    bits = context.op("reinterpret", context.op("abs", x), dtype="int32")
    if kind.name == "float8_e8m0fnu":
        return _exponent(context, bits, kind, saturate=saturate, rounding=rounding)
    info = ml_dtypes.finfo(kind.numpy)
    mantissa, low, top = int(info.nmant), int(info.minexp), kind.code(float(info.max))
    exponent = _clip(context, _minus(context, _shift(context, bits, 23), 127), low, 127)
    factor = context.op("subtract", constant(127 + mantissa, "int32"), exponent)
    scale = context.op(
        "reinterpret", context.op("shift_left", factor, constant(23, "int32")), dtype="float32"
    )
    steps: Atom = context.op("round", context.op("multiply", context.op("abs", x), scale))
    steps = context.op("minimum", steps, constant(2.0 ** (mantissa + 1), "float32"))
    base = context.op("shift_left", _minus(context, exponent, low), constant(mantissa, "int32"))
    code: Atom = context.op("add", base, context.cast(steps, INT32))
    over = top if saturate else kind.code(float("inf"))
    beyond = context.op("greater", code, constant(top, "int32"))
    code = context.op("where", beyond, constant(over, "int32"), code)
    negative = context.op("less", context.op("reinterpret", x, dtype="int32"), constant(0, "int32"))
    sign = 1 << (kind.bits - 1)
    if kind.name.endswith("fnuz"):  # there is one zero, and one NaN: the code of the other zero
        positive = context.op("greater", code, constant(0, "int32"))
        negative = context.op("logical_and", negative, positive)
    signed = context.op("bitwise_or", code, constant(sign, "int32"))
    code = context.op("where", negative, signed, code)
    nan = constant(kind.code(float("nan")), "int32")
    code = context.op("where", context.op("isnan", x), nan, code)
    return context.cast(code, kind.stored)


def _low_bits(context: Emitter, x: Atom, kind: NarrowKind) -> Atom:
    mask, sign = (1 << kind.bits) - 1, 1 << (kind.bits - 1)
    low: Atom = context.op("bitwise_and", x, constant(mask, "int32"))
    if kind.stored == "int8":
        low = _minus(context, context.op("bitwise_xor", low, constant(sign, "int32")), sign)
    return context.cast(low, kind.stored)


def _exponent(
    context: Emitter, bits: Atom, kind: NarrowKind, *, saturate: bool, rounding: str
) -> Atom:
    """The code of a power of two is its biased exponent; 255 is NaN."""
    mantissa = context.op("bitwise_and", bits, constant((1 << 23) - 1, "int32"))
    code: Atom = _shift(context, bits, 23)
    least = {"up": 1, "nearest": 1 << 22}.get(rounding)
    if least is not None:
        up = context.op("greater_equal", mantissa, constant(least, "int32"))
        code = context.op("add", code, context.cast(up, INT32))
    top = 254 if saturate else 255
    finite = context.op("less", bits, constant(0xFF << 23, "int32"))
    code = context.op("minimum", code, constant(top, "int32"))
    code = context.op("where", finite, code, constant(255, "int32"))
    return context.cast(code, kind.stored)


def _minus(context: Emitter, x: Atom, number: int) -> Atom:
    return context.op("subtract", x, constant(number, "int32")) if number else x


def _shift(context: Emitter, x: Atom, count: int) -> Atom:
    return context.op("shift_right", x, constant(count, "int32"))


def _clip(context: Emitter, x: Atom, low: int, high: int) -> Atom:
    return context.op("clip", x, min=low, max=high)


def narrow_name(x: object) -> str | None:
    """The narrow dtype of an array of NumPy or torch; None where it has another."""
    name = str(getattr(x, "dtype", "")).removeprefix("torch.")
    return name if name in _BY_NUMBER.values() else None


def to_stored(x: Any) -> Any:
    """An array of a narrow dtype in memory of ours."""
    name = narrow_name(x)
    if name is None:
        return x
    kind = NarrowKind(name)
    if _is_torch(x):
        return x.view(sys.modules["torch"].uint8) if kind.is_float else x
    return x.view("uint8") if kind.is_float else x.astype(str(kind.stored))


def from_stored(x: Any, kind: NarrowKind) -> Any:
    """Such memory as an array of the narrow dtype. torch has no arithmetic of narrow integers:
    there they stay as they are stored. Raises ArgumentError for a float that it has not."""
    if not _is_torch(x):
        array = np.asarray(x if isinstance(x, np.ndarray) else x.numpy())
        return array.view(kind.numpy) if kind.is_float else array.astype(kind.numpy)
    if not kind.is_float:
        return x
    dtype = getattr(sys.modules["torch"], kind.name, None)
    if dtype is None:
        raise ArgumentError(
            f"an output is of dtype {kind.name}, which torch has not; call the model with NumPy "
            "arrays."
        )
    return x.view(dtype)


def _is_torch(x: object) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(x, torch.Tensor)
