"""Rows of the reductions: ``axis`` is an int, a tuple of them or None for all; ``keepdims`` keeps
ones."""

from __future__ import annotations

from ...tensorir.expr import IntImm
from ...tensorir.function import PrimFunc
from ..expr import Call
from ..op import Op, attr, get_op, register
from ..type import TensorType, Type
from .operands import (
    as_prim_func,
    fail,
    inputs,
    normal_axes,
    operator_function,
    require_float,
    tensor,
)


def _reduced(call: Call) -> TensorType:
    kind = tensor(call, 0)
    axes = normal_axes(call, attr(call, "axis"), kind.ndim)
    if attr(call, "keepdims"):
        shape = tuple([IntImm(1) if i in axes else d for i, d in enumerate(kind.shape)])
    else:
        shape = tuple([d for i, d in enumerate(kind.shape) if i not in axes])
    return TensorType(shape, kind.dtype)


def _reduce(call: Call) -> Type:
    if tensor(call, 0).dtype.is_bool:
        raise fail(call, "a reduction needs numbers", "a float or integer operand")
    return _reduced(call)


def _mean(call: Call) -> Type:
    require_float(call, [tensor(call, 0)])
    return _reduced(call)


def _variance(call: Call) -> Type:
    correction = attr(call, "correction")
    if not isinstance(correction, int) or correction < 0:
        raise fail(call, f"correction={correction!r}", "an int of at least 0")
    return _mean(call)


def _legalize(call: Call) -> PrimFunc:
    """Axes are handed over counted from the front, so that equal reductions give equal
    functions."""
    (x,) = inputs(call)
    axes = normal_axes(call, attr(call, "axis"), tensor(call, 0).ndim)
    rest = {
        key: attr(call, key) for key in get_op(call.op).attrs if key not in ("axis", "keepdims")
    }
    keepdims = bool(attr(call, "keepdims"))
    return as_prim_func(
        call, [x], operator_function(call.op)(x, axis=axes, keepdims=keepdims, **rest)
    )


for _name in ("sum", "prod", "max", "min"):
    register(Op(_name, ("x",), _reduce, _legalize, {"axis": None, "keepdims": False}))
register(Op("mean", ("x",), _mean, _legalize, {"axis": None, "keepdims": False}))
register(
    Op(
        "variance",
        ("x",),
        _variance,
        _legalize,
        {"axis": None, "keepdims": False, "correction": 0},
    )
)
