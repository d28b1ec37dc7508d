"""BindSymbolicVars: symbolic dims of a function become numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ...support.errors import VMError, nearest
from ...support.node import replace
from ...support.passes import Pass
from ...tensorir.expr import Expr, IntImm
from ...tensorir.expr import Var as DimVar
from ..dim import substitute_dim
from ..expr import Atom, CallDPS, CallDPSPacked, CallFunction, Function, ShapeExpr, Value, Var
from ..module import IRModule
from ..mutator import ExprMutator
from ..type import dims_of, substitute_type


@dataclass(frozen=True)
class BindSymbolicVars(Pass):
    """Give symbolic dims the sizes that ``sizes`` says by name, in the function ``func_name`` or,
    without one, in every graph function that has a dim of the name.

    *requires*: each name is a dim of a parameter. *ensures*: it occurs in the function no more.

        def main(x: R.Tensor(("n", 4))) -> R.Tensor(("n", 4)):
    becomes with ``{"n": 8}``
        def main(x: R.Tensor((8, 4))) -> R.Tensor((8, 4)):
    """

    sizes: Mapping[str, int] = field(default_factory=dict)
    func_name: str | None = None

    def run(self, module: IRModule) -> IRModule:
        funcs = module.graph_functions
        chosen = funcs if self.func_name is None else {self.func_name: funcs[self.func_name]}
        dims = {name: _dims_of(func) for name, func in chosen.items()}
        known = sorted({n for found in dims.values() for n in found})
        for name, size in self.sizes.items():
            if name not in known:
                raise VMError(
                    f"BindSymbolicVars: no parameter has a dim {name!r}; found "
                    f"{', '.join(known) or 'none'}.{nearest(name, known)}"
                )
            if isinstance(size, bool) or not isinstance(size, int) or size < 0:
                raise VMError(f"BindSymbolicVars: {name} cannot be {size!r}; expected a size.")
        for name, func in chosen.items():
            found = dims[name]
            values = {found[n]: IntImm(size) for n, size in self.sizes.items() if n in found}
            module[name] = bind_dims(module, func, values)
        return module


def _dims_of(func: Function) -> dict[str, DimVar]:
    dims = [d for p in func.params for d in dims_of(p.type)]
    return {d.name: d for d in dims if isinstance(d, DimVar)}


def bind_dims(module: IRModule, func: Function, values: Mapping[DimVar, Expr]) -> Function:
    """The function with dims replaced in every type, shape and result."""
    return _DimBinder(module, values).visit_function(func) if values else func


class _DimBinder(ExprMutator):
    def __init__(self, module: IRModule, values: Mapping[DimVar, Expr]) -> None:
        super().__init__(module)
        self.values = values

    def visit_function(self, func: Function) -> Function:
        for p in func.params:
            kind = substitute_type(p.type, self.values)
            if kind is not p.type:
                self.replaced[p] = Var(p.name, kind).with_span(p.span)
        params = tuple([self.replaced.get(p, p) for p in func.params])
        return replace(super().visit_function(func), params=params)

    def visit_atom(self, atom: Atom) -> Atom:
        if isinstance(atom, ShapeExpr):
            dims = tuple([substitute_dim(d, self.values) for d in atom.values])
            return replace(atom, values=dims, type=substitute_type(atom.type, self.values))
        return super().visit_atom(atom)

    def _out_type(self, value: Value) -> Value:
        if isinstance(value, (CallDPS, CallDPSPacked, CallFunction)):
            return replace(value, out_type=substitute_type(value.out_type, self.values))
        return value

    def visit_value(self, value: Value) -> Value:
        return self._out_type(super().visit_value(value))
