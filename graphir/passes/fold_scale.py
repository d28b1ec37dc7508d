"""FoldScale: a scale and a shift of the channels behind a convolution or a linear layer are its
weight's and its bias's.

That is what is left of a batch norm with known statistics. The products are computed here, in
float64, and rounded once."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

import numpy as np

from ...support.aligned import aligned_empty
from ...support.passes import Pass
from ..analysis import uses
from ..expr import Binding, Call, Constant, Function, Value, Var
from ..module import IRModule
from ..mutator import ExprMutator
from ..op import attr
from ..type import TensorType

_FLOATS = ("float32", "float64")


@dataclass(frozen=True)
class FoldScale(Pass):
    """Fold ``multiply``, ``add``, ``subtract`` and ``divide`` by a constant a channel into the
    convolution or linear layer before, where nobody else reads that.

    *requires*: fold-constant. *ensures*: no such operation follows one with constant weights.

        a = R.conv(x, w, ...)
        b = R.multiply(a, R.const(...))       # (c, 1, 1)
        y = R.add(b, R.const(...))
    becomes
        y = R.conv(x, R.const(...), R.const(...), ...)
    """

    def run(self, module: IRModule) -> IRModule:
        return _Folder(module).transform()


class _Folder(ExprMutator):
    def __init__(self, module: IRModule) -> None:
        super().__init__(module)
        self.products: dict[Var, Call] = {}
        """Variables bound to a convolution or linear layer with constant weights, read once."""
        self.uses: dict[Var, int] = {}

    def visit_function(self, func: Function) -> Function:
        self.products, self.uses = {}, uses(func)
        return super().visit_function(func)

    def visit_binding(self, binding: Binding) -> None:
        value = self.visit_value(binding.value)
        self.rebind(binding, value)
        new = self.replaced.get(binding.var, binding.var)
        if (
            isinstance(value, Call)
            and isinstance(new, Var)
            and value.op in ("conv", "linear")
            and all(isinstance(a, Constant) for a in value.args[1:])
            and self.uses.get(binding.var) == 1
        ):
            self.products[new] = value

    def visit_Call(self, call: Call) -> Value:  # noqa: N802
        new = super().visit_Call(call)
        assert isinstance(new, Call)
        if new.op not in ("multiply", "add", "subtract", "divide"):
            return new
        a, b = new.args
        if isinstance(a, Constant) and new.op in ("multiply", "add"):
            a, b = b, a
        if not isinstance(a, Var) or a not in self.products or not isinstance(b, Constant):
            return new
        product = self.products[a]
        if not _is_per_channel(product, a, b):
            return new
        return self.folded(product, new.op, b).with_span(product.span)

    def folded(self, call: Call, op: str, factor: Constant) -> Call:
        """The product with an operation by a number a channel in its weight and bias."""
        weight, *bias = [a for a in call.args[1:] if isinstance(a, Constant)]
        if op in ("multiply", "divide"):
            weight = self.derive("scaled", partial(_scaled, op), weight, factor)
        if bias:
            bias = [self.derive("scaled", partial(_combined, op), bias[0], factor)]
        elif op in ("add", "subtract"):
            shift = partial(_combined, op, np.zeros(weight.shape[0], weight.type.dtype.to_numpy()))
            bias = [self.derive("shift", shift, factor)]
        return Call(call.op, (call.args[0], weight, *bias), call.attrs)


def _is_per_channel(product: Call, result: Var, b: Constant) -> bool:
    """Whether a constant is one number a channel of the result."""
    kind, weight = result.type, product.args[1]
    assert isinstance(kind, TensorType)
    assert isinstance(weight, Constant)
    if kind.dtype not in _FLOATS or b.type.dtype is not kind.dtype:
        return False
    axis = kind.ndim - 1
    if product.op == "conv" and not _channels_last(product):
        axis = 1
    shape = (1,) * (kind.ndim - len(b.shape)) + b.shape
    if len(shape) != kind.ndim or any(s != 1 for d, s in enumerate(shape) if d != axis):
        return False
    return shape[axis] in (1, weight.shape[0])


def _channels_last(call: Call) -> bool:
    own = attr(call, "out_channels_last")
    return bool(attr(call, "channels_last") if own is None else own)


def _scaled(op: str, weight: np.ndarray, factor: np.ndarray) -> np.ndarray:
    """A weight times, or by, a number for each of its first dim."""
    by_channel = factor.reshape(-1, 1)
    wide = weight.dtype
    if op != "multiply" or factor.dtype != weight.dtype:
        by_channel, wide = by_channel.astype(np.float64), np.dtype(np.float64)
    if op != "multiply":
        by_channel = 1.0 / by_channel
    # Rounded once, as a product of two of the weight's dtype is; any other in float64. NumPy does
    # that piece by piece, without a copy of the whole, and seven times as fast where it sees two
    # dims as where a row is a tensor.
    scaled = aligned_empty(weight.shape, weight.dtype)
    rows = (weight.shape[0], math.prod(weight.shape[1:]))
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        np.multiply(
            *(weight.reshape(rows), by_channel),
            out=scaled.reshape(rows),
            dtype=wide,
            casting="same_kind",
        )
    return scaled


def _combined(op: str, bias: np.ndarray, factor: np.ndarray) -> np.ndarray:
    """A bias and a number for each of its elements, in float64 and rounded once."""
    b, x = bias.astype(np.float64), factor.reshape(-1).astype(np.float64)
    if op in ("multiply", "divide"):
        b = b * (x if op == "multiply" else 1.0 / x)
    else:
        b = b + (x if op == "add" else -x)
    return b.astype(bias.dtype)
