"""Rows of the normalisations: softmax, log_softmax, layer_norm. Dropout does not exist in
inference."""

from __future__ import annotations

from ...tensorir.function import PrimFunc
from ..dim import dim_equal
from ..expr import Call
from ..op import Op, attr, register
from ..type import Type
from .operands import (
    as_prim_func,
    describe,
    fail,
    inputs,
    normal_axes,
    normal_axis,
    operator_function,
    require_float,
    same_dtype,
    tensor,
    tensors,
)


def _softmax(call: Call) -> Type:
    kind = tensor(call, 0)
    require_float(call, [kind])
    normal_axis(call, attr(call, "axis"), kind.ndim)
    return kind


def _legalize_softmax(call: Call) -> PrimFunc:
    (x,) = inputs(call)
    axis = normal_axis(call, attr(call, "axis"), tensor(call, 0).ndim)
    return as_prim_func(call, [x], operator_function(call.op)(x, axis=axis))


def _layer_norm(call: Call) -> Type:
    kinds = tensors(call)
    require_float(call, kinds)
    same_dtype(call, kinds)
    x = kinds[0]
    axes = normal_axes(call, attr(call, "axes"), x.ndim, "axes")
    if axes != tuple(range(x.ndim - len(axes), x.ndim)):
        raise fail(call, f"axes={attr(call, 'axes')!r}", "the last axes of x")
    expected = x.shape[x.ndim - len(axes) :]
    for kind, name in zip(kinds[1:], ("gamma", "beta"), strict=False):
        if kind.ndim != len(axes) or not all(
            dim_equal(p, q) for p, q in zip(kind.shape, expected, strict=True)
        ):
            raise fail(call, f"{name} is {describe(kind)}", f"the shape of the axes {axes} of x")
    return x


def _legalize_layer_norm(call: Call) -> PrimFunc:
    operands = inputs(call)
    axes = normal_axes(call, attr(call, "axes"), tensor(call, 0).ndim, "axes")
    result = operator_function("layer_norm")(*operands, axes=axes, epsilon=attr(call, "epsilon"))
    return as_prim_func(call, operands, result)


for _name in ("softmax", "log_softmax"):
    register(Op(_name, ("x",), _softmax, _legalize_softmax, {"axis": -1}))
register(
    Op(
        "layer_norm",
        ("x", "gamma", "beta"),
        _layer_norm,
        _legalize_layer_norm,
        {"axes": (-1,), "epsilon": 1e-5},
        optional=2,
    )
)
