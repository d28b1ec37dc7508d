"""QuantizeProducts: products with constant weights compute in bytes.

    y = R.linear(x, w, b)
becomes
    q = R.astype(R.clip(R.add(R.round(R.divide(x, s)), z), min=0, max=255), dtype="uint8")
    d = R.multiply(R.astype(R.subtract(R.astype(q, dtype="int32"), z), dtype="float32"), s)
    v = R.multiply(R.astype(w.int8, dtype="float32"), t)        # a scale t an output
    y = R.linear(d, v, b)

which is what a quantised model of others says, and becomes a product of bytes as theirs do
(``passes.dequantized``). Which bytes stand for which activations has been observed before.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ...support.passes import Pass
from ..analysis import bindings
from ..builder import call_op
from ..expr import Atom, Binding, Call, Constant, Value, Var, constant
from ..integer_products import MOST_TERMS, is_integer_conv
from ..module import IRModule
from ..mutator import ExprMutator
from ..op import attr, tensor_type_of

FEWEST_TERMS = 4
STEPS = 255
"""Steps of an activation's range; zero is one of their ends."""
MOST = 127
"""The largest weight, in steps; they are symmetric about zero."""


@dataclass(frozen=True)
class Range:
    """What an activation is taken to lie in, zero included. ``correction`` is added to the
    product's results, a number an output: what the rounded weights make of the mean activation
    less than the weights themselves. Bytes are uint8 from ``low`` to ``high``, or, ``symmetric``,
    int8 about zero."""

    low: float
    high: float
    correction: np.ndarray | None = None
    symmetric: bool = False

    @property
    def step(self) -> np.float32:
        if self.symmetric:
            return np.float32(max(-self.low, self.high) / MOST)
        return np.float32((self.high - self.low) / STEPS)

    @property
    def zero(self) -> int:
        """The byte that stands for zero."""
        if self.symmetric:
            return 0
        return int(np.clip(np.rint(-self.low / float(self.step)), 0, STEPS))

    @property
    def ends(self) -> tuple[int, int]:
        """The least and the largest byte."""
        return (-MOST, MOST) if self.symmetric else (0, STEPS)

    @property
    def dtype(self) -> str:
        return "int8" if self.symmetric else "uint8"


@dataclass(frozen=True)
class QuantizeProducts(Pass):
    """Compute products in bytes, those that ``ranges`` names: by the variable that they are bound
    to in ``main``. The others stay.

    *requires*: names of ``quantizable``. *ensures*: the types of all results are what they were.
    """

    ranges: Mapping[str, Range]
    per_channel: bool = True
    """Whether weights have a scale for each output, or one for all."""

    def run(self, module: IRModule) -> IRModule:
        return _Quantizer(module, self.ranges, self.per_channel).transform()


def quantizable(module: IRModule) -> dict[str, Call]:
    """The products of ``main`` in float32 with constant weights that can be products of bytes, by
    the variable that they are bound to."""
    products = [(b.var.name, b.value) for b in bindings(module["main"])]  # type: ignore[arg-type]
    return {n: v for n, v in products if isinstance(v, Call) and _is_product(v) and not why_wide(v)}


def left_wide(module: IRModule) -> list[Call]:
    """The products of ``main`` that are not quantizable."""
    values = [b.value for b in bindings(module["main"])]  # type: ignore[arg-type]
    return [v for v in values if isinstance(v, Call) and _is_product(v) and why_wide(v)]


def _is_product(call: Call) -> bool:
    return call.op in ("linear", "matmul", "conv")


def why_wide(call: Call) -> str:
    """Why a product stays in floats; "" where it can be of bytes."""
    x, w = call.args[:2]
    if not isinstance(x, Var) or not isinstance(w, Constant):
        return "its weights are no constants"
    if any(tensor_type_of(a).dtype != "float32" for a in (x, w)):
        return "its operands are not float32"
    if call.op == "conv":
        if attr(call, "channels_last") or attr(call, "out_channels_last"):
            return "its channels lie side by side"
        if is_integer_conv(x, w, int(attr(call, "groups"))):
            return ""
        return "it is a convolution of groups or of few channels, which is faster in float32"
    if attr(call, "out_dtype") or len(w.shape) != 2:
        return "its weights are no matrix"
    if call.op == "matmul" and attr(call, "transpose_a"):
        return "its rows do not lie side by side"
    n, k = w.shape[:: 1 if outputs_axis(call) == 0 else -1]
    fits = n > 1 and FEWEST_TERMS <= k <= MOST_TERMS
    return "" if fits else f"it has not {FEWEST_TERMS} to {MOST_TERMS} terms and two outputs"


def outputs_axis(call: Call) -> int:
    """The axis of a product's weight that has an entry for each output."""
    return 1 if call.op == "matmul" and not attr(call, "transpose_b") else 0


def rounded_weight(array: np.ndarray, axis: int | None) -> tuple[np.ndarray, np.ndarray]:
    """Weights as int8, and the scale of each place of an axis (None: one for all), in a shape that
    broadcasts to theirs. It is NaN where weights have infinities or NaN: results are NaN then."""
    others = tuple([d for d in range(array.ndim) if d != axis])
    most = np.abs(array).max(others, keepdims=True)
    finite = np.isfinite(most)
    scale = np.where(most > 0, most / MOST, 1.0).astype(np.float32)
    numbers = np.where(finite, array, 0) / np.where(finite, scale, 1)
    kept = np.where(finite, scale, np.float32(np.nan))
    return np.clip(np.rint(numbers), -MOST, MOST).astype(np.int8), kept


class _Quantizer(ExprMutator):
    def __init__(self, module: IRModule, ranges: Mapping[str, Range], per_channel: bool) -> None:
        super().__init__(module)
        self.ranges, self.per_channel = ranges, per_channel
        self.made: dict[tuple[Atom, float, float], Var] = {}
        """Activations in bytes, and back."""

    def visit_binding(self, binding: Binding) -> None:
        known = self.ranges.get(binding.var.name)
        value = self.visit_value(binding.value)
        if known is not None and isinstance(value, Call):
            value = self.quantized(value, known)
        self.rebind(binding, value)

    def quantized(self, call: Call, known: Range) -> Value:
        x, w, *bias = call.args
        assert isinstance(w, Constant)
        axis = outputs_axis(call) if self.per_channel else None
        numbers, scale = rounded_weight(self.array(w), axis)
        weight = self.derive("int8", lambda a: rounded_weight(a, axis)[0], w, array=numbers)
        if weight.type.dtype != "int8":
            weight = self.builder.weights.add(f"{w.name}.int8", numbers)
        wide = self._emit("astype", weight, dtype="float32")
        whole = self._emit("multiply", wide, constant(scale, "float32"))
        product = Call(call.op, (self._bytes(x, known), whole, *bias), call.attrs)
        product = product.with_span(call.span)
        if known.correction is None:
            return product
        added = known.correction.astype(np.float32)
        if call.op == "conv":
            added = added.reshape(-1, *[1] * (len(w.shape) - 2))
        return call_op("add", self.emit(product, "product"), constant(added, "float32"))

    def _bytes(self, x: Atom, known: Range) -> Var:
        """What an activation is when it was rounded to a byte."""
        key = (x, known.low, known.high)
        if key not in self.made:
            zero, step = known.zero, constant(known.step, "float32")
            low, high = known.ends
            steps = self._emit("round", self._emit("divide", x, step))
            shifted = self._emit("add", steps, constant(np.float32(zero), "float32"))
            clipped = self._emit("clip", shifted, min=float(low), max=float(high))
            number = self._emit("astype", clipped, dtype=known.dtype)
            whole = self._emit("astype", number, dtype="int32")
            own = self._emit("subtract", whole, constant(zero, "int32"))
            self.made[key] = self._emit(
                "multiply", self._emit("astype", own, dtype="float32"), step
            )
        return self.made[key]

    def _emit(self, op: str, *args: Atom, **attrs: object) -> Var:
        return self.emit(call_op(op, *args, **attrs), "quantised")
