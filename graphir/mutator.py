"""ExprMutator: rewrite graph functions binding by binding. Users write their own passes with it.

    class ReluToGelu(ExprMutator):
        def visit_Call(self, call):
            call = super().visit_Call(call)
            return call_op("gelu", *call.args) if call.op == "relu" else call

    module = ReluToGelu(module).transform()

The mutator walks A-normal form in order and re-emits each binding through a BlockBuilder. A
``visit_<Value>`` method returns the new value of the binding: another operation, or an *atom*,
which then replaces the variable everywhere below and leaves no binding behind. Inside such a method
``self.emit(value)`` puts further bindings in front, ``self.lookup_binding(var)`` tells what an
argument was computed by, ``self.builder.call_te`` calls a kernel of one's own, ``self.array`` reads
a constant and ``self.derive`` computes another one from it. Types are inferred again where values
changed; a function in which nothing changed is returned as the same object. What nothing reads any
more is left to dead-code-elimination."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar, assert_never

import numpy as np

from ..support.errors import BurnishError
from ..support.keywords import hinted
from ..support.node import replace
from ..support.other_names import OtherName
from .builder import BlockBuilder
from .expr import (
    Atom,
    Binding,
    BindingBlock,
    Call,
    CallDPS,
    CallDPSPacked,
    CallFunction,
    Constant,
    Function,
    GlobalVar,
    If,
    SeqExpr,
    ShapeExpr,
    Tuple,
    TupleGetItem,
    Value,
    Var,
)
from .module import IRModule
from .op import type_of
from .type import types_equal
from .visitor import refuse_unknown_visits
from .weights import Compute

ATOMS = (Var, Constant, ShapeExpr, GlobalVar, Tuple)
VALUES = (*ATOMS, Call, CallDPS, CallDPSPacked, CallFunction, TupleGetItem, If)
_C = TypeVar("_C", Call, CallDPS, CallDPSPacked, CallFunction)


@hinted
class ExprMutator:
    """Rewrites the graph functions of a module; ``transform()`` gives the new module.

    ``self.module`` is the module that was given, ``self.builder`` holds the one under construction.
    """

    builder_ = OtherName("builder")
    visit = OtherName("transform() of a module, or visit_function(func)")
    visit_expr = OtherName("transform() of a module, or visit_function(func)")
    visit_expr_post_order = OtherName("super().visit_Call(call)")
    mod = OtherName("module")
    update_func = OtherName("builder.update_func(name, func)")
    get_var_remap = OtherName("visit_atom(var)")
    set_var_remap = OtherName("rebind(binding, value)")

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        refuse_unknown_visits(cls, ExprMutator)

    def __init__(self, module: IRModule | None = None) -> None:
        self.module = module if module is not None else IRModule()
        self.builder = BlockBuilder(self.module)
        # One table: who takes a single function from here has its constants in the given module.
        self.module.weights = self.builder.weights
        self.replaced: dict[Var, Atom] = {}

    def transform(self) -> IRModule:
        """Visit every graph function; what ``self.builder.add_func`` added stays too."""
        for name, func in self.module.graph_functions.items():
            self.builder.update_func(name, self.visit_function(func))
        return self.builder.get()

    # -- structure -----------------------------------------------------------------------------
    def visit_function(self, func: Function) -> Function:
        """The function with its body rewritten; the return type follows the new result."""
        self.builder.reserve_names(_names(func))
        body = self.visit_seq(func.body)
        if body is func.body:
            return func
        kind = type_of(body.result)
        return replace(
            func, body=body, ret_type=func.ret_type if types_equal(kind, func.ret_type) else kind
        )

    def visit_seq(self, seq: SeqExpr) -> SeqExpr:
        with self.builder.sequence() as blocks:
            for block in seq.blocks:
                self.visit_block(block)
            result = self.visit_atom(seq.result)
        kept = tuple([_reuse(old, new) for old, new in _paired(seq.blocks, blocks)])
        unchanged = len(kept) == len(seq.blocks) and all(
            a is b for a, b in zip(kept, seq.blocks, strict=True)
        )
        return replace(seq, blocks=seq.blocks if unchanged else kept, result=result)

    def visit_block(self, block: BindingBlock) -> None:
        """Emit the block's bindings, rewritten."""
        with self.builder.dataflow(is_dataflow=block.is_dataflow):
            for binding in block.bindings:
                self.visit_binding(binding)

    def visit_binding(self, binding: Binding) -> None:
        """Rewrite the value, then bind it, or replace the variable if the value became an atom."""
        value = self.visit_value(binding.value)
        if isinstance(value, Constant):
            value = self.builder.weights.adopt(value)
        if isinstance(value, ATOMS) and not isinstance(binding.value, ATOMS):
            self.replaced[binding.var] = value
        else:
            self.rebind(binding, value)

    def rebind(self, binding: Binding, value: Value) -> None:
        """Bind ``value`` where ``binding`` stood: to the same variable if the type allows it."""
        if value is binding.value:
            self.builder.emit_binding(binding)
            return
        if not isinstance(value, VALUES):
            raise BurnishError(
                f"{type(self).__name__} gave {value!r} for the value of {binding.var.name!r}; a "
                "visit method returns the call it was given, another one, or an atom "
                "(a variable, constant or tuple).",
                span=binding.span,
            )
        value = self.builder.normalize(value)
        kind = type_of(value)
        if types_equal(kind, binding.var.type):
            self.builder.emit_binding(Binding(binding.var, value).with_span(binding.span))
            return
        var = Var(binding.var.name, kind).with_span(binding.var.span)
        self.replaced[binding.var] = var
        self.builder.emit_binding(Binding(var, value).with_span(binding.span))

    def emit(self, value: Value, name: str = "lv") -> Var:
        """Bind a value in front of the binding that is being visited."""
        return self.builder.emit(value, name)

    def lookup_binding(self, atom: Atom) -> Value | None:
        """The (rewritten) value that a variable was bound to earlier in the function; None for a
        parameter or a constant."""
        return self.builder.lookup_binding(atom)

    # -- constants -----------------------------------------------------------------------------
    def array(self, constant: Constant) -> np.ndarray:
        """The values of a constant (bfloat16 as uint16)."""
        return self.builder.weights.array(constant)

    def derive(self, word: str, compute: Compute, *inputs: Constant, **known: Any) -> Constant:
        """The constant that ``compute`` makes of the arrays of others; see ``Weights.derive``."""
        return self.builder.weights.derive(word, compute, *inputs, **known)

    # -- values --------------------------------------------------------------------------------
    def visit_value(self, value: Value) -> Value:
        """Dispatch on the class of the value."""
        match value:
            case Call():
                return self.visit_Call(value)
            case CallDPS():
                return self.visit_CallDPS(value)
            case CallDPSPacked():
                return self.visit_CallDPSPacked(value)
            case CallFunction():
                return self.visit_CallFunction(value)
            case TupleGetItem():
                return self.visit_TupleGetItem(value)
            case If():
                return self.visit_If(value)
            case Var() | Constant() | ShapeExpr() | GlobalVar() | Tuple():
                return self.visit_atom(value)
        assert_never(value)

    def visit_Call(self, call: Call) -> Value:  # noqa: N802
        return self._with_args(call)

    def visit_CallDPS(self, call: CallDPS) -> Value:  # noqa: N802
        return self._with_args(call)

    def visit_CallDPSPacked(self, call: CallDPSPacked) -> Value:  # noqa: N802
        return self._with_args(call)

    def visit_CallFunction(self, call: CallFunction) -> Value:  # noqa: N802
        return self._with_args(call)

    def visit_TupleGetItem(self, item: TupleGetItem) -> Value:  # noqa: N802
        return replace(item, value=self.visit_atom(item.value))

    def visit_If(self, value: If) -> Value:  # noqa: N802
        return replace(
            value,
            condition=self.visit_atom(value.condition),
            true_branch=self.visit_seq(value.true_branch),
            false_branch=self.visit_seq(value.false_branch),
        )

    def _with_args(self, call: _C) -> _C:
        args = self.visit_atoms(call.args)
        return call if args is call.args else replace(call, args=args)

    # -- atoms ---------------------------------------------------------------------------------
    def visit_atoms(self, atoms: tuple[Atom, ...]) -> tuple[Atom, ...]:
        """The atoms, visited; the same tuple where none changed."""
        new = tuple([self.visit_atom(a) for a in atoms])
        return atoms if all(a is b for a, b in zip(new, atoms, strict=True)) else new

    def visit_atom(self, atom: Atom) -> Atom:
        if isinstance(atom, Var):
            return self.visit_Var(atom)
        if isinstance(atom, Constant):
            return self.visit_Constant(atom)
        if isinstance(atom, Tuple):
            return replace(atom, fields=self.visit_atoms(atom.fields))
        return atom

    def visit_Var(self, var: Var) -> Atom:  # noqa: N802
        return self.replaced.get(var, var)

    def visit_Constant(self, constant: Constant) -> Atom:  # noqa: N802
        return constant


def _paired(
    old: Sequence[BindingBlock], new: Sequence[BindingBlock]
) -> list[tuple[BindingBlock | None, BindingBlock]]:
    """Each new block with the old one that began with the same binding, if any."""
    first = {id(b.bindings[0]): b for b in old if b.bindings}
    return [(first.get(id(b.bindings[0])), b) for b in new]


def _reuse(old: BindingBlock | None, new: BindingBlock) -> BindingBlock:
    """The old block if the new one holds the very same bindings."""
    if (
        old is not None
        and old.is_dataflow == new.is_dataflow
        and len(old.bindings) == len(new.bindings)
        and all(a is b for a, b in zip(old.bindings, new.bindings, strict=True))
    ):
        return old
    return new


def _names(func: Function) -> list[str]:
    names = [p.name for p in func.params]
    stack = [func.body]
    while stack:
        for block in stack.pop().blocks:
            for binding in block.bindings:
                names.append(binding.var.name)
                if isinstance(binding.value, If):
                    stack += [binding.value.true_branch, binding.value.false_branch]
    return names
