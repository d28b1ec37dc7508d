"""check_equal: two sizes that a call must have equal.

    s = R.check_equal(R.shape([n, min(n + a, 64)]))     for all that follows they are one

A call for which they are not ends in a ShapeMismatchError, before any kernel runs that stands
behind. What it gives is the shape itself.
"""

from __future__ import annotations

from ..expr import Call
from ..op import Op, register
from ..type import ShapeType, Type
from .operands import fail, shape_operand


def _check_equal(call: Call) -> Type:
    sizes = shape_operand(call, 0)
    if len(sizes) != 2:
        raise fail(call, f"it has {len(sizes)} sizes", "two: R.shape([a, b])")
    return ShapeType(sizes)


register(Op("check_equal", ("sizes",), _check_equal, stays=True))
