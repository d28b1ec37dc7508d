"""Elementwise operators, casts and constants."""

from __future__ import annotations

import numpy as np
from onnx import NodeProto

from ...graphir.expr import Atom, constant
from ...support.errors import FrontendError
from ...tensorir.expr import as_expr, floordiv
from .registry import Context, ShapeValue, Value, attribute, converts, import_dtype, node_name, tensor_constant

_UNARY = {
    "Relu": "relu", "Abs": "abs", "Neg": "negative", "Exp": "exp", "Log": "log", "Sqrt": "sqrt",
    "Tanh": "tanh", "Sigmoid": "sigmoid", "Erf": "erf", "Floor": "floor", "Ceil": "ceil", "Round": "round",
    "Reciprocal": "reciprocal", "Sign": "sign", "Sin": "sin", "Cos": "cos", "Not": "logical_not",
    "IsNaN": "isnan", "Softplus": "softplus", "HardSwish": "hard_swish",
}  # fmt: skip
_BINARY = {
    "Add": "add", "Sub": "subtract", "Mul": "multiply", "Div": "divide", "Pow": "power",
    "Equal": "equal", "Less": "less", "LessOrEqual": "less_equal", "Greater": "greater",
    "GreaterOrEqual": "greater_equal", "And": "logical_and", "Or": "logical_or", "Xor": "logical_xor",
}  # fmt: skip


@converts(*_UNARY)
def unary(context: Context, node: NodeProto) -> Value:
    return context.op(_UNARY[node.op_type], context.operand(node, 0))


@converts("Gelu")
def gelu(context: Context, node: NodeProto) -> Value:
    return context.op("gelu", context.operand(node, 0), approximate=attribute(node, "approximate", "none"))


@converts("LeakyRelu")
def leaky_relu(context: Context, node: NodeProto) -> Value:
    return context.op("leaky_relu", context.operand(node, 0), negative_slope=float(attribute(node, "alpha", 0.01)))


@converts("Elu")
def elu(context: Context, node: NodeProto) -> Value:
    return context.op("elu", context.operand(node, 0), alpha=float(attribute(node, "alpha", 1.0)))


@converts(*_BINARY)
def binary(context: Context, node: NodeProto) -> Value:
    a, b = context.raw(node, 0), context.raw(node, 1)
    if isinstance(a, ShapeValue) or isinstance(b, ShapeValue):
        return _size_arithmetic(context, node)
    x, y = context.operand(node, 0), context.operand(node, 1)
    name = _BINARY[node.op_type]
    dtype = context.type(x).dtype
    if name == "power" and context.type(y).dtype is not dtype:
        y = context.op("astype", y, dtype=str(dtype))
    if name == "divide" and dtype.is_integer:
        return _truncated_division(context, x, y)
    return context.op(name, x, y)


def _truncated_division(context: Context, x: Atom, y: Atom) -> Value:
    """ONNX divides integers towards zero: the floor of magnitudes, with the sign put back."""
    quotient = context.op("floor_divide", context.op("abs", x), context.op("abs", y))
    signs = context.op("multiply", context.op("sign", x), context.op("sign", y))
    return context.op("multiply", quotient, signs)


def _size_arithmetic(context: Context, node: NodeProto) -> ShapeValue:
    first = context.shape_value(context.raw(node, 0), node)
    second = context.shape_value(context.raw(node, 1), node)
    if len(first.dims) != len(second.dims) and 1 not in (len(first.dims), len(second.dims)):
        raise FrontendError(f"{node_name(node)}: sizes of different lengths.")
    count = max(len(first.dims), len(second.dims))
    dims = []
    for i in range(count):
        a, b = first.dims[i % len(first.dims)], second.dims[i % len(second.dims)]
        match node.op_type:
            case "Add":
                dims.append(a + b)
            case "Sub":
                dims.append(a - b)
            case "Mul":
                dims.append(a * b)
            case "Div":
                dims.append(floordiv(a, b))
            case _:
                raise FrontendError(f"{node_name(node)}: {node.op_type} of sizes cannot be imported.")
    return ShapeValue(tuple(dims), first.scalar and second.scalar)


@converts("Max", "Min", "Sum", "Mean")
def variadic(context: Context, node: NodeProto) -> Value:
    name = {"Max": "maximum", "Min": "minimum"}.get(node.op_type, "add")
    result = context.operand(node, 0)
    for i in range(1, len(node.input)):
        result = context.op(name, result, context.operand(node, i))
    if node.op_type == "Mean":
        count = context.scalar(float(len(node.input)), context.type(result).dtype)
        result = context.op("divide", result, count)
    return result


@converts("Clip")
def clip(context: Context, node: NodeProto) -> Value:
    if context.opset < 11:
        low, high = attribute(node, "min"), attribute(node, "max")
    else:
        low, high = context.number(node, 1), context.number(node, 2)
    x = context.operand(node, 0)
    if low is None and high is None:
        return x
    return context.op("clip", x, min=low, max=high)


@converts("HardSigmoid")
def hard_sigmoid(context: Context, node: NodeProto) -> Value:
    x = context.operand(node, 0)
    dtype = context.type(x).dtype
    scaled = context.op("multiply", x, context.scalar(float(attribute(node, "alpha", 0.2)), dtype))
    moved = context.op("add", scaled, context.scalar(float(attribute(node, "beta", 0.5)), dtype))
    return context.op("clip", moved, min=0.0, max=1.0)


@converts("Where")
def where(context: Context, node: NodeProto) -> Value:
    return context.op("where", *[context.operand(node, i) for i in range(3)])


@converts("Cast")
def cast(context: Context, node: NodeProto) -> Value:
    dtype = import_dtype(int(attribute(node, "to")), node_name(node))
    value = context.raw(node, 0)
    if isinstance(value, ShapeValue) and dtype == "int64":
        return value
    x = context.operand(node, 0)
    return x if context.type(x).dtype is dtype else context.op("astype", x, dtype=str(dtype))


@converts("Identity", "Dropout")
def identity(context: Context, node: NodeProto) -> Value:
    """Dropout at inference; its mask output is refused where somebody reads it."""
    if node.op_type == "Dropout" and len(node.output) > 1 and node.output[1]:
        raise FrontendError(f"{node_name(node)}: its mask output cannot be imported.")
    value = context.raw(node, 0)
    assert value is not None
    return value


@converts("Constant")
def constant_node(context: Context, node: NodeProto) -> Value:
    for a in node.attribute:
        match a.name:
            case "value":
                return tensor_constant(a.t, node_name(node), context.base_dir)
            case "value_float":
                return constant(np.float32(a.f))
            case "value_int":
                return constant(np.int64(a.i))
            case "value_floats":
                return constant(np.array(a.floats, np.float32))
            case "value_ints":
                return constant(np.array(a.ints, np.int64))
    raise FrontendError(f"{node_name(node)}: a constant without a numeric value.")


@converts("ConstantOfShape")
def constant_of_shape(context: Context, node: NodeProto) -> Value:
    value = attribute(node, "value")
    fill = constant(np.zeros(1, np.float32)) if value is None else tensor_constant(value, node_name(node))
    dims = context.shape_value(context.raw(node, 0), node).dims
    scalar = constant(fill.data.reshape(()), fill.type.dtype)
    return context.op("broadcast_to", scalar, context.shape([as_expr(d) for d in dims]))
