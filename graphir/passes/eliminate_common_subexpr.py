"""EliminateCommonSubexpr: an operation that was computed before is not computed again."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from ...support.passes import Pass
from ...tensorir.arith import expr_key
from ...tensorir.expr import Expr
from ...tensorir.text.printer import print_attr
from ..expr import (
    Atom,
    Binding,
    Call,
    CallDPS,
    CallFunction,
    Constant,
    Function,
    SeqExpr,
    ShapeExpr,
    Tuple,
    TupleGetItem,
    Value,
    Var,
)
from ..module import IRModule
from ..mutator import ExprMutator
from ..type import tensors_of
from ..weights import Weight


@dataclass(frozen=True)
class EliminateCommonSubexpr(Pass):
    """Reuse the value of an equal pure operation bound before, in the same sequence or around it.

    Operators, call_dps of PrimFuncs and calls of graph functions are pure; a packed call is not
    assumed to be. Constants are equal by contents.

    *requires*: A-normal form. *ensures*: no two visible bindings hold equal operations.

        a = R.exp(x)
        b = R.exp(x)               ->        a = R.exp(x)
        y = R.add(a, b)                      y = R.add(a, a)
    """

    def run(self, module: IRModule) -> IRModule:
        return _Eliminator(module).transform()


class _Eliminator(ExprMutator):
    def __init__(self, module: IRModule) -> None:
        super().__init__(module)
        self.known: dict[Hashable, Var] = {}
        self.alike: dict[Hashable, list[Weight]] = {}
        """Weights of different values, by what tells most of them apart."""

    def visit_function(self, func: Function) -> Function:
        self.known = {}
        return super().visit_function(func)

    def visit_seq(self, seq: SeqExpr) -> SeqExpr:
        outer = dict(self.known)  # what a branch computes is not visible after it
        try:
            return super().visit_seq(seq)
        finally:
            self.known = outer

    def visit_binding(self, binding: Binding) -> None:
        value = self.visit_value(binding.value)
        key = self.key(value)
        if key is not None and key in self.known:
            self.replaced[binding.var] = self.known[key]
            return
        self.rebind(binding, value)
        new = self.replaced.get(binding.var, binding.var)
        if key is not None and isinstance(new, Var):
            self.known[key] = new

    def key(self, value: Value) -> Hashable:
        """What an operation is, up to identity of variables; None for what must run each time."""
        match value:
            case Call():
                attrs = tuple(sorted((k, print_attr(v)) for k, v in value.attrs))
                return ("op", value.op, tuple(map(self.atom_key, value.args)), attrs)
            case CallDPS() | CallFunction():
                args = tuple(map(self.atom_key, value.args))
                tensors = tensors_of(value.out_type)
                kinds = tuple([(str(t.dtype), _dims_key(t.shape)) for t in tensors])
                return (type(value).__name__, value.func.name, args, kinds)
            case TupleGetItem():
                return ("item", self.atom_key(value.value), value.index)
        return None

    def atom_key(self, atom: Atom) -> Hashable:
        match atom:
            case Constant():
                return self.constant_key(atom)
            case Tuple():
                return tuple(map(self.atom_key, atom.fields))
            case ShapeExpr():
                return _dims_key(atom.values)
            case Var():
                return id(atom)
        return atom.name

    def constant_key(self, constant: Constant) -> Hashable:
        """The content, and which of the constants that seem to have it. Weights are large and
        hardly ever equal: a digest of all their bytes is taken only where a sample agrees."""
        weight = self.builder.weights.weight_of(constant)
        content = weight.content
        alike = self.alike.setdefault(content, [])
        for number, other in enumerate(alike):
            if _is_same_memory(other, weight) or other.digest == weight.digest:
                return ("constant", content, number)
        alike.append(weight)
        return ("constant", content, len(alike) - 1)


def _is_same_memory(a: Weight, b: Weight) -> bool:
    """Whether two weights with the same sample are one array, or two views of it: large weights
    are viewed in several ways, and nothing has to be read to know that these are equal."""
    if a is b:
        return True
    x, y = a.array(), b.array()
    return x.__array_interface__["data"] == y.__array_interface__["data"] and x.strides == y.strides


def _dims_key(dims: Sequence[Expr]) -> Hashable:
    return tuple([expr_key(d) for d in dims])
