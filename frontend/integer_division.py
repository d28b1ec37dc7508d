"""Division of integers that cannot trap: the guard both front ends put in front of the operators.

In the IR an integer division by zero is undefined, and so is the least integer divided by -1; on
the CPU either stops the process. The imported graph divides by 1 in their place, for every dtype:

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


def divide_integers(context: Emitter, name: str, a: Atom, b: Atom) -> Var:
    """``name`` (divide, floor_divide or floor_mod) of integer operands of one dtype, guarded.

    A constant divisor without 0 and -1 needs no guard and gets none.
    """
    dtype = context.type(b).dtype
    if isinstance(b, Constant) and not np.isin(context.array(b), (0, -1)).any():
        return context.op(name, a, b)
    one = constant(1, dtype)
    divisor: Atom = context.op("where", context.op("equal", b, constant(0, dtype)), one, b)
    if dtype.kind == "uint":
        return context.op(name, a, divisor)
    negates = context.op("equal", b, constant(-1, dtype))
    result = context.op(name, a, context.op("where", negates, one, divisor))
    if name == "floor_mod":
        return result
    return context.op("where", negates, context.op("negative", result), result)


def remainder_of_truncation(context: Emitter, a: Atom, b: Atom) -> Var:
    """C's ``fmod``, of floats or integers: the remainder with the sign of the dividend, exactly."""
    kind = context.type(a).dtype
    if kind.is_float:
        return context.op("fmod", a, b)
    zero = constant(0, kind)
    rest = divide_integers(context, "floor_mod", a, b)
    if kind.kind == "uint":
        return rest
    # One divisor too far where the signs differ. (By absolute values the least integer, which has
    # none, would go wrong.)
    signs = context.op("less", rest, zero), context.op("less", a, zero)
    is_beyond = context.op(
        "logical_and", context.op("not_equal", rest, zero), context.op("logical_xor", *signs)
    )
    return context.op("where", is_beyond, context.op("subtract", rest, b), rest)
