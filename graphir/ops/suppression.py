"""The row of non-maximum suppression, which says which boxes stay.

Boxes are ``corners`` (B, 4, N), ``order`` (B, C, N) has those of each class, best first, and
``there`` (B, C, N) says which count at all; ``limit`` and ``threshold`` are scalars. The result
(B, C, N) stands in the order of ``order``.
"""

from __future__ import annotations

from ...tensorir.expr import IntImm
from ...tensorir.function import PrimFunc
from ..dim import dim_equal, print_shape
from ..expr import Call
from ..op import Op, register
from ..type import TensorType, Type
from .operands import describe, fail, inputs, operator_function, tensors

_DTYPES = (("float32", "float64"), ("int64",), ("bool",), ("int64",), ("float32", "float64"))


def _non_max_suppression(call: Call) -> Type:
    kinds = tensors(call)
    for i, (kind, known) in enumerate(zip(kinds, _DTYPES, strict=True)):
        if str(kind.dtype) not in known:
            raise fail(call, f"operand {i} is {describe(kind)}", f"one of {', '.join(known)}")
    corners, order, *_ = kinds
    if corners.ndim != 3 or order.ndim != 3:
        raise fail(call, "the ranks do not fit", "corners (B, 4, N) and an order (B, C, N)")
    batch, classes, count = order.shape
    wanted = [(batch, IntImm(4), count), order.shape, (batch, classes, count), (), ()]
    for i, (kind, shape) in enumerate(zip(kinds, wanted, strict=True)):
        if kind.ndim != len(shape) or not all(map(dim_equal, kind.shape, shape)):
            raise fail(call, f"operand {i} has another shape", print_shape(shape))
    if corners.dtype is not kinds[4].dtype:
        raise fail(call, f"the threshold is {kinds[4].dtype}", f"the {corners.dtype} of corners")
    return TensorType(order.shape, kinds[2].dtype)


def _legalize(call: Call) -> PrimFunc:
    made: object = operator_function(call.op)(*inputs(call))
    assert isinstance(made, PrimFunc)
    return made


register(
    Op(
        "non_max_suppression",
        ("corners", "order", "there", "limit", "threshold"),
        _non_max_suppression,
        _legalize,
    )
)
