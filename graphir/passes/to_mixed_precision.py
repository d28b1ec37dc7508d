"""ToMixedPrecision: products and convolutions of a narrow type, summed in float32.

Operands of matrix products and convolutions are rounded once, to nearest, ties to even: constants
here, all else by casts that stand in the graph and are fused into the kernels that make the values.
Results are float32 and are never rounded: everything between two products is computed as it was. An
operand that several products read is rounded once for all, where common subexpressions are
eliminated afterwards.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ...support.dtype import DType, bfloat16_bits
from ...support.errors import ConfigError
from ...support.passes import Pass
from ...tensorir.expr import IntImm
from ..builder import call_op
from ..dim import static_shape, static_value
from ..expr import Atom, Call, Constant, Value
from ..module import IRModule
from ..mutator import ExprMutator
from ..op import attr, tensor_type_of, type_of
from ..type import TensorType
from ..window_rows import is_worth_rows
from .narrow_attention import rounded_attention, why_whole_attention

DTYPES = ("bfloat16", "float16")
"""What operands may be rounded to."""
PRODUCTS = ("linear", "matmul", "conv")
FEWEST_TERMS = 2
"""Terms of a sum below which a product has no dot products."""
FEWEST_CHANNELS = 8
"""Channels of an image below which a convolution is left alone, unless its windows are large: its
time is that of its pixels, and to round them is a pass over them."""


@dataclass(frozen=True)
class ToMixedPrecision(Pass):
    """Round the operands of ``linear``, ``matmul`` and ``conv`` in float32 to ``dtype``.

    A bias is added in float32. Of convolutions those are meant that ``why_wide`` has nothing
    against.
    What is not float32 stays as it is, as do
    products of a single term. Raises ConfigError for another dtype.

    *requires*: canonicalize, and nothing behind that folds constants into products. *ensures*: the
    types of all results are what they were.

        y = R.linear(x, w, b)                                   # w: a constant
    becomes
        x1 = R.astype(x, dtype="bfloat16")
        y = R.linear(x1, w1, b, out_dtype="float32")            # w1: w, rounded
    """

    dtype: str = "bfloat16"
    chosen: Callable[[str], bool] | None = None
    """Of the name of a product's constant operand ("" without one): whether its operands are
    rounded. Those of all are, where this is not given."""
    attention: bool = True
    """Whether attention is written out for its products: that pays where the CPU multiplies the
    type faster than float32."""

    def run(self, module: IRModule) -> IRModule:
        if self.dtype not in DTYPES:
            raise ConfigError(
                f"to-mixed-precision: expected dtype to be one of {', '.join(DTYPES)}; found "
                f"{self.dtype!r}."
            )
        return _Rounder(module, self).transform()


def takes_narrow_operands(call: Call) -> bool:
    """Whether the pass rounds the operands of a call."""
    return call.op in PRODUCTS and not why_wide(call)


def why_wide(call: Call) -> str:
    """Why the operands of one of ``PRODUCTS`` stay as they are; "" where they are rounded."""
    kinds = [type_of(a) for a in call.args[:2]]
    if not all(isinstance(k, TensorType) and k.dtype == "float32" and k.ndim for k in kinds):
        return "operands that are not float32"
    if call.op == "conv":
        return "" if has_large_windows(call) else why_wide_form(call)
    first = kinds[0]
    assert isinstance(first, TensorType)
    depth = first.shape[-2 if dict(call.attrs).get("transpose_a") and first.ndim > 1 else -1]
    few = isinstance(depth, IntImm) and depth.value < FEWEST_TERMS
    return "sums of a single term" if few else ""


def why_wide_form(call: Call) -> str:
    """Why a convolution has no dot products of pairs of channels; "" where it has."""
    w = tensor_type_of(call.args[1])
    channels = static_value(w.shape[1])
    if attr(call, "groups") != 1:
        return "it has groups of channels, each with few products for a pixel that is read"
    if not attr(call, "channels_last") or attr(call, "out_channels_last") not in (None, True):
        return "the channels of its image do not lie side by side"
    if channels is None or channels < FEWEST_CHANNELS:
        return f"fewer than {FEWEST_CHANNELS} channels"
    return "" if channels % 2 == 0 else "an odd number of channels, which are no pairs"


def has_large_windows(call: Call) -> bool:
    """Whether a convolution has few channels, and terms enough that what its windows read is worth
    a copy."""
    x, w = call.args[:2]
    sizes = static_shape(tensor_type_of(w).shape)
    last = bool(attr(call, "channels_last"))
    return (
        sizes is not None
        and sizes[1] < FEWEST_CHANNELS
        and is_worth_rows(x, w, int(attr(call, "groups")), channels_last=last)
    )


def constant_name(call: Call) -> str:
    """The name of a product's constant operand, the second where both are; "" where none is."""
    names = [a.name for a in call.args[:2] if isinstance(a, Constant)]
    return names[-1] if names else ""


class _Rounder(ExprMutator):
    def __init__(self, module: IRModule, options: ToMixedPrecision) -> None:
        super().__init__(module)
        self.dtype, self.chosen = DType(options.dtype), options.chosen
        self.attention = options.attention

    def visit_Call(self, call: Call) -> Value:  # noqa: N802
        new = super().visit_Call(call)
        assert isinstance(new, Call)
        if new.op == "attention" and self.attention and not why_whole_attention(new):
            whole = self.chosen is not None and not self.chosen("")
            return new if whole else rounded_attention(self, new, str(self.dtype))
        if not takes_narrow_operands(new):
            return new
        if self.chosen is not None and not self.chosen(constant_name(new)):
            return new
        operands = [self.rounded(a) for a in new.args[:2]]
        attrs = tuple(sorted([*new.attrs, ("out_dtype", "float32")]))
        return Call(new.op, (*operands, *new.args[2:]), attrs).with_span(new.span)

    def rounded(self, atom: Atom) -> Atom:
        """An operand in the narrow type."""
        if isinstance(atom, Constant):
            rounding = bfloat16_bits if self.dtype == "bfloat16" else _halves
            return self.derive(str(self.dtype), rounding, atom, dtype=self.dtype)
        return self.emit(call_op("astype", atom, dtype=str(self.dtype)), "rounded")


def _halves(array: np.ndarray) -> np.ndarray:
    """Rounded to float16; what is too large for it becomes infinite."""
    with np.errstate(over="ignore"):
        return array.astype(np.float16)
