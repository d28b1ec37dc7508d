"""Rows of the operators that find or order elements along one axis: argmax, argmin, argsort; and of
the scans: sums, products, extremes and where these stand."""

from __future__ import annotations

from ...support.dtype import DType
from ...tensorir.expr import IntImm
from ...tensorir.function import PrimFunc
from ..dim import shape_equal, static_value
from ..expr import Call
from ..op import REQUIRED, Op, attr, get_op, register
from ..type import TensorType, Type
from .operands import (
    as_prim_func,
    describe,
    fail,
    inputs,
    normal_axis,
    operator_function,
    same_dtype,
    tensor,
    tensors,
)

INT64 = DType("int64")


def _axis(call: Call) -> int:
    kind = tensor(call, 0)
    if kind.ndim == 0:
        raise fail(call, "x is a scalar", "x of rank 1 and more")
    return normal_axis(call, attr(call, "axis"), kind.ndim)


def _arg_extreme(call: Call) -> Type:
    kind, axis = tensor(call, 0), _axis(call)
    if static_value(kind.shape[axis]) == 0:
        raise fail(call, f"axis {axis} of x is empty", "an axis with elements")
    kept = (IntImm(1),) if attr(call, "keepdims") else ()
    return TensorType((*kind.shape[:axis], *kept, *kind.shape[axis + 1 :]), INT64)


def _legalize_arg_extreme(call: Call) -> PrimFunc:
    (x,) = inputs(call)
    keepdims, last = bool(attr(call, "keepdims")), bool(attr(call, "last"))
    function = operator_function(call.op)
    return as_prim_func(call, [x], function(x, _axis(call), keepdims=keepdims, last=last))


def _argsort(call: Call) -> Type:
    kind, axis = tensor(call, 0), _axis(call)
    count, start = attr(call, "count"), attr(call, "start")
    size = static_value(kind.shape[axis])
    if count is None and start == 0:
        return TensorType(kind.shape, INT64)
    count = size if count is None else count
    if not isinstance(count, int) or count < 0 or (size is not None and count > size):
        raise fail(call, f"count={count!r}", f"an int of at most the size of axis {axis}")
    if not isinstance(start, int) or not 0 <= start <= count:
        raise fail(call, f"start={start!r}", f"an int from 0 to {count}")
    found = IntImm(count - start)
    return TensorType((*kind.shape[:axis], found, *kind.shape[axis + 1 :]), INT64)


def _scan(call: Call) -> Type:
    kind = tensor(call, 0)
    if kind.dtype.is_bool:
        raise fail(call, f"x is {describe(kind)}", "a float or integer operand")
    _axis(call)
    return kind


def _last_match(call: Call) -> Type:
    kind, other = tensors(call)
    same_dtype(call, [kind, other])
    if not shape_equal(kind.shape, other.shape):
        raise fail(call, f"y is {describe(other)}", "the shape of x")
    _axis(call)
    return TensorType(kind.shape, INT64)


def _legalize_rows(call: Call) -> PrimFunc:
    """Operators whose function is no compute."""
    rest = {key: attr(call, key) for key in get_op(call.op).attrs if key != "axis"}
    made: object = operator_function(call.op)(*inputs(call), _axis(call), **rest)
    assert isinstance(made, PrimFunc)
    return made


for _name in ("argmax", "argmin"):
    register(
        Op(
            _name,
            ("x",),
            _arg_extreme,
            _legalize_arg_extreme,
            {"axis": REQUIRED, "keepdims": False, "last": False},
        )
    )
for _name in ("cumsum", "cumprod"):
    _attrs = {"axis": REQUIRED, "exclusive": False, "reverse": False}
    register(Op(_name, ("x",), _scan, _legalize_rows, _attrs))
for _name in ("cummax", "cummin"):
    register(Op(_name, ("x",), _scan, _legalize_rows, {"axis": REQUIRED}))
register(Op("last_match", ("x", "y"), _last_match, _legalize_rows, {"axis": REQUIRED}))
register(
    Op(
        "argsort",
        ("x",),
        _argsort,
        _legalize_rows,
        {"axis": -1, "descending": False, "count": None, "start": 0},
    )
)
