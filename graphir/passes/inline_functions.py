"""InlineFunctions: the body of a graph function in the place of its call.

A call of a function is one of the virtual machine, which ends a native segment, and fusion does not
look behind it. Functions that call themselves, that branch, or that compute sizes of their own stay
as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ...support.node import replace
from ...support.passes import Pass
from ...tensorir.expr import Expr
from ...tensorir.expr import Var as DimVar
from ..analysis import bindings, called_functions, stays
from ..dim import solve_dims, substitute_dim
from ..expr import (
    Atom,
    Call,
    CallDPS,
    CallDPSPacked,
    CallFunction,
    Function,
    If,
    ShapeExpr,
    Tuple,
    TupleGetItem,
    Value,
    Var,
)
from ..module import IRModule
from ..mutator import ExprMutator
from ..op import type_of
from ..type import dims_of, substitute_type


@dataclass(frozen=True)
class InlineFunctions(Pass):
    """Put bodies of graph functions in the place of their calls; ``names`` are those meant (None:
    all). The functions stay: ``DeadCodeElimination(("main",))`` removes what main does not call.

    *requires*: nothing. *ensures*: no call of a function that is a straight line.

        y = cls.twice(x)        # twice: a = R.add(x, x), returns a
    becomes
        y = R.add(x, x)
    """

    names: tuple[str, ...] | None = None

    def run(self, module: IRModule) -> IRModule:
        chosen = {
            name: func
            for name, func in module.graph_functions.items()
            if (self.names is None or name in self.names) and _is_straight(module, name, func)
        }
        return _Inliner(module, chosen).transform() if chosen else module


class _Inliner(ExprMutator):
    def __init__(self, module: IRModule, chosen: Mapping[str, Function]) -> None:
        super().__init__(module)
        self.chosen = chosen

    def visit_CallFunction(self, call: CallFunction) -> Value:  # noqa: N802
        """What the callee gives, its bindings in front."""
        new = super().visit_CallFunction(call)
        assert isinstance(new, CallFunction)
        callee = self.chosen.get(new.func.name)
        return new if callee is None else self.inlined(callee, new.args)

    def inlined(self, callee: Function, args: tuple[Atom, ...]) -> Atom:
        patterns = [d for p in callee.params for d in dims_of(p.type)]
        dims = solve_dims(patterns, [d for a in args for d in dims_of(type_of(a))])
        atoms: dict[Var, Atom] = dict(zip(callee.params, args, strict=True))
        for block in callee.body.blocks:
            for binding in block.bindings:
                value = _with(binding.value, atoms, dims)
                if isinstance(value, CallFunction) and value.func.name in self.chosen:
                    atoms[binding.var] = self.inlined(self.chosen[value.func.name], value.args)
                else:
                    atoms[binding.var] = self.emit(value, binding.var.name)
        result = _with(callee.body.result, atoms, dims)
        return result if isinstance(result, (Var, Tuple, ShapeExpr)) else self.emit(result)


def _is_straight(module: IRModule, name: str, func: Function) -> bool:
    """Whether a function's body may stand anywhere: it does not reach itself, branch or bind
    sizes."""
    reached: set[str] = set()
    waiting = [func]
    while waiting:
        for callee in called_functions(waiting.pop(), list(module)) - reached:
            reached.add(callee)
            found = module.functions.get(callee)
            if isinstance(found, Function):
                waiting.append(found)
    values = [b.value for b in bindings(func)]
    return name not in reached and not any(isinstance(v, If) or stays(v) for v in values)


def _with(value: Value, atoms: Mapping[Var, Atom], dims: Mapping[DimVar, Expr]) -> Value:
    """A value of a callee in the variables and dims of the caller."""

    def atom(a: Atom) -> Atom:
        if isinstance(a, Var):
            return atoms[a]
        if isinstance(a, Tuple):
            return Tuple(tuple([atom(f) for f in a.fields]))
        if isinstance(a, ShapeExpr):
            return ShapeExpr(tuple([substitute_dim(d, dims) for d in a.values]))
        return a

    match value:
        case Call():
            return replace(value, args=tuple([atom(a) for a in value.args]))
        case CallDPS() | CallDPSPacked() | CallFunction():
            args = tuple([atom(a) for a in value.args])
            return replace(value, args=args, out_type=substitute_type(value.out_type, dims))
        case TupleGetItem():
            return replace(value, value=atom(value.value))
        case If():
            return value  # is in no function that is inlined
    return atom(value)
