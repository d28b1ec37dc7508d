"""BindParams: parameters of a function become constants. What weights are to the compiler from then
on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from ...support.aligned import aligned_copy
from ...support.errors import DTypeMismatchError, ShapeMismatchError, VMError, nearest
from ...support.node import replace
from ...support.passes import Pass
from ...tensorir.expr import Expr
from ...tensorir.expr import Var as DimVar
from ..dim import DimError, print_shape, solve_dims
from ..expr import Constant, Function, Var
from ..module import IRModule
from ..mutator import ExprMutator
from ..type import TensorType, dims_of
from .bind_symbolic_vars import bind_dims


@dataclass(frozen=True)
class BindParams(Pass):
    """Bind parameters of ``func_name`` to values.

    ``params`` maps names to arrays, anything ``np.asarray`` takes, or tensors with ``.numpy()``. A
    name that is no parameter, or a value of another shape or dtype, is an error: nothing is cast. A
    symbolic dim in a bound parameter's type gets its size from the value, in the whole function;
    two values that disagree about it are an error.

    *requires*: the function exists. *ensures*: the bound names are parameters no more.

        def main(x: R.Tensor((1, 4)), w: R.Tensor((1, 4))):
            y = R.add(x, w)
    becomes
        def main(x: R.Tensor((1, 4))):
            y = R.add(x, R.const([[0.0, 1.0, 2.0, 3.0]], "float32"))
    """

    func_name: str
    params: Mapping[str, object] = field(default_factory=dict)

    def run(self, module: IRModule) -> IRModule:
        func = module[self.func_name]
        if not isinstance(func, Function):
            raise VMError(
                f"BindParams: {self.func_name!r} is a prim_func, which has no values to bind."
            )
        by_name = {p.name: p for p in func.params}
        for name in self.params:
            if name not in by_name:
                raise VMError(
                    f"BindParams: function {self.func_name!r} has no parameter {name!r}; it has "
                    f"{', '.join(by_name)}.{nearest(name, by_name)}"
                )
        bound = {by_name[n]: _constant(module, by_name[n], v) for n, v in self.params.items()}
        func = bind_dims(module, func, _dims(self.func_name, bound))
        values = {p.name: c for p, c in bound.items()}
        binder = ExprMutator(module)
        binder.replaced.update({p: values[p.name] for p in func.params if p.name in values})
        kept = tuple([p for p in func.params if p.name not in values])
        module[self.func_name] = replace(binder.visit_function(func), params=kept)
        return module


def _constant(module: IRModule, param: Var, value: object) -> Constant:
    if isinstance(value, Constant):
        found = value
    else:
        numpy = getattr(value, "numpy", None)
        array = aligned_copy(np.asarray(numpy() if callable(numpy) else value))
        found = module.weights.add(param.name, array)
    expected = param.type
    if not isinstance(expected, TensorType):
        raise VMError(f"BindParams: parameter {param.name!r} is no tensor.")
    if found.type.dtype is not expected.dtype:
        raise DTypeMismatchError(param.name, str(expected.dtype), str(found.type.dtype))
    shapes = print_shape(expected.shape), print_shape(found.type.shape)
    if len(expected.shape) != len(found.type.shape):
        raise ShapeMismatchError(param.name, *shapes)
    try:
        solve_dims(expected.shape, found.type.shape)
    except DimError:
        raise ShapeMismatchError(param.name, *shapes) from None
    return found


def _dims(func_name: str, bound: Mapping[Var, Constant]) -> dict[DimVar, Expr]:
    """What the bound values say about the function's symbolic dims."""
    patterns = [d for p in bound for d in dims_of(p.type)]
    actual = [d for c in bound.values() for d in c.type.shape]
    try:
        return solve_dims(patterns, actual)
    except DimError as error:
        shapes = ", ".join(f"{p.name} {print_shape(c.type.shape)}" for p, c in bound.items())
        raise VMError(
            f"BindParams: the values of {func_name!r} disagree: {error.message} ({shapes})."
        ) from None
