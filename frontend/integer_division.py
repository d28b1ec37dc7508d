"""Division of integers: what it gives, and the remainder of C's ``fmod``.

A division on the CPU stops the process at a divisor of 0, and at the least integer by -1. In the IR
(``tensorir/expr.py``) neither does, for every dtype:

                 quotient, truncated or floored       remainder, of either sign
    x by  0      x                                    0
    x by -1      -x; the least integer is its own     0

PyTorch raises ZeroDivisionError for the first row, and ONNX leaves it open. A kernel raises
nothing: only where the divisor is a constant does the import from torch refuse zero. Of the second
row PyTorch gives the same, but where it divides the least int32 or int64 and truncates: there eager
PyTorch ends the process.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from ..graphir.expr import Atom, Constant, Var, constant
from ..graphir.type import TensorType


class Emitter(Protocol):
    """The part of a front end's context that emits operators."""

    def op(self, name: str, *args: Atom, **attrs: object) -> Var: ...
    def type(self, atom: Atom) -> TensorType: ...
    def array(self, constant: Constant) -> np.ndarray: ...


def remainder_of_truncation(context: Emitter, a: Atom, b: Atom) -> Var:
    """C's ``fmod``, of floats or integers: the remainder with the sign of the dividend, exactly."""
    kind = context.type(a).dtype
    if kind.is_float:
        return context.op("fmod", a, b)
    zero = constant(0, kind)
    rest = context.op("floor_mod", a, b)
    if kind.kind == "uint":
        return rest
    # One divisor too far where the signs differ. (By absolute values the least integer, which has
    # none, would go wrong.)
    signs = context.op("less", rest, zero), context.op("less", a, zero)
    is_beyond = context.op(
        "logical_and", context.op("not_equal", rest, zero), context.op("logical_xor", *signs)
    )
    return context.op("where", is_beyond, context.op("subtract", rest, b), rest)
