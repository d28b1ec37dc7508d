"""Elementwise operators of torch: unary and binary maths, comparisons, logic, choices, casts.

torch's promotion rules are made explicit here: operands are cast to the dtype they are computed in,
which is read from the dtypes torch gave the node. In-place forms never come here (see
``decompose``). Nothing is folded: ``x + 0`` stays what it is.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch.fx import Node

from ...graphir.expr import Atom, Constant, Var, constant
from ...support.dtype import DType
from ...support.errors import FrontendError
from ...tensorir.expr import wrap_integer
from ..elementwise_names import TORCH
from ..integer_division import remainder_of_truncation
from ..integer_power import integer_power
from .complex_pairs import BORDERS
from .registry import (
    DTYPES,
    Context,
    arguments,
    base_name,
    converts,
    location,
    operator_name,
)

BOOL = DType("bool")
_UNARY = {"relu": "relu", "abs": "abs", "neg": "negative", "sign": "sign"}
_ROUNDING = {"ceil": "ceil", "floor": "floor", "round": "round", "trunc": "trunc", "fix": "trunc"}
_PREDICATES = {"isnan": "not_equal", "isinf": "not_equal", "isfinite": "equal"}
"""What the predicate of an integer x is: the comparison of x with itself."""


def _names(table: Iterable[str], *overloads: str) -> list[str]:
    return [f"aten.{name}.{overload}" for name in table for overload in overloads or ("default",)]


@converts(*BORDERS)
def complex_border(context: Context, node: Node) -> Atom:
    """A complex tensor is one of real numbers with a last axis of 2."""
    return context.operand(node.args[0])


# -- unary -----------------------------------------------------------------------------------
@converts(*_names(_UNARY))
def unary(context: Context, node: Node) -> Atom:
    x = context.operand(node.args[0])
    # abs and sign of a bool are the bool; torch refuses the others
    return x if context.type(x).dtype.is_bool else context.op(_UNARY[base_name(node)], x)


@converts(*_names(_ROUNDING))
def rounding(context: Context, node: Node) -> Atom:
    """Integers are round already."""
    x = context.operand(node.args[0])
    return context.op(_ROUNDING[base_name(node)], x) if context.type(x).dtype.is_float else x


@converts(*_names(TORCH), "aten.copysign.Tensor", "aten.copysign.Scalar")
def of_the_table(context: Context, node: Node) -> Var:
    """Integers are computed in the float dtype torch gives the result."""
    dtype, base = context.result_type(node).dtype, base_name(node)
    return context.op(TORCH.get(base, base), *[context.operand(a, dtype) for a in node.args])


@converts(*_names(_PREDICATES))
def predicate(context: Context, node: Node) -> Var:
    x = context.operand(node.args[0])
    if context.type(x).dtype.is_float:
        return context.op(base_name(node), x)
    return context.op(_PREDICATES[base_name(node)], x, x)


@converts("aten.square.default")
def square(context: Context, node: Node) -> Var:
    return context.op("square", context.operand(node.args[0], context.result_type(node).dtype))


@converts("aten.gelu.default")
def gelu(context: Context, node: Node) -> Var:
    approximate = arguments(node)["approximate"]
    return context.op("gelu", context.operand(node.args[0]), approximate=approximate)


@converts("aten.leaky_relu.default")
def leaky_relu(context: Context, node: Node) -> Var:
    x = context.operand(node.args[0])
    slope = context.value(arguments(node)["negative_slope"])
    if isinstance(slope, int | float):
        return context.op("leaky_relu", x, negative_slope=float(slope))
    return _with_slope(context, x, context.operand(slope, context.type(x).dtype))


@converts("aten._prelu_kernel.default")
def prelu(context: Context, node: Node) -> Var:
    return _with_slope(context, context.operand(node.args[0]), context.operand(node.args[1]))


def _with_slope(context: Context, x: Atom, slope: Atom) -> Var:
    """What is positive, and all else times a slope."""
    positive = context.op("greater", x, context.scalar(0, context.type(x).dtype))
    return context.op("where", positive, x, context.op("multiply", slope, x))


@converts("aten.elu.default")
def elu(context: Context, node: Node) -> Var:
    """``scale * x`` where positive, else ``scale * alpha * (e ** (input_scale * x) - 1)``."""
    given = arguments(node)
    x = context.operand(node.args[0])
    dtype = context.type(x).dtype
    alpha, scale = (float(context.static(given[k], k)) for k in ("alpha", "scale"))
    if scale == 1 and given["input_scale"] == 1:
        return context.op("elu", x, alpha=alpha)
    scaled = context.op("multiply", x, context.scalar(float(given["input_scale"]), dtype))
    tail = context.op("expm1", scaled)
    return context.op(
        "where",
        context.op("greater", x, context.scalar(0, dtype)),
        context.op("multiply", x, context.scalar(scale, dtype)),
        context.op("multiply", tail, context.scalar(alpha * scale, dtype)),
    )


@converts("aten.softplus.default")
def softplus(context: Context, node: Node) -> Var:
    """``log(1 + e ** (beta * x)) / beta``, and x itself where ``beta * x`` is above the
    threshold."""
    given = arguments(node)
    x = context.operand(node.args[0])
    dtype = context.type(x).dtype
    scaled: Atom = x
    if given["beta"] != 1:
        scaled = context.op("multiply", x, context.scalar(float(given["beta"]), dtype))
    result = context.op("softplus", scaled)
    if given["beta"] != 1:
        result = context.op("divide", result, context.scalar(float(given["beta"]), dtype))
    above = context.op("greater", scaled, context.scalar(float(given["threshold"]), dtype))
    return context.op("where", above, x, result)


@converts("aten.log_sigmoid.default")
def log_sigmoid(context: Context, node: Node) -> Var:
    negated = context.op("negative", context.operand(node.args[0]))
    return context.op("negative", context.op("softplus", negated))


@converts(
    "aten.clamp.default", "aten.clamp_min.default", "aten.clamp_max.default",
    "aten.hardtanh.default", "aten.relu6.default",
)  # fmt: skip
def clamp(context: Context, node: Node) -> Atom:
    given = dict(arguments(node))
    if base_name(node) == "relu6":
        given |= {"min": 0.0, "max": 6.0}
    x = context.operand(node.args[0], context.result_type(node).dtype)
    dtype = context.type(x).dtype
    found = [given.get(k, given.get(f"{k}_val")) for k in ("min", "max")]
    if any(isinstance(bound, Node) for bound in found):  # a size with a name
        if dtype.kind in ("int", "uint") and dtype.bits < 32:
            raise context.refuse(
                f"a bound of {dtype} is a size that calls decide, and torch refuses calls where "
                f"{dtype} does not hold it; clamp x.to(torch.int64), or make the size static."
            )
        for bound, name in zip(found, ("maximum", "minimum"), strict=True):
            if bound is not None:
                x = context.op(_of(name, dtype), x, context.operand(bound, dtype))
        return x
    bounds = [context.static(bound, k) for bound, k in zip(found, ("min", "max"), strict=True)]
    if dtype.kind == "uint":  # torch takes a bound below 0 as the number that its bits are
        bounds = [wrap_integer(int(b), dtype) if b is not None and b < 0 else b for b in bounds]
    return context.op("clip", x, min=bounds[0], max=bounds[1])


@converts("aten.clamp.Tensor", "aten.clamp_min.Tensor", "aten.clamp_max.Tensor")
def clamp_tensor(context: Context, node: Node) -> Atom:
    given, dtype = arguments(node), context.result_type(node).dtype
    x = context.operand(node.args[0], dtype)
    for bound, name in (("min", "maximum"), ("max", "minimum")):
        if given.get(bound) is not None:
            x = context.op(_of(name, dtype), x, context.operand(given[bound], dtype))
    return x


# -- binary ----------------------------------------------------------------------------------
_BINARY = {"add": "add", "sub": "subtract", "mul": "multiply"}
_EXTREMES = {"maximum": "maximum", "minimum": "minimum"}
_OF_BOOLS = {
    "add": "logical_or", "multiply": "logical_and", "maximum": "logical_or",
    "minimum": "logical_and",
}  # fmt: skip


def _of(name: str, dtype: DType) -> str:
    """The operator that arithmetic is for a dtype."""
    return _OF_BOOLS[name] if dtype.is_bool else name


@converts(
    *_names(_BINARY, "Tensor", "Scalar"), *_names(_EXTREMES), "aten.rsub.Tensor", "aten.rsub.Scalar"
)
def binary(context: Context, node: Node) -> Var:
    """``alpha`` of add and sub multiplies the second operand; rsub takes them the other way
    round."""
    dtype = context.result_type(node).dtype
    base, alpha = base_name(node), arguments(node).get("alpha", 1)
    a, b = context.operand(node.args[0], dtype), context.operand(node.args[1], dtype)
    if base == "rsub":
        a, b, base = b, a, "sub"
    if alpha != 1:
        b = context.op(_of("multiply", dtype), b, context.operand(alpha, dtype))
    return context.op(_of(_BINARY.get(base) or _EXTREMES[base], dtype), a, b)


@converts("aten.pow.Tensor_Tensor", "aten.pow.Tensor_Scalar", "aten.pow.Scalar")
def power(context: Context, node: Node) -> Atom:
    """Small constant powers become products and roots, as eager computes them."""
    dtype = context.result_type(node).dtype
    base = context.operand(node.args[0], dtype)
    exponent = context.value(node.args[1])
    if isinstance(exponent, (int, float)):
        found = _constant_power(context, base, float(exponent), dtype)
        if found is not None:
            return found
    if not dtype.is_float:
        return integer_power(context, base, context.operand(exponent, dtype))
    return context.op("power", base, context.operand(exponent, dtype))


def _constant_power(context: Context, base: Atom, exponent: float, dtype: DType) -> Atom | None:
    if dtype.is_integer and exponent == int(exponent) and 0 <= exponent <= 64:
        return _repeated_product(context, base, int(exponent))
    if exponent in (1, 2, 3):
        return _repeated_product(context, base, int(exponent))
    named = {0.5: "sqrt", -0.5: "rsqrt", -1.0: "reciprocal"}
    if dtype.is_float and exponent in named:
        return context.op(named[exponent], base)
    return None


def _repeated_product(context: Context, base: Atom, exponent: int) -> Atom:
    """``base ** exponent`` by squaring."""
    kind = context.type(base)
    if exponent == 0:
        return context.broadcast(constant(1, kind.dtype), kind)
    if exponent == 1:
        return base
    half = _repeated_product(context, base, exponent // 2)
    squared = context.op("multiply", half, half)
    return context.op("multiply", squared, base) if exponent % 2 else squared


# -- division --------------------------------------------------------------------------------
@converts("aten.div.Tensor", "aten.div.Scalar", "aten.true_divide.Tensor")
def div(context: Context, node: Node) -> Var:
    """True division: of integers in the float dtype of the result."""
    dtype = context.result_type(node).dtype
    return context.op("divide", *[context.operand(a, dtype) for a in node.args[:2]])


@converts(
    "aten.div.Tensor_mode", "aten.div.Scalar_mode", "aten.floor_divide.default",
    "aten.floor_divide.Scalar",
)  # fmt: skip
def div_rounded(context: Context, node: Node) -> Var:
    mode = "floor" if base_name(node) == "floor_divide" else arguments(node)["rounding_mode"]
    dtype = context.result_type(node).dtype
    a, b = (context.operand(x, dtype) for x in node.args[:2])
    if dtype.is_float:
        if mode == "floor":
            return context.op("floor_divide", a, b)
        quotient = context.op("divide", a, b)
        return quotient if mode is None else context.op("trunc", quotient)
    _refuse_zero(context, node, b)
    return context.op("floor_divide" if mode == "floor" else "divide", a, b)


def _refuse_zero(context: Context, node: Node, divisor: Atom) -> None:
    """PyTorch raises where an integer is divided by zero; of a constant that is known here."""
    if isinstance(divisor, Constant) and not context.array(divisor).all():
        raise FrontendError(
            f"{operator_name(node)} divides integers by zero, at {location(node)}; PyTorch raises "
            "ZeroDivisionError there."
        )


@converts(
    "aten.remainder.Tensor", "aten.remainder.Scalar", "aten.remainder.Scalar_Tensor",
    "aten.fmod.Tensor", "aten.fmod.Scalar",
)  # fmt: skip
def remainder(context: Context, node: Node) -> Var:
    """``remainder`` has the sign of the divisor, ``fmod`` that of the dividend."""
    dtype = context.result_type(node).dtype
    a, b = (context.operand(x, dtype) for x in node.args[:2])
    if not dtype.is_float:
        _refuse_zero(context, node, b)
    if base_name(node) == "fmod":
        return remainder_of_truncation(context, a, b)
    return context.op("floor_mod", a, b)


# -- comparison and logic --------------------------------------------------------------------
_COMPARE = {
    "eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal", "gt": "greater",
    "ge": "greater_equal",
}  # fmt: skip
_LOGICAL = ("logical_and", "logical_or", "logical_xor")
_BITWISE = {"bitwise_and": "logical_and", "bitwise_or": "logical_or", "bitwise_xor": "logical_xor"}


@converts(*_names(_COMPARE, "Tensor", "Scalar"))
def compare(context: Context, node: Node) -> Var:
    """Compared in the dtype that torch promotes both operands to."""
    given: list[Any] = []
    for argument in node.args[:2]:
        fake = argument.meta["val"] if isinstance(argument, Node) else argument
        if not isinstance(fake, (torch.Tensor, bool, int, float)):
            context.operand(argument)  # raises: a size is no data
        given.append(fake)
    dtype = DTYPES[torch.result_type(*given)]
    return context.op(
        _COMPARE[base_name(node)], *[context.operand(a, dtype) for a in node.args[:2]]
    )


def _truth(context: Context, argument: Any) -> Atom:
    """Whether each element is not 0; NaN is true."""
    x = context.operand(argument, BOOL if isinstance(argument, (bool, int, float)) else None)
    dtype = context.type(x).dtype
    return x if dtype.is_bool else context.op("not_equal", x, context.scalar(0, dtype))


@converts(*_names(_LOGICAL))
def logical(context: Context, node: Node) -> Var:
    return context.op(base_name(node), *[_truth(context, a) for a in node.args[:2]])


@converts("aten.logical_not.default")
def logical_not(context: Context, node: Node) -> Var:
    return context.op("logical_not", _truth(context, node.args[0]))


@converts(*_names(_BITWISE, "Tensor", "Scalar", "Scalar_Tensor"), "aten.bitwise_not.default",
          "aten.__and__.Tensor", "aten.__or__.Tensor", "aten.__xor__.Tensor")  # fmt: skip
def bitwise(context: Context, node: Node) -> Var:
    """Of bools, logic."""
    dtype, base = context.result_type(node).dtype, base_name(node)
    name = f"bitwise_{base.removeprefix('bitwise_').strip('_')}"
    if not dtype.is_bool:
        return context.op(name, *[context.operand(a, dtype) for a in node.args[:2]])
    operands = [_truth(context, a) for a in node.args[:2]]
    if len(operands) == 1:
        return context.op("logical_not", *operands)
    return context.op(_BITWISE[name], *operands)


# -- choices ---------------------------------------------------------------------------------
@converts("aten.where.self", "aten.where.ScalarOther", "aten.where.ScalarSelf", "aten.where.Scalar")
def where(context: Context, node: Node) -> Var:
    dtype = context.result_type(node).dtype
    condition = _truth(context, node.args[0])
    return context.op("where", condition, *[context.operand(a, dtype) for a in node.args[1:3]])


@converts("aten.masked_fill.Scalar", "aten.masked_fill.Tensor")
def masked_fill(context: Context, node: Node) -> Var:
    dtype = context.result_type(node).dtype
    x, mask = context.operand(node.args[0], dtype), _truth(context, node.args[1])
    return context.op("where", mask, context.operand(node.args[2], dtype), x)


# -- casts and copies ------------------------------------------------------------------------
@converts(
    "aten._to_copy.default", "aten.to.dtype", "aten.to.dtype_layout", "aten.to.device",
    "aten.to.other", "aten.type_as.default", "prims.convert_element_type.default",
)  # fmt: skip
def cast(context: Context, node: Node) -> Atom:
    device = arguments(node).get("device")
    if device is not None and torch.device(device).type != "cpu":
        raise context.refuse(f"moves a tensor to {device}; burnish compiles for the CPU.")
    x, dtype = context.operand(node.args[0]), context.result_type(node).dtype
    return _truth(context, node.args[0]) if dtype.is_bool else context.cast(x, dtype)


@converts("aten.copy.default")
def copy(context: Context, node: Node) -> Atom:
    """The second operand in the dtype and shape of the first."""
    kind = context.result_type(node)
    return context.broadcast(context.operand(node.args[1], kind.dtype), kind)


@converts(
    "aten.clone.default", "aten.contiguous.default", "aten.alias.default",
    "aten.detach.default", "aten.lift_fresh_copy.default", "aten.lift_fresh.default",
    "aten.positive.default", "aten.dropout.default", "aten.feature_dropout.default",
    "aten.alpha_dropout.default", "aten.native_dropout.default", "prims.copy_strided.default",
)  # fmt: skip
def identity(context: Context, node: Node) -> Any:
    """Copies of pure values, and dropout at inference; dropout in training is refused."""
    given = arguments(node)
    if given.get("train", False) and given.get("p"):
        raise context.refuse(
            "drops values at random (training mode). Call module.eval() before compiling, and pass "
            "training=self.training to functional dropout."
        )
    x = context.operand(node.args[0])
    return [x] if base_name(node) == "native_dropout" else x


@converts("aten._assert_tensor_metadata.default")
def assertion(context: Context, node: Node) -> None:
    """A check of dtypes that were known at export."""


@converts("operator.getitem")
def getitem(context: Context, node: Node) -> Any:
    """A result of an operator with several; one that nobody reads need not be there."""
    if not node.users:
        return None
    values, index = context.value(node.args[0]), node.args[1]
    assert isinstance(index, int)
    if not -len(values) <= index < len(values):
        source = node.args[0]
        assert isinstance(source, Node)
        context.node = source
        raise context.refuse(f"its result {index} is used, which cannot be imported.")
    return values[index]
