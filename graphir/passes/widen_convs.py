"""WidenConvs: convolutions of half precision compute in float32 where the CPU has nothing faster.

    y = R.conv(x, w, b)                                         # bfloat16
becomes
    x1 = R.astype(x, dtype="float32")
    y1 = R.conv(x1, w1, b1)                                     # float32; w1: w, widened once
    y = R.astype(y1, dtype="bfloat16")

A convolution reads each pixel in many windows, and one that is float16 or bfloat16 would be widened
each time. Widening is exact, and sums are float32 in either case; as a convolution of float32 it
may be Winograd's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ...support.dtype import DType
from ...support.passes import Pass
from ..builder import call_op
from ..expr import Atom, Call, Constant, Value
from ..module import IRModule
from ..mutator import ExprMutator
from ..op import tensor_type_of
from ..text.literal import readable
from .to_mixed_precision import why_wide_form

HALVES = ("float16", "bfloat16")
FLOAT = DType("float32")


@dataclass(frozen=True)
class WidenConvs(Pass):
    """Compute convolutions of float16 and bfloat16 in float32, and round their results once.

    ``is_fast`` tells of a type whether the CPU has instructions for its products that are faster
    than float32's: of it, those convolutions alone are widened that cannot use them.

    *requires*: channels are where they will stay. *ensures*: the types of all results are what they
    were.
    """

    is_fast: Callable[[str], bool]

    def run(self, module: IRModule) -> IRModule:
        return _Widener(module, self.is_fast).transform()


def half_type_of(call: Call) -> str:
    """The type of half precision that a convolution's operands have; "" of all other calls."""
    if call.op != "conv":
        return ""
    first, second = (tensor_type_of(a).dtype for a in call.args[:2])
    return str(first) if first == second and first in HALVES else ""


class _Widener(ExprMutator):
    def __init__(self, module: IRModule, is_fast: Callable[[str], bool]) -> None:
        super().__init__(module)
        self.is_fast = is_fast

    def visit_Call(self, call: Call) -> Value:  # noqa: N802
        new = super().visit_Call(call)
        assert isinstance(new, Call)
        half = half_type_of(new)
        if not half or (self.is_fast(half) and not why_wide_form(new)):
            return new
        attrs = dict(new.attrs)
        is_wide = attrs.pop("out_dtype", "") == FLOAT
        made = Call("conv", tuple([self.wide(a) for a in new.args]), tuple(sorted(attrs.items())))
        made = made.with_span(new.span)
        if is_wide:
            return made
        return call_op("astype", self.emit(made, "wide"), dtype=half)

    def wide(self, atom: Atom) -> Atom:
        kind = tensor_type_of(atom).dtype
        if kind == FLOAT:
            return atom
        if isinstance(atom, Constant):

            def widened(array: np.ndarray) -> np.ndarray:
                return readable(array, kind).astype(np.float32)

            return self.derive("wide", widened, atom, dtype=FLOAT)
        return self.emit(call_op("astype", atom, dtype=str(FLOAT)), "wide")
