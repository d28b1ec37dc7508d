"""ToIntegerWeights: the constant weights of linear layers become integers of a few bits.

Each group of weights of one output, side by side in its row, has a scale of its own, and the
integers are symmetric about zero (``scaled_weights.quantized``). What is multiplied with them stays
as it is, sums are float32: only weights are rounded, once, when the model is compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ...support.dtype import DType
from ...support.errors import ConfigError
from ...support.passes import Pass
from ...tensorir.operators.scaled_linear import WORD
from ..builder import call_op
from ..expr import Atom, Call, Constant, Value, Var
from ..module import IRModule
from ..mutator import ExprMutator
from ..op import attr, tensor_type_of, type_of
from ..scaled_weights import quantized, words
from ..text.literal import readable
from ..type import TensorType

FLOATS = ("float32", "float16", "bfloat16")
"""What a product with integer weights may be of."""
GROUPS = {8: 128, 4: 32}
"""Widths of an integer, and how many weights have one scale."""


@dataclass(frozen=True)
class RoundedLayer:
    """What became of one layer: its weight's name, the bits of a number, the longest group that was
    asked for, the bytes before and after, and how far weights are off: the root of the mean square,
    relative to that of the weights. ``reason`` says why a layer kept its weights, "" for one that
    did not."""

    weight: str
    bits: int
    group: int
    before: int
    after: int = 0
    error: float = 0.0
    reason: str = ""


@dataclass(frozen=True)
class ToIntegerWeights(Pass):
    """Round the constant weights of ``linear``, and of ``matmul`` with a constant matrix, to
    integers of ``bits``, with a scale for each ``group`` of them (0: 128 for 8 bits, 32 for 4).

    Groups of a layer are as long as the longest divisor of its terms up to ``group`` that fills
    words. A layer that has none keeps its weights, as does what is not of floats. ``note`` is
    called with a RoundedLayer for each layer. Raises ConfigError for other widths.

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


def weight_of(call: Call, dtypes: tuple[str, ...] = ("float32",)) -> Constant | None:
    """The constant matrix that a product multiplies rows of the same type with, one of ``dtypes``;
    or None."""
    if call.op not in ("linear", "matmul") or attr(call, "out_dtype"):
        return None
    x, w = (type_of(a) for a in call.args[:2])
    if not isinstance(x, TensorType) or not isinstance(w, TensorType):
        return None
    plain = x.ndim > 0 and w.ndim == 2 and x.dtype == w.dtype and w.dtype in dtypes
    turned = call.op == "matmul" and attr(call, "transpose_a")
    weight = call.args[1]
    return weight if plain and not turned and isinstance(weight, Constant) else None


def scaled_product(owner: ExprMutator, call: Call, made: Sequence[Atom], bits: int) -> Value:
    """A ``linear`` or ``matmul`` with the words, scales (and zero points) in place of its weight.
    Rows of half precision are widened; sums and bias are float32, rounded once."""
    operands: list[Atom] = [call.args[0], *call.args[2:]]
    kind = tensor_type_of(operands[0])

    def emit(name: str, *args: Atom, **attrs: object) -> Var:
        return owner.emit(call_op(name, *args, **attrs).with_span(call.span), "scaled")

    is_half = kind.dtype != "float32"
    if is_half:
        operands = [emit("astype", a, dtype="float32") for a in operands]
    x, *bias = operands
    value = call_op("scaled_linear", x, *made, bits=bits).with_span(call.span)
    if bias:
        value = call_op("add", owner.emit(value, "scaled"), *bias).with_span(call.span)
    if is_half:
        value = call_op("astype", owner.emit(value, "scaled"), dtype=str(kind.dtype))
    return value.with_span(call.span)


class _Rounder(ExprMutator):
    def __init__(self, module: IRModule, options: ToIntegerWeights) -> None:
        super().__init__(module)
        self.bits, self.group, self.options = options.bits, options.group, options
        self.known: dict[tuple[str, bool], tuple[Constant, Constant] | None] = {}

    def visit_Call(self, call: Call) -> Value:  # noqa: N802
        new = super().visit_Call(call)
        assert isinstance(new, Call)
        weight = weight_of(new, FLOATS)
        if weight is None or not (self.options.chosen is None or self.options.chosen(weight.name)):
            return new
        across = new.op == "matmul" and not attr(new, "transpose_b")
        key = (weight.name, across)
        if key not in self.known:
            self.known[key] = self.rounded(weight, across)
        made = self.known[key]
        if made is None:
            return new
        return scaled_product(self, new, made, self.bits)

    def note(self, layer: RoundedLayer) -> None:
        if self.options.note is not None:
            self.options.note(layer)

    def rounded(self, weight: Constant, across: bool) -> tuple[Constant, Constant] | None:
        """A weight's words and scales; None where no group of it fills words."""
        n, k = weight.shape[::-1] if across else weight.shape
        depth, bits = group_of(k, self.bits, self.group), self.bits
        before = n * k * weight.type.dtype.itemsize
        if depth is None or n == 0:
            reason = f"{k} terms have no groups of up to {self.group} that fill words of 32 bits"
            self.note(RoundedLayer(weight.name, bits, self.group, before, reason=reason))
            return None

        def groups(array: np.ndarray) -> np.ndarray:
            floats = readable(array, weight.type.dtype).astype(np.float32)
            rows = floats.T if across else floats
            return np.ascontiguousarray(rows).reshape(n, k // depth, depth)

        exact = groups(self.array(weight))
        numbers, scale = quantized(exact, bits)
        made = (
            self.derive(
                f"int{bits}", lambda a: words(quantized(groups(a), bits)[0], bits), weight,
                dtype=WORD, array=words(numbers, bits),
            ),
            self.derive(
                "scales", lambda a: quantized(groups(a), bits)[1], weight,
                dtype=DType("float32"), array=scale,
            ),
        )  # fmt: skip
        error = _error(exact, numbers, scale, bits)
        after = n * k * bits // 8 + scale.nbytes
        self.note(RoundedLayer(weight.name, bits, self.group, before, after, error))
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
