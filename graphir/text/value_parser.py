"""Operations and atoms in a module's text: what may stand on the right of a binding.

Calls may be nested; ``atom`` gives each inner operation a binding of its own through the builder,
so that what comes out is in A-normal form. Names are looked up among the function's variables, the
functions of the text, then ``env``. Statements are ``parser``'s.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from ...support.aligned import aligned_copy
from ...support.errors import BurnishError, DTypeError, TypeInferenceError, nearest
from ...support.source import Source
from ...tensorir.expr import Expr, IntImm
from ...tensorir.expr import Var as DimVar
from ...tensorir.function import PrimFunc
from ...tensorir.visitor import free_vars
from ..builder import BlockBuilder
from ..dim import DimError, dim_equal, solve_dims
from ..expr import (
    Atom,
    Call,
    CallDPS,
    CallDPSPacked,
    CallFunction,
    Constant,
    Function,
    GlobalVar,
    ShapeExpr,
    Tuple,
    TupleGetItem,
    Value,
    Var,
    array_type,
    constant,
)
from ..module import IRModule
from ..op import OTHER_NAMES, all_ops, type_of
from ..type import TensorType, Type, dims_of, substitute_type, types_equal
from ..weights import Weight
from .printer import format_type
from .type_parser import TypeParser, literal, span_of
from .written_out import OPERAND, SHAPE, WRITTEN_OUT

_ELSEWHERE = {
    "call_inplace_packed": "Values are never changed: R.call_dps_packed gives a new one.",
    "call_packed": "A registered function writes its result: R.call_dps_packed, with its type.",
    "call_pure_packed": "A registered function writes its result: R.call_dps_packed and a type.",
    "call_tir_inplace": "Values are never changed: R.call_tir gives a new one.",
    "emit_te": "In text, write the operator, or a prim_func for R.call_tir.",
}
"""What other dialects have and this one has not, and what to write."""
ATOMS = (Var, Constant, ShapeExpr, GlobalVar, Tuple)


class ModuleScope(Protocol):
    """What a function's text may refer to: the module being parsed and the names around it."""

    source: Source
    env: dict[str, object]
    constants: Mapping[str, np.ndarray]
    module: IRModule
    nodes: dict[str, ast.FunctionDef]
    active: list[str]
    own_names: frozenset[str]
    """What the text calls the module itself: ``cls``, ``Module`` and the name of its class."""

    def function(self, name: str) -> PrimFunc | Function:
        """A function of the text, parsed when first asked for."""


class ValueParser(TypeParser):
    """Reads the operations of one function; ``vars`` are the variables visible now."""

    def __init__(self, owner: ModuleScope) -> None:
        super().__init__(owner.source, owner.env)
        self.owner = owner
        self.builder = BlockBuilder(IRModule(weights=owner.module.weights))
        self.vars: dict[str, Atom] = {}
        self.hidden: dict[str, str] = {}
        """Variables that stay in a finished dataflow block, with its outputs for the error."""

    def value(self, node: ast.expr, annotated: Type | None = None) -> Value:
        """An operation or atom; its arguments are in normal form already."""
        span = span_of(node, self.source)
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="R"), attr=name)):
                return self.operation(name, node).with_span(span)
            case ast.Call(func=ast.Attribute(value=ast.Name(id=own), attr=name)) if (
                own in self.owner.own_names
            ):
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
                return self.number(literal(node, self.source), like, node)
            case ast.Tuple(elts=items) | ast.List(elts=items):
                if items and all(isinstance(i, ast.Constant) for i in items):
                    return self.shape(items)
                return Tuple(tuple([self.atom(i) for i in items]))
            case ast.Attribute(value=ast.Name(id=own), attr=name) if own in self.owner.own_names:
                return self.global_var(name, node)
            case ast.Call(func=ast.Attribute(value=ast.Attribute(), attr=name)):
                raise self.error(f"Operators have no namespaces: {_written_here(name)}.", node)
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
                return self.call_dps(name, node)
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
        if name in ("match_cast", "prim_value"):
            return self.match_cast(node) if name == "match_cast" else self.prim_value(node)
        if name in WRITTEN_OUT:
            return self.written_out(name, node)
        return self.row_call(name, node)

    def row_call(self, name: str, node: ast.Call) -> Call:
        """A call of an operator that has a row."""
        if name not in all_ops():
            hint = nearest(name, all_ops())
            if name in OTHER_NAMES:
                hint = f" Here it is R.{OTHER_NAMES[name]}."
            elif name in _ELSEWHERE:
                hint = f" {_ELSEWHERE[name]}"
            raise self.error(f"There is no operator R.{name}.{hint}", node)
        return self.op_call(name, node)

    def prim_value(self, node: ast.Call) -> Atom:
        (item,) = self.exactly(node, 1)
        return self.number(self.attribute(item), None, node)

    def match_cast(self, node: ast.Call) -> Atom:
        """``R.match_cast(x, R.Tensor((n, 4)))``: x, whose type is known; sizes that were declared
        and not used yet are names for those that it has."""
        value, kind = self.exactly(node, 2)
        x = self.atom(value)
        found, wanted = type_of(x), self.type(kind)
        if (
            not isinstance(found, TensorType)
            or not isinstance(wanted, TensorType)
            or found.dtype is not wanted.dtype
            or found.ndim != wanted.ndim
        ):
            raise self.error(f"The value is {format_type(found)}, which is no such type.", node)
        known = {d for v in self.vars.values() for d in _dim_vars(type_of(v))}
        for named, size in zip(wanted.shape, found.shape, strict=True):
            if isinstance(named, DimVar) and named not in known:
                self.other_names[named.name] = size
            elif not dim_equal(named, size):
                raise self.error(
                    f"The value is {format_type(found)}, and its type is known already: it is not "
                    f"{format_type(wanted)}.",
                    node,
                )
        return x

    def written_out(self, name: str, node: ast.Call) -> Value:
        """The last of the parts of an operator that is made of others."""
        row = WRITTEN_OUT[name]
        names = list(row.parameters)
        given = dict(zip(names, node.args, strict=False))
        for k in node.keywords:
            if k.arg is None or k.arg not in names or k.arg in given:
                hint = nearest(k.arg or "", names)
                raise self.error(f"R.{name} has no argument {k.arg!r}.{hint}", k.value)
            given[k.arg] = k.value
        missing = [n for n, p in row.parameters.items() if p.default is p.empty and n not in given]
        if missing or len(node.args) > len(names):
            raise self.error(f"R.{name} takes ({', '.join(names)}).", node)
        values: dict[str, object] = {}
        for argument, item in given.items():
            kind = row.kinds.get(argument)
            if kind == SHAPE:
                values[argument] = self.new_shape(item)
            else:
                values[argument] = self.atom(item) if kind == OPERAND else self.attribute(item)
        try:
            return row.make(self.builder, **values)
        except BurnishError as error:
            raise self.error(error.message, node) from None

    def new_shape(self, node: ast.expr) -> ShapeExpr:
        """A shape as an argument: a tuple of dims, or what R.shape and R.shape_of give."""
        if isinstance(node, (ast.Tuple, ast.List)):
            return self.shape(node.elts)
        found = self.value(node)
        if not isinstance(found, ShapeExpr):
            raise self.error("Expected a shape, (4, 6) or R.shape([n, 6]).", node)
        return found

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
            value = self.attribute(keyword.value)
            if (keyword.arg, value) != ("out_dtype", "void"):  # as TVM prints what is not given
                attrs.append((keyword.arg, value))
        return Call(name, tuple(done), tuple(attrs))

    def callee(self, node: ast.Call) -> GlobalVar | str:
        if not node.args:
            raise self.error("Expected the function to call.", node)
        match node.args[0]:
            case ast.Constant(value=str() as name):
                return name
            case ast.Name(id=name):
                return self.global_var(name, node.args[0])
            case ast.Attribute(value=ast.Name(id=own), attr=name) if own in self.owner.own_names:
                return self.global_var(name, node.args[0])
        raise self.error("Expected linear0, cls.linear0 or a name in quotes.", node.args[0])

    def call_dps(self, name: str, node: ast.Call) -> CallDPS | CallDPSPacked:
        func = self.callee(node)
        if isinstance(func, str) and func in self.owner.nodes:
            func = self.global_var(func, node)
        if isinstance(func, GlobalVar):
            return CallDPS(func, *self.dps(node))
        if name == "call_tir":  # older programs call what is registered by it, too
            return CallDPSPacked(func, *self.dps(node))
        raise self.error(
            f"R.call_dps takes a function of the module, which {func!r} is not; a registered one "
            "is called with R.call_dps_packed.",
            node,
        )

    def dps(self, node: ast.Call) -> tuple[tuple[Atom, ...], Type]:
        """The arguments and the type of the output of a destination-passing call."""
        keywords = {k.arg: k.value for k in node.keywords}
        kind = keywords.pop("out_type", None) or keywords.pop("out_sinfo", None)
        given = node.args[1:]
        if kind is None and len(given) == 2:
            kind = given[-1]
            given = given[:1]
        if kind is not None and "dtype" in keywords:  # the shape and the dtype by themselves
            parts = [kind, keywords.pop("dtype")]
            kind = ast.copy_location(
                ast.Call(ast.Attribute(ast.Name("R"), "Tensor"), parts, []), kind
            )
        args = given[0] if len(given) == 1 else keywords.pop("args", None)
        if "tir_vars" in keywords:
            raise self.error(
                "There are no tir_vars: a PrimFunc reads its sizes from the shapes of its buffers, "
                "T.match_buffer(y, (n,)).",
                keywords["tir_vars"],
            )
        if kind is None or args is None or keywords or len(given) > 1:
            raise self.error("Expected (function, (arguments, ...), out_type=R.Tensor(...)).", node)
        items = args.elts if isinstance(args, (ast.Tuple, ast.List)) else [args]
        if isinstance(kind, ast.List) and len(kind.elts) == 1:  # of one output, as TVM has it
            (kind,) = kind.elts
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

    # -- constants -----------------------------------------------------------------------------
    def exactly(self, node: ast.Call, count: int) -> list[ast.expr]:
        if len(node.args) != count or node.keywords:
            raise self.error(f"Expected {count} argument{'s' if count != 1 else ''}.", node)
        return node.args

    def const(self, node: ast.Call) -> Constant:
        given = list(node.args)
        for k in node.keywords:
            if k.arg != "dtype":
                hint = nearest(k.arg or "", ["dtype"])
                raise self.error(f"R.const has no argument {k.arg!r}.{hint}", k.value)
            given.append(k.value)
        if not node.args or len(given) > 2:
            raise self.error("Expected R.const(value, dtype) or R.const('w', R.Tensor(...)).", node)
        kind: Type | None = None
        dtype: str | None = None
        if len(given) == 2:
            second = given[1]
            if isinstance(second, ast.Call):
                kind = self.type(second)
                dtype = str(kind.dtype) if isinstance(kind, TensorType) else None
            else:
                dtype = str(self.attribute(second))
        first = node.args[0]
        if isinstance(first, ast.Constant) and isinstance(first.value, str):
            return self.stored_constant(first.value, kind, node)
        around = self.env.get(first.id) if isinstance(first, ast.Name) else None
        # Arrays of the program around have their dtype; lists and numbers are like literals.
        value = np.asarray(around) if hasattr(around, "__array__") else self.attribute(first)
        if dtype is None and _has_float(value):
            dtype = "float32"
        try:
            made = constant(value, dtype)
            if isinstance(kind, TensorType):
                array = made.values().reshape([_static(d) for d in kind.shape])
                made = constant(array, dtype)
            return self.builder.weights.adopt(made)
        except (BurnishError, ValueError) as error:
            raise self.error(str(error), node) from None

    def stored_constant(self, name: str, kind: Type | None, node: ast.Call) -> Constant:
        weights = self.builder.weights
        if name not in weights and name not in self.owner.constants:
            raise self.error(
                f"No values for {name!r}: pass constants={{...}} (mod.constants has them).", node
            )
        if not isinstance(kind, TensorType):
            raise self.error("A named constant needs its type: R.const('w', R.Tensor(...)).", node)
        if name not in weights:
            copy = aligned_copy(np.asarray(self.owner.constants[name]))
            dtype = str(kind.dtype) if kind.dtype == "bfloat16" else None
            weights.put(name, Weight(array_type(copy, dtype), copy))
        found = weights.weight(name).type
        if not types_equal(found, kind):
            raise self.error(f"{name!r} is {format_type(found)}, not {format_type(kind)}.", node)
        return Constant(name, kind)


def _written_here(name: str) -> str:
    """How an operator of a namespace is written, for an error."""
    known = OTHER_NAMES.get(name, name)
    is_known = known in all_ops() or known in WRITTEN_OUT
    return f"write R.{known}" if is_known else f"and there is none called {name!r}"


def _dim_vars(kind: Type) -> list[DimVar]:
    return [v for d in dims_of(kind) for v in free_vars([d])]


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
