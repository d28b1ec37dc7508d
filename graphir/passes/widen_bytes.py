"""WidenBytes: products of bytes read integers of 16 bits where the CPU multiplies no bytes.

    y = R.integer_matmul(x, w)                                  # bytes, summed in int32
becomes
    x1 = R.astype(x, dtype="int16")
    y = R.integer_matmul(x1, w1)                                # w1: w, widened once

A CPU without dot products of bytes multiplies pairs of 16 bits, and takes bytes apart for it in
each tile of a product. Here that happens once: to weights when the model is compiled, to
activations in the kernel that makes them. The sums are the same integers. Products of few rows wait
for the bytes of their weights and keep these.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ...support.dtype import DType
from ...support.passes import Pass
from ...tensorir.expr import IntImm
from ..builder import call_op
from ..expr import Call, Constant, Value
from ..integer_products import tensor
from ..module import IRModule
from ..mutator import ExprMutator

PAIR = DType("int16")
FEWEST_ROWS = 24
"""Rows from which on a product does not wait for the bytes of its weights. (Zen 3, weights of 768 x
3072: 1.07 times the time of bytes with 12 rows, as long with 16, .93 of it with 24.)"""


@dataclass(frozen=True)
class WidenBytes(Pass):
    """Multiply integers of 16 bits in place of bytes, in products of many rows with constant
    weights. It is for CPUs that do not multiply bytes.

    *requires*: nothing. *ensures*: results are the same to the bit.
    """

    def run(self, module: IRModule) -> IRModule:
        return _Widener(module).transform()


class _Widener(ExprMutator):
    def visit_Call(self, call: Call) -> Value:  # noqa: N802
        new = super().visit_Call(call)
        assert isinstance(new, Call)
        if new.op != "integer_matmul" or not is_widened(new):
            return new
        x, w = new.args
        assert isinstance(w, Constant)
        wide = self.emit(call_op("astype", x, dtype=str(PAIR)), "wide")
        weights = self.derive("pairs", lambda a: a.astype(np.int16), w, dtype=PAIR)
        return call_op("integer_matmul", wide, weights).with_span(new.span)


def is_widened(call: Call) -> bool:
    """Whether a product of bytes has rows enough, as far as these are known, and constant
    weights."""
    x, w = call.args
    if not isinstance(w, Constant) or isinstance(x, Constant) or tensor(w).dtype == PAIR:
        return False
    if len(w.shape) != 2:
        return False
    rows = [d.value for d in tensor(x).shape[:-1] if isinstance(d, IntImm)]
    return math.prod(rows) >= FEWEST_ROWS
