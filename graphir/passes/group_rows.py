"""GroupRows: rows of few elements are added several at a time.

Of points with three coordinates a vector holds two and a half. Sixteen rows are a stretch of
memory that whole vectors fill, so sums of such stretches are made first, and then that of the
sixteen: a view of the tensor, and one reduction more, of a few elements."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ...support.passes import Pass
from ...tensorir.expr import Expr, IntImm
from ..analysis import uses
from ..dim import shape_equal
from ..expr import Atom, Binding, Call, Constant, Function, Value, Var
from ..module import IRModule
from ..mutator import ExprMutator
from ..op import attr, get_op, reshaped, tensor_type_of, type_of
from ..ops.operands import normal_axes
from ..type import TensorType

REDUCTIONS = ("sum", "mean", "max", "min")
MOST_COLUMNS = 7
"""Elements of a row that are too few for vectors."""
WIDTH = 16
"""Elements in a vector of the widest registers, of four bytes."""
FEWEST_GROUPS = 64
"""Groups of rows that are worth a reduction more."""


@dataclass(frozen=True)
class GroupRows(Pass):
    """Reduce many rows of few elements by groups of them that fill vectors.

    Sums and means are those of float32, float64 and integers: between two reductions a sum in a
    narrower type would be rounded. What is computed elementwise to be reduced goes along.

    *requires*: canonicalize. *ensures*: the values are the same but for the order of sums.

        y = R.sum(x, axis=0)                               # x: (1600, 3)
    becomes
        v = R.reshape(x, R.shape([100, 48]))
        a = R.sum(v, axis=0)
        b = R.reshape(a, R.shape([16, 3]))
        y = R.sum(b, axis=0)
    """

    def run(self, module: IRModule) -> IRModule:
        return _Grouper(module).transform()


class _Grouper(ExprMutator):
    def __init__(self, module: IRModule) -> None:
        super().__init__(module)
        self.uses: dict[Var, int] = {}
        self.makers: dict[Var, Call] = {}
        """Variables bound to elementwise calls that are read once."""

    def visit_function(self, func: Function) -> Function:
        self.uses, self.makers = uses(func), {}
        return super().visit_function(func)

    def visit_binding(self, binding: Binding) -> None:
        value = self.visit_value(binding.value)
        self.rebind(binding, value)
        new = self.replaced.get(binding.var, binding.var)
        if not isinstance(value, Call) or not isinstance(new, Var):
            return
        if get_op(value.op).is_elementwise and self.uses.get(binding.var) == 1:
            self.makers[new] = value

    def visit_Call(self, call: Call) -> Value:  # noqa: N802
        new = super().visit_Call(call)
        assert isinstance(new, Call)
        grouped = self._grouped(new) if new.op in REDUCTIONS else None
        return new if grouped is None else grouped.with_span(call.span)

    def _grouped(self, call: Call) -> Call | None:
        kind = tensor_type_of(call.args[0])
        count = _rows_of_group(call, kind)
        if count is None:
            return None
        *outer, rows, columns = kind.shape
        assert isinstance(rows, IntImm)
        assert isinstance(columns, IntImm)
        shape = (*outer, IntImm(rows.value // count), IntImm(count * columns.value))
        wide = self._seen_as(call.args[0], shape)
        if wide is None:
            return None
        first = self.emit(Call(call.op, (wide,), (("axis", -2),)).with_span(call.span), "groups")
        split = self.emit(reshaped(first, (*outer, IntImm(count), columns)), "group")
        return Call(call.op, (split,), call.attrs)

    def _seen_as(self, atom: Atom, shape: tuple[Expr, ...]) -> Atom | None:
        """A tensor under another shape; None where what makes it would no longer be computed
        where it is reduced."""
        maker = self.makers.get(atom) if isinstance(atom, Var) else None
        if maker is None:
            return self.emit(reshaped(atom, shape), "rows")
        own = tensor_type_of(atom).shape
        kinds = [type_of(a) for a in maker.args]
        if not all(
            isinstance(k, TensorType)
            and (shape_equal(k.shape, own) or (not k.shape and isinstance(a, Constant)))
            for a, k in zip(maker.args, kinds, strict=True)
        ):
            return None
        operands = [
            a if not tensor_type_of(a).shape else self._seen_as(a, shape) for a in maker.args
        ]
        if any(a is None for a in operands):
            return None
        made = Call(maker.op, tuple([a for a in operands if a is not None]), maker.attrs)
        return self.emit(made.with_span(maker.span), "rows")


def _rows_of_group(call: Call, kind: TensorType) -> int | None:
    """How many rows fill vectors together; None for a reduction that stays as it is."""
    if kind.ndim < 2 or list(normal_axes(call, attr(call, "axis"), kind.ndim)) != [kind.ndim - 2]:
        return None
    if call.op in ("sum", "mean") and kind.dtype.kind == "float" and kind.dtype.bits < 32:
        return None
    rows, columns = kind.shape[-2:]
    if not isinstance(rows, IntImm) or not isinstance(columns, IntImm):
        return None
    if not 2 <= columns.value <= MOST_COLUMNS:
        return None
    count = WIDTH // math.gcd(WIDTH, columns.value)
    groups, rest = divmod(rows.value, count)
    return count if not rest and groups >= FEWEST_GROUPS else None
