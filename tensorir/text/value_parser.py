"""Names, literals, operators and accesses of the text form: from ``ast`` nodes to values.

The bottom of the parser: ``expr_parser`` adds the words of ``T``, ``block_parser`` and
``stmt_parser`` the statements, ``parser`` the functions. ``value`` turns an ``ast`` node into a
*value*: an Expr, or something known while parsing: a Python number, a string, a dtype, a buffer, a
tuple of values. Python numbers are folded with each other and take a dtype where they meet an
expression; expressions are built as they stand, never simplified, so that a printed program reads
back as it was. Every node made here gets its Span; every error names one.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from ...support.dtype import DType
from ...support.errors import BurnishError, DTypeError, ParseError, nearest
from ...support.source import Source, Span
from .. import expr as e
from ..arith.analyzer import Analyzer
from ..buffer import Buffer, Range, ravel, unravel
from ..expr import BOOL, INDEX, Expr, IntImm, Var, as_expr, const, paired, quotient, sub
from ..function import PrimFunc
from ..intrinsics import INTRINSICS, call_intrin
from .text_values import (
    DTYPE_WORDS,
    NODE_WORDS,
    SAME_WORD,
    Alias,
    Value,
    Word,
    describe,
    is_dtype_word,
    no_part,
)

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


class ValueParser:
    """Parses values; ``scopes`` map names to values, innermost last, below them ``env``."""

    def __init__(self, source: Source, env: Mapping[str, object]) -> None:
        self.source = source
        self.env = env
        self.scopes: list[dict[str, Value]] = [{}]
        self.lines = source.text.splitlines()

    # -- places and errors -------------------------------------------------------------------------
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

    # -- values ------------------------------------------------------------------------------------
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
        if isinstance(value, IntImm):
            # Programs of TVM write int32 sizes; a constant needs no cast.
            return value if value.dtype is INDEX else IntImm(value.value).with_span(value.span)
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
            own = node.id in INTRINSICS or node.id in NODE_WORDS or node.id in DTYPE_WORDS
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

    # -- operators ---------------------------------------------------------------------------------
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
        if type(op) is ast.Div:
            return quotient(a, b, "T")
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
        result: Value = True
        left = node.left
        for op, right in zip(node.ops, node.comparators, strict=True):
            if type(op) not in _SYMBOLS:
                raise self.error(
                    node, f"The comparison {type(op).__name__} is not part of the text form."
                )
            # The middle of a chain is read twice, so that its nodes stand in one place each.
            one = self.binary(node, op, self.value(left), self.value(right))
            result = one if left is node.left else self.both(node, result, one)
            left = right
        return result

    def both(self, node: ast.expr, a: Value, b: Value) -> Value:
        """The conjunction of two links of a chain, folded where Python knows one."""
        if not isinstance(a, Expr) or not isinstance(b, Expr):
            known, other = (b, a) if isinstance(a, Expr) else (a, b)
            return other if known else False
        return e.And(a.with_span(self.span(node)), b.with_span(self.span(node)))

    def value_BoolOp(self, node: ast.BoolOp) -> Value:  # noqa: N802
        build = e.And if isinstance(node.op, ast.And) else e.Or
        result = self.boolean(node.values[0], self.value(node.values[0]))
        for item in node.values[1:]:
            result = build(result, self.boolean(item, self.value(item)))
            if item is not node.values[-1]:
                result.with_span(self.span(node))
        return result

    # -- buffers -----------------------------------------------------------------------------------
    def value_Subscript(self, node: ast.Subscript) -> Value:  # noqa: N802
        base = self.value(node.value)
        items = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if isinstance(base, tuple):
            position = self.value(node.slice)
            if not isinstance(position, int) or not -len(base) <= position < len(base):
                raise self.error(node.slice, f"Expected an index of a tuple of {len(base)}.")
            return base[position]
        buffer, indices = self.access(node, base, items)
        return e.BufferLoad(buffer, indices)

    def access(
        self, node: ast.expr, base: Value, items: list[ast.expr]
    ) -> tuple[Buffer, tuple[Expr, ...]]:
        """The buffer and indices of ``base[items]``, through an alias if it is one."""
        if not isinstance(base, Buffer | Alias):
            raise self.error(node, f"Expected a buffer, found {describe(base)}.")
        if any(isinstance(i, ast.Slice) for i in items[:-1]):
            raise self.error(
                node,
                "A slice stands only in T.reads, T.writes, T.match_buffer and, for a vector, in "
                "the last index of an access.",
            )
        indices = tuple(
            [self.lanes(i) if isinstance(i, ast.Slice) else self.index(i) for i in items]
        )
        if len(indices) != len(base.shape):
            raise self.error(
                node,
                f"Expected {len(base.shape)} indices, found {len(indices)}: the buffer has "
                f"{len(base.shape)} dimensions.",
            )
        if isinstance(base, Buffer):
            return base, indices
        return base.target, unravel(ravel(indices, base.shape), base.target.shape)

    def lanes(self, node: ast.Slice) -> Expr:
        """``base : base + n`` of an access, perhaps with a step: a vector of elements."""
        if node.lower is None or node.upper is None:
            raise self.error(node, "The vector of an access has a start and an end.")
        dom = self.interval(node.lower, node.upper)
        extent = Analyzer().simplify(dom.extent)
        step = self.value(node.step) if node.step is not None else 1
        if not isinstance(extent, IntImm) or not isinstance(step, int) or step < 1:
            raise self.error(node, "The vector of an access has a constant number of lanes.")
        return e.Ramp(dom.min, const(step, INDEX), -(-extent.value // step))

    def range_of(self, node: ast.AST, args: Sequence[ast.expr]) -> Range:
        """The range of ``(stop)`` or ``(start, stop)``."""
        if len(args) == 1:
            extent = self.index(args[0])
            return Range(const(0, INDEX), extent).with_span(self.span(args[0]))
        if len(args) == 3 and isinstance(args[2], ast.Constant) and args[2].value == 1:
            args = args[:2]
        if len(args) != 2:
            raise self.error(
                node,
                "Expected an extent, or a start and an end; loops have no step. Write a loop over "
                "the number of steps, and start + i * step for its variable.",
            )
        return self.interval(args[0], args[1])

    def interval(self, start: ast.expr, stop: ast.expr) -> Range:
        """``[start, stop)``. Of ``a`` and ``a + n`` (as the printer writes it) the extent is
        ``n``.
        """
        low = self.index(start)
        if (
            isinstance(stop, ast.BinOp)
            and isinstance(stop.op, ast.Add)
            and ast.dump(stop.left) == ast.dump(start)
        ):
            extent = self.index(stop.right)
        else:
            high = self.index(stop)
            is_zero = isinstance(low, IntImm) and low.value == 0
            extent = high if is_zero else sub(high, low)
        span = self.span(start)
        return Range(low, extent if extent.span is not None else extent.with_span(span)).with_span(
            span
        )

    def value_Attribute(self, node: ast.Attribute) -> Value:  # noqa: N802
        base = self.value(node.value)
        if isinstance(base, Word):
            if base.path == "T" and is_dtype_word(node.attr):
                return DType(node.attr)
            path = f"{base.path}.{node.attr}"
            return Word(SAME_WORD.get(path, path))
        if isinstance(base, Buffer):
            if node.attr == "data":
                return base
            if node.attr == "strides":
                return base.all_strides
            if node.attr in ("shape", "dtype", "elem_offset"):
                return getattr(base, node.attr)
            raise self.error(
                node,
                "A buffer has shape, dtype, strides, elem_offset and data here, not "
                f"{node.attr!r}.",
            )
        raise self.error(
            node, f"Attributes are taken of T and of buffers, not of {describe(base)}."
        )
