"""ToIntegerWeights: the constant weights of linear layers become integers of a few bits.

Each group of weights of one output, side by side in its row, has a scale of its own, and the
integers are symmetric about zero (``scaled_weights.quantized``). What is multiplied with them stays
float32, as do sums, biases and results: only weights are rounded, once, when the model is compiled.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from ...support.errors import ConfigError
from ...support.passes import Pass
from ...tensorir.operators.scaled_linear import WORD
from ..builder import call_op
from ..expr import Atom, Call, Constant, Value
from ..module import IRModule
from ..mutator import ExprMutator
from ..op import attr, type_of
from ..scaled_weights import quantized, words
from ..type import TensorType

GROUPS = {8: 128, 4: 32}
"""Widths of an integer, and how many weights have one scale."""


@dataclass(frozen=True)
class RoundedLayer:
    """What became of one layer: its weight's name, the bits of a number, the bytes before
    and after, and how far weights are off: the root of the mean square, relative to that of the
    weights. ``reason`` says why a layer kept its weights, "" for one that did not."""

    weight: str
    bits: int
    before: int
    after: int = 0
    error: float = 0.0
    reason: str = ""


@dataclass(frozen=True)
class ToIntegerWeights(Pass):
    """Round the constant weights of ``linear``, and of ``matmul`` with a constant matrix, to
    integers of ``bits``, with a scale for each ``group`` of them (0: 128 for 8 bits, 32 for 4).

    Groups of a layer are as long as the longest divisor of its terms up to ``group`` that fills
    words. A layer that has none keeps its weights, as does what is not float32. ``note`` is called
    with a RoundedLayer for each layer. Raises ConfigError for other widths.

    *requires*: canonicalize, and nothing behind that folds constants into products. *ensures*: the
    types of all results are what they were.

        y = R.linear(x, w, b)                                   # w: a constant
    becomes
        lv = R.scaled_linear(x, w1, s, bits=8)                  # w1: words of integers, s: scales
        y = R.add(lv, b)
    """

    bits: int = 8
    group: int = 0
    note: Callable[[RoundedLayer], object] | None = None
    chosen: Callable[[str], bool] | None = None
    """Of the name of a weight: whether it is rounded. All are, where this is not given."""

    def run(self, module: IRModule) -> IRModule:
        if self.bits not in GROUPS:
            raise ConfigError(
                f"to-integer-weights: expected bits to be 8 or 4; found {self.bits!r}."
            )
        group = self.group or GROUPS[self.bits]
        return _Rounder(module, replace(self, group=group)).transform()


def weight_of(call: Call) -> Constant | None:
    """The constant float32 matrix that a product multiplies rows of float32 with, or None."""
    if call.op not in ("linear", "matmul") or attr(call, "out_dtype"):
        return None
    x, w = (type_of(a) for a in call.args[:2])
    if not isinstance(x, TensorType) or not isinstance(w, TensorType):
        return None
    plain = x.ndim > 0 and w.ndim == 2 and x.dtype == "float32" and w.dtype == "float32"
    turned = call.op == "matmul" and attr(call, "transpose_a")
    weight = call.args[1]
    return weight if plain and not turned and isinstance(weight, Constant) else None


class _Rounder(ExprMutator):
    def __init__(self, module: IRModule, options: ToIntegerWeights) -> None:
        super().__init__(module)
        self.bits, self.group, self.options = options.bits, options.group, options
        self.known: dict[tuple[str, bool], tuple[Constant, Constant] | None] = {}

    def visit_Call(self, call: Call) -> Value:  # noqa: N802
        new = super().visit_Call(call)
        assert isinstance(new, Call)
        weight = weight_of(new)
        if weight is None or not (self.options.chosen is None or self.options.chosen(weight.name)):
            return new
        across = new.op == "matmul" and not attr(new, "transpose_b")
        key = (weight.name, across)
        if key not in self.known:
            self.known[key] = self.rounded(weight, across)
        made = self.known[key]
        if made is None:
            return new
        product = call_op("scaled_linear", new.args[0], *made, bits=self.bits).with_span(new.span)
        if len(new.args) < 3:
            return product
        operands: list[Atom] = [self.emit(product, "scaled"), new.args[2]]
        return call_op("add", *operands).with_span(new.span)

    def note(self, layer: RoundedLayer) -> None:
        if self.options.note is not None:
            self.options.note(layer)

    def rounded(self, weight: Constant, across: bool) -> tuple[Constant, Constant] | None:
        """A weight's words and scales; None where no group of it fills words."""
        n, k = weight.shape[::-1] if across else weight.shape
        depth, bits = group_of(k, self.bits, self.group), self.bits
        before = n * k * 4
        if depth is None or n == 0:
            reason = f"{k} terms have no groups of up to {self.group} that fill words of 32 bits"
            self.note(RoundedLayer(weight.name, bits, before, reason=reason))
            return None

        def groups(array: np.ndarray) -> np.ndarray:
            rows = array.T if across else array
            return np.ascontiguousarray(rows).reshape(n, k // depth, depth)

        exact = groups(self.array(weight))
        numbers, scale = quantized(exact, bits)
        made = (
            self.derive(
                f"int{bits}", lambda a: words(quantized(groups(a), bits)[0], bits), weight,
                dtype=WORD, array=words(numbers, bits),
            ),
            self.derive("scales", lambda a: quantized(groups(a), bits)[1], weight, array=scale),
        )  # fmt: skip
        error = _error(exact, numbers, scale, bits)
        self.note(RoundedLayer(weight.name, bits, before, n * k * bits // 8 + scale.nbytes, error))
        return made


def group_of(terms: int, bits: int, most: int) -> int | None:
    """The longest divisor of ``terms`` up to ``most`` that fills words; None where there is
    none."""
    fitting = [d for d in range(32 // bits, min(most, terms) + 1, 32 // bits) if terms % d == 0]
    return max(fitting, default=None)


def _error(exact: np.ndarray, numbers: np.ndarray, scale: np.ndarray, bits: int) -> float:
    """The root of the mean square by which weights are off, relative to that of the weights."""
    total = off = 0.0
    for row, integers, factors in zip(exact, numbers, scale, strict=True):
        made = (integers.astype(np.float32) - (1 << (bits - 1))) * factors[:, None]
        total += float(np.square(row, dtype=np.float64).sum())
        off += float(np.square(row - made, dtype=np.float64).sum())
    return float(np.sqrt(off / total)) if total else 0.0
