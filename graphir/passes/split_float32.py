"""SplitFloat32: products of float32 as products of bfloat16, as exact as float32's own.

A float32 is the sum of three bfloat16, each the rest of those before, rounded:

    a0 = bf16(a)      a1 = bf16(a - a0)      a2 = bf16(a - a0 - a1)        (both rests are exact)

and of the nine products of a's terms with b's the six largest are kept; each is exact in float32,
and those that are left out are at most 2^-23 of |a b| together. They are summed smallest first, by
one product whose sums are six times as long:

    [a2 a1 a0 a1 a0 a0] . [b0 b1 b2 b0 b1 b0]

Henry, Tang, Heinecke, "Leveraging the bfloat16 Artificial Intelligence Datatype for
Higher-Precision Computations" (ARITH 2019). That is worth it where bfloat16 is multiplied at more
than six times the rate of float32, in registers that are tiles.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ...support.dtype import DType, bfloat16_bits
from ...support.passes import Pass
from ...tensorir.expr import IntImm
from ..builder import call_op
from ..expr import Atom, Call, Constant, Value, constant
from ..module import IRModule
from ..mutator import ExprMutator
from ..op import attr, tensor_type_of, type_of
from ..type import TensorType
from .to_integer_weights import weight_of

FEWEST_ROWS, FEWEST_TERMS = 5, 8
"""Of a product; below, the bytes of its weights decide, or tiles are mostly empty."""
FEWEST_CHANNELS = 8
_ROWS, _WEIGHTS = (2, 1, 0, 1, 0, 0), (0, 1, 2, 0, 1, 0)
"""The terms of either operand in the long sum: their products grow."""


@dataclass(frozen=True)
class SplitFloat32(Pass):
    """Compute ``linear`` and ``matmul`` with constant weights, and convolutions that Winograd's
    algorithm is not for, by three terms of bfloat16 for each number.

    Finite numbers above 3.39e38 count as infinite, numbers below 2^-108 lose their last terms, and
    where an operand is infinite a result may be NaN where float32 has an infinity.

    *requires*: canonicalize, and nothing behind that folds constants into products. *ensures*: the
    types of all results are what they were.

        y = R.linear(x, w)                                      # w: a constant
    becomes
        x0 = R.astype(x, dtype="bfloat16")                      # and x1, x2
        x3 = R.concat(x2, x1, x0, x1, x0, x0, axis=1)
        y = R.linear(x3, w1, out_dtype="float32")               # w1: the terms of w
    """

    chosen: Callable[[str], bool] | None = None
    """Of the name of a weight: whether its product is split. All are, where this is not given."""

    def run(self, module: IRModule) -> IRModule:
        return _Splitter(module, self.chosen).transform()


def why_whole(call: Call) -> str:
    """Why a product or convolution is not split; "" where it is."""
    if call.op == "conv":
        return _why_whole_conv(call)
    if weight_of(call) is None:
        return "it is no product of rows with constant float32 weights"
    x = tensor_type_of(call.args[0])
    rows, known = 1, True
    for d in x.shape[:-1]:
        known = known and isinstance(d, IntImm)
        rows *= d.value if isinstance(d, IntImm) else 1
    if known and rows < FEWEST_ROWS:
        return f"fewer than {FEWEST_ROWS} rows"
    depth = x.shape[-1]
    many = isinstance(depth, IntImm) and depth.value >= FEWEST_TERMS and depth.value % 2 == 0
    return "" if many else f"its sums have not an even number of terms, at least {FEWEST_TERMS}"


def _why_whole_conv(call: Call) -> str:
    x, w = (type_of(a) for a in call.args[:2])
    assert isinstance(x, TensorType)
    assert isinstance(w, TensorType)
    if x.dtype != "float32" or w.dtype != "float32" or not isinstance(call.args[1], Constant):
        return "its weights are no constants of float32"
    if attr(call, "groups") != 1:
        return "it has groups of channels"
    if not attr(call, "channels_last") or attr(call, "out_channels_last") not in (None, True):
        return "the channels of its image do not lie side by side"
    kernel = [d.value if isinstance(d, IntImm) else 0 for d in w.shape[2:]]
    if kernel == [3, 3] and set(attr(call, "strides")) == {1} == set(attr(call, "dilation")):
        return "Winograd's algorithm takes a fraction of its products"
    channels = w.shape[1]
    fits = isinstance(channels, IntImm) and channels.value >= FEWEST_CHANNELS
    even = isinstance(channels, IntImm) and channels.value % 2 == 0
    return "" if fits and even else f"it has not an even number of channels from {FEWEST_CHANNELS}"


class _Splitter(ExprMutator):
    def __init__(self, module: IRModule, chosen: Callable[[str], bool] | None) -> None:
        super().__init__(module)
        self.chosen = chosen

    def visit_Call(self, call: Call) -> Value:  # noqa: N802
        new = super().visit_Call(call)
        assert isinstance(new, Call)
        if new.op not in ("linear", "matmul", "conv") or why_whole(new):
            return new
        weight = new.args[1]
        assert isinstance(weight, Constant)
        if self.chosen is not None and not self.chosen(weight.name):
            return new
        across = new.op == "matmul" and not attr(new, "transpose_b")
        axis = 1 if new.op != "matmul" else len(weight.shape) - (2 if across else 1)
        operands = [self.rows(new.args[0]), self.weight(weight, axis)]
        attrs = tuple(sorted([*new.attrs, ("out_dtype", "float32")]))
        return Call(new.op, (*operands, *new.args[2:]), attrs).with_span(new.span)

    def rows(self, x: Atom) -> Atom:
        """The terms of activations, side by side along the last axis."""
        kind = tensor_type_of(x)
        terms: list[Atom] = []
        rest = x
        for n in range(3):
            term = self.emit(call_op("astype", rest, dtype="bfloat16"), f"term{n}")
            terms.append(term)
            if n < 2:
                wide = self.emit(call_op("astype", term, dtype="float32"), "wide")
                left = self.emit(call_op("subtract", rest, wide), "left")
                finite = self.emit(call_op("isfinite", wide), "finite")
                rest = self.emit(call_op("where", finite, left, constant(0.0, "float32")), "rest")
        axis = kind.ndim - 1
        return self.emit(call_op("concat", *[terms[n] for n in _ROWS], axis=axis), "split")

    def weight(self, weight: Constant, axis: int) -> Constant:
        """Those of a weight."""

        def split(array: np.ndarray) -> np.ndarray:
            terms = terms_of(array)
            return np.concatenate([terms[n] for n in _WEIGHTS], axis)

        return self.derive(f"split{axis}", split, weight, dtype=DType("bfloat16"))


def terms_of(array: np.ndarray) -> list[np.ndarray]:
    """The three bfloat16 terms of float32 numbers, as their bits; those after one that is not
    finite are zero."""
    terms = []
    rest = array
    with np.errstate(invalid="ignore"):
        for _ in range(3):
            bits = bfloat16_bits(rest)
            terms.append(bits)
            wide = (bits.astype(np.uint32) << 16).view(np.float32)
            rest = np.where(np.isfinite(wide), rest - wide, np.float32(0))
    return terms
