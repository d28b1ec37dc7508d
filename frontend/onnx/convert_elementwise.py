"""Elementwise operators of ONNX, choices, casts and constants."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from onnx import NodeProto

from ...graphir.expr import Atom, Constant, constant
from ...support.dtype import DType
from ...support.errors import FrontendError
from ..elementwise_names import ONNX
from ..integer_division import remainder_of_truncation
from ..integer_power import integer_power
from .data_sizes import dims_of
from .narrow import NARROW, narrow, widen
from .registry import (
    MOST_SIZES,
    Context,
    Narrow,
    ShapeValue,
    Value,
    attribute,
    converts,
    densified,
    import_dtype,
    node_name,
    values_of,
)
from .sizes import choose, size_arithmetic

_BINARY = {
    "Add": "add", "Sub": "subtract", "Mul": "multiply", "Div": "divide", "Mod": "floor_mod",
    "Equal": "equal", "Less": "less", "LessOrEqual": "less_equal", "Greater": "greater",
    "GreaterOrEqual": "greater_equal", "And": "logical_and", "Or": "logical_or",
    "Xor": "logical_xor",
}  # fmt: skip


# -- unary -----------------------------------------------------------------------------------
@converts(*ONNX)
def of_the_table(context: Context, node: NodeProto) -> Value:
    operands = [context.operand(node, i) for i in range(len(node.input))]
    return context.op(ONNX[node.op_type], *operands)


@converts("Gelu")
def gelu(context: Context, node: NodeProto) -> Value:
    approximate = attribute(node, "approximate", "none")
    return context.op("gelu", context.operand(node, 0), approximate=approximate)


@converts("LeakyRelu")
def leaky_relu(context: Context, node: NodeProto) -> Value:
    slope = float(attribute(node, "alpha", 0.01))
    return context.op("leaky_relu", context.operand(node, 0), negative_slope=slope)


@converts("Elu")
def elu(context: Context, node: NodeProto) -> Value:
    return context.op("elu", context.operand(node, 0), alpha=float(attribute(node, "alpha", 1.0)))


@converts("Selu")
def selu(context: Context, node: NodeProto) -> Value:
    """``gamma * x`` where positive, else ``gamma * alpha * (e ** x - 1)``."""
    alpha = float(attribute(node, "alpha", 1.67326319217681884765625))
    gamma = float(attribute(node, "gamma", 1.05070102214813232421875))
    x = context.op("elu", context.operand(node, 0), alpha=alpha)
    return context.op("multiply", x, context.scalar(gamma, context.type(x).dtype))


@converts("PRelu")
def prelu(context: Context, node: NodeProto) -> Value:
    x, slope = context.operand(node, 0), context.operand(node, 1)
    positive = context.op("greater", x, context.scalar(0, context.type(x).dtype))
    if context.opset < 7 and context.type(slope).ndim == 1:  # one of each channel
        behind = [1] * (context.type(x).ndim - 2)
        slope = context.reshape(slope, [*context.type(slope).shape, *behind])
    return context.op("where", positive, x, context.op("multiply", slope, x))


@converts("HardSigmoid")
def hard_sigmoid(context: Context, node: NodeProto) -> Value:
    x = context.operand(node, 0)
    dtype = context.type(x).dtype
    scaled = context.op("multiply", x, context.scalar(float(attribute(node, "alpha", 0.2)), dtype))
    moved = context.op("add", scaled, context.scalar(float(attribute(node, "beta", 0.5)), dtype))
    return context.op("clip", moved, min=0.0, max=1.0)


@converts("IsInf")
def is_inf(context: Context, node: NodeProto) -> Value:
    x = context.operand(node, 0)
    signs = [attribute(node, f"detect_{sign}", 1) for sign in ("negative", "positive")]
    if all(signs):
        return context.op("isinf", x)
    if not any(signs):
        return context.op("not_equal", context.op("isinf", x), context.op("isinf", x))
    value = context.scalar(float("inf" if signs[1] else "-inf"), context.type(x).dtype)
    return context.op("equal", x, value)


@converts("Clip")
def clip(context: Context, node: NodeProto) -> Value:
    """Bounds are attributes before opset 11 and inputs from there on; computed ones are
    operands."""
    x = context.operand(node, 0)
    if context.opset < 11:
        low, high = attribute(node, "min"), attribute(node, "max")
        return x if low is None and high is None else context.op("clip", x, min=low, max=high)
    bounds = [context.raw(node, i) for i in (1, 2)]
    if all(b is None for b in bounds):
        return x
    if all(b is None or isinstance(b, (Constant, ShapeValue)) for b in bounds):
        return context.op("clip", x, min=context.number(node, 1), max=context.number(node, 2))
    for name, index in (("maximum", 1), ("minimum", 2)):
        if bounds[index - 1] is not None:
            x = context.op(name, x, context.operand(node, index))
    return x


# -- binary ----------------------------------------------------------------------------------
@converts(*_BINARY)
def binary(context: Context, node: NodeProto) -> Value:
    """Of tensors, or of sizes: sizes give sizes."""
    sizes = context.all_sizes([context.required(node, 0), context.required(node, 1)])
    if sizes is not None:
        folded = size_arithmetic(node, sizes[0], sizes[1])
        if folded is not None:
            return folded
    x, y = context.operand(node, 0), context.operand(node, 1)
    if context.opset < 7 and attribute(node, "axis") is not None:
        behind = context.type(x).ndim - int(attribute(node, "axis")) - context.type(y).ndim
        y = context.reshape(y, [*context.type(y).shape, *[1] * behind])
    if node.op_type == "Mod" and attribute(node, "fmod", 0):
        return remainder_of_truncation(context, x, y)
    return context.op(_BINARY[node.op_type], x, y)


@converts("Pow")
def power(context: Context, node: NodeProto) -> Value:
    """The result has the dtype of the base. Small constant exponents become products and roots."""
    x, y = context.operand(node, 0), context.operand(node, 1)
    dtype = context.type(x).dtype
    if isinstance(y, Constant) and y.type.dtype != "bfloat16" and not y.shape:
        exponent = float(context.array(y))
        if exponent in (1, 2, 3):
            result: Atom = x
            for _ in range(int(exponent) - 1):
                result = context.op("multiply", result, x)
            return result
        if exponent == 0.5 and dtype.is_float:
            return context.op("sqrt", x)
    if not dtype.is_float:
        if context.type(y).dtype.is_float:
            wide = DType("float64")
            made = context.op("power", context.cast(x, wide), context.cast(y, wide))
            return context.cast(made, dtype)
        return integer_power(context, x, context.cast(y, dtype))
    return context.op("power", x, context.cast(y, dtype))


_VARIADIC: dict[str, str] = {"Max": "maximum", "Min": "minimum", "Sum": "add", "Mean": "add"}


@converts(*_VARIADIC)
def variadic(context: Context, node: NodeProto) -> Value:
    sizes = context.all_sizes(context.inputs(node))
    if sizes is not None and len(sizes) == 2 and node.op_type in ("Max", "Min"):
        folded = size_arithmetic(node, sizes[0], sizes[1])
        if folded is not None:
            return folded
    result = context.operand(node, 0)
    for i in range(1, len(node.input)):
        result = context.op(_VARIADIC[node.op_type], result, context.operand(node, i))
    if node.op_type == "Mean":
        count = context.scalar(float(len(node.input)), context.type(result).dtype)
        result = context.op("divide", result, count)
    return result


# -- choices and casts -----------------------------------------------------------------------
@converts("Where")
def where(context: Context, node: NodeProto) -> Value:
    condition = context.required(node, 0)
    sizes = context.all_sizes([context.required(node, 1), context.required(node, 2)])
    if isinstance(condition, Constant) and sizes is not None and len(condition.shape) <= 1:
        return choose(context.array(condition), sizes[0], sizes[1])
    return context.op("where", *[context.operand(node, i) for i in range(3)])


@converts("Cast")
def cast(context: Context, node: NodeProto) -> Value:
    return _cast(context, node, int(attribute(node, "to", 0)))


@converts("CastLike")
def cast_like(context: Context, node: NodeProto) -> Value:
    return _cast(context, node, context.dtype_number(context.required(node, 1)))


def _cast(context: Context, node: NodeProto, number: int) -> Value:
    dtype = import_dtype(number, node_name(node))
    value = context.required(node, 0)
    if isinstance(value, ShapeValue) and dtype == "int64":
        return value
    if isinstance(value, Narrow):
        if value.number == number:
            return value
        x = widen(context, value.stored, value.kind)
    else:
        x = context.operand(node, 0)
    if number in NARROW:
        saturate, rounding = attribute(node, "saturate", 1), attribute(node, "round_mode", "up")
        made = narrow(context, x, NARROW[number], saturate=bool(saturate), rounding=str(rounding))
        return Narrow(made, number)
    return context.cast(x, dtype)


@converts("BitCast")
def bit_cast(context: Context, node: NodeProto) -> Value:
    number = int(attribute(node, "to", 0))
    value = context.required(node, 0)
    x = value.stored if isinstance(value, Narrow) else context.operand(node, 0)
    dtype = import_dtype(number, node_name(node))
    if context.type(x).dtype is not dtype:
        if "bool" in (dtype, context.type(x).dtype):
            byte = DType("uint8")
            x = context.op(
                "reinterpret", context.cast(x, byte), dtype=str(byte if dtype.is_bool else dtype)
            )
            x = context.cast(x, dtype)
        else:
            x = context.op("reinterpret", x, dtype=str(dtype))
    return Narrow(x, number) if number in NARROW else x


@converts("Identity")
def identity(context: Context, node: NodeProto) -> list[Value]:
    return [context.raw(node, 0)]


@converts("Dropout")
def dropout(context: Context, node: NodeProto) -> Value | list[Value]:
    """At inference, where it does nothing."""
    training = context.number(node, 2) if context.opset >= 12 else False
    ratio = context.number(node, 1) if context.opset >= 12 else None
    if training and ratio != 0:
        raise FrontendError(
            f"{node_name(node)} is in training mode; export the model in evaluation mode."
        )
    x = context.operand(node, 0)
    if not context.reads_others(node):
        return x
    return [
        x,
        context.op("broadcast_to", constant(True, "bool"), context.shape(context.type(x).shape)),
    ]


# -- constants -------------------------------------------------------------------------------
_PLAIN: dict[str, Callable[[object], Constant]] = {
    "value_float": lambda v: constant(v, "float32"),
    "value_int": lambda v: constant(v, "int64"),
    "value_floats": lambda v: constant(v, "float32"),
    "value_ints": lambda v: constant(v, "int64"),
}


@converts("Constant")
def constant_node(context: Context, node: NodeProto) -> Value:
    tensor = attribute(node, "value")
    if tensor is not None:
        made = constant(*values_of(tensor, node_name(node), context.base_dir))
        return Narrow(made, tensor.data_type) if tensor.data_type in NARROW else made
    for name, make in _PLAIN.items():
        value = attribute(node, name)
        if value is not None:
            return make(value)
    sparse = attribute(node, "sparse_value")
    if sparse is not None:
        return constant(*densified(sparse, node_name(node)))
    raise FrontendError(f"{node_name(node)}: only numeric constants can be imported, no strings.")


@converts("ConstantOfShape")
def constant_of_shape(context: Context, node: NodeProto) -> Value:
    """A short int64 vector is a constant, because exporters make shapes of such."""
    tensor = attribute(node, "value")
    where = node_name(node)
    fill = (
        constant(0.0, "float32")
        if tensor is None
        else constant(*values_of(tensor, where, context.base_dir))
    )
    scalar = constant(fill.values().reshape(()), fill.type.dtype)
    dims = dims_of(context, node, 0)
    lengths = [getattr(d, "value", MOST_SIZES + 1) for d in dims]
    if fill.type.dtype == "int64" and len(lengths) <= 1 and all(n <= MOST_SIZES for n in lengths):
        return constant(np.full(lengths, fill.values().item()), "int64")
    return context.op("broadcast_to", scalar, context.shape(dims)) if dims else scalar
