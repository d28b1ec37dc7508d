"""ExprVisitor: walk over graph functions binding by binding, to count, collect or check.

    class CountOps(ExprVisitor):
        def __init__(self):
            self.counts = Counter()

        def visit_Call(self, call):
            self.counts[call.op] += 1

    counter = CountOps()
    counter.visit_module(module)

Bindings come in order, the branches of an ``If`` where it stands. A ``visit_<Value>`` method that
does not call ``super()`` leaves the arguments out. Nothing is changed: ``ExprMutator`` rewrites.
"""

from __future__ import annotations

from typing import Any, assert_never

from ..support.errors import BurnishError, nearest
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


def refuse_unknown_visits(cls: type, base: type) -> None:
    """A method ``visit_...`` that ``base`` has not is a mistake in its name: nothing calls it.
    Raises BurnishError with the nearest name."""
    for name in vars(cls):
        if name.startswith("visit_") and not hasattr(base, name):
            known = [n for n in dir(base) if n.startswith("visit_") and hasattr(base, n)]
            raise BurnishError(
                f"{cls.__name__}.{name} would never be called; {base.__name__} has "
                f"{', '.join(known)}.{nearest(name, known)}"
            )


class ExprVisitor:
    """Visits every value of a module, a function or a binding."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        refuse_unknown_visits(cls, ExprVisitor)

    def visit_module(self, module: IRModule) -> None:
        """Every graph function in order of definition."""
        for func in module.graph_functions.values():
            self.visit_function(func)

    def visit_function(self, func: Function) -> None:
        """The body; the parameters are seen where they are used."""
        self.visit_seq(func.body)

    def visit_seq(self, seq: SeqExpr) -> None:
        for block in seq.blocks:
            self.visit_block(block)
        self.visit_value(seq.result)

    def visit_block(self, block: BindingBlock) -> None:
        for binding in block.bindings:
            self.visit_binding(binding)

    def visit_binding(self, binding: Binding) -> None:
        self.visit_value(binding.value)

    def visit_value(self, value: Value) -> None:  # noqa: C901 - one case a class
        """Dispatch on the class of the value."""
        match value:
            case Call():
                self.visit_Call(value)
            case CallDPS():
                self.visit_CallDPS(value)
            case CallDPSPacked():
                self.visit_CallDPSPacked(value)
            case CallFunction():
                self.visit_CallFunction(value)
            case TupleGetItem():
                self.visit_TupleGetItem(value)
            case If():
                self.visit_If(value)
            case Var():
                self.visit_Var(value)
            case Constant():
                self.visit_Constant(value)
            case ShapeExpr():
                self.visit_ShapeExpr(value)
            case GlobalVar():
                self.visit_GlobalVar(value)
            case Tuple():
                self.visit_Tuple(value)
            case _:
                assert_never(value)

    # -- operations ----------------------------------------------------------------------------
    def visit_Call(self, call: Call) -> None:  # noqa: N802
        self.visit_args(call.args)

    def visit_CallDPS(self, call: CallDPS) -> None:  # noqa: N802
        self.visit_GlobalVar(call.func)
        self.visit_args(call.args)

    def visit_CallDPSPacked(self, call: CallDPSPacked) -> None:  # noqa: N802
        self.visit_args(call.args)

    def visit_CallFunction(self, call: CallFunction) -> None:  # noqa: N802
        self.visit_GlobalVar(call.func)
        self.visit_args(call.args)

    def visit_TupleGetItem(self, item: TupleGetItem) -> None:  # noqa: N802
        self.visit_value(item.value)

    def visit_If(self, value: If) -> None:  # noqa: N802
        self.visit_value(value.condition)
        self.visit_seq(value.true_branch)
        self.visit_seq(value.false_branch)

    # -- atoms ---------------------------------------------------------------------------------
    def visit_args(self, atoms: tuple[Atom, ...]) -> None:
        """The arguments, left to right."""
        for atom in atoms:
            self.visit_value(atom)

    def visit_Tuple(self, atom: Tuple) -> None:  # noqa: N802
        self.visit_args(atom.fields)

    def visit_Var(self, var: Var) -> None:  # noqa: N802
        """A use of a variable."""

    def visit_Constant(self, constant: Constant) -> None:  # noqa: N802
        """A constant among the arguments."""

    def visit_ShapeExpr(self, shape: ShapeExpr) -> None:  # noqa: N802
        """A shape among the arguments."""

    def visit_GlobalVar(self, var: GlobalVar) -> None:  # noqa: N802
        """A function that is called, or is an argument."""
