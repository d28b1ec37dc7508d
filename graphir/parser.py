"""Text to module: Python's own ``ast`` parses, this file reads graph functions from the tree.

``parse_module`` takes what ``graphir.printer`` writes and what people write by hand: calls may be
nested (each inner call gets a binding), operands may be numbers, ``R.call_tir`` is ``R.call_dps``,
and names that the text does not define are looked up in ``env``. PrimFuncs are read by
``tensorir.parser``. Nothing is executed. Types of bindings are inferred; an annotation is checked,
and gives the type only where nothing else does (a call of a function that is not yet known)."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..support.dtype import DType
from ..support.errors import BurnishError, DTypeError, ParseError, TypeInferenceError, nearest
from ..support.source import Source, Span
from ..tensorir.expr import Expr, IntImm
from ..tensorir.expr import Var as DimVar
from ..tensorir.function import PrimFunc
from ..tensorir.parser import parse_function_def
from .builder import BlockBuilder
from .dim import DimError, parse_dim, solve_dims
from .expr import (
    Atom,
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
    constant,
)
from .module import IRModule
from .op import all_ops, type_of
from .printer import format_type
from .type import ShapeType, TensorType, TupleType, Type, dims_of, substitute_type, types_equal

Constants = Mapping[str, np.ndarray]
ATOMS = (Var, Constant, ShapeExpr, GlobalVar, Tuple)
_CONST_NAMES = {"inf": float("inf"), "nan": float("nan"), "True": True, "False": False}


def parse_module(
    text: str, constants: Constants | None = None, env: Mapping[str, object] | None = None
) -> IRModule:
    """The module of a text: an ``@I.ir_module`` class, or lone prim_funcs and functions.

    ``constants`` gives the values of constants that the text names by hash (``mod.constants``);
    ``env`` gives values for free names. Raises ParseError with the place in the text."""
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
                scope[name] = _literal(value, source)
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


def span_of(node: ast.AST, source: Source) -> Span:
    """The place of a node of Python's tree."""
    line, column = getattr(node, "lineno", 1), getattr(node, "col_offset", 0)
    end_line = getattr(node, "end_lineno", None) or line
    end_column = getattr(node, "end_col_offset", None)
    return Span(source, line, column, end_line, column + 1 if end_column is None else end_column)


def _literal(node: ast.expr, source: Source) -> object:
    try:
        return ast.literal_eval(node)
    except ValueError:
        raise ParseError("Expected a literal.", span_of(node, source)) from None


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

    def parse_class(self, node: ast.ClassDef) -> IRModule:
        for statement in node.body:
            match statement:
                case ast.FunctionDef():
                    self._declare(statement)
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    self.env[name] = _literal(value, self.source)
                case ast.Expr(value=ast.Constant()) | ast.Pass():
                    pass
                case ast.Expr(
                    value=ast.Call(func=ast.Attribute(attr="module_attrs"), args=[attrs])
                ):
                    found = _literal(attrs, self.source)
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
            self.module[name] = _FunctionParser(self, node).parse()
            self.active.pop()
        return self.module[name]


class _FunctionParser:
    def __init__(self, owner: _ModuleParser, node: ast.FunctionDef) -> None:
        self.owner, self.node, self.source = owner, node, owner.source
        self.builder = BlockBuilder()
        self.vars: dict[str, Atom] = {}
        self.dims: dict[str, DimVar] = {}
        self.hidden: dict[str, str] = {}
        """Variables that stay inside a finished dataflow block, with the block's outputs for the
        error."""
        self.returns: tuple[Atom, ast.AST] | None = None

    # -- errors and small things ---------------------------------------------------------------
    def error(self, message: str, node: ast.AST) -> ParseError:
        return ParseError(message, span_of(node, self.source))

    def dim_var(self, name: str) -> DimVar:
        return self.dims.setdefault(name, DimVar(name))

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
            param = Var(argument.arg, self.type(argument.annotation)).with_span(
                span_of(argument, self.source)
            )
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
            self.check(self.type(self.node.returns), kind, at, "The result")
        body = SeqExpr(tuple(blocks), result)
        return Function(tuple(params), body, kind, tuple(attrs.items()), self.node.name).with_span(
            span_of(self.node, self.source)
        )

    def func_attr(self, node: ast.stmt) -> dict[str, Any] | None:
        match node:
            case ast.Expr(value=ast.Call(func=ast.Attribute(attr="func_attr"), args=[attrs])):
                found = _literal(attrs, self.source)
                if not isinstance(found, dict):
                    raise self.error("Expected a dict of attributes.", attrs)
                return found
        return None

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
            case ast.AnnAssign(target=ast.Name(id=name), value=value, annotation=annotation) if (
                value
            ):
                self.assign(name, value, self.type(annotation), node)
            case ast.If():
                self.branches(node)
            case ast.Return(value=value) if value is not None:
                self.returns = (self.atom(value), value)
            case ast.Expr(value=ast.Constant()) | ast.Pass():
                pass
            case _:
                raise self.error(
                    "Expected an assignment, `with R.dataflow():`, if/else or return.", node
                )

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
        match value:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="T"), attr="int64"), args=[]):
                self.dim_var(name)  # `m = T.int64()` declares a symbolic dim
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

    # -- values --------------------------------------------------------------------------------
    def value(self, node: ast.expr, annotated: Type | None = None) -> Value:
        """An operation or atom; its arguments are in normal form already."""
        span = span_of(node, self.source)
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="R"), attr=name)):
                return self.operation(name, node).with_span(span)
            case ast.Call(func=ast.Attribute(value=ast.Name(id="cls" | "Module"), attr=name)):
                return self.call_function(name, node, annotated).with_span(span)
            case ast.Call(func=ast.Name(id=name)) if name in self.owner.nodes:
                return self.call_function(name, node, annotated).with_span(span)
            case ast.Subscript(value=inner, slice=ast.Constant(value=int() as index)):
                return TupleGetItem(self.atom(inner), index).with_span(span)
        return self.plain_atom(node)

    def atom(self, node: ast.expr, like: TensorType | None = None) -> Atom:
        """An argument: an operation inside it becomes a binding of its own."""
        found = self.plain_atom(node, like) if not _is_operation(node) else self.value(node)
        if isinstance(found, ATOMS):
            return found
        try:
            return self.builder.emit(found, "lv")
        except TypeInferenceError as error:
            raise self.error(error.message, node) from error

    def plain_atom(self, node: ast.expr, like: TensorType | None = None) -> Atom:
        match node:
            case ast.Name(id=name):
                return self.name(name, node)
            case ast.Constant(value=bool() | int() | float()) | ast.UnaryOp(op=ast.USub()):
                return self.number(_literal(node, self.source), like, node)
            case ast.Tuple(elts=items):
                if items and all(isinstance(i, ast.Constant) for i in items):
                    return self.shape(items)
                return Tuple(tuple([self.atom(i) for i in items]))
            case ast.Attribute(value=ast.Name(id="cls" | "Module"), attr=name):
                return self.global_var(name, node)
        raise self.error("Expected a name, a number, a tuple or a call of R.<operator>.", node)

    def name(self, name: str, node: ast.expr) -> Atom:
        if name in self.vars:
            return self.vars[name]
        if name in self.owner.nodes:
            return GlobalVar(name)
        if name in self.hidden:
            raise self.error(
                f"{name!r} does not leave its dataflow block; name it in its R.output(...), which "
                f"has ({self.hidden[name]}).",
                node,
            )
        value = self.owner.env.get(name)
        if isinstance(value, (bool, int, float, np.ndarray)):
            return self.number(value, None, node)
        if isinstance(value, (PrimFunc, Function)):
            return self.global_var(name, node)
        raise self.error(
            f"{name!r} is not defined.{nearest(name, [*self.vars, *self.owner.nodes])}", node
        )

    def global_var(self, name: str, node: ast.AST) -> GlobalVar:
        """A function of the text, or one of ``env``, which then joins the module."""
        if name not in self.owner.nodes and name not in self.owner.module:
            value = self.owner.env.get(name)
            if not isinstance(value, (PrimFunc, Function)):
                raise self.error(
                    f"The module has no function {name!r}.{nearest(name, self.owner.nodes)}", node
                )
            self.owner.module[name] = value
        return GlobalVar(name)

    def number(self, value: object, like: TensorType | None, node: ast.AST) -> Constant:
        dtype = str(like.dtype) if like is not None else None
        if dtype is None and isinstance(value, float):
            dtype = "float32"
        try:
            return constant(value, dtype)
        except DTypeError as error:
            raise self.error(error.message, node) from None

    # -- calls ---------------------------------------------------------------------------------
    def operation(self, name: str, node: ast.Call) -> Value:
        match name:
            case "call_dps" | "call_tir":
                func = self.callee(node)
                if not isinstance(func, GlobalVar):
                    raise self.error("R.call_dps takes a function of the module.", node)
                return CallDPS(func, *self.dps(node))
            case "call_dps_packed":
                func = self.callee(node)
                return CallDPSPacked(func if isinstance(func, str) else func.name, *self.dps(node))
            case "const":
                return self.const(node)
            case "shape":
                (items,) = self.exactly(node, 1)
                if not isinstance(items, (ast.List, ast.Tuple)):
                    raise self.error("R.shape takes a list of dims.", items)
                return self.shape(items.elts)
            case "tuple":
                return Tuple(tuple([self.atom(a) for a in node.args]))
        if name not in all_ops():
            raise self.error(f"There is no operator R.{name}.{nearest(name, all_ops())}", node)
        return self.op_call(name, node)

    def op_call(self, name: str, node: ast.Call) -> Call:
        items = node.args
        if (
            all_ops()[name].variadic
            and len(items) == 1
            and isinstance(items[0], (ast.Tuple, ast.List))
        ):
            items = items[0].elts
        args: list[Atom | None] = [None if _is_number(a) else self.atom(a) for a in items]
        like = next(
            (a.type for a in args if a is not None and isinstance(a, (Var, Constant))), None
        )
        done = [
            a if a is not None else self.atom(n, like if isinstance(like, TensorType) else None)
            for a, n in zip(args, items, strict=True)
        ]
        attrs = []
        for keyword in node.keywords:
            if keyword.arg is None:
                raise self.error("Attributes are given by name.", keyword.value)
            attrs.append((keyword.arg, self.attribute(keyword.value)))
        return Call(name, tuple(done), tuple(attrs))

    def attribute(self, node: ast.expr) -> Any:
        match node:
            case ast.Name(id=name) if name in _CONST_NAMES:
                return _CONST_NAMES[name]
            case ast.UnaryOp(op=ast.USub(), operand=ast.Name(id="inf")):
                return -float("inf")
            case ast.Call(func=ast.Name(id="float"), args=[ast.Constant(value=str() as text)]):
                return float(text)
            case ast.Name(id=name) if isinstance(
                self.owner.env.get(name), (int, float, str, tuple, list)
            ):
                return self.owner.env[name]
            case ast.Tuple(elts=items):
                return tuple([self.attribute(i) for i in items])
            case ast.List(elts=items):
                return [self.attribute(i) for i in items]
        return _literal(node, self.source)

    def callee(self, node: ast.Call) -> GlobalVar | str:
        if not node.args:
            raise self.error("Expected the function to call.", node)
        match node.args[0]:
            case ast.Constant(value=str() as name):
                return name
            case ast.Name(id=name) | ast.Attribute(value=ast.Name(id="cls" | "Module"), attr=name):
                return self.global_var(name, node.args[0])
        raise self.error("Expected linear0, cls.linear0 or a name in quotes.", node.args[0])

    def dps(self, node: ast.Call) -> tuple[tuple[Atom, ...], Type]:
        """The arguments and the type of the output of a destination-passing call."""
        keywords = {k.arg: k.value for k in node.keywords}
        kind = keywords.pop("out_type", None) or keywords.pop("out_sinfo", None)
        given = node.args[1:]
        if kind is None and len(given) == 2:
            kind = given[-1]
            given = given[:1]
        args = given[0] if len(given) == 1 else keywords.pop("args", None)
        if kind is None or args is None or keywords or len(given) > 1:
            raise self.error("Expected (function, (arguments, ...), out_type=R.Tensor(...)).", node)
        items = args.elts if isinstance(args, (ast.Tuple, ast.List)) else [args]
        return tuple([self.atom(i) for i in items]), self.type(kind)

    def call_function(self, name: str, node: ast.Call, annotated: Type | None) -> CallFunction:
        func = self.global_var(name, node)
        args = tuple([self.atom(a) for a in node.args])
        if annotated is not None:
            return CallFunction(func, args, annotated)
        if name in self.owner.active:
            raise self.error(
                f"A recursive call of {name!r} needs its type annotated: y: R.Tensor(...) = ...",
                node,
            )
        callee = self.owner.function(name) if name in self.owner.nodes else self.owner.module[name]
        if isinstance(callee, PrimFunc):
            raise self.error(f"{name!r} is a prim_func; call it with R.call_dps.", node)
        return CallFunction(func, args, self.call_type(callee, args, node))

    def call_type(self, callee: Function, args: Sequence[Atom], node: ast.AST) -> Type:
        patterns = [d for p in callee.params for d in dims_of(p.type)]
        actual = [d for a in args for d in dims_of(type_of(a))]
        if len(callee.params) != len(args) or len(patterns) != len(actual):
            raise self.error(
                f"{callee.name!r} takes {len(callee.params)} arguments of other ranks.", node
            )
        try:
            return substitute_type(callee.ret_type, solve_dims(patterns, actual))
        except DimError as error:
            raise self.error(error.message, node) from None

    # -- constants and types -------------------------------------------------------------------
    def exactly(self, node: ast.Call, count: int) -> list[ast.expr]:
        if len(node.args) != count or node.keywords:
            raise self.error(f"Expected {count} argument{'s' if count != 1 else ''}.", node)
        return node.args

    def const(self, node: ast.Call) -> Constant:
        if not 1 <= len(node.args) <= 2:
            raise self.error(
                "Expected R.const(value, dtype) or R.const('sha256:...', R.Tensor(...)).", node
            )
        kind: Type | None = None
        dtype: str | None = None
        if len(node.args) == 2:
            second = node.args[1]
            if isinstance(second, ast.Call):
                kind = self.type(second)
                dtype = str(kind.dtype) if isinstance(kind, TensorType) else None
            else:
                dtype = str(self.attribute(second))
        first = node.args[0]
        if isinstance(first, ast.Constant) and isinstance(first.value, str):
            return self.stored_constant(first.value, kind, node)
        value = self.attribute(first)
        if dtype is None and _has_float(value):
            dtype = "float32"
        try:
            array = np.array(value, dtype=None if dtype is None else DType(dtype).to_numpy())
            if isinstance(kind, TensorType):
                array = array.reshape([_static(d) for d in kind.shape])
            return constant(array, dtype)
        except (BurnishError, ValueError) as error:
            raise self.error(str(error), node) from None

    def stored_constant(self, name: str, kind: Type | None, node: ast.Call) -> Constant:
        array = self.owner.constants.get(name)
        if array is None:
            raise self.error(
                f"No values for {name!r}: pass constants={{...}} (mod.constants has them).", node
            )
        if not isinstance(kind, TensorType):
            raise self.error(
                "A named constant needs its type: R.const('sha256:...', R.Tensor(...)).", node
            )
        found = constant(array, str(kind.dtype) if kind.dtype == "bfloat16" else None)
        if not types_equal(found.type, kind):
            raise self.error(
                f"{name!r} is {format_type(found.type)}, not {format_type(kind)}.", node
            )
        return found

    def shape(self, items: Sequence[ast.expr]) -> ShapeExpr:
        values = tuple([self.dim(i) for i in items])
        return ShapeExpr(values, ShapeType(values))

    def dim(self, node: ast.expr) -> Expr:
        try:
            match node:
                case ast.Constant(value=str() as text):
                    return parse_dim(text, self.dim_var)
                case ast.Name(id=name):
                    value = self.owner.env.get(name)
                    if isinstance(value, int):
                        return IntImm(value)
                    if name in self.dims:
                        return self.dims[name]
                    raise self.error(
                        f"{name!r} is no dimension; write a symbolic one as a string: {name!r}.",
                        node,
                    )
                case _:
                    return parse_dim(ast.unparse(node), self._dim_name)
        except DimError as error:
            raise self.error(error.message, node) from None

    def _dim_name(self, name: str) -> DimVar:
        if name not in self.dims:
            raise DimError(f"{name!r} is no dimension; write the whole dim as a string.")
        return self.dims[name]

    def type(self, node: ast.expr) -> Type:
        match node:
            case ast.Call(func=ast.Attribute(attr="Tensor"), args=args, keywords=keywords):
                return self.tensor_type(node, args, {k.arg: k.value for k in keywords})
            case ast.Call(func=ast.Attribute(attr="Tuple" | "Tuple_"), args=args):
                return TupleType(tuple([self.type(a) for a in args]))
            case ast.Call(
                func=ast.Attribute(attr="Shape"),
                args=[ast.List(elts=items) | ast.Tuple(elts=items)],
            ):
                return ShapeType(tuple([self.dim(i) for i in items]))
            case ast.List(elts=items) | ast.Tuple(elts=items):
                return TupleType(tuple([self.type(i) for i in items]))
        raise self.error(
            'Expected a type: R.Tensor((1, "m"), dtype="float32"), R.Tuple(...) or R.Shape([...]).',
            node,
        )

    def tensor_type(
        self, node: ast.Call, args: list[ast.expr], keywords: dict[str | None, ast.expr]
    ) -> TensorType:
        shape = args[0] if args else keywords.pop("shape", None)
        dtype = args[1] if len(args) > 1 else keywords.pop("dtype", None)
        dims: Sequence[ast.expr] | None = None
        if isinstance(shape, (ast.Tuple, ast.List)):
            dims = shape.elts
        elif isinstance(shape, ast.Name) and isinstance(
            self.owner.env.get(shape.id), (tuple, list)
        ):
            dims = [ast.copy_location(ast.Constant(d), shape) for d in self.owner.env[shape.id]]  # type: ignore[attr-defined]
        if dims is None or keywords or len(args) > 2:
            raise self.error('Expected R.Tensor((1, "m"), dtype="float32").', node)
        try:
            kind = DType("float32") if dtype is None else DType(str(self.attribute(dtype)))
        except DTypeError as error:
            raise self.error(error.message, dtype or node) from None
        return TensorType(tuple([self.dim(d) for d in dims]), kind)


def _is_operation(node: ast.expr) -> bool:
    return isinstance(node, (ast.Call, ast.Subscript))


def _is_number(node: ast.expr) -> bool:
    if isinstance(node, ast.UnaryOp):
        return _is_number(node.operand)
    return isinstance(node, ast.Constant) and isinstance(node.value, (int, float))


def _has_float(value: object) -> bool:
    if isinstance(value, (list, tuple)):
        return any(map(_has_float, value))
    return isinstance(value, float)


def _static(dim: Expr) -> int:
    if not isinstance(dim, IntImm):
        raise DimError("A constant has a static shape.")
    return dim.value
