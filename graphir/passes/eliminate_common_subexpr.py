"""EliminateCommonSubexpr: an operation that was computed before is not computed again."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from ...support.passes import Pass
from ...tensorir.arith import expr_key
from ...tensorir.expr import Expr
from ...tensorir.printer import print_attr
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

_SAMPLE = 64
"""Elements, evenly spread, that tell most constants apart."""


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
        self.constants = _Contents()

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
                return ("constant", self.constants.number(atom))
            case Tuple():
                return tuple(map(self.atom_key, atom.fields))
            case ShapeExpr():
                return _dims_key(atom.values)
            case Var():
                return id(atom)
        return atom.name


class _Contents:
    """Numbers constants by their contents. Weights are large and hardly ever equal: their bytes are
    compared only where dtype, shape and a sample of them agree."""

    def __init__(self) -> None:
        self.numbers: dict[int, tuple[Constant, int]] = {}
        self.alike: dict[Hashable, list[tuple[np.ndarray, int]]] = {}

    def number(self, constant: Constant) -> int:
        known = self.numbers.get(id(constant))
        if known is None:
            known = self.numbers[id(constant)] = constant, self._search(constant)
        return known[1]

    def _search(self, constant: Constant) -> int:
        data = constant.data
        step = max(1, data.size // _SAMPLE)
        sample = data.flat[::step].tobytes() if data.size else b""
        alike = self.alike.setdefault((str(constant.type.dtype), data.shape, sample), [])
        for other, number in alike:
            if data is other or _same_bytes(data, other):
                return number
        alike.append((data, len(self.numbers)))
        return alike[-1][1]


def _same_bytes(a: np.ndarray, b: np.ndarray) -> bool:
    """Equality of bits: NaN equals itself, and zeros of two signs differ."""
    bits = np.dtype(f"u{a.dtype.itemsize}")
    return np.array_equal(np.ascontiguousarray(a).view(bits), np.ascontiguousarray(b).view(bits))


def _dims_key(dims: Sequence[Expr]) -> Hashable:
    return tuple([expr_key(d) for d in dims])
