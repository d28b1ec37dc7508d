"""Functions of torch that are made of several elementwise operators, and shifts of bits."""

from __future__ import annotations

from typing import Any

from torch.fx import Node

from ...graphir.expr import Atom, Var
from .registry import Context, arguments, base_name, converts


@converts("aten.fmax.default", "aten.fmin.default")
def extreme_of_numbers(context: Context, node: Node) -> Atom:
    """The larger (smaller) operand; the other one where one is NaN."""
    dtype = context.result_type(node).dtype
    a, b = (context.operand(x, dtype) for x in node.args[:2])
    if dtype.is_bool:
        return context.op("logical_or" if base_name(node) == "fmax" else "logical_and", a, b)
    result = context.op("maximum" if base_name(node) == "fmax" else "minimum", a, b)
    if not dtype.is_float:
        return result
    for x, other in ((a, b), (b, a)):
        result = context.op("where", context.op("isnan", x), other, result)
    return result


@converts("aten.rrelu_with_noise.default", "aten.rrelu_with_noise_functional.default")
def rrelu(context: Context, node: Node) -> Any:
    """The mean slope, without training."""
    given = arguments(node)
    if given["training"]:
        raise context.refuse("draws random slopes; call module.eval() before compiling.")
    slope = (float(given["lower"]) + float(given["upper"])) / 2
    result = context.op("leaky_relu", context.operand(given["self"]), negative_slope=slope)
    return [result] if base_name(node).endswith("functional") else result


@converts("aten.signbit.default")
def signbit(context: Context, node: Node) -> Var:
    """Also of zeros and NaN."""
    x = context.operand(node.args[0])
    dtype = context.type(x).dtype
    if dtype.is_float:
        x = context.op("copysign", context.scalar(1.0, dtype), x)
    return context.op("less", x, context.scalar(0, dtype))


@converts("aten.gcd.default")
def gcd(context: Context, node: Node) -> Var:
    dtype = context.result_type(node).dtype
    return context.op("gcd", *[context.operand(x, dtype) for x in node.args[:2]])


@converts("aten.view.dtype")
def bits(context: Context, node: Node) -> Atom:
    """The same bits as another dtype of the same size."""
    x, kind = context.operand(node.args[0]), context.result_type(node)
    dtype = context.type(x).dtype
    if dtype is kind.dtype:
        return x
    if dtype.bits != kind.dtype.bits or dtype.is_bool or kind.dtype.is_bool:
        raise context.refuse(
            f"the bits of {dtype} as {kind.dtype} cannot be imported, only those of a dtype of the "
            "same size; pass them in as an input of that dtype."
        )
    return context.op("reinterpret", x, dtype=str(kind.dtype))


_SHIFTS = {
    "__lshift__": "shift_left", "bitwise_left_shift": "shift_left",
    "__rshift__": "shift_right", "bitwise_right_shift": "shift_right",
}  # fmt: skip


@converts(
    *[f"aten.{name}.{kind}" for name in ("__lshift__", "__rshift__") for kind in ("Scalar",
      "Tensor")],
    *[f"aten.bitwise_{side}_shift.{kind}" for side in ("left", "right")
      for kind in ("Tensor", "Tensor_Scalar", "Scalar_Tensor")],
)  # fmt: skip
def shift(context: Context, node: Node) -> Var:
    """Of integers."""
    dtype = context.result_type(node).dtype
    if dtype.is_float or dtype.is_bool:
        raise context.refuse(f"shifts of {dtype} cannot be imported, only of integers.")
    a, b = (context.operand(x, dtype) for x in node.args[:2])
    return context.op(_SHIFTS[base_name(node)], a, b)
