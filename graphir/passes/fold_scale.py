"""FoldScale: a scale and a shift of the channels behind a convolution or a linear layer are its
weight's and its bias's.

That is what is left of a batch norm with known statistics. The products are computed here, in
float64, and rounded once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...support.aligned import aligned_empty
from ...support.passes import Pass
from ..analysis import uses
from ..expr import Atom, Binding, Call, Constant, Function, Value, Var, constant, owned_constant
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
        factor = _per_channel(product, a, b)
        if factor is None:
            return new
        return _folded(product, new.op, factor).with_span(product.span)


def _per_channel(product: Call, result: Var, b: Constant) -> np.ndarray | None:
    """The constant as one number a channel of the result, or None where it is not."""
    kind = result.type
    assert isinstance(kind, TensorType)
    if kind.dtype not in _FLOATS or b.type.dtype is not kind.dtype:
        return None
    channels = _weight(product).data.shape[0]
    axis = kind.ndim - 1
    if product.op == "conv" and not _channels_last(product):
        axis = 1
    shape = (1,) * (kind.ndim - b.data.ndim) + b.data.shape
    if len(shape) != kind.ndim or any(s != 1 for d, s in enumerate(shape) if d != axis):
        return None
    if shape[axis] not in (1, channels):
        return None
    return np.broadcast_to(b.data.reshape(-1), (channels,)).astype(np.float64)


def _channels_last(call: Call) -> bool:
    own = attr(call, "out_channels_last")
    return bool(attr(call, "channels_last") if own is None else own)


def _weight(call: Call) -> Constant:
    weight = call.args[1]
    assert isinstance(weight, Constant)
    return weight


def _folded(call: Call, op: str, factor: np.ndarray) -> Call:
    weight = _weight(call)
    dtype = weight.type.dtype
    w = weight.data
    bias = np.zeros(w.shape[0])
    if len(call.args) == 3:
        given = call.args[2]
        assert isinstance(given, Constant)
        bias = given.data.astype(np.float64)
    if op in ("multiply", "divide"):
        factor = factor if op == "multiply" else 1.0 / factor
        # In float64, rounded once; NumPy does that piece by piece, without a copy of the whole.
        scaled = aligned_empty(w.shape, w.dtype)
        by_channel = factor.reshape(-1, *[1] * (w.ndim - 1))
        np.multiply(w, by_channel, out=scaled, dtype=np.float64, casting="same_kind")
        weight, bias = owned_constant(scaled, dtype), bias * factor
    else:
        bias = bias + factor if op == "add" else bias - factor
    args: tuple[Atom, ...] = (call.args[0], weight)
    if len(call.args) == 3 or op in ("add", "subtract"):
        args = (*args, constant(bias.astype(w.dtype), dtype))
    return Call(call.op, args, call.attrs)
