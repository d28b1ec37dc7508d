"""Rows of the operators that find or order elements along one axis: argmax, argmin, argsort; and of
the scans."""

from __future__ import annotations

from ...support.dtype import DType
from ...tensorir.expr import IntImm
from ...tensorir.function import PrimFunc
from ..dim import static_value
from ..expr import Call
from ..op import REQUIRED, Op, attr, get_op, register
from ..type import TensorType, Type
from .operands import as_prim_func, describe, fail, inputs, normal_axis, operator_function, tensor

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
    count = attr(call, "count")
    if count is None:
        return TensorType(kind.shape, INT64)
    size = static_value(kind.shape[axis])
    if not isinstance(count, int) or count < 0 or (size is not None and count > size):
        raise fail(call, f"count={count!r}", f"an int of at most the size of axis {axis}")
    return TensorType((*kind.shape[:axis], IntImm(count), *kind.shape[axis + 1 :]), INT64)


def _scan(call: Call) -> Type:
    kind = tensor(call, 0)
    if kind.dtype.is_bool:
        raise fail(call, f"x is {describe(kind)}", "a float or integer operand")
    _axis(call)
    return kind


def _legalize_rows(call: Call) -> PrimFunc:
    """Operators whose function is no compute."""
    (x,) = inputs(call)
    rest = {key: attr(call, key) for key in get_op(call.op).attrs if key != "axis"}
    made: object = operator_function(call.op)(x, _axis(call), **rest)
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
register(
    Op(
        "argsort",
        ("x",),
        _argsort,
        _legalize_rows,
        {"axis": -1, "descending": False, "count": None},
    )
)
