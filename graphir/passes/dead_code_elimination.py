"""DeadCodeElimination: bindings that nobody reads, and functions that nobody calls, go away."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from ...support.node import replace, walk
from ...support.passes import Pass
from ...tensorir.expr import Var as DimVar
from ...tensorir.visitor import free_vars
from ..analysis import binds_dim, bound_dims, called_functions, stays, variables
from ..builder import join_blocks
from ..expr import (
    Atom,
    Binding,
    Call,
    CallDPSPacked,
    Function,
    If,
    SeqExpr,
    ShapeExpr,
    Value,
    Var,
)
from ..module import IRModule
from ..type import dims_of


@dataclass(frozen=True)
class DeadCodeElimination(Pass):
    """Remove unread pure bindings, and PrimFuncs and marked sub-functions that nothing calls.

    A graph function is an entry unless it is a group of fuse-ops, and stays, with all it calls;
    ``call_dps_packed("name")`` counts as a call. A module without graph functions is a library of
    PrimFuncs and stays whole. Outside of dataflow blocks a packed call may have effects and stays.

    *requires*: nothing. *ensures*: every binding is read or has effects; every PrimFunc is called.

        lv = R.exp(x)
        y = R.relu(x)          ->        y = R.relu(x)
    """

    entries: tuple[str, ...] = ()
    """Names of the functions to keep; by default every graph function that is not a group."""

    def run(self, module: IRModule) -> IRModule:
        for name, func in module.graph_functions.items():
            module[name] = _eliminate(func)
        roots = list(self.entries) or [
            n for n, f in module.graph_functions.items() if not f.attr("primitive")
        ]
        if not roots:
            return module
        live: set[str] = set()
        while roots:
            name = roots.pop()
            if name in live or name not in module:
                continue
            live.add(name)
            callee = module[name]
            if isinstance(callee, Function):
                roots += called_functions(callee, list(module))
        module.functions = {n: f for n, f in module.functions.items() if n in live}
        return module


def _eliminate(func: Function) -> Function:
    named = set(free_vars(dims_of(func.ret_type))) if bound_dims(func) else None
    return replace(func, body=_sequence(func.body, set(), named))


def _sequence(seq: SeqExpr, live: set[Var], named: set[DimVar] | None) -> SeqExpr:
    """Backwards: a binding stays if something after it reads it, or has a size that it binds.
    ``named`` are the sizes that something after the sequence has; None where none is computed."""
    live |= set(variables(seq.result))
    blocks = []
    for block in reversed(seq.blocks):
        kept: list[Binding] = []
        for binding in reversed(block.bindings):
            is_pure = block.is_dataflow or _is_pure(binding.value, named or ())
            if binding.var in live or stays(binding.value) or not is_pure:
                value = _inside(binding.value, named)
                live |= set(variables(value))
                kept.append(replace(binding, value=value))
                if named is not None:
                    named |= {n for n in walk(kept[-1]) if isinstance(n, DimVar)}
        kept.reverse()
        same = len(kept) == len(block.bindings) and all(
            a is b for a, b in zip(kept, block.bindings, strict=True)
        )
        if kept:
            blocks.append(block if same else replace(block, bindings=tuple(kept)))
    blocks.reverse()
    blocks = join_blocks(blocks)
    if len(blocks) == len(seq.blocks) and all(
        a is b for a, b in zip(blocks, seq.blocks, strict=True)
    ):
        return seq
    return replace(seq, blocks=tuple(blocks))


def _inside(value: Value, named: set[DimVar] | None) -> Value:
    if not isinstance(value, If):
        return value
    yes, no = [
        _sequence(branch, set(), None if named is None else set(named))
        for branch in (value.true_branch, value.false_branch)
    ]
    return replace(value, true_branch=yes, false_branch=no)


def _is_pure(value: Value | Atom, named: Collection[DimVar]) -> bool:
    """An environment function outside of a dataflow block may do anything; operators do not, but
    that branches may bind sizes that something behind them has (``named``)."""
    if isinstance(value, If):
        inner = (
            b.value
            for s in (value.true_branch, value.false_branch)
            for k in s.blocks
            for b in k.bindings
        )
        return all(_is_pure(v, named) and not _binds_one(v, named) for v in inner)
    return not isinstance(value, CallDPSPacked)


def _binds_one(value: Value, named: Collection[DimVar]) -> bool:
    if not isinstance(value, Call) or not binds_dim(value):
        return False
    shape = value.args[1]
    return isinstance(shape, ShapeExpr) and any(d in named for d in shape.values)
