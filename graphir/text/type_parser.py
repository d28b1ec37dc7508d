"""Types, dims and attributes in a module's text: the leaves that the other parsers read.

A dim is a number, a string of dim arithmetic (``"m * 2"``) or a name that ``env`` gives an integer.
One symbolic name is one Var in a function. Nothing here knows bindings or calls.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import Any

from ...support.dtype import DType
from ...support.errors import DTypeError, ParseError
from ...support.source import Source, Span
from ...tensorir.expr import Expr, IntImm
from ...tensorir.expr import Var as DimVar
from ..dim import DimError, fold_dim, parse_dim
from ..expr import ShapeExpr
from ..type import ShapeType, TensorType, TupleType, Type

_CONST_NAMES = {"inf": float("inf"), "nan": float("nan"), "True": True, "False": False}


def span_of(node: ast.AST, source: Source) -> Span:
    """The place of a node of Python's tree."""
    line, column = getattr(node, "lineno", 1), getattr(node, "col_offset", 0)
    end_line = getattr(node, "end_lineno", None) or line
    end_column = getattr(node, "end_col_offset", None)
    return Span(source, line, column, end_line, column + 1 if end_column is None else end_column)


def literal(node: ast.expr, source: Source) -> object:
    try:
        return ast.literal_eval(node)
    except ValueError:
        raise ParseError("Expected a literal.", span_of(node, source)) from None


def _is_dim(node: ast.expr) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id="T"), attr="int64"), args=[]):
            return True
    return False


class TypeParser:
    """Reads the types of one function; ``dims`` maps its symbolic names to their Vars."""

    def __init__(self, source: Source, env: Mapping[str, object]) -> None:
        self.source, self.env = source, env
        self.dims: dict[str, DimVar] = {}
        self.declared: set[str] = set()
        self.other_names: dict[str, Expr] = {}
        """Names that R.match_cast gave to sizes that have another one."""

    def error(self, message: str, node: ast.AST) -> ParseError:
        return ParseError(message, span_of(node, self.source))

    def dim_var(self, name: str) -> DimVar:
        return self.dims.setdefault(name, DimVar(name))

    def declare_dims(self, names: Sequence[str], value: ast.expr) -> bool:
        """Whether ``value`` declares symbolic dims of these names: ``m, n = T.int64(), T.int64()``.
        From there on the names mean the dims, whatever they are called around the program."""
        values = value.elts if isinstance(value, ast.Tuple) else [value]
        if len(values) != len(names) or any(not _is_dim(v) for v in values):
            return False
        self.declared.update([self.dim_var(name).name for name in names])
        return True

    def attribute(self, node: ast.expr) -> Any:
        match node:
            case ast.Name(id=name) if name in _CONST_NAMES:
                return _CONST_NAMES[name]
            case ast.UnaryOp(op=ast.USub(), operand=ast.Name(id="inf")):
                return -float("inf")
            case ast.Call(func=ast.Name(id="float"), args=[ast.Constant(value=str() as text)]):
                return float(text)
            case ast.Name(id=name) if isinstance(
                self.env.get(name), (int, float, str, tuple, list)
            ):
                return self.env[name]
            case ast.Tuple(elts=items):
                return tuple([self.attribute(i) for i in items])
            case ast.List(elts=items):
                return [self.attribute(i) for i in items]
        return literal(node, self.source)

    def shape(self, items: Sequence[ast.expr]) -> ShapeExpr:
        return ShapeExpr(tuple([self.dim(i) for i in items]))

    def dim(self, node: ast.expr) -> Expr:
        try:
            match node:
                case ast.Constant(value=str() as text):
                    return parse_dim(text, self._in_string)
                case _:
                    return fold_dim(parse_dim(ast.unparse(node), self._dim_name))
        except DimError as error:
            raise self.error(error.message, node) from None

    def _in_string(self, name: str) -> Expr:
        """What a name in a string means: a dim, of which it may be the first mention."""
        return self.other_names[name] if name in self.other_names else self.dim_var(name)

    def _dim_name(self, name: str) -> Expr:
        """What a name outside of a string means: the dim that the function declared, the integer
        around the program, the dim that a string named; the nearest of them, as in Python."""
        value = self.env.get(name)
        if isinstance(value, int) and name not in self.declared:
            return IntImm(value)
        if name in self.other_names:
            return self.other_names[name]
        if name in self.dims:
            return self.dims[name]
        raise DimError(
            f"{name!r} is no dimension; declare it, `{name} = T.int64()`, or write the whole dim "
            f"as a string: {name!r}."
        )

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
            case ast.Call(func=ast.Attribute(attr="Prim")):
                raise self.error(
                    'A number is a tensor of shape (): R.Tensor((), dtype="int64").', node
                )
        raise self.error(
            'Expected a type: R.Tensor((1, "m"), dtype="float32"), R.Tuple(...) or R.Shape([...]).',
            node,
        )

    def rank_only(self, node: ast.expr) -> tuple[int, DType] | None:
        """The number of dimensions and the dtype of a tensor type that names no shape,
        ``R.Tensor(dtype="float32", ndim=2)``; None for other types."""
        match node:
            case ast.Call(func=ast.Attribute(attr="Tensor"), args=args, keywords=keywords):
                given = {k.arg: k.value for k in keywords}
                ndim, dtype = given.pop("ndim", None), given.pop("dtype", None)
                texts = [a for a in args if isinstance(a, ast.Constant) and dtype is None]
                if ndim is None or given or len(texts) < len(args) or len(args) > 1:
                    return None
                dtype = dtype or (args[0] if args else None)
                count = self.attribute(ndim)
                if dtype is None or not isinstance(count, int) or count < 0:
                    raise self.error('Expected R.Tensor(dtype="float32", ndim=2).', node)
                try:
                    return count, DType(str(self.attribute(dtype)))
                except DTypeError as error:
                    raise self.error(error.message, dtype) from None
        return None

    def tensor_type(
        self, node: ast.Call, args: list[ast.expr], keywords: dict[str | None, ast.expr]
    ) -> TensorType:
        shape = args[0] if args else keywords.pop("shape", None)
        dtype = args[1] if len(args) > 1 else keywords.pop("dtype", None)
        dims: Sequence[ast.expr] | None = None
        if isinstance(shape, (ast.Tuple, ast.List)):
            dims = shape.elts
        elif isinstance(shape, ast.Name) and isinstance(self.env.get(shape.id), (tuple, list)):
            dims = [ast.copy_location(ast.Constant(d), shape) for d in self.env[shape.id]]  # type: ignore[attr-defined]
        if dims is None or keywords or len(args) > 2:
            raise self.error('Expected R.Tensor((1, "m"), dtype="float32").', node)
        try:
            kind = DType("float32") if dtype is None else DType(str(self.attribute(dtype)))
        except DTypeError as error:
            raise self.error(error.message, dtype or node) from None
        return TensorType(tuple([self.dim(d) for d in dims]), kind)
