"""Quantised operators of ONNX: products of bytes, and the steps between them and floats.

A number q of 8 bits stands for (q - zero point) * scale. Products are taken of the bytes as they
are, ``integer_matmul``; what zero points add is subtracted afterwards, from sums of the operands
alone, of which those of a constant weight are known at compile time:

    sum over k of (A - a) * (B - b)  =  A @ B - a * (column sums of B) - b * (row sums of A - a)

All of it is int32 arithmetic and exact.
"""

from __future__ import annotations

from onnx import NodeProto

from ...graphir.expr import Atom, Constant
from ...support.dtype import DType
from ...support.errors import FrontendError
from .registry import Context, Value, attribute, converts, import_dtype, node_name

INT32, FLOAT32 = DType("int32"), DType("float32")
_RANGES = {
    "int8": (-128, 127), "uint8": (0, 255), "int16": (-32768, 32767), "uint16": (0, 65535),
}  # fmt: skip


@converts("MatMulInteger")
def matmul_integer(context: Context, node: NodeProto) -> Value:
    """(A - a) @ (B - b) in int32; a zero point is a scalar, or one number a row of A, a column of
    B."""
    a, b = context.operand(node, 0), context.operand(node, 1)
    return _product(context, a, b, _zero_point(context, node, 2), _zero_point(context, node, 3))


@converts("QLinearMatMul")
def qlinear_matmul(context: Context, node: NodeProto) -> Value:
    """The product of what A and B stand for, quantised as Y's scale and zero point say."""
    a, a_scale, b, b_scale = (context.operand(node, i) for i in (0, 1, 3, 4))
    y_scale, y_zero = context.operand(node, 6), context.operand(node, 7)
    zeros = _zero_point(context, node, 2), _zero_point(context, node, 5)
    product = _product(context, a, b, *zeros)
    scales = context.op(
        "multiply", _like_rows(context, a_scale, 0), _like_rows(context, b_scale, 1)
    )
    scale = context.op("divide", scales, _like_rows(context, y_scale, 0))
    kind = context.type(scale).dtype
    scaled = context.op("multiply", context.cast(product, kind), scale)
    zero = _like_rows(context, y_zero, 0)
    return _saturated(context, context.op("round", scaled), zero, context.type(y_zero).dtype)


@converts("QuantizeLinear")
def quantize(context: Context, node: NodeProto) -> Value:
    """round(x / scale) + zero point, halves to even, saturated to the range of the result."""
    _require_no_blocks(context, node)
    x, scale = context.operand(node, 0), context.operand(node, 1)
    zero = context.raw(node, 2)
    kind = DType("uint8")
    if zero is not None:
        kind = context.type(context.operand(node, 2)).dtype
    elif attribute(node, "output_dtype", 0):
        kind = import_dtype(int(attribute(node, "output_dtype")), node_name(node))
    if kind not in _RANGES:
        raise FrontendError(
            f"{node_name(node)}: quantised numbers of dtype {kind} cannot be imported; expected "
            f"{', '.join(_RANGES)}."
        )
    x = context.cast(x, context.type(scale).dtype)
    steps = context.op("round", context.op("divide", x, _along(context, node, x, scale)))
    shift = None if zero is None else _along(context, node, x, context.operand(node, 2))
    return _saturated(context, steps, shift, kind)


@converts("DequantizeLinear")
def dequantize(context: Context, node: NodeProto) -> Value:
    """(x - zero point) * scale."""
    _require_no_blocks(context, node)
    x, scale = context.operand(node, 0), context.operand(node, 1)
    along = _along(context, node, x, scale)
    wide = context.cast(x, INT32)
    zero = _zero_point(context, node, 2)
    if zero is not None:
        wide = context.op("subtract", wide, _along(context, node, x, zero))
    return context.op("multiply", context.cast(wide, context.type(scale).dtype), along)


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


def _product(context: Context, a: Atom, b: Atom, a_zero: Atom | None, b_zero: Atom | None) -> Atom:
    """The product in int32, of operands from which their zero points (int32) are subtracted."""
    result: Atom = context.op("integer_matmul", a, b)
    matrices = context.type(a).ndim > 1, context.type(b).ndim > 1
    if a_zero is not None:
        axis = -2 if matrices[1] else -1
        columns = context.op("sum", context.cast(b, INT32), axis=axis, keepdims=all(matrices))
        extra = context.op("multiply", _like_rows(context, a_zero, 0), columns)
        result = context.op("subtract", result, extra)
    if b_zero is not None:
        wide = context.cast(a, INT32)
        if a_zero is not None:
            wide = context.op("subtract", wide, _like_rows(context, a_zero, 0))
        rows = context.op("sum", wide, axis=-1, keepdims=all(matrices))
        extra = context.op("multiply", rows, _like_rows(context, b_zero, 1))
        result = context.op("subtract", result, extra)
    return result


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
    """Numbers along the axis of ``x`` that the node names."""
    ndim = context.type(x).ndim
    if not _is_list(context, numbers):
        return context.reshape(numbers, []) if context.type(numbers).ndim else numbers
    axis = int(attribute(node, "axis", 1))
    if not -ndim <= axis < ndim:
        raise FrontendError(f"{node_name(node)}: axis {axis} of a tensor of {ndim} dims.")
    behind = ndim - 1 - axis % ndim
    return context.reshape(numbers, [*context.type(numbers).shape, *[1] * behind])


def _saturated(context: Context, steps: Atom, zero: Atom | None, kind: DType) -> Value:
    """Whole numbers in float, shifted by a zero point, in the range of ``kind``."""
    if zero is not None and not (isinstance(zero, Constant) and not context.array(zero).any()):
        steps = context.op("add", steps, context.cast(zero, context.type(steps).dtype))
    low, high = _RANGES[kind]
    return context.cast(context.op("clip", steps, min=float(low), max=float(high)), kind)


def _require_no_blocks(context: Context, node: NodeProto) -> None:
    """Refuse scales by blocks of an axis."""
    if attribute(node, "block_size", 0) or context.type(context.operand(node, 1)).ndim > 1:
        raise FrontendError(
            f"{node_name(node)}: scales by blocks cannot be imported; expected one scale, or one "
            "along an axis."
        )
