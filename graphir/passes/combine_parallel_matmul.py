"""CombineParallelMatmul: linear layers of one input become one, whose result is cut.

Their weights stand one below the other in a weight of its own, computed here. What follows reads a
part of each row of the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...support.dtype import DType
from ...support.passes import Pass
from ...tensorir.expr import IntImm
from ..analysis import sequences
from ..builder import call_op
from ..expr import Atom, Binding, Call, Constant, Function, Value, Var
from ..module import IRModule
from ..mutator import ExprMutator
from ..op import attr, tensor_type_of, type_of
from ..type import TensorType

Key = tuple[object, ...]
"""Linear layers of one key can be one: the input, the dtypes, and whether there is a bias."""


@dataclass(frozen=True)
class CombineParallelMatmul(Pass):
    """Make one linear layer of those that read one value in a block, where there are at least
    ``min_branches``, all with constant weights.

    *requires*: canonicalize. *ensures*: nothing; other products stay.

        q = R.linear(x, wq)         # (8, 64)
        k = R.linear(x, wk)         # (8, 64)
    becomes
        lv = R.linear(x, R.const("wq.combined", ...))       # (16, 64)
        q = R.strided_slice(lv, axes=[1], begin=[0], end=[8])
        k = R.strided_slice(lv, axes=[1], begin=[8], end=[16])
    """

    min_branches: int = 2

    def run(self, module: IRModule) -> IRModule:
        return _Combiner(module, self.min_branches).transform()


class _Combiner(ExprMutator):
    def __init__(self, module: IRModule, least: int) -> None:
        super().__init__(module)
        self.least = least
        self.group_of: dict[Var, list[Binding]] = {}
        """Of each layer that is to be one with others, all of these."""
        self.whole: dict[Var, Var] = {}
        """Of the first layer of a group, the result of the one layer."""

    def visit_function(self, func: Function) -> Function:
        self.group_of, self.whole = {}, {}
        for seq in sequences(func.body):
            for block in seq.blocks:
                self._find(block.bindings)
        return super().visit_function(func)

    def _find(self, bindings: Sequence[Binding]) -> None:
        groups: dict[Key, list[Binding]] = {}
        for binding in bindings:
            key = _key(binding.value)
            if key is not None:
                groups.setdefault(key, []).append(binding)
        for group in groups.values():
            if len(group) >= self.least:
                self.group_of |= dict.fromkeys([b.var for b in group], group)

    def visit_binding(self, binding: Binding) -> None:
        group = self.group_of.get(binding.var)
        if group is None:
            super().visit_binding(binding)
            return
        first = group[0].var
        if first not in self.whole:
            self.whole[first] = self._combined(group)
        begin = sum([_rows(b.value) for b in group[: [b.var for b in group].index(binding.var)]])
        self.rebind(binding, self._part(self.whole[first], begin, _rows(binding.value)))

    def _combined(self, group: Sequence[Binding]) -> Var:
        """The one layer, emitted in front of the first of its group: all it reads but the input are
        constants."""
        calls = [b.value for b in group if isinstance(b.value, Call)]
        operands: list[Atom] = [self.visit_atom(calls[0].args[0])]
        for position in range(1, len(calls[0].args)):
            parts = [c.args[position] for c in calls]
            held = [p for p in parts if isinstance(p, Constant)]
            operands.append(self.derive("combined", _stacked, *held))
        return self.emit(Call("linear", tuple(operands), calls[0].attrs), "combined")

    def _part(self, whole: Var, begin: int, count: int) -> Value:
        kind = whole.type
        assert isinstance(kind, TensorType)
        axis = kind.ndim - 1
        return call_op("strided_slice", whole, axes=[axis], begin=[begin], end=[begin + count])


def _stacked(*parts: np.ndarray) -> np.ndarray:
    return np.concatenate(parts)


def _key(value: Value) -> Key | None:
    """What linear layers must share to be one; None for any other value."""
    if not isinstance(value, Call) or value.op != "linear" or not isinstance(value.args[0], Var):
        return None
    if not all(isinstance(a, Constant) for a in value.args[1:]):
        return None
    kinds = [type_of(a) for a in value.args[1:]]
    dtypes: list[DType] = [k.dtype for k in kinds if isinstance(k, TensorType)]
    return (id(value.args[0]), *dtypes, attr(value, "out_dtype"))


def _rows(value: Value) -> int:
    """How many numbers a layer gives for each row of its input."""
    assert isinstance(value, Call)
    kind = tensor_type_of(value.args[1])
    rows = kind.shape[0]
    assert isinstance(rows, IntImm)
    return rows.value
