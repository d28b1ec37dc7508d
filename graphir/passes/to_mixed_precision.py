"""ToMixedPrecision: matrix products take operands of a narrow type, and are summed in float32.

Operands are rounded once, to nearest, ties to even: constants here, all else by casts that stand in
the graph and are fused into the kernels that make the values. Results are float32 and are never
rounded: everything between two products is computed as it was. An operand that several products
read is rounded once for all, where common subexpressions are eliminated afterwards.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ...support.dtype import DType, bfloat16_bits
from ...support.errors import ConfigError
from ...support.passes import Pass
from ...tensorir.expr import IntImm
from ..builder import call_op
from ..expr import Atom, Call, Constant, Value
from ..module import IRModule
from ..mutator import ExprMutator
from ..op import type_of
from ..type import TensorType

DTYPES = ("bfloat16",)
"""What operands may be rounded to."""
PRODUCTS = ("linear", "matmul")
FEWEST_TERMS = 2
"""Terms of a sum below which a product has no dot products."""


@dataclass(frozen=True)
class ToMixedPrecision(Pass):
    """Round the operands of ``linear`` and ``matmul`` in float32 to ``dtype``.

    The bias of a linear layer is added in float32. What is not float32 stays as it is, as do
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

    def run(self, module: IRModule) -> IRModule:
        if self.dtype not in DTYPES:
            raise ConfigError(
                f"to-mixed-precision: expected dtype to be one of {', '.join(DTYPES)}; found "
                f"{self.dtype!r}."
            )
        return _Rounder(module, DType(self.dtype), self.chosen).transform()


def takes_narrow_operands(call: Call) -> bool:
    """Whether the pass rounds the operands of a call."""
    if call.op not in PRODUCTS:
        return False
    kinds = [type_of(a) for a in call.args[:2]]
    if not all(isinstance(k, TensorType) and k.dtype == "float32" and k.ndim for k in kinds):
        return False
    first = kinds[0]
    assert isinstance(first, TensorType)
    depth = first.shape[-2 if dict(call.attrs).get("transpose_a") and first.ndim > 1 else -1]
    return not (isinstance(depth, IntImm) and depth.value < FEWEST_TERMS)


def constant_name(call: Call) -> str:
    """The name of a product's constant operand, the second where both are; "" where none is."""
    names = [a.name for a in call.args[:2] if isinstance(a, Constant)]
    return names[-1] if names else ""


class _Rounder(ExprMutator):
    def __init__(
        self, module: IRModule, dtype: DType, chosen: Callable[[str], bool] | None
    ) -> None:
        super().__init__(module)
        self.dtype, self.chosen = dtype, chosen

    def visit_Call(self, call: Call) -> Value:  # noqa: N802
        new = super().visit_Call(call)
        assert isinstance(new, Call)
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
            return self.derive(str(self.dtype), bfloat16_bits, atom, dtype=self.dtype)
        return self.emit(call_op("astype", atom, dtype=str(self.dtype)), "rounded")
