"""WindowProducts: convolutions of half precision with few channels and large windows are products.

    y = R.conv(x, w, b, strides=[2, 2], ...)                    # bfloat16, (1, 3, 224, 224)
becomes
    p = R.pad(x, pad_width=[0, 0, 0, 0, 3, 3, 3, 3])
    t = R.permute_dims(p, axes=[0, 2, 3, 1])
    r = R.im2col(t, kernel=[7, 7], strides=[2, 2], ...)         # what each window reads
    y1 = R.linear(R.reshape(r, (1, 112, 112, 147)), w1, b)      # w1: w as a matrix
    y = R.permute_dims(y1, axes=[0, 3, 1, 2])

Instructions for pairs, and tiles, want many terms side by side, and few channels are not many. A
network's first layer in float32 would take as long as many others in the narrow type.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ...support.passes import Pass
from ..builder import call_op
from ..dim import static_shape, static_value
from ..expr import Atom, Call, Constant, Value, Var
from ..module import IRModule
from ..mutator import ExprMutator
from ..op import attr, tensor_type_of
from ..window_rows import weight_rows, window_rows
from .to_mixed_precision import has_large_windows
from .widen_convs import half_type_of

PAIR = 2
"""Terms that are multiplied together: of an odd number the last is a zero."""


@dataclass(frozen=True)
class WindowProducts(Pass):
    """Compute convolutions of float16 and bfloat16 with few channels as products of the rows that
    their windows read, where the CPU multiplies the type faster than float32 (``is_fast``).

    *requires*: channels are where they will stay. *ensures*: the types of all results are what they
    were.
    """

    is_fast: Callable[[str], bool]

    def run(self, module: IRModule) -> IRModule:
        return _Products(module, self.is_fast).transform()


class _Products(ExprMutator):
    def __init__(self, module: IRModule, is_fast: Callable[[str], bool]) -> None:
        super().__init__(module)
        self.is_fast = is_fast

    def visit_Call(self, call: Call) -> Value:  # noqa: N802
        new = super().visit_Call(call)
        assert isinstance(new, Call)
        half = half_type_of(new)
        is_fast = bool(half) and self.is_fast(half)
        return self.product(new) if is_fast and has_large_windows(new) else new

    def product(self, call: Call) -> Value:
        x, w, *bias = call.args
        count = tensor_type_of(x).ndim - 2
        sizes = static_shape(tensor_type_of(w).shape)
        assert sizes is not None
        last = bool(attr(call, "channels_last"))
        if last:
            x = self._emit("permute_dims", x, axes=(0, count + 1, *range(1, count + 1)))
        rows = window_rows(
            self._emit, x, sizes[2:], strides=attr(call, "strides"),
            padding=attr(call, "padding"), dilation=attr(call, "dilation"),
        )  # fmt: skip
        terms = math.prod(sizes[1:])
        more = -terms % PAIR
        if more:
            rows = self._emit("pad", rows, pad_width=(0, 0) * (count + 1) + (0, more))
        weight = self.weight(w, terms + more)
        attrs = {k: v for k, v in call.attrs if k == "out_dtype" and v}
        made = call_op("linear", rows, weight, *bias, **attrs).with_span(call.span)
        out_last = attr(call, "out_channels_last")
        if last if out_last is None else out_last:
            return made
        axes = (0, count + 1, *range(1, count + 1))
        return call_op("permute_dims", self.emit(made, "product"), axes=axes)

    def weight(self, w: Atom, terms: int) -> Atom:
        """The weight as a matrix (outputs, ``terms``), zero beyond its own terms."""

        def matrix(array: np.ndarray) -> np.ndarray:
            rows = np.moveaxis(array, 1, -1).reshape(len(array), -1)
            return np.pad(rows, ((0, 0), (0, terms - rows.shape[1])))

        if isinstance(w, Constant):
            return self.derive("windows", matrix, w)
        made = weight_rows(self._emit, w)
        own = static_value(tensor_type_of(made).shape[1])
        more = terms - (own or 0)
        return self._emit("pad", made, pad_width=(0, 0, 0, more)) if more else made

    def _emit(self, op: str, *args: Atom, **attrs: object) -> Var:
        return self.emit(call_op(op, *args, **attrs), "windows")
