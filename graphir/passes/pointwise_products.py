"""PointwiseProducts: a lone pointwise convolution is a product ``W @ X`` in the layout X has.

With the channels in front X is a matrix (channels, pixels) already, and ``W @ X`` is the result in
the same order: pixels are the vectors. Channels-last would move X and the result, which costs more
than half as much as the product where channels are few. But between convolutions the layout is
theirs: so only those are taken that no path of element-wise work, pooling and the like joins to
another convolution, or to a permutation that may be the layout's. Elementwise work that follows
stays on the matrix, where fusion finds it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ...support.passes import Pass
from ...tensorir.expr import IntImm
from ..analysis import bindings, variables
from ..dim import fold_dim, product, shape_equal, static_value
from ..expr import Atom, Binding, Call, Function, Var
from ..module import IRModule
from ..mutator import ATOMS, ExprMutator
from ..op import attr, get_op, reshaped, tensor_type_of, type_of
from ..type import TensorType
from .channels_last import is_pointwise, matrix_of

ANCHORS = ("conv", "conv_transpose", "permute_dims")
"""Operators at which a layout may begin or end."""
FOLLOWING = (
    "max_pool", "avg_pool", "adaptive_pool", "concat", "pad", "sum", "mean", "max", "min",
    "reshape", "flatten",
)  # fmt: skip
"""Operators that take the layout of their operand, as element-wise ones do."""
FMAS_A_CYCLE = 1.3
"""Vectors of products in a cycle that kernels come to."""
MOVED_A_CYCLE = 4
"""Elements in a cycle that a permutation reads, or writes."""


@dataclass(frozen=True)
class PointwiseProducts(Pass):
    """Replace a pointwise ``conv`` by ``matmul`` where no other convolution shares its layout and
    an estimate says that the moves to channels-last and back cost more than the last, partly
    empty vector of pixels: float32 and float64, static channels and pixels.

    ``lanes`` are those of a vector. *requires*: canonicalize. *ensures*: values stay, up to the
    order of sums.

        a = R.conv(x, w, b, ...)          # x: (1, 64, 56, 56), w: (256, 64, 1, 1), b: (256,)
        y = R.relu(a)
    becomes
        v = R.reshape(x, R.shape([64, 3136]))
        a = R.matmul(w, v)                # w: (256, 64)
        b = R.add(a, b)                   # b: (256, 1)
        u = R.relu(b)
        y = R.reshape(u, R.shape([1, 256, 56, 56]))
    """

    lanes: int = 16

    def run(self, module: IRModule) -> IRModule:
        return _Selector(module, self.lanes).transform()


class _Selector(ExprMutator):
    def __init__(self, module: IRModule, lanes: int) -> None:
        super().__init__(module)
        self.lanes = lanes
        self.lone: set[Var] = set()
        """The results of convolutions that share their layout with no other."""
        self.matrices: dict[Var, Var] = {}
        """Values that are views of a matrix with pixels last, and the matrix."""

    def visit_function(self, func: Function) -> Function:
        self.lone, self.matrices = _lone(func), {}
        return super().visit_function(func)

    def visit_binding(self, binding: Binding) -> None:
        value = self.visit_value(binding.value)
        if isinstance(value, ATOMS) and not isinstance(binding.value, ATOMS):
            self.replaced[binding.var] = value
            return
        matrix = None
        if isinstance(value, Call) and isinstance(binding.var.type, TensorType):
            taken = binding.var in self.lone and _pays(value, self.lanes)
            matrix = self._product(value) if taken else self._elementwise(value, binding.var)
        if matrix is None:
            self.rebind(binding, value)
            return
        assert isinstance(binding.var.type, TensorType)
        self.rebind(binding, reshaped(matrix, binding.var.type.shape))
        new = self.replaced.get(binding.var, binding.var)
        assert isinstance(new, Var)
        self.matrices[new] = matrix

    def _product(self, call: Call) -> Var:
        x, w, *bias = call.args
        operands = (matrix_of(self, w), self._rows(x))
        found = self.emit(Call("matmul", operands).with_span(call.span), "rows")
        if not bias:
            return found
        return self.emit(Call("add", (found, self._rows_of_bias(bias[0]))), "rows")

    def _elementwise(self, call: Call, var: Var) -> Var | None:
        """Elementwise work on the matrix, where the other operands are as large or one number."""
        known = [a for a in call.args if isinstance(a, Var) and a in self.matrices]
        if not known or not get_op(call.op).is_elementwise:
            return None
        shape = tensor_type_of(known[0]).shape
        kinds = [type_of(a) for a in call.args]
        if not shape_equal(tensor_type_of(var).shape, shape) or not all(
            isinstance(k, TensorType) and (not k.shape or shape_equal(k.shape, shape))
            for k in kinds
        ):
            return None
        args = [a if not tensor_type_of(a).shape else self._rows(a) for a in call.args]
        return self.emit(Call(call.op, tuple(args), call.attrs).with_span(call.span), "rows")

    def _rows(self, atom: Atom) -> Atom:
        """A value as (channels, pixels), of several images as (batch, channels, pixels)."""
        if isinstance(atom, Var) and atom in self.matrices:
            return self.matrices[atom]
        batch, channels, *spatial = tensor_type_of(atom).shape
        rows = (channels, product(spatial))
        return self.emit(
            reshaped(atom, rows if static_value(batch) == 1 else (batch, *rows)), "rows"
        )

    def _rows_of_bias(self, bias: Atom) -> Atom:
        return self.emit(reshaped(bias, (*tensor_type_of(bias).shape, IntImm(1))), "bias")


def _pays(call: Call, lanes: int) -> bool:
    """Whether the product in the layout of X is estimated to be faster than moving X."""
    if call.op != "conv" or attr(call, "channels_last") or attr(call, "out_channels_last"):
        return False
    if not is_pointwise(call):
        return False
    x, w = tensor_type_of(call.args[0]), tensor_type_of(call.args[1])
    pixels = static_value(fold_dim(product(x.shape[2:])))
    outputs, inputs = [static_value(d) for d in w.shape[:2]]
    if not pixels or not outputs or not inputs or x.dtype not in ("float32", "float64"):
        return False
    here = inputs * outputs * math.ceil(pixels / lanes) / FMAS_A_CYCLE
    there = inputs * pixels * math.ceil(outputs / lanes) / FMAS_A_CYCLE
    return here < there + 2 * pixels * (inputs + outputs) / MOVED_A_CYCLE


def _lone(func: Function) -> set[Var]:
    """The results of convolutions that share the layout of operand and result with no other."""
    group: dict[Var, Var] = {}

    def root(var: Var) -> Var:
        while group.setdefault(var, var) is not var:
            var = group[var]
        return var

    ends: list[tuple[Var, Var | None, Call]] = []
    for binding in bindings(func):
        value = binding.value
        if not isinstance(value, Call):
            continue
        read = [a for a in value.args if isinstance(a, Var)]
        if value.op in ANCHORS:
            ends.append((binding.var, read[0] if read else None, value))
        elif value.op in FOLLOWING or get_op(value.op).is_elementwise:
            for var in variables(value):
                group[root(var)] = root(binding.var)
    counts: dict[Var, int] = {}
    for result, operand, _ in ends:
        for var in {root(v) for v in (result, operand) if v is not None}:
            counts[var] = counts.get(var, 0) + 1
    return {
        result
        for result, operand, call in ends
        if call.op == "conv"
        and operand is call.args[0]
        and all(counts[root(v)] == 1 for v in (result, operand))
    }
