"""The logarithm of a sum of powers, as both front ends import it: reductions and elementwise."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..graphir.expr import Atom
from .integer_division import Emitter
from .normalization import scalar


def log_sum_exp(context: Emitter, x: Atom, axes: Sequence[int] | None) -> Atom:
    """``log(sum(e ** x))`` over ``axes``, which are kept, about the largest element, so that
    nothing overflows; an infinite one is kept out, because inf - inf is NaN."""
    axis = tuple(axes) if axes is not None else None
    dtype = context.type(x).dtype
    largest = context.op("max", x, axis=axis, keepdims=True)
    magnitude = context.op("abs", largest)
    infinite = context.op("equal", magnitude, scalar(math.inf, dtype))
    centre = context.op("where", infinite, scalar(0.0, dtype), largest)
    powers = context.op("exp", context.op("subtract", x, centre))
    logs = context.op("log", context.op("sum", powers, axis=axis, keepdims=True))
    return context.op("add", logs, centre)
