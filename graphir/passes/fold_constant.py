"""FoldConstant: what depends on constants alone is computed now.

The graph does not run code: ``evaluate`` is handed in by the driver. The pass decides what is worth
folding, and keeps large results out of the program.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import TypeAlias

import numpy as np

from ...support.aligned import aligned_copy
from ...support.dtype import DType
from ...support.errors import InternalError
from ...support.node import walk
from ...support.passes import Pass
from ...tensorir.expr import ExternCall
from ...tensorir.function import PrimFunc
from ..dim import static_shape
from ..expr import Atom, Call, CallDPS, Constant, ShapeExpr, Tuple, Value
from ..module import IRModule
from ..mutator import ExprMutator
from ..op import Op, get_op, type_of
from ..type import TensorType, Type, tensors_of

Evaluate: TypeAlias = Callable[[PrimFunc, Sequence[np.ndarray]], Sequence[np.ndarray]]
"""``evaluate(prim_func, inputs)`` runs a PrimFunc of static shapes and gives its outputs."""


@dataclass(frozen=True)
class FoldConstant(Pass):
    """Replace operator and call_dps results that depend on constants alone by constants.

    ``evaluate`` runs a PrimFunc on arrays. A result of more than ``max_bytes`` is folded only if it
    is no larger than the constants it is made from, so that a broadcast does not swell the program.

    *requires*: static shapes where it folds. *ensures*: no foldable call is left.

        lv = R.add(R.const(1.0, "float32"), R.const(2.0, "float32"))
        y = R.multiply(x, lv)
    becomes
        y = R.multiply(x, R.const(3.0, "float32"))
    """

    evaluate: Evaluate
    max_bytes: int = 64 * 1024 * 1024
    keep_bytes: bool = False
    """Leave casts of bytes, which weights of a quantised model may be."""

    def run(self, module: IRModule) -> IRModule:
        return _Folder(module, self.evaluate, self.max_bytes, self.keep_bytes).transform()


class _Folder(ExprMutator):
    def __init__(
        self, module: IRModule, evaluate: Evaluate, max_bytes: int, keep_bytes: bool
    ) -> None:
        super().__init__(module)
        self.evaluate, self.max_bytes, self.keep_bytes = evaluate, max_bytes, keep_bytes

    def visit_Call(self, call: Call) -> Value:  # noqa: N802
        new = super().visit_Call(call)
        assert isinstance(new, Call)
        kind = type_of(new)
        data = [a for a in new.args if not isinstance(a, ShapeExpr)]
        op = get_op(new.op)
        constants = self._foldable(data, kind)
        if constants is None and new.op == "sum":
            return self._sum_of_cast(new, kind) or new
        if constants is None or (self.keep_bytes and _widens_bytes(new, constants[0])):
            return new
        if op.is_view:
            assert isinstance(kind, TensorType)
            shape = static_shape(kind.shape) or ()
            return self.derive("reshaped", lambda array: array.reshape(shape), constants[0])
        if op.legalize is None:
            return new
        moved = self._moved(new, op, constants, kind)
        return moved or self._folded(op.legalize(new), constants, kind)

    def _moved(self, call: Call, op: Op, constants: Sequence[Constant], kind: Type) -> Value | None:
        """The result of a call that NumPy computes to the bit: models compute masks and places by
        dozens of such calls, each of another shape, and each would be a kernel."""
        fold = op.fold
        array = None if fold is None else fold(call, [self.array(c) for c in constants])
        if fold is None or array is None:
            return None
        assert isinstance(kind, TensorType)

        def again(*inputs: np.ndarray) -> np.ndarray:
            found = fold(call, inputs)
            assert found is not None
            return aligned_copy(found)

        known = {"dtype": kind.dtype, "array": aligned_copy(array)}
        return self.derive(call.op, again, *constants, **known)

    def _sum_of_cast(self, call: Call, kind: Type) -> Value | None:
        """The sum of a constant's cast that is too large to be folded, as that of large weights in
        bytes is: neither stays."""
        cast = self.lookup_binding(call.args[0])
        if not isinstance(cast, Call) or cast.op != "astype":
            return None
        constants = self._foldable(cast.args, kind)
        steps = [get_op(c.op).legalize for c in (cast, call)]
        if constants is None or steps[0] is None or steps[1] is None:
            return None
        widen, add_up, evaluate = steps[0](cast), steps[1](call), self.evaluate

        def sums(array: np.ndarray) -> np.ndarray:
            return evaluate(add_up, evaluate(widen, [array]))[0]

        assert isinstance(kind, TensorType)
        return self.derive("sum", sums, constants[0], dtype=kind.dtype)

    def visit_CallDPS(self, call: CallDPS) -> Value:  # noqa: N802
        new = super().visit_CallDPS(call)
        assert isinstance(new, CallDPS)
        func = self.module[new.func]
        constants = self._foldable(new.args, new.out_type)
        if constants is None or not isinstance(func, PrimFunc) or func.shape_vars:
            return new
        if any(isinstance(n, ExternCall) for n in walk(func.body)):
            return new  # its code comes when the program is built
        return self._folded(func, constants, new.out_type)

    def _foldable(self, args: Sequence[Atom], kind: Type) -> list[Constant] | None:
        constants = [a for a in args if isinstance(a, Constant)]
        if len(constants) != len(args):
            return None
        shapes = [(t, static_shape(t.shape)) for t in tensors_of(kind)]
        if not shapes or any(s is None or t.dtype == "bfloat16" for t, s in shapes):
            return None
        out_bytes = sum(prod(s or ()) * t.dtype.itemsize for t, s in shapes)
        in_bytes = sum(prod(c.shape) * c.type.dtype.itemsize for c in constants)
        return constants if out_bytes <= max(self.max_bytes, in_bytes) else None

    def _folded(self, func: PrimFunc, constants: Sequence[Constant], kind: Type) -> Value:
        evaluate, kinds = self.evaluate, tensors_of(kind)
        results = evaluate(func, [self.array(c) for c in constants])
        atoms: list[Atom] = []
        for index, (array, expected) in enumerate(zip(results, kinds, strict=True)):
            if (
                array.shape != static_shape(expected.shape)
                or DType.from_numpy(array.dtype) is not expected.dtype
            ):
                raise InternalError(
                    f"evaluate({func.name}) gave {array.shape} {array.dtype}, not the declared type"
                )

            def again(*inputs: np.ndarray, index: int = index) -> np.ndarray:
                return evaluate(func, inputs)[index]

            known = {"dtype": expected.dtype, "array": array}
            atoms.append(self.derive(func.name, again, *constants, **known))
        return atoms[0] if isinstance(kind, TensorType) else Tuple(tuple(atoms))


def _widens_bytes(call: Call, operand: Constant) -> bool:
    """Whether a call is a cast of bytes with the rank of a weight."""
    is_bytes = operand.type.dtype in ("int8", "uint8")
    return call.op == "astype" and is_bytes and len(operand.shape) >= 2
