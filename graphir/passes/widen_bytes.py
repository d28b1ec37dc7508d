"""WidenBytes: products of bytes read integers of 16 bits where the CPU multiplies no bytes.

    y = R.integer_matmul(x, w)                                  # bytes, summed in int32
becomes
    x1 = R.astype(x, dtype="int16")
    y = R.integer_matmul(x1, w1)                                # w1: w, widened once

A CPU without dot products of bytes multiplies pairs of 16 bits, and takes bytes apart for it in
each tile of a product. Here that happens once: to weights when the model is compiled, to
activations in the kernel that makes them. The sums are the same integers. Products of few rows wait
for the bytes of their weights and keep these.

A convolution is such a product, of the rows that its windows read (``graphir.integer_products``).
Windows are read of pixels that are wide already, and those of 3 x 3 with strides of 1 are not read
at all where Winograd's F(2, 3) saves more products than it costs: in integers that is exact.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ...support.dtype import DType
from ...support.passes import Pass
from ...tensorir.expr import IntImm
from ...tensorir.operators.winograd import (
    INTEGER_TILE,
    KERNEL,
    fits_integers,
    transform_bytes,
)
from ..builder import call_op
from ..dim import static_shape, static_value
from ..expr import Atom, Call, Constant, Value, Var
from ..module import IRModule
from ..mutator import ExprMutator
from ..op import attr, tensor_type_of, type_of
from ..type import TensorType

PAIR = DType("int16")
FEWEST_ROWS = 24
"""Rows from which on a product does not wait for the bytes of its weights. (Zen 3, weights of 768 x
3072: 1.07 times the time of bytes with 12 rows, as long with 16, .93 of it with 24.)"""


INPUT, OUTPUT, PRODUCTS = 5, 10, 24
"""Cycles for the transforms of a tile, for each channel in and out, and products a cycle. (Zen 3;
with other vectors all three change alike.)"""
GAIN = 1.1
"""How much faster the estimate has to be."""


@dataclass(frozen=True)
class WidenBytes(Pass):
    """Multiply integers of 16 bits in place of bytes, in products of many rows with constant
    weights. It is for CPUs that do not multiply bytes, whose vectors have so many ``lanes`` of 32
    bits.

    *requires*: nothing. *ensures*: results are the same to the bit.
    """

    lanes: int = 8

    def run(self, module: IRModule) -> IRModule:
        return _Widener(module, self.lanes).transform()


class _Widener(ExprMutator):
    def __init__(self, module: IRModule, lanes: int) -> None:
        super().__init__(module)
        self.lanes = lanes

    def visit_Call(self, call: Call) -> Value:  # noqa: N802
        new = super().visit_Call(call)
        assert isinstance(new, Call)
        if new.op != "integer_matmul" or not is_widened(new):
            return new
        x, w = new.args
        assert isinstance(w, Constant)
        view = self.call_of(x, "reshape")
        windows = self.call_of(view.args[0], "im2col") if view is not None else None
        if view is None or windows is None:
            return call_op("integer_matmul", self.wide(x), self.pairs(w)).with_span(new.span)
        pixels = self.wide(windows.args[0])
        if is_winograds(windows, w.shape[1], self.lanes):
            return self.winograd(pixels, windows, w).with_span(new.span)
        rows = self.emit(Call("im2col", (pixels,), windows.attrs), "wide")
        rows = self.emit(Call("reshape", (rows, *view.args[1:]), view.attrs), "wide")
        return call_op("integer_matmul", rows, self.pairs(w)).with_span(new.span)

    def call_of(self, atom: Atom, op: str) -> Call | None:
        """The call of an operator that a value is bound to, or None."""
        value = self.lookup_binding(atom)
        return value if isinstance(value, Call) and value.op == op else None

    def wide(self, x: Atom) -> Var:
        return self.emit(call_op("astype", x, dtype=str(PAIR)), "wide")

    def pairs(self, w: Constant) -> Constant:
        return self.derive("pairs", lambda a: a.astype(np.int16), w, dtype=PAIR)

    def winograd(self, pixels: Var, windows: Call, w: Constant) -> Call:
        """The convolution whose windows ``windows`` reads, of pixels that are wide."""

        def transformed(array: np.ndarray) -> np.ndarray:
            kernels = array.reshape(KERNEL, KERNEL, -1, array.shape[1])
            return transform_bytes(kernels.transpose(3, 2, 0, 1))

        weights = self.derive("winograd", transformed, w, dtype=PAIR)
        attrs = {key: attr(windows, key) for key in ("padding", "pad_value")}
        return call_op("winograd_conv", pixels, weights, tile=INTEGER_TILE, **attrs)


def is_winograds(windows: Call, outputs: int, lanes: int) -> bool:
    """Whether a convolution, of the ``windows`` that ``im2col`` reads, is faster in tiles: of one
    image, as all others are alike."""
    image, sizes = (static_shape(kind.shape[1:]) for kind in _types(windows))
    images = static_value(_types(windows)[0].shape[0])
    if image is None or sizes is None or 0 in (images, *sizes):
        return False
    if attr(windows, "kernel") != (KERNEL, KERNEL):
        return False
    if {*attr(windows, "strides"), *attr(windows, "dilation")} != {1}:
        return False
    rows, columns = sizes[:2]
    channels = image[2]
    if channels % lanes or outputs % lanes or not fits_integers(channels):
        return False
    tiles = math.ceil(rows / INTEGER_TILE) * math.ceil(columns / INTEGER_TILE)
    products = channels * outputs / PRODUCTS
    transformed = (INTEGER_TILE + KERNEL - 1) ** 2 * products + INPUT * channels + OUTPUT * outputs
    return GAIN * tiles * transformed <= rows * columns * KERNEL**2 * products


def _types(call: Call) -> list[TensorType]:
    """The types of a call's first operand and of its result."""
    kinds = [type_of(a) for a in (call.args[0], call)]
    return [kind for kind in kinds if isinstance(kind, TensorType)]


def is_widened(call: Call) -> bool:
    """Whether a product of bytes has rows enough, as far as these are known, and constant
    weights."""
    x, w = call.args
    if not isinstance(w, Constant) or isinstance(x, Constant) or tensor_type_of(w).dtype == PAIR:
        return False
    if len(w.shape) != 2:
        return False
    rows = [d.value for d in tensor_type_of(x).shape[:-1] if isinstance(d, IntImm)]
    return math.prod(rows) >= FEWEST_ROWS
