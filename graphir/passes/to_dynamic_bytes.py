"""ToDynamicBytes: products with constant weights compute in bytes, of ranges that each call finds.

    y = R.linear(x, w, b)
becomes
    s = R.divide(R.maximum(R.max(R.abs(x), axis=-1, keepdims=True), least), 127)
    q = R.astype(R.clip(R.round(R.divide(x, s)), min=-127, max=127), dtype="int8")
    i = R.integer_matmul(q, w.int8)                             # int32, exact
    y = R.add(R.multiply(R.multiply(R.astype(i, dtype="float32"), s), t), b)

A row of activations has a scale of its own, by its largest magnitude, and an output of the weights
has one. Nothing need be known of activations, and no row changes another. (Where samples tell what
activations are, ``passes.quantize_products`` takes ranges from these.)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ...support.dtype import DType
from ...support.passes import Pass
from ..builder import call_op
from ..expr import Atom, Call, Constant, Value, Var, constant
from ..integer_products import MOST_TERMS
from ..module import IRModule
from ..mutator import ExprMutator
from ..op import tensor_type_of
from ..text.literal import readable
from .quantize_products import FEWEST_TERMS, MOST, outputs_axis, rounded_weight
from .to_integer_weights import FLOATS, weight_of

BYTE, FLOAT = DType("int8"), DType("float32")
LEAST = 2.0**-100
"""The magnitude that a row is taken to have at least, so that one of zeros has a scale."""


@dataclass(frozen=True)
class ToDynamicBytes(Pass):
    """Compute ``linear`` and ``matmul`` of floats with constant matrices in bytes: activations as
    int8 with a scale a row, weights as int8 with a scale an output, sums in int32.

    ``chosen`` tells of the name of a weight whether its product is meant; all are, where it is not
    given. Those stay for which ``why_no_bytes`` has a reason.

    *requires*: canonicalize, and nothing behind that folds constants into products. *ensures*: the
    types of all results are what they were; a row with infinities or NaN becomes NaN.
    """

    chosen: Callable[[str], bool] | None = None

    def run(self, module: IRModule) -> IRModule:
        return _Quantizer(module, self.chosen).transform()


def why_no_bytes(call: Call) -> str:
    """Why a product does not compute in bytes of dynamic ranges; "" where it does."""
    if call.op == "conv":
        return "it is a convolution, whose ranges burnish.quantize takes from samples"
    weight = weight_of(call, FLOATS)
    if weight is None:
        return "it is no product of rows with a constant matrix of floats"
    n, k = weight.shape[:: 1 if outputs_axis(call) == 0 else -1]
    if n < 2 or not FEWEST_TERMS <= k <= MOST_TERMS:
        return f"it has not {FEWEST_TERMS} to {MOST_TERMS} terms and two outputs"
    return ""


class _Quantizer(ExprMutator):
    def __init__(self, module: IRModule, chosen: Callable[[str], bool] | None) -> None:
        super().__init__(module)
        self.chosen = chosen
        self.made: dict[Atom, tuple[Var, Var]] = {}
        """Activations as bytes, and their scales."""

    def visit_Call(self, call: Call) -> Value:  # noqa: N802
        new = super().visit_Call(call)
        assert isinstance(new, Call)
        if new.op not in ("linear", "matmul") or why_no_bytes(new):
            return new
        weight = new.args[1]
        assert isinstance(weight, Constant)
        if self.chosen is not None and not self.chosen(weight.name):
            return new
        axis = outputs_axis(new)
        kind = weight.type.dtype

        def numbers_of(array: np.ndarray) -> np.ndarray:
            numbers = rounded_weight(readable(array, kind), axis)[0]
            return numbers.T if axis == 0 else numbers

        def scales_of(array: np.ndarray) -> np.ndarray:
            return rounded_weight(readable(array, kind), axis)[1].reshape(-1)

        numbers = self.derive("int8", numbers_of, weight, dtype=BYTE)
        factor = self.derive("scales", scales_of, weight, dtype=FLOAT)
        bytes_, scale = self.rows(new.args[0])
        sums = self._emit("integer_matmul", bytes_, numbers)
        scaled = self._emit("multiply", self._emit("astype", sums, dtype="float32"), scale)
        value = call_op("multiply", scaled, factor)
        if len(new.args) > 2:
            value = call_op("add", self.emit(value, "scaled"), self._wide(new.args[2]))
        if kind != FLOAT:
            value = call_op("astype", self.emit(value, "scaled"), dtype=str(kind))
        return value.with_span(call.span)

    def rows(self, x: Atom) -> tuple[Var, Var]:
        """The bytes of activations, and what one step of each row is."""
        if x not in self.made:
            wide = self._wide(x)
            axis = tensor_type_of(x).ndim - 1
            most = self._emit("max", self._emit("abs", wide), axis=(axis,), keepdims=True)
            known = self._emit("maximum", most, constant(np.float32(LEAST), "float32"))
            scale = self._emit("divide", known, constant(np.float32(MOST), "float32"))
            steps = self._emit("round", self._emit("divide", wide, scale))
            clipped = self._emit("clip", steps, min=-float(MOST), max=float(MOST))
            self.made[x] = (self._emit("astype", clipped, dtype="int8"), scale)
        return self.made[x]

    def _wide(self, x: Atom) -> Atom:
        return x if tensor_type_of(x).dtype == FLOAT else self._emit("astype", x, dtype=str(FLOAT))

    def _emit(self, op: str, *args: Atom, **attrs: object) -> Var:
        return self.emit(call_op(op, *args, **attrs), "bytes")
