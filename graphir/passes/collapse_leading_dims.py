"""CollapseLeadingDims: a linear layer over (batch, tokens, features) is one matrix product.

The rows of a linear layer are independent, so all leading dims are one; the product's kernel then
has two spatial axes, of which the first is as long as it can be. The views this costs are free, but
a view between a product and its epilogue would keep them apart: so the work that follows, as far as
it is elementwise or stays within the last axis, is moved in front of the view back."""

from __future__ import annotations

from dataclasses import dataclass

from ...support.passes import Pass
from ...tensorir.expr import Expr
from ..dim import dim_equal, product, shape_equal
from ..expr import Atom, Binding, Call, Function, Var
from ..module import IRModule
from ..mutator import ATOMS, ExprMutator
from ..op import attr, get_op, reshaped, tensor_type_of, type_of
from ..type import TensorType

LINEAR = ("linear", "scaled_linear")
"""Operators whose first operand has independent rows."""
ROWWISE = ("softmax", "log_softmax", "layer_norm")
"""Operators that work within the last axes, which a row keeps."""


@dataclass(frozen=True)
class CollapseLeadingDims(Pass):
    """Give every linear layer two-dimensional operands, and let what follows stay in two
    dimensions.

    *requires*: canonicalize. *ensures*: no linear layer has an input of rank above two.

        a = R.linear(x, w)      # x: (b, t, 8), w: (6, 8)
        y = R.relu(a)
    becomes
        v = R.reshape(x, R.shape(["b * t", 8]))
        a = R.linear(v, w)
        u = R.relu(a)
        y = R.reshape(u, R.shape(["b", "t", 6]))
    """

    def run(self, module: IRModule) -> IRModule:
        return _Collapser(module).transform()


class _Collapser(ExprMutator):
    def __init__(self, module: IRModule) -> None:
        super().__init__(module)
        self.rows: dict[Var, Var] = {}
        """Variables bound to the view back, with the matrix behind them."""

    def visit_function(self, func: Function) -> Function:
        self.rows = {}
        return super().visit_function(func)

    def visit_binding(self, binding: Binding) -> None:
        value = self.visit_value(binding.value)
        if isinstance(value, ATOMS) and not isinstance(binding.value, ATOMS):
            self.replaced[binding.var] = value
            return
        matrix = self._matrix(value, binding) if isinstance(value, Call) else None
        if matrix is None:
            self.rebind(binding, value)
            return
        self.rebind(binding, reshaped(matrix, _shape(binding.var)))
        new = self.replaced.get(binding.var, binding.var)
        assert isinstance(new, Var)
        self.rows[new] = matrix

    def _matrix(self, call: Call, binding: Binding) -> Var | None:
        """The value of the call as a matrix of rows, emitted; None where it stays as it is."""
        shape = _shape(binding.var)
        if len(shape) <= 2:
            return None
        if call.op in LINEAR:
            operands: list[Atom] | None = [self._as_rows(call.args[0]), *call.args[1:]]
        else:
            operands = self._row_operands(call, shape)
        if operands is None:
            return None
        return self.emit(Call(call.op, tuple(operands), call.attrs).with_span(call.span), "rows")

    def _row_operands(self, call: Call, shape: tuple[Expr, ...]) -> list[Atom] | None:
        """The operands as matrices, if one of them is known to be and the others can become one."""
        if not any(isinstance(a, Var) and a in self.rows for a in call.args):
            return None
        if call.op in ROWWISE:
            axes = attr(call, "axes" if call.op == "layer_norm" else "axis")
            last = axes[0] if isinstance(axes, (tuple, list)) and len(axes) == 1 else axes
            if last != -1 or call.args[0] not in self.rows:
                return None  # an axis counted from the front would be another one of a matrix
            return [self._as_rows(call.args[0]), *call.args[1:]]
        if not get_op(call.op).is_elementwise:
            return None
        return self._elementwise_operands(call, shape)

    def _elementwise_operands(self, call: Call, shape: tuple[Expr, ...]) -> list[Atom] | None:
        kinds = [type_of(a) for a in call.args]
        for kind in kinds:
            if not isinstance(kind, TensorType):
                return None
            if not (shape_equal(kind.shape, shape) or _fits_last(kind.shape, shape)):
                return None
        return [
            a if isinstance(k, TensorType) and k.ndim <= 1 else self._as_rows(a)
            for a, k in zip(call.args, kinds, strict=True)
        ]

    def _as_rows(self, atom: Atom) -> Atom:
        """The matrix behind a view back, or a view of a tensor as a matrix."""
        if isinstance(atom, Var) and atom in self.rows:
            return self.rows[atom]
        kind = tensor_type_of(atom)
        return self.emit(reshaped(atom, (product(kind.shape[:-1]), kind.shape[-1])), "rows")


def _fits_last(shape: tuple[Expr, ...], whole: tuple[Expr, ...]) -> bool:
    """Whether an operand broadcasts along rows: a scalar, or one row."""
    return not shape or (len(shape) == 1 and dim_equal(shape[0], whole[-1]))


def _shape(var: Var) -> tuple[Expr, ...]:
    return var.type.shape if isinstance(var.type, TensorType) else ()
