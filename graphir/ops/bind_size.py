"""bind_size: a named size that is computed from data gets its value.

    count = R.sum(mask)                                   how many elements there will be
    n = R.bind_size(count, R.shape([u]))                  from here on u is that number
    k = R.broadcast_to(R.const(0), R.shape([u]))          of a size that only the data told

Where no tensor has such a size, the error names what the attribute ``place`` says. Of a number that
is -1 because two sizes did not fit, a third operand are these, and ``expected`` is what was:

    n = R.bind_size(count, R.shape([u]), R.shape([a, b]), place="node 'y'", expected="equal sizes")

What it gives is the number itself. The size is the function's from there on: kernels have it as a
named size like any other, and what has it in its shape is allocated when it is made.
"""

from __future__ import annotations

from ...tensorir.expr import Var
from ..expr import Call
from ..op import Op, register
from ..type import TensorType, Type
from .operands import fail, shape_operand, tensor


def _bind_size(call: Call) -> Type:
    kind, shape = tensor(call, 0), shape_operand(call, 1)
    if kind.shape or not kind.dtype.is_integer:
        raise fail(call, "the size is no scalar of an integer dtype", "an int64 scalar")
    if len(shape) != 1 or not isinstance(shape[0], Var):
        raise fail(call, "the second operand is no name of a size", "R.shape([u])")
    if len(call.args) > 2:
        shape_operand(call, 2)
    return TensorType((), kind.dtype)


register(
    Op(
        "bind_size",
        ("count", "shape", "sizes"),
        _bind_size,
        attrs={"place": "", "expected": ""},
        optional=1,
        binds_dim=True,
        stays=True,
    )
)
