"""Elementwise operators: unary and binary maths, comparisons, logic, casts. torch's promotion rules are
made explicit: operands are cast to the dtype they are computed in."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Node

from ...graphir.expr import Atom, Var
from ...support.errors import FrontendError
from ...tensorir.expr import Expr, floordiv, floormod
from .registry import DTYPES, Context, arguments, converts, location

# -- unary ---------------------------------------------------------------------------------------------
_UNARY = {
    "relu": "relu",
    "abs": "abs",
    "neg": "negative",
    "sign": "sign",
    "ceil": "ceil",
    "floor": "floor",
    "round": "round",
    "trunc": "trunc",
}
_FLOAT_UNARY = {
    "sigmoid": "sigmoid",
    "silu": "silu",
    "tanh": "tanh",
    "exp": "exp",
    "log": "log",
    "log1p": "log1p",
    "sqrt": "sqrt",
    "rsqrt": "rsqrt",
    "erf": "erf",
    "sin": "sin",
    "cos": "cos",
    "reciprocal": "reciprocal",
    "hardsigmoid": "hard_sigmoid",
    "hardswish": "hard_swish",
}


def _names(table: dict[str, str]) -> list[str]:
    return [f"aten.{n}.default" for n in table] + [f"aten.{n}_.default" for n in table]


def _base(node: Node) -> str:
    return str(node.target).split(".")[1].rstrip("_")


@converts(*_names(_UNARY))
def unary(context: Context, node: Node) -> Var:
    return context.op(_UNARY[_base(node)], context.operand(node.args[0]))


@converts(*_names(_FLOAT_UNARY))
def float_unary(context: Context, node: Node) -> Var:
    """Integers are computed in the float dtype torch gives the result."""
    x = context.operand(node.args[0], context.result_type(node).dtype)
    return context.op(_FLOAT_UNARY[_base(node)], x)


@converts("aten.gelu.default")
def gelu(context: Context, node: Node) -> Var:
    return context.op("gelu", context.operand(node.args[0]), approximate=arguments(node)["approximate"])


@converts("aten.leaky_relu.default")
def leaky_relu(context: Context, node: Node) -> Var:
    return context.op(
        "leaky_relu", context.operand(node.args[0]), negative_slope=float(arguments(node)["negative_slope"])
    )


@converts("aten.clamp.default", "aten.hardtanh.default", "aten.relu6.default", "aten.clamp_min.default", "aten.clamp_max.default")
def clamp(context: Context, node: Node) -> Var:
    given = dict(arguments(node))
    if _base(node) == "relu6":
        given |= {"min": 0.0, "max": 6.0}
    low = given.get("min", given.get("min_val"))
    high = given.get("max", given.get("max_val"))
    x = context.operand(node.args[0], context.result_type(node).dtype)
    return context.op("clip", x, min=low, max=high)


@converts("aten.isnan.default", "aten.isinf.default", "aten.logical_not.default")
def predicate(context: Context, node: Node) -> Var:
    return context.op(_base(node), context.operand(node.args[0]))


# -- binary -----------------------------------------------------------------------------------------------
_BINARY = {"add": "add", "sub": "subtract", "mul": "multiply", "maximum": "maximum", "minimum": "minimum", "pow": "power"}
_COMPARE = {
    "eq": "equal",
    "ne": "not_equal",
    "lt": "less",
    "le": "less_equal",
    "gt": "greater",
    "ge": "greater_equal",
}
_LOGICAL = {"logical_and": "logical_and", "logical_or": "logical_or", "logical_xor": "logical_xor"}


def _overloads(table: dict[str, str], *overloads: str) -> list[str]:
    return [f"aten.{n}.{o}" for n in table for o in overloads]


def _scalar_type(argument: Any, context: Context) -> Any:
    value = context.value(argument)
    return value if isinstance(value, (bool, int, float)) else None


@converts(
    *_overloads({k: v for k, v in _BINARY.items() if k not in ("maximum", "minimum")}, "Tensor", "Scalar"),
    "aten.maximum.default",
    "aten.minimum.default",
    "aten.pow.Tensor_Tensor",
    "aten.pow.Tensor_Scalar",
    "aten.add_.Tensor",
    "aten.mul_.Tensor",
)
def binary(context: Context, node: Node) -> Var:
    """``alpha`` of add and sub multiplies the second operand."""
    dtype = context.result_type(node).dtype
    a, b = context.operand(node.args[0], dtype), context.operand(node.args[1], dtype)
    name = _BINARY[_base(node)]
    alpha = arguments(node).get("alpha", 1)
    if alpha != 1:
        b = context.op("multiply", b, context.operand(alpha, dtype))
    if name == "power":
        return power(context, node, a)
    return context.op(name, a, b)


def power(context: Context, node: Node, base: Atom) -> Var:
    """Small integer and half powers become products and roots, as eager computes them."""
    exponent = _scalar_type(node.args[1], context)
    dtype = context.result_type(node).dtype
    if exponent == 2:
        return context.op("multiply", base, base)
    if exponent == 3:
        return context.op("multiply", context.op("multiply", base, base), base)
    if exponent == 0.5:
        return context.op("sqrt", base)
    if exponent == -0.5:
        return context.op("rsqrt", base)
    return context.op("power", base, context.operand(node.args[1], dtype))


@converts("aten.rsub.Scalar", "aten.rsub.Tensor")
def rsub(context: Context, node: Node) -> Var:
    dtype = context.result_type(node).dtype
    return context.op("subtract", context.operand(node.args[1], dtype), context.operand(node.args[0], dtype))


@converts("aten.div.Tensor", "aten.div.Scalar", "aten.div_.Tensor")
def div(context: Context, node: Node) -> Var:
    dtype = context.result_type(node).dtype
    return context.op("divide", context.operand(node.args[0], dtype), context.operand(node.args[1], dtype))


@converts(*_overloads(_COMPARE, "Tensor", "Scalar"))
def compare(context: Context, node: Node) -> Var:
    """Compared in the dtype that torch promotes both operands to."""
    first, second = node.args[0], node.args[1]
    assert isinstance(first, Node)
    other = second.meta["val"] if isinstance(second, Node) else second
    dtype = DTYPES[torch.result_type(first.meta["val"], other)]
    return context.op(_COMPARE[_base(node)], context.operand(first, dtype), context.operand(second, dtype))


@converts(*_overloads(_LOGICAL, "default"))
def logical(context: Context, node: Node) -> Var:
    return context.op(_LOGICAL[_base(node)], context.operand(node.args[0]), context.operand(node.args[1]))


@converts("aten.where.self", "aten.where.ScalarOther", "aten.where.ScalarSelf", "aten.where.Scalar")
def where(context: Context, node: Node) -> Var:
    dtype = context.result_type(node).dtype
    condition = context.operand(node.args[0])
    return context.op("where", condition, context.operand(node.args[1], dtype), context.operand(node.args[2], dtype))


@converts("aten.masked_fill.Scalar")
def masked_fill(context: Context, node: Node) -> Var:
    dtype = context.result_type(node).dtype
    x, mask = context.operand(node.args[0], dtype), context.operand(node.args[1])
    return context.op("where", mask, context.operand(node.args[2], dtype), x)


# -- casts and copies ------------------------------------------------------------------------------------
@converts("aten._to_copy.default", "aten.to.dtype", "aten.to.dtype_layout", "aten.to.device", "aten.type_as.default")
def cast(context: Context, node: Node) -> Atom:
    device = arguments(node).get("device")
    if device is not None and torch.device(device).type != "cpu":
        raise FrontendError(f"{node.target} at {location(node)} moves a tensor to {device}; burnish runs on the CPU.")
    return context.cast(context.operand(node.args[0]), context.result_type(node).dtype)


@converts(
    "aten.clone.default",
    "aten.contiguous.default",
    "aten.alias.default",
    "aten.detach.default",
    "aten.detach_.default",
    "aten.lift_fresh_copy.default",
    "aten.lift_fresh.default",
    "aten.dropout.default",
    "aten.feature_dropout.default",
)
def identity(context: Context, node: Node) -> Atom:
    """Copies of pure values, and dropout at inference. Training dropout was refused at import."""
    given = arguments(node)
    if given.get("train") and given.get("p"):
        raise FrontendError(f"{node.target} at {location(node)} is in training mode; call module.eval() first.")
    return context.operand(node.args[0])


# -- arithmetic on sizes -----------------------------------------------------------------------------------
@converts("aten.sym_size.int")
def sym_size(context: Context, node: Node) -> Expr:
    return context.type(context.operand(node.args[0])).shape[int(node.args[1])]  # type: ignore[call-overload]


@converts("<built-in function mul>", "<built-in function add>", "<built-in function sub>", "<built-in function floordiv>", "<built-in function mod>")
def size_arithmetic(context: Context, node: Node) -> Expr:
    a, b = context.dim(node.args[0]), context.dim(node.args[1])
    match node.target.__name__:  # type: ignore[union-attr]
        case "mul":
            return a * b
        case "add":
            return a + b
        case "sub":
            return a - b
        case "floordiv":
            return floordiv(a, b)
        case _:
            return floormod(a, b)


@converts("<built-in function getitem>")
def getitem(context: Context, node: Node) -> Any:
    """A field of an operator with several results."""
    return context.value(node.args[0])[node.args[1]]
