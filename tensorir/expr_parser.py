"""Expressions of the text form: from ``ast`` nodes to IR expressions.

The half of the parser that ``tensorir.parser`` (statements and functions) stands on. ``value``
turns an ``ast`` node into a *value*: an Expr, or something known while parsing: a Python number, a
string, a dtype, a buffer, a tuple of values. Python numbers are folded with each other and take a
dtype where they meet an expression; expressions are built as they stand, never simplified, so that
a printed program reads back as it was. Every node made here gets its Span; every error names one.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from ..support.dtype import DType
from ..support.errors import BurnishError, DTypeError, ParseError, nearest
from ..support.source import Source, Span
from . import expr as e
from .buffer import Buffer
from .expr import BOOL, INDEX, Expr, IntImm, Var, as_expr, const, paired
from .function import PrimFunc
from .intrinsics import INTRINSICS, call_intrin

Value: TypeAlias = Any
"""Expr | int | float | bool | str | DType | Buffer | Alias | BufferDecl | Word | PrimFunc |
tuple.
"""


@dataclass(frozen=True)
class Word:
    """A word of the vocabulary that was not called yet: ``T``, ``T.axis``, ``T.grid``."""

    path: str


@dataclass(frozen=True)
class BufferDecl:
    """``T.Buffer(...)`` before it has a name; ``data`` is the buffer whose memory it views, if
    any.
    """

    make: Callable[[str], Buffer]
    data: Buffer | None = None


@dataclass(frozen=True)
class Alias:
    """Another shape over the memory of a compact buffer: ``A_1 = T.Buffer((2097152,),
    data=A.data)``.
    """

    shape: tuple[Expr, ...]
    target: Buffer


@dataclass(frozen=True)
class Handle:
    """A parameter of type ``T.handle`` until a ``T.match_buffer`` says what it points to."""

    name: str


_SYMBOLS: dict[type, tuple[Callable[[Any, Any], Any], type[Expr] | str]] = {
    ast.Add: (operator.add, e.Add),
    ast.Sub: (operator.sub, e.Sub),
    ast.Mult: (operator.mul, e.Mul),
    ast.Div: (operator.truediv, e.Div),
    ast.FloorDiv: (operator.floordiv, e.FloorDiv),
    ast.Mod: (operator.mod, e.FloorMod),
    ast.Pow: (operator.pow, "pow"),
    ast.BitAnd: (operator.and_, "bitwise_and"),
    ast.BitOr: (operator.or_, "bitwise_or"),
    ast.BitXor: (operator.xor, "bitwise_xor"),
    ast.LShift: (operator.lshift, "shift_left"),
    ast.RShift: (operator.rshift, "shift_right"),
    ast.Eq: (operator.eq, e.EQ),
    ast.NotEq: (operator.ne, e.NE),
    ast.Lt: (operator.lt, e.LT),
    ast.LtE: (operator.le, e.LE),
    ast.Gt: (operator.gt, e.GT),
    ast.GtE: (operator.ge, e.GE),
}
_NODE_WORDS: dict[str, type[Expr]] = {
    "min": e.Min,
    "max": e.Max,
    "truncdiv": e.Div,
    "Div": e.Div,
    "floordiv": e.FloorDiv,
    "FloorDiv": e.FloorDiv,
    "floormod": e.FloorMod,
    "FloorMod": e.FloorMod,
    "And": e.And,
    "Or": e.Or,
}
_INTRINSIC_ALIASES = {"power": "pow", "nearbyint": "round", "fabs": "abs", "ceiling": "ceil"}
_DTYPE_WORDS = frozenset(
    f"{kind}{bits}"
    for kind, sizes in (
        ("float", (16, 32, 64)),
        ("int", (8, 16, 32, 64)),
        ("uint", (8, 16, 32, 64)),
    )
    for bits in sizes
) | {"bfloat16", "bool", "handle"}


_INSTEAD = {
    "IfExp": "Write T.if_then_else(condition, a, b).",
    "While": "Write a loop over a range, with an if inside.",
    "Return": "A PrimFunc returns nothing: its results are stored into its parameters.",
    "ListComp": "Write a loop.",
    "FunctionDef": "Functions stand beside one another, in a class decorated with @I.ir_module.",
    "Lambda": "Write the expression where it is used.",
    "Break": "Write the condition as an if inside of the loop.",
    "Continue": "Write the condition as an if inside of the loop.",
}


def no_part(node: ast.AST) -> str:
    """The message for Python that the text form does not have."""
    kind = type(node).__name__
    advice = f" {_INSTEAD[kind]}" if kind in _INSTEAD else ""
    return f"Python's {kind} is not part of the text form of PrimFuncs.{advice}"


class ExprParser:
    """Parses expressions; ``scopes`` map names to values, innermost last, below them ``env``."""

    def __init__(self, source: Source, env: Mapping[str, object]) -> None:
        self.source = source
        self.env = env
        self.scopes: list[dict[str, Value]] = [{}]
        self.lines = source.text.splitlines()

    # -- places and errors -----------------------------------------------------------------------
    def span(self, node: ast.AST) -> Span:
        line, end = getattr(node, "lineno", 1), getattr(node, "end_lineno", None)
        begin = self._column(line, getattr(node, "col_offset", 0))
        end_line = end if end is not None else line
        return Span(
            self.source,
            line,
            begin,
            end_line,
            self._column(end_line, getattr(node, "end_col_offset", 0)),
        )

    def _column(self, line: int, offset: int) -> int:
        """``ast`` counts bytes of UTF-8; a Span counts characters."""
        if not 1 <= line <= len(self.lines) or self.lines[line - 1].isascii():
            return offset
        return len(self.lines[line - 1].encode()[:offset].decode(errors="ignore"))

    def error(self, node: ast.AST, message: str) -> ParseError:
        """A ParseError at ``node``, to be raised."""
        return ParseError(message, self.span(node))

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Names defined inside are unknown after it."""
        self.scopes.append({})
        yield
        self.scopes.pop()

    def define(self, name: str, value: Value) -> None:
        self.scopes[-1][name] = value

    def lookup(self, name: str) -> Value:
        """The value in scope under ``name``, or None."""
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
        return None

    def known_names(self) -> list[str]:
        return [n for s in self.scopes for n in s] + list(self.env)

    # -- values ----------------------------------------------------------------------------------
    def expr(self, node: ast.expr, dtype: str | None = None) -> Expr:
        """``node`` as an expression; a Python number becomes a constant of ``dtype`` (int64,
        float32 or bool where none is told).
        """
        value = self.value(node)
        if isinstance(value, bool | int | float):
            try:
                return as_expr(value, dtype).with_span(self.span(node))
            except DTypeError as error:
                raise self.error(node, error.message) from None
        if isinstance(value, Expr):
            return value
        raise self.error(node, f"Expected a value, found {describe(value)}.")

    def index(self, node: ast.expr) -> Expr:
        """``node`` as an index: int64, with the cast that a narrower integer needs."""
        value = self.expr(node)
        if not value.dtype.is_integer:
            raise self.error(node, f"Expected an integer index, found {value.dtype}.")
        wanted = INDEX.with_lanes(value.dtype.lanes)
        return value if value.dtype is wanted else e.Cast(wanted, value).with_span(self.span(node))

    def value(self, node: ast.expr) -> Value:
        """``node`` as a value; raises ParseError at the guilty node."""
        method = getattr(self, f"value_{type(node).__name__}", None)
        if method is None:
            raise self.error(node, no_part(node))
        try:
            value = method(node)
        except ParseError:
            raise
        except BurnishError as error:
            raise self.error(node, error.message) from None
        except (ArithmeticError, TypeError, ValueError) as error:
            raise self.error(node, f"This cannot be computed: {error}.") from None
        if isinstance(value, Expr) and not isinstance(value, Var) and value.span is None:
            value.with_span(self.span(node))
        return value

    def value_Constant(self, node: ast.Constant) -> Value:  # noqa: N802
        if node.value is None or isinstance(node.value, bool | int | float | str):
            return node.value
        raise self.error(
            node, f"A literal of type {type(node.value).__name__} has no meaning here."
        )

    def value_Name(self, node: ast.Name) -> Value:  # noqa: N802
        found = self.lookup(node.id)
        if found is not None:
            return found
        if node.id not in self.env:
            if node.id == "T":
                return Word("T")
            own = node.id in INTRINSICS or node.id in _NODE_WORDS or node.id in _DTYPE_WORDS
            hint = f" Write T.{node.id}." if own else nearest(node.id, self.known_names())
            raise self.error(node, f"The name {node.id!r} is not defined.{hint}")
        return self.from_env(node, self.env[node.id])

    def from_env(self, node: ast.Name, value: object) -> Value:
        """A value of the surrounding Python program, if it is one that can become a constant."""
        if getattr(value, "__burnish_vocabulary__", None) == "T":
            return Word("T")
        if isinstance(value, bool | int | float | str | PrimFunc):
            return value
        if isinstance(value, np.bool_ | np.integer | np.floating):
            return value.item()
        if isinstance(value, tuple | list) and all(
            isinstance(v, bool | int | float | str) for v in value
        ):
            return tuple(value)
        if isinstance(value, np.dtype):
            return DType.from_numpy(value)
        raise self.error(
            node,
            f"The name {node.id!r} is a {type(value).__name__} outside of this function; only "
            "numbers, strings, dtypes, tuples of them and PrimFuncs can be used inside.",
        )

    def value_Tuple(self, node: ast.Tuple | ast.List) -> Value:  # noqa: N802
        return tuple([self.value(item) for item in node.elts])

    value_List = value_Tuple

    def value_Dict(self, node: ast.Dict) -> Value:  # noqa: N802
        return {
            self.value(k): self.attr(v)
            for k, v in zip(node.keys, node.values, strict=True)
            if k is not None
        }

    # -- operators -------------------------------------------------------------------------------
    def value_UnaryOp(self, node: ast.UnaryOp) -> Value:  # noqa: N802
        a = self.value(node.operand)
        if isinstance(a, bool | int | float):
            folds: dict[type, Callable[[Any], Any]] = {
                ast.USub: operator.neg,
                ast.UAdd: operator.pos,
                ast.Not: operator.not_,
                ast.Invert: operator.inv,
            }
            return folds[type(node.op)](a)
        if not isinstance(a, Expr):
            raise self.error(node.operand, f"Expected a value, found {describe(a)}.")
        match node.op:
            case ast.UAdd():
                return a
            case ast.Not():
                return e.Not(self.boolean(node.operand, a))
            case ast.Invert():
                return call_intrin("bitwise_not", a)
            case _:
                return call_intrin("neg", a) if a.dtype.is_float else e.Sub(const(0, a.dtype), a)

    def boolean(self, node: ast.expr, value: Value) -> Expr:
        if isinstance(value, bool):
            return as_expr(value)
        if isinstance(value, Expr) and value.dtype.is_bool:
            return value
        found = value.dtype if isinstance(value, Expr) else describe(value)
        raise self.error(node, f"Expected a bool, found {found}.")

    def binary(self, node: ast.expr, op: ast.AST, a: Value, b: Value) -> Value:
        """``a op b``: folded if both are Python numbers, else the node as it stands."""
        fold, build = _SYMBOLS[type(op)]
        for v in (a, b):
            if not isinstance(v, bool | int | float | Expr):
                raise self.error(node, f"Expected a number or an expression, found {describe(v)}.")
        if not isinstance(a, Expr) and not isinstance(b, Expr):
            result = fold(a, b)
            return (
                int(result)
                if type(op) is ast.Div and result == int(result) and type(a) is type(b) is int
                else result
            )
        a, b = paired(a, b)
        if isinstance(build, str):
            logical = (
                {"bitwise_and": e.And, "bitwise_or": e.Or}.get(build) if a.dtype is BOOL else None
            )
            return logical(a, b) if logical is not None else call_intrin(build, a, b)
        return build(a, b)  # type: ignore[call-arg]

    def value_BinOp(self, node: ast.BinOp) -> Value:  # noqa: N802
        if type(node.op) not in _SYMBOLS:
            raise self.error(
                node, "Matrices are not multiplied inside a PrimFunc: write the loops."
            )
        return self.binary(node, node.op, self.value(node.left), self.value(node.right))

    def value_Compare(self, node: ast.Compare) -> Value:  # noqa: N802
        if len(node.ops) != 1:
            raise self.error(node, "Write a chain of comparisons as several, joined by 'and'.")
        if type(node.ops[0]) not in _SYMBOLS:
            raise self.error(
                node, f"The comparison {type(node.ops[0]).__name__} is not part of the text form."
            )
        return self.binary(
            node, node.ops[0], self.value(node.left), self.value(node.comparators[0])
        )

    def value_BoolOp(self, node: ast.BoolOp) -> Value:  # noqa: N802
        build = e.And if isinstance(node.op, ast.And) else e.Or
        result = self.boolean(node.values[0], self.value(node.values[0]))
        for item in node.values[1:]:
            result = build(result, self.boolean(item, self.value(item)))
            if item is not node.values[-1]:
                result.with_span(self.span(node))
        return result

    # -- buffers ---------------------------------------------------------------------------------
    def value_Subscript(self, node: ast.Subscript) -> Value:  # noqa: N802
        base = self.value(node.value)
        items = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if isinstance(base, tuple):
            position = self.value(node.slice)
            if not isinstance(position, int) or not -len(base) <= position < len(base):
                raise self.error(node.slice, f"Expected an index of a tuple of {len(base)}.")
            return base[position]
        if isinstance(base, Word) and base.path == "T.Buffer":
            return self.buffer_decl(node, items, [])
        buffer, indices = self.access(node, base, items)
        return e.BufferLoad(buffer, indices)

    def access(
        self, node: ast.expr, base: Value, items: list[ast.expr]
    ) -> tuple[Buffer, tuple[Expr, ...]]:
        """The buffer and indices of ``base[items]``, through an alias if it is one."""
        if not isinstance(base, Buffer | Alias):
            raise self.error(node, f"Expected a buffer, found {describe(base)}.")
        if any(isinstance(i, ast.Slice) for i in items):
            raise self.error(node, "A slice stands only in T.reads, T.writes and T.match_buffer.")
        indices = tuple([self.index(i) for i in items])
        if len(indices) != len(base.shape):
            raise self.error(
                node,
                f"Expected {len(base.shape)} indices, found {len(indices)}: the buffer has "
                f"{len(base.shape)} dimensions.",
            )
        if isinstance(base, Buffer):
            return base, indices
        return base.target, unravel(ravel(indices, base.shape), base.target.shape)

    def value_Attribute(self, node: ast.Attribute) -> Value:  # noqa: N802
        base = self.value(node.value)
        if isinstance(base, Word):
            if base.path == "T" and node.attr in _DTYPE_WORDS:
                return DType(node.attr)
            return Word(f"{base.path}.{node.attr}")
        if isinstance(base, Buffer):
            if node.attr == "data":
                return base
            if node.attr in ("shape", "dtype"):
                return getattr(base, node.attr)
            raise self.error(node, f"A buffer has shape, dtype and data here, not {node.attr!r}.")
        raise self.error(
            node, f"Attributes are taken of T and of buffers, not of {describe(base)}."
        )

    # -- calls -----------------------------------------------------------------------------------
    def value_Call(self, node: ast.Call) -> Value:  # noqa: N802
        if isinstance(node.func, ast.Attribute) and node.func.attr == "vload":
            return self.vload(node, node.func)
        if isinstance(node.func, ast.Name) and node.func.id == "float" and len(node.args) == 1:
            return float(self.value(node.args[0]))
        callee = self.value(node.func)
        if isinstance(callee, DType):
            return self.typed(node, callee)
        if not isinstance(callee, Word):
            raise self.error(
                node.func,
                f"Expected a word of T, found {describe(callee)}, which cannot be called here.",
            )
        word = callee.path.removeprefix("T.")
        method = getattr(self, f"call_{word.replace('.', '_')}", None)
        if method is not None:
            return method(node)
        return self.intrinsic(node, word)

    def intrinsic(self, node: ast.Call, word: str) -> Expr:
        self.no_keywords(node)
        if word in _NODE_WORDS:
            a, b = paired(*[self.operand(a) for a in self.arguments(node, 2)])
            return _NODE_WORDS[word](a, b)  # type: ignore[call-arg]
        name = _INTRINSIC_ALIASES.get(word, word)
        if name not in INTRINSICS:
            known = [*INTRINSICS, *_NODE_WORDS, *_DTYPE_WORDS]
            known += [m.removeprefix("call_") for m in dir(self) if m.startswith("call_")]
            raise self.error(
                node.func, f"T has no {word!r} that gives a value.{nearest(word, known)}"
            )
        return call_intrin(name, *[self.operand(a) for a in node.args])

    def operand(self, node: ast.expr) -> Expr | int | float | bool:
        value = self.value(node)
        if isinstance(value, Expr | bool | int | float):
            return value
        raise self.error(node, f"Expected a value, found {describe(value)}.")

    def no_keywords(self, node: ast.Call) -> None:
        if node.keywords:
            raise self.error(node.keywords[0], f"There is no option {node.keywords[0].arg!r} here.")

    def arguments(self, node: ast.Call, count: int) -> list[ast.expr]:
        if len(node.args) != count:
            raise self.error(
                node,
                f"Expected {count} argument{'s' if count != 1 else ''}, found {len(node.args)}.",
            )
        return node.args

    def typed(self, node: ast.Call, dtype: DType) -> Value:
        """``T.float32(0)``, ``T.float32("inf")``, ``T.int64(x)`` (a cast), ``T.int64()`` (a fresh
        Var).
        """
        if not node.args:
            return FreshVar(dtype)
        value = self.value(self.arguments(node, 1)[0])
        if isinstance(value, str):
            return const(float(value), dtype)
        if isinstance(value, Expr):
            return (
                value
                if value.dtype is dtype
                else e.Cast(dtype.with_lanes(value.dtype.lanes), value)
            )
        return const(value, dtype)

    def dtype(self, node: ast.expr) -> DType:
        value = self.value(node)
        if isinstance(value, DType):
            return value
        if isinstance(value, str):
            try:
                return DType(value)
            except DTypeError as error:
                raise self.error(node, error.message) from None
        raise self.error(node, f"Expected a dtype, found {describe(value)}.")

    def number(self, node: ast.expr) -> int:
        value = self.value(node)
        if isinstance(value, IntImm):
            return value.value
        if isinstance(value, int):
            return value
        raise self.error(node, f"Expected an integer known while parsing, found {describe(value)}.")

    def call_Cast(self, node: ast.Call) -> Expr:  # noqa: N802
        dtype, value = self.arguments(node, 2)
        return e.Cast(self.dtype(dtype), self.expr(value))

    def call_cast(self, node: ast.Call) -> Expr:
        value, dtype = self.arguments(node, 2)
        return e.Cast(self.dtype(dtype), self.expr(value))

    def call_reinterpret(self, node: ast.Call) -> Expr:
        dtype, value = self.arguments(node, 2)
        return call_intrin("reinterpret", self.expr(value), dtype=self.dtype(dtype))

    def call_Select(self, node: ast.Call) -> Expr:  # noqa: N802
        condition, a, b = self.arguments(node, 3)
        pair = paired(self.operand(a), self.operand(b))
        return e.Select(self.boolean(condition, self.value(condition)), *pair)

    def call_Not(self, node: ast.Call) -> Expr:  # noqa: N802
        (a,) = self.arguments(node, 1)
        return e.Not(self.boolean(a, self.value(a)))

    def call_Ramp(self, node: ast.Call) -> Expr:  # noqa: N802
        base, stride, lanes = self.arguments(node, 3)
        return e.Ramp(*paired(self.operand(base), self.operand(stride)), self.number(lanes))

    def call_Broadcast(self, node: ast.Call) -> Expr:  # noqa: N802
        value, lanes = self.arguments(node, 2)
        return e.Broadcast(self.expr(value), self.number(lanes))

    def call_Let(self, node: ast.Call) -> Expr:  # noqa: N802
        (body,) = self.arguments(node, 1)
        where = next((k.value for k in node.keywords if k.arg == "where"), None)
        if (
            not isinstance(where, ast.Dict)
            or len(where.keys) != 1
            or not isinstance(where.keys[0], ast.Name)
        ):
            raise self.error(node, "Expected T.Let(body, where={name: value}).")
        value = self.expr(where.values[0])
        var = Var(where.keys[0].id, value.dtype).with_span(self.span(where.keys[0]))
        with self.scope():
            self.define(var.name, var)
            return e.Let(var, value, self.expr(body))

    def call_min_value(self, node: ast.Call) -> Expr:
        return self.extreme(node, -1)

    def call_max_value(self, node: ast.Call) -> Expr:
        return self.extreme(node, 1)

    def extreme(self, node: ast.Call, sign: int) -> Expr:
        """The largest or smallest finite value of a dtype."""
        dtype = self.dtype(self.arguments(node, 1)[0])
        if dtype is DType("bfloat16"):
            return const(sign * 3.3895313892515355e38, dtype)
        if dtype.is_float:
            return const(sign * float(np.finfo(dtype.to_numpy()).max), dtype)
        return e.min_value(dtype) if sign < 0 else e.max_value(dtype)

    def call_infinity(self, node: ast.Call) -> Expr:
        return const(float("inf"), self.dtype(self.arguments(node, 1)[0]))

    def vload(self, node: ast.Call, func: ast.Attribute) -> Expr:
        """``A.vload([indices], predicate=lanes)``."""
        (items,) = self.arguments(node, 1)
        if not isinstance(items, ast.List | ast.Tuple):
            raise self.error(items, "Expected a list of indices.")
        buffer, indices = self.access(node, self.value(func.value), items.elts)
        predicate = next((self.expr(k.value) for k in node.keywords if k.arg == "predicate"), None)
        return e.BufferLoad(buffer, indices, predicate)

    # -- declarations ----------------------------------------------------------------------------
    def call_Buffer(self, node: ast.Call) -> BufferDecl:  # noqa: N802
        return self.buffer_decl(node, node.args, node.keywords)

    call_alloc_buffer = call_Buffer
    call_decl_buffer = call_Buffer

    def buffer_decl(
        self, node: ast.expr, args: list[ast.expr], keywords: list[ast.keyword]
    ) -> BufferDecl:
        """``(shape, dtype="float32", data=, strides=, elem_offset=, scope=, align=)``."""
        given = dict(zip(("shape", "dtype"), args, strict=False))
        given |= {k.arg: k.value for k in keywords if k.arg is not None}
        if "shape" not in given or len(args) > 2:
            raise self.error(node, "Expected a shape and a dtype.")
        for option in given:
            if option not in ("shape", "dtype", "data", "strides", "elem_offset", "scope", "align"):
                raise self.error(node, f"A buffer has no option {option!r}.")
        data = self.value(given["data"]) if "data" in given else None
        if data is not None and not isinstance(data, Buffer):
            raise self.error(
                given["data"], f"Expected the data of a buffer, found {describe(data)}."
            )
        default = data.dtype if data is not None else DType("float32")
        shape = self.dims(given["shape"])
        dtype = self.dtype(given["dtype"]) if "dtype" in given else default
        scope = str(self.value(given["scope"])) if "scope" in given else "global"
        strides = self.dims(given["strides"]) if "strides" in given else ()
        offset = self.dim(given["elem_offset"]) if "elem_offset" in given else IntImm(0, INDEX)
        align = self.number(given["align"]) if "align" in given else 0
        span = self.span(node)

        def make(name: str) -> Buffer:
            return Buffer(name, shape, dtype, scope, strides, offset, align).with_span(span)

        return BufferDecl(make, data)

    def dims(self, node: ast.expr) -> tuple[Expr, ...]:
        if isinstance(node, ast.Tuple | ast.List):
            return tuple([self.dim(d) for d in node.elts])
        value = self.value(node)
        if isinstance(value, tuple):
            return tuple([self.as_dim(node, v) for v in value])
        return (self.as_dim(node, value),)

    def dim(self, node: ast.expr) -> Expr:
        return self.as_dim(node, self.value(node))

    def as_dim(self, node: ast.expr, value: Value) -> Expr:
        """A dimension as int64; in a string, names that are not known yet are symbolic dims."""
        if isinstance(value, str):
            value = self.symbolic_dim(node, value)
        if isinstance(value, int | float) and not isinstance(value, bool) and value == int(value):
            return IntImm(int(value), INDEX).with_span(self.span(node))
        if isinstance(value, Expr) and value.dtype.is_integer and value.dtype.lanes == 1:
            return (
                value if value.dtype is INDEX else e.Cast(INDEX, value).with_span(self.span(node))
            )
        raise self.error(node, f"Expected a dimension, found {describe(value)}.")

    def symbolic_dim(self, node: ast.expr, text: str) -> Value:
        try:
            tree = ast.parse(text.strip(), mode="eval").body
        except SyntaxError:
            raise self.error(node, f"The dimension {text!r} is not an expression.") from None
        for n in ast.walk(tree):
            # Everything in the string is reported at the string.
            ast.copy_location(n, node)
            if isinstance(n, ast.Name) and n.id != "T" and self.lookup(n.id) is None:
                self.scopes[0][n.id] = Var(n.id, INDEX).with_span(self.span(node))
        return self.value(tree)

    # -- attributes ------------------------------------------------------------------------------
    def attr(self, node: ast.expr) -> Any:
        """A value of an attribute: plain Python, constants of the IR included."""
        value = self.value(node)
        return self.plain(node, value)

    def plain(self, node: ast.expr, value: Value) -> Any:
        if isinstance(value, IntImm | e.FloatImm):
            return bool(value.value) if value.dtype is BOOL else value.value
        if isinstance(value, tuple):
            return [self.plain(node, v) for v in value]
        if value is None or isinstance(value, bool | int | float | str | dict):
            return value
        raise self.error(node, f"An attribute holds plain Python values, not {describe(value)}.")


@dataclass(frozen=True)
class FreshVar:
    """``T.int64()``: a variable that the assignment it stands in names."""

    dtype: DType


def describe(value: Value) -> str:
    """A few words for a value, in errors."""
    if isinstance(value, Word):
        return f"the word {value.path}"
    if isinstance(value, Buffer):
        return f"the buffer {value.name!r}"
    if isinstance(value, Handle):
        return f"the handle {value.name!r} (no T.match_buffer says what it points to)"
    if isinstance(value, Expr):
        return f"an expression of dtype {value.dtype}"
    if isinstance(value, DType):
        return f"the dtype {value}"
    if isinstance(value, str):
        return f"the string {str(value)!r}"
    return f"a {type(value).__name__}"


def ravel(indices: tuple[Expr, ...], shape: tuple[Expr, ...]) -> Expr:
    """The row-major position of an element."""
    flat: Expr = IntImm(0, INDEX)
    for i, extent in zip(indices, shape, strict=True):
        flat = flat * extent + i
    return flat


def unravel(flat: Expr, shape: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """The indices of the element at a row-major position."""
    indices: list[Expr] = []
    for d in range(len(shape) - 1, -1, -1):
        indices.append(flat if d == 0 else flat % shape[d])
        flat = flat // shape[d]
    return tuple(reversed(indices))
