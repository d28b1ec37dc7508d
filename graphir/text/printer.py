"""The module as text: Python syntax that ``graphir.text.parser`` reads back to an equal module.

Graph functions are printed here, PrimFuncs by ``tensorir.text.printer``. Names are unique within a
function; symbolic dims are strings. A small constant stands in the text; a larger one is named, and
its values are in ``mod.constants``. A call of a graph function is annotated with its type,
everything else can be inferred. Nothing here changes the IR."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, assert_never

from ...support.display import show_text
from ...support.dtype import DType
from ...support.node import node_repr, walk
from ...support.writer import NameTable, Writer
from ...tensorir.expr import Expr
from ...tensorir.function import PrimFunc
from ...tensorir.text.printer import print_attr, print_func
from ..dim import print_dim
from ..expr import (
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
    Operation,
    SeqExpr,
    ShapeExpr,
    Tuple,
    TupleGetItem,
    Value,
    Var,
)
from ..type import ShapeType, TensorType, TupleType, Type
from .literal import print_literal

if TYPE_CHECKING:
    from ..module import IRModule


# -- modules -----------------------------------------------------------------------------------
def print_module(module: IRModule) -> str:
    """The whole module, from its import line on."""
    kinds = {"T" if isinstance(f, PrimFunc) else "R" for f in module.functions.values()}
    out = Writer()
    out.line(f"# from burnish.script import {', '.join(sorted({'I', *kinds}))}")
    out.line()
    out.line("@I.ir_module")
    with out.block("class Module:"):
        if module.attrs:
            out.line(f"I.module_attrs({print_attr(dict(module.attrs))})")
            out.line()
        for index, (name, func) in enumerate(module.functions.items()):
            if index:
                out.line()
            if isinstance(func, PrimFunc):
                out.line(print_func(func, name=name).rstrip("\n"))
            else:
                out.line(print_function(func, name).rstrip("\n"))
    return out.text()


def print_function(func: Function, name: str | None = None) -> str:
    """One graph function, with its decorator."""
    return _FunctionPrinter().print(func, name or func.name)


def show_module(module: IRModule) -> None:
    """Print the module, in colours where that is possible."""
    show_text(module.script())


# -- functions ---------------------------------------------------------------------------------
class _FunctionPrinter:
    def __init__(self) -> None:
        self.out = Writer()
        self.names = NameTable()
        self.dims = NameTable()

    def print(self, func: Function, name: str) -> str:
        params = ", ".join(f"{self.names.name(p)}: {self.type(p.type)}" for p in func.params)
        self.out.line("@R.function")
        with self.out.block(f"def {name}({params}) -> {self.type(func.ret_type)}:"):
            attrs = {k: v for k, v in func.attrs if not (k == "global_symbol" and v == name)}
            if attrs:
                self.out.line(f"R.func_attr({print_attr(attrs)})")
            self.blocks(func.body, self.outputs(func.body))
            self.out.line(f"return {self.atom(func.body.result)}")
        return self.out.text()

    def outputs(self, body: SeqExpr) -> dict[int, list[Var]]:
        """The variables of each dataflow block (by identity) that are used after it."""
        outputs: dict[int, list[Var]] = {}
        later = _used_in_atom(body.result)
        for block in reversed(body.blocks):
            if block.is_dataflow:
                outputs[id(block)] = [b.var for b in block.bindings if b.var in later]
            later |= {n for b in block.bindings for n in walk(b.value) if isinstance(n, Var)}
        return outputs

    def blocks(self, body: SeqExpr, outputs: Mapping[int, list[Var]]) -> None:
        for block in body.blocks:
            self.block(block, outputs.get(id(block), []))

    def block(self, block: BindingBlock, outputs: Iterable[Var]) -> None:
        if not block.is_dataflow:
            for binding in block.bindings:
                self.binding(binding)
            return
        with self.out.block("with R.dataflow():"):
            for binding in block.bindings:
                self.binding(binding)
            leaving = ", ".join(self.names.name(v) for v in outputs)
            if leaving:
                self.out.line(f"R.output({leaving})")

    def binding(self, binding: Binding) -> None:
        if isinstance(binding.value, If):
            self.branches(binding.var, binding.value)
            return
        value = self.value(binding.value)
        kind = f": {self.type(binding.var.type)}" if isinstance(binding.value, CallFunction) else ""
        self.out.line(f"{self.names.name(binding.var)}{kind} = {value}")

    def branches(self, var: Var, value: If) -> None:
        condition = self.atom(value.condition)
        name = self.names.name(var)
        for header, branch in (
            (f"if {condition}:", value.true_branch),
            ("else:", value.false_branch),
        ):
            with self.out.block(header):
                self.blocks(branch, self.outputs(branch))
                self.out.line(f"{name} = {self.atom(branch.result)}")

    def value(self, value: Value) -> str:
        match value:
            case Call():
                attrs = [f"{k}={print_attr(v)}" for k, v in value.attrs]
                return f"R.{value.op}({', '.join([*map(self.atom, value.args), *attrs])})"
            case CallDPS():
                return f"R.call_dps(cls.{value.func.name}, {self._dps(value)})"
            case CallDPSPacked():
                return f"R.call_dps_packed({json.dumps(value.name)}, {self._dps(value)})"
            case CallFunction():
                return f"cls.{value.func.name}({', '.join(map(self.atom, value.args))})"
            case TupleGetItem():
                return f"{self.atom(value.value)}[{value.index}]"
            case Var() | Constant() | ShapeExpr() | GlobalVar() | Tuple():
                return self.atom(value)
            case If():
                return f"if {self.atom(value.condition)}: ... else: ..."
        assert_never(value)

    def _dps(self, call: CallDPS | CallDPSPacked) -> str:
        args = self.atom(Tuple(call.args)) if call.args else "()"
        return f"{args}, out_type={self.type(call.out_type)}"

    def atom(self, atom: Atom | Operation) -> str:
        match atom:
            case Call() | CallDPS() | CallDPSPacked() | CallFunction() | TupleGetItem() | If():
                return self.value(atom)  # of a value that no builder has normalised yet
            case Var():
                return self.names.name(atom)
            case Constant():
                return self.constant(atom)
            case ShapeExpr():
                return f"R.shape([{', '.join(map(self.dim, atom.values))}])"
            case GlobalVar():
                return f"cls.{atom.name}"
            case Tuple():
                inner = ", ".join(map(self.atom, atom.fields))
                return (
                    f"({inner},)"
                    if len(atom.fields) == 1
                    else f"({inner})"
                    if inner
                    else "R.tuple()"
                )
        assert_never(atom)

    def constant(self, constant: Constant) -> str:
        if constant.bits is None:
            return f"R.const({json.dumps(constant.name)}, {self.type(constant.type)})"
        if not constant.bits:
            return f"R.const([], {self.type(constant.type)})"
        dtype = constant.type.dtype
        return f"R.const({print_literal(constant.values(), dtype)}, {_quoted(dtype)})"

    def type(self, kind: Type) -> str:
        match kind:
            case TensorType():
                inner = ", ".join(map(self.dim, kind.shape))
                shape = f"({inner},)" if len(kind.shape) == 1 else f"({inner})"
                return f"R.Tensor({shape}, dtype={_quoted(kind.dtype)})"
            case TupleType():
                return f"R.Tuple({', '.join(map(self.type, kind.fields))})"
            case ShapeType():
                return f"R.Shape([{', '.join(map(self.dim, kind.values))}])"
        assert_never(kind)

    def dim(self, dim: Expr) -> str:
        text = print_dim(dim, self.dims.name)
        return text if text.lstrip("-").isdigit() else json.dumps(text)


def _quoted(dtype: DType) -> str:
    return f'"{dtype}"'


def _used_in_atom(atom: Atom) -> set[Var]:
    return {n for n in walk(atom) if isinstance(n, Var)}


def format_value(value: Value) -> str:
    """One operation as a line of text, for error messages (names of other bindings are their
    hints)."""
    return _FunctionPrinter().value(value)


def format_type(kind: Type) -> str:
    """A type as text, for error messages."""
    return _FunctionPrinter().type(kind)


def _format_part(part: Binding | BindingBlock | SeqExpr) -> str:
    """A part of a function's body as the lines that it stands for."""
    printer = _FunctionPrinter()
    match part:
        case Binding():
            printer.binding(part)
        case BindingBlock():
            printer.block(part, [])
        case SeqExpr():
            printer.blocks(part, printer.outputs(part))
            printer.out.line(printer.atom(part.result))
    return printer.out.text().rstrip("\n")


def _register() -> None:
    values = (Call, CallDPS, CallDPSPacked, CallFunction, Constant, GlobalVar, If, ShapeExpr)
    for kind in (*values, Tuple, TupleGetItem):
        node_repr.register(kind, format_value)
    for type_ in (ShapeType, TensorType, TupleType):
        node_repr.register(type_, format_type)
    node_repr.register(Function, lambda f: print_function(f).rstrip("\n"))
    for part in (Binding, BindingBlock, SeqExpr):
        node_repr.register(part, _format_part)


_register()
