"""Text to module: Python's own ``ast`` parses, this file reads graph functions from the tree.

``parse_module`` takes what ``graphir.text.printer`` writes and what people write by hand: calls may
be nested (each inner call gets a binding), operands may be numbers, ``R.call_tir`` is
``R.call_dps``, and names that the text does not define are looked up in ``env``. PrimFuncs are read
by ``tensorir.text.parser``. Nothing is executed. Types of bindings are inferred; an annotation is
checked, and gives the type only where nothing else does (a call of a function that is not yet
known)."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...support.errors import ParseError, TypeInferenceError
from ...support.keywords import hinted
from ...support.source import Source, Span
from ...tensorir.function import PrimFunc
from ...tensorir.text.parser import parse_function_def
from ..expr import (
    Atom,
    Constant,
    Function,
    GlobalVar,
    If,
    SeqExpr,
    ShapeExpr,
    Tuple,
    Var,
)
from ..module import IRModule
from ..op import type_of
from ..type import TensorType, Type, types_equal
from .printer import format_type
from .type_parser import literal, span_of
from .value_parser import ValueParser

Constants = Mapping[str, np.ndarray]
ATOMS = (Var, Constant, ShapeExpr, GlobalVar, Tuple)
_CONST_NAMES = {"inf": float("inf"), "nan": float("nan"), "True": True, "False": False}


@hinted
def parse_module(
    text: str, constants: Constants | None = None, env: Mapping[str, object] | None = None
) -> IRModule:
    """The module of a text: an ``@I.ir_module`` class, or lone prim_funcs and functions.

    ``constants`` gives the values of constants that the text names (``mod.constants``);
    ``env`` gives values for free names. Raises ParseError with the place in the text."""
    if not isinstance(text, str):
        raise ParseError(f"parse takes the text of a module; found {type(text).__name__}.")
    source = Source("<text>", text)
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        line, column = error.lineno or 1, max((error.offset or 1) - 1, 0)
        raise ParseError(
            f"Not Python syntax: {error.msg}.", Span(source, line, column, line, column + 1)
        ) from None
    scope = dict(env or {})
    functions: list[ast.FunctionDef] = []
    classes: list[ast.ClassDef] = []
    for statement in tree.body:
        match statement:
            case ast.Import() | ast.ImportFrom() | ast.Expr(value=ast.Constant()):
                pass
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                scope[name] = literal(value, source)
            case ast.ClassDef():
                classes.append(statement)
            case ast.FunctionDef():
                functions.append(statement)
            case _:
                raise ParseError(
                    "Expected a module class, functions, or NAME = literal.",
                    span_of(statement, source),
                )
    if len(classes) + bool(functions) != 1:
        found = f"{len(classes)} classes and {len(functions)} functions"
        raise ParseError(
            f"Expected one @I.ir_module class, or functions alone; found {found}.",
            Span(source, 1, 0, 1, 1),
        )
    if functions:
        return _ModuleParser(source, scope, constants or {}).parse_functions(functions)
    return parse_module_class(classes[0], source, scope, constants)


def parse_module_class(
    node: ast.ClassDef,
    source: Source,
    env: Mapping[str, object],
    constants: Constants | None = None,
) -> IRModule:
    """The module of a class whose decorator is ``I.ir_module``. Raises ParseError."""
    return _ModuleParser(source, dict(env), constants or {}).parse_class(node)


def _decorator(node: ast.FunctionDef, source: Source) -> str:
    """``prim_func`` or ``function``, after the decorator."""
    for d in node.decorator_list:
        target = d.func if isinstance(d, ast.Call) else d
        name = target.attr if isinstance(target, ast.Attribute) else getattr(target, "id", "")
        if name in ("prim_func", "function"):
            return name
    raise ParseError("Expected the decorator @T.prim_func or @R.function.", span_of(node, source))


class _ModuleParser:
    def __init__(self, source: Source, env: dict[str, object], constants: Constants) -> None:
        self.source, self.env, self.constants = source, env, constants
        self.module = IRModule()
        self.nodes: dict[str, ast.FunctionDef] = {}
        self.active: list[str] = []
        self.own_names = frozenset({"cls", "Module"})

    def parse_class(self, node: ast.ClassDef) -> IRModule:
        self.own_names |= {node.name}
        for statement in node.body:
            match statement:
                case ast.FunctionDef():
                    self._declare(statement)
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    self.env[name] = literal(value, self.source)
                case ast.Expr(value=ast.Constant()) | ast.Pass():
                    pass
                case ast.Expr(
                    value=ast.Call(func=ast.Attribute(attr="module_attrs"), args=[attrs])
                ):
                    found = literal(attrs, self.source)
                    if not isinstance(found, dict):
                        raise ParseError(
                            "Expected a dict of attributes.", span_of(attrs, self.source)
                        )
                    self.module.attrs.update(found)
                case _:
                    raise ParseError(
                        "Expected functions, I.module_attrs or NAME = literal in a module.",
                        span_of(statement, self.source),
                    )
        return self._parse_all()

    def parse_functions(self, nodes: Sequence[ast.FunctionDef]) -> IRModule:
        for node in nodes:
            self._declare(node)
        return self._parse_all()

    def _declare(self, node: ast.FunctionDef) -> None:
        if node.name in self.nodes:
            raise ParseError(
                f"Function {node.name!r} is defined twice.", span_of(node, self.source)
            )
        self.nodes[node.name] = node

    def _parse_all(self) -> IRModule:
        parsed = {name: self.function(name) for name in self.nodes}
        self.module.functions = {**parsed, **self.module.functions}  # in order of the text
        return self.module

    def function(self, name: str) -> PrimFunc | Function:
        """A function of the text, parsed when first asked for."""
        if name in self.module:
            return self.module[name]
        node = self.nodes[name]
        if _decorator(node, self.source) == "prim_func":
            self.module[name] = parse_function_def(node, self.source, self.env)
        else:
            self.active.append(name)
            parser = _FunctionParser(self, node)
            self.module[name] = parser.parse()
            self.module.weights.update(parser.builder.weights)
            self.active.pop()
        return self.module[name]


class _FunctionParser(ValueParser):
    def __init__(self, owner: _ModuleParser, node: ast.FunctionDef) -> None:
        super().__init__(owner)
        self.node = node
        self.returns: tuple[Atom, ast.AST] | None = None

    # -- function ------------------------------------------------------------------------------
    def parse(self) -> Function:
        arguments = self.node.args
        if arguments.vararg or arguments.kwarg or arguments.kwonlyargs or arguments.defaults:
            raise self.error("A function takes plain parameters.", self.node)
        params: list[Var] = []
        for argument in arguments.args:
            if argument.annotation is None:
                raise self.error(
                    f"Parameter {argument.arg!r} needs a type, such as R.Tensor((1, 784)).",
                    argument,
                )
            rank = self.rank_only(argument.annotation)
            if rank is not None:
                # Sizes that nobody names are sizes of this parameter alone.
                sizes = tuple([self.dim_var(f"{argument.arg}_{n}") for n in range(rank[0])])
                kind: Type = TensorType(sizes, rank[1])
            else:
                kind = self.type(argument.annotation)
            param = Var(argument.arg, kind).with_span(span_of(argument, self.source))
            params.append(param)
            self.vars[argument.arg] = param
        self.builder.reserve_names(p.name for p in params)
        attrs: dict[str, Any] = {"global_symbol": self.node.name}
        with self.builder.sequence() as blocks:
            for statement in self.node.body:
                found = self.func_attr(statement)
                if found is not None:
                    attrs.update(found)
                else:
                    self.statement(statement)
        if self.returns is None:
            raise self.error(f"Function {self.node.name!r} returns nothing.", self.node)
        result, at = self.returns
        kind = type_of(result)
        if self.node.returns is not None:
            self.check_annotation(self.node.returns, kind, at, "The result")
        body = SeqExpr(tuple(blocks), result)
        return Function(tuple(params), body, kind, tuple(attrs.items()), self.node.name).with_span(
            span_of(self.node, self.source)
        )

    def func_attr(self, node: ast.stmt) -> dict[str, Any] | None:
        match node:
            case ast.Expr(value=ast.Call(func=ast.Attribute(attr="func_attr"), args=[attrs])):
                found = literal(attrs, self.source)
                if not isinstance(found, dict):
                    raise self.error("Expected a dict of attributes.", attrs)
                return found
        return None

    def check_annotation(self, annotation: ast.expr, found: Type, node: ast.AST, what: str) -> None:
        rank = self.rank_only(annotation)
        if rank is None:
            self.check(self.type(annotation), found, node, what)
        elif not isinstance(found, TensorType) or (found.ndim, found.dtype) != rank:
            raise self.error(
                f"{what} is annotated a {rank[1]} tensor of {rank[0]} dimensions, but it is "
                f"{format_type(found)}.",
                node,
            )

    def check(self, annotated: Type, found: Type, node: ast.AST, what: str) -> None:
        if not types_equal(annotated, found):
            raise self.error(
                f"{what} is annotated {format_type(annotated)}, but it is {format_type(found)}.",
                node,
            )

    # -- statements ----------------------------------------------------------------------------
    def statement(self, node: ast.stmt) -> None:
        if self.returns is not None:
            raise self.error("A statement after return.", node)
        match node:
            case ast.With(
                items=[ast.withitem(context_expr=ast.Call(func=ast.Attribute(attr="dataflow")))]
            ):
                self.dataflow(node)
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                self.assign(name, value, None, node)
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=value) if self.declare_dims(
                [ast.unparse(t) for t in targets], value
            ):
                pass
            case ast.AnnAssign(target=ast.Name(id=name), value=value, annotation=annotation) if (
                value
            ):
                self.annotated(name, value, annotation, node)
            case ast.If():
                self.branches(node)
            case ast.Return(value=value) if value is not None:
                self.returns = (self.atom(value), value)
            case ast.Expr(value=ast.Constant()) | ast.Pass():
                pass
            case _:
                raise self.error(_refused(node), node)

    def annotated(self, name: str, value: ast.expr, annotation: ast.expr, node: ast.stmt) -> None:
        """``y: R.Tensor(...) = value``; of a type that names no shape its rank is checked."""
        if self.rank_only(annotation) is None:
            self.assign(name, value, self.type(annotation), node)
            return
        self.assign(name, value, None, node)
        self.check_annotation(annotation, type_of(self.vars[name]), node, f"{name!r}")

    def dataflow(self, node: ast.With) -> None:
        before = dict(self.vars)
        outputs: list[ast.expr] | None = None
        with self.builder.dataflow():
            for statement in node.body:
                match statement:
                    case ast.Expr(value=ast.Call(func=ast.Attribute(attr="output"), args=args)):
                        outputs = args
                    case ast.If():
                        raise self.error(
                            "A dataflow block is straight-line: if stands outside of it.", statement
                        )
                    case ast.Return():
                        raise self.error("return stands outside of the dataflow block.", statement)
                    case _ if outputs is not None:
                        raise self.error(
                            "R.output(...) is the last line of a dataflow block.", statement
                        )
                    case _:
                        self.statement(statement)
        self.leave_dataflow(before, outputs or [])

    def leave_dataflow(self, before: dict[str, Atom], outputs: list[ast.expr]) -> None:
        """After the block only its outputs are visible."""
        leaving: dict[str, Atom] = {}
        for item in outputs:
            if not isinstance(item, ast.Name):
                raise self.error("R.output(...) takes names.", item)
            leaving[item.id] = self.atom(item)
        for name in self.vars:
            if name not in before or self.vars[name] is not before[name]:
                self.hidden[name] = ", ".join(leaving)
        self.vars = {**before, **leaving}
        for name in leaving:
            self.hidden.pop(name, None)

    def assign(self, name: str, value: ast.expr, annotated: Type | None, node: ast.stmt) -> None:
        """Nothing for declared dims and for ``cls = Module``, as TVM prints it: names of the
        module are known."""
        own = isinstance(value, ast.Name) and value.id in self.owner.own_names
        if self.declare_dims([name], value) or (name == "cls" and own):
            return
        found = self.value(value, annotated)
        try:
            kind = type_of(found)
        except TypeInferenceError as error:
            raise self.error(error.message, value) from error
        if annotated is not None:
            self.check(annotated, kind, node, name)
        self.hidden.pop(name, None)
        var = self.builder.emit(found, name).with_span(span_of(node, self.source))
        self.vars[name] = var

    def branches(self, node: ast.If) -> None:
        condition = self.atom(node.test)
        outer = dict(self.vars)
        sequences: list[SeqExpr] = []
        names: list[str] = []
        for body in (node.body, node.orelse):
            if not body or not isinstance(body[-1], ast.Assign):
                raise self.error(
                    "Both branches of an if end in an assignment to the same name.", node
                )
            last = body[-1]
            self.vars = dict(outer)
            with self.builder.sequence() as blocks:
                for statement in body[:-1]:
                    self.statement(statement)
                result = self.atom(last.value)
            if len(last.targets) != 1 or not isinstance(last.targets[0], ast.Name):
                raise self.error("A branch ends in NAME = value.", last)
            names.append(last.targets[0].id)
            sequences.append(SeqExpr(tuple(blocks), result))
        self.vars = outer
        if names[0] != names[1]:
            raise self.error(
                "Both branches of an if end in an assignment to one name; found "
                f"{names[0]!r} and {names[1]!r}.",
                node,
            )
        yes, no = type_of(sequences[0].result), type_of(sequences[1].result)
        if not types_equal(yes, no):
            found = f"{format_type(yes)} and {format_type(no)}"
            raise self.error(f"The branches of this if have different types: {found}.", node)
        self.vars[names[0]] = self.builder.emit(If(condition, sequences[0], sequences[1]), names[0])


def _refused(node: ast.stmt) -> str:
    """Why a statement is none of a graph function."""
    match node:
        case ast.Assign(targets=[ast.Tuple()]):
            return (
                "Several names at once declare dims: m, n = T.int64(), T.int64(). The parts of a "
                "tuple are value[0], value[1]."
            )
        case ast.FunctionDef(name=name):
            return (
                f"There are no closures: write {name!r} as a function of the module and call "
                f"cls.{name}(...), with what it uses as arguments."
            )
    return "Expected an assignment, `with R.dataflow():`, if/else or return."
