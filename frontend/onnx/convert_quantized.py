"""Quantised operators of ONNX: products of bytes, and the steps between them and floats.

A number q of 8 bits stands for (q - zero point) * scale. Products are those of
``graphir.integer_products``: of the bytes as they are, in int32, and exact.
"""

from __future__ import annotations

import numpy as np
from onnx import NodeProto, TensorProto

from ...graphir import integer_products
from ...graphir.dim import static_value
from ...graphir.expr import Atom, Constant, constant
from ...support.dtype import DType
from ...support.errors import FrontendError
from .narrow import NARROW, narrow, widen
from .registry import Context, Narrow, Value, attribute, converts, import_dtype, node_name

INT32, FLOAT32 = DType("int32"), DType("float32")
_RANGES = {
    DType(name): (float(np.iinfo(name).min), float(np.iinfo(name).max))
    for name in ("int8", "uint8", "int16", "uint16")
}


@converts("MatMulInteger")
def matmul_integer(context: Context, node: NodeProto) -> Value:
    """(A - a) @ (B - b) in int32; a zero point is a scalar, or one number a row of A, a column of
    B."""
    a, b = context.operand(node, 0), context.operand(node, 1)
    return integer_product(
        context, a, b, _zero_point(context, node, 2), _zero_point(context, node, 3)
    )


@converts("QLinearMatMul")
def qlinear_matmul(context: Context, node: NodeProto) -> Value:
    """The product of what A and B stand for, quantised as Y's scale and zero point say."""
    a, a_scale, b, b_scale = (context.operand(node, i) for i in (0, 1, 3, 4))
    y_scale, y_zero = context.operand(node, 6), context.operand(node, 7)
    zeros = _zero_point(context, node, 2), _zero_point(context, node, 5)
    product = integer_product(context, a, b, *zeros)
    scales = context.op(
        "multiply", _like_rows(context, a_scale, 0), _like_rows(context, b_scale, 1)
    )
    scale = context.op("divide", scales, _like_rows(context, y_scale, 0))
    wide = context.type(scale).dtype
    scaled = context.op("multiply", context.cast(product, wide), scale)
    zero = _like_rows(context, y_zero, 0)
    kind = context.type(y_zero).dtype
    return _saturated(context, context.op("round", scaled), zero, kind, _RANGES[kind])


@converts("QuantizeLinear", "com.microsoft.QuantizeLinear")
def quantize(context: Context, node: NodeProto) -> Value:
    """round(x / scale) + zero point, halves to even, saturated to the range of the result; floats
    of 8 bits and fewer are rounded as floats are."""
    x, scale = context.operand(node, 0), context.operand(node, 1)
    zero = context.raw(node, 2)
    number = int(attribute(node, "output_dtype", 0)) or TensorProto.UINT8
    if zero is not None:
        number = context.dtype_number(zero)
    kind, precision = import_dtype(number, node_name(node)), attribute(node, "precision", 0)
    wide = import_dtype(int(precision), node_name(node)) if precision else context.type(scale).dtype
    scale = context.cast(scale, wide)
    x = context.cast(x, wide)
    quotient = context.op("divide", x, _along(context, node, x, scale))
    shift = None
    if zero is not None:
        shift = _along(context, node, x, _stored(zero) or context.operand(node, 2))
    if number in NARROW and NARROW[number].is_float:
        saturate = bool(attribute(node, "saturate", 1))
        return Narrow(narrow(context, quotient, NARROW[number], saturate=saturate), number)
    bounds = NARROW[number].range if number in NARROW else _RANGES.get(kind)
    if bounds is None:
        raise FrontendError(
            f"{node_name(node)}: quantised numbers of dtype {kind} cannot be imported; expected "
            f"{', '.join(_RANGES)}."
        )
    made = _saturated(context, context.op("round", quotient), shift, kind, bounds)
    return Narrow(made, number) if number in NARROW else made


def _stored(value: Value) -> Atom | None:
    return value.stored if isinstance(value, Narrow) else None


@converts("DequantizeLinear", "com.microsoft.DequantizeLinear")
def dequantize(context: Context, node: NodeProto) -> Value:
    """(x - zero point) * scale."""
    value, scale = context.required(node, 0), context.operand(node, 1)
    number = int(attribute(node, "output_dtype", 0))
    kind = import_dtype(number, node_name(node)) if number else context.type(scale).dtype
    if isinstance(value, Narrow) and value.kind.is_float:
        wide: Atom = widen(context, value.stored, value.kind)
    else:
        x = _stored(value) or context.operand(node, 0)
        wide = context.cast(x, INT32)
        zero = context.raw(node, 2)
        if zero is not None:
            shift = context.cast(_stored(zero) or context.operand(node, 2), INT32)
            if not (isinstance(shift, Constant) and not context.array(shift).any()):
                wide = context.op("subtract", wide, _along(context, node, x, shift))
    along = _along(context, node, wide, context.cast(scale, FLOAT32))
    return context.cast(context.op("multiply", context.cast(wide, FLOAT32), along), kind)


@converts("DynamicQuantizeLinear")
def dynamic_quantize(context: Context, node: NodeProto) -> list[Value]:
    """x in uint8, its scale and its zero point, from the extremes of x and zero."""
    x = context.operand(node, 0)
    nothing, most = context.scalar(0.0, FLOAT32), context.scalar(255.0, FLOAT32)
    low = context.op("minimum", context.op("min", x), nothing)
    high = context.op("maximum", context.op("max", x), nothing)
    scale = context.op("divide", context.op("subtract", high, low), most)
    zero = context.op("round", context.op("divide", context.op("subtract", nothing, low), scale))
    zero = context.op("clip", zero, min=0.0, max=255.0)
    steps = context.op("round", context.op("divide", x, scale))
    shifted = context.op("clip", context.op("add", steps, zero), min=0.0, max=255.0)
    byte = DType("uint8")
    return [context.cast(shifted, byte), scale, context.cast(zero, byte)]


def integer_product(
    context: Context, a: Atom, b: Atom, a_zero: Atom | None, b_zero: Atom | None
) -> Atom:
    """The product in int32, of operands from which their zero points (int32) are subtracted."""
    zeros = [
        None if zero is None else _like_rows(context, zero, operand)
        for operand, zero in enumerate((a_zero, b_zero))
    ]
    return integer_products.integer_product(context.op, a, b, *zeros)


def _like_rows(context: Context, x: Atom, operand: int) -> Atom:
    """A number a row of the first operand as a column; others broadcast as they are."""
    return context.op("expand_dims", x, axis=1) if _is_list(context, x) and operand == 0 else x


def _is_list(context: Context, x: Atom) -> bool:
    """Whether numbers are more than one in one dim (a list of one is a scalar)."""
    kind = context.type(x)
    return kind.ndim == 1 and getattr(kind.shape[0], "value", 0) != 1


def _zero_point(context: Context, node: NodeProto, index: int) -> Atom | None:
    """A zero point in int32; None where it is absent or known to be zero."""
    if context.raw(node, index) is None:
        return None
    zero = context.operand(node, index)
    if isinstance(zero, Constant) and not context.array(zero).any():
        return None
    return context.cast(zero, INT32)


def _along(context: Context, node: NodeProto, x: Atom, numbers: Atom) -> Atom:
    """Numbers along the axis of ``x`` that the node names, or by blocks of it."""
    shape, ndim = context.type(x).shape, context.type(x).ndim
    block = int(attribute(node, "block_size", 0))
    if not block and not _is_list(context, numbers):
        return context.reshape(numbers, []) if context.type(numbers).ndim else numbers
    axis = int(attribute(node, "axis", 1))
    if not -ndim <= axis < ndim:
        raise FrontendError(f"{node_name(node)}: axis {axis} of a tensor of {ndim} dims.")
    axis %= ndim
    if not block:
        return context.reshape(numbers, [*context.type(numbers).shape, *[1] * (ndim - 1 - axis)])
    size = static_value(shape[axis])
    if size is None or context.type(numbers).ndim != ndim:
        raise FrontendError(
            f"{node_name(node)}: blocks need a static axis, and a scale of the rank of x."
        )
    return context.op("take", numbers, constant(np.arange(size) // block, "int64"), axis=axis)


def _saturated(
    context: Context, steps: Atom, zero: Atom | None, kind: DType, bounds: tuple[float, float]
) -> Atom:
    """Whole numbers in float, shifted by a zero point, in the range of ``kind``."""
    if zero is not None and not (isinstance(zero, Constant) and not context.array(zero).any()):
        steps = context.op("add", steps, context.cast(zero, context.type(steps).dtype))
    low, high = bounds
    return context.cast(context.op("clip", steps, min=float(low), max=float(high)), kind)
