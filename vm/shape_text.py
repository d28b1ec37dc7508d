"""Shape texts: integer expressions over dimension names, checked and compiled once.

A program keeps symbolic sizes as Python text, ``(m + 7) // 8 * 8``. Before a text is ever evaluated
its syntax tree is checked against a whitelist (integers, the function's dim names, ``+ - * // %``,
``min``, ``max`` and comparisons), so a program text or a saved artifact cannot run anything else.

A compiled text is a function of the frame's dims, a sequence of ints in the order of the names.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

from ..support.errors import ParseError, VMError, nearest
from ..support.source import Source, Span

Dims: TypeAlias = Sequence[int]

_OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod)
_COMPARISONS = (ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE)
_FUNCTIONS = ("min", "max")


def parse_shape(text: str, names: Sequence[str]) -> ast.expr:
    """The checked syntax tree of a shape text; raises ParseError for anything not on the
    whitelist."""
    try:
        tree = ast.parse(text, mode="eval").body
    except SyntaxError as error:
        column = max(0, (error.offset or 1) - 1)
        raise ParseError(
            f"{error.msg} in a shape expression", _span(text, column, column + 1)
        ) from None
    _check(tree, text, frozenset(names))
    return tree


def _span(text: str, column: int, end: int) -> Span:
    return Span(Source("<shape>", text), 1, column, 1, end)


def _check(n: ast.expr, text: str, names: frozenset[str]) -> None:
    operands: list[ast.expr] = []
    match n:
        case ast.Constant(value=int() as value) if not isinstance(value, bool):
            pass
        case ast.Name(id=name) if name in names:
            pass
        case ast.BinOp(left=left, op=op, right=right) if isinstance(op, _OPERATORS):
            operands = [left, right]
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            operands = [operand]
        case ast.Compare(left=left, ops=ops, comparators=rest) if all(
            isinstance(o, _COMPARISONS) for o in ops
        ):
            operands = [left, *rest]
        case ast.Call(func=ast.Name(id=name), args=[_, _, *_] as operands, keywords=[]) if (
            name in _FUNCTIONS
        ):
            pass
        case _:
            end = n.end_col_offset or n.col_offset + 1
            raise ParseError(_refusal(n, names), _span(text, n.col_offset, end))
    for operand in operands:
        _check(operand, text, names)


def _refusal(n: ast.expr, names: frozenset[str]) -> str:
    if isinstance(n, ast.Name):
        known = ", ".join(sorted(names)) or "none"
        return f"unknown dimension {n.id!r}; known here: {known}.{nearest(n.id, names)}"
    return (
        "a shape expression has integers, dimension names, + - * // %, min and max of at least "
        "two, and comparisons only"
    )


def static_value(text: str) -> int | None:
    """The value of a text without dimension names, or None where it has some."""
    if text.isdigit():
        return int(text)
    return compile_shape(text, ())(()) if not names_in(text) else None


@lru_cache(maxsize=4096)
def names_in(text: str) -> tuple[str, ...]:
    """The dimension names a text uses, in order of first appearance."""
    try:
        tree = ast.parse(text, mode="eval")
    except SyntaxError:
        parse_shape(text, ())
        raise
    found = [n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and n.id not in _FUNCTIONS]
    return tuple(dict.fromkeys(found))


def python_source(text: str, sources: Mapping[str, str]) -> str:
    """The text as checked Python source, each dim name replaced by the source given for it."""
    tree = parse_shape(text, tuple(sources))
    parsed = {name: ast.parse(source, mode="eval").body for name, source in sources.items()}

    class Slots(ast.NodeTransformer):
        def visit_Name(self, n: ast.Name) -> ast.AST:  # noqa: N802 - the ast protocol
            return parsed.get(n.id, n)

    return ast.unparse(Slots().visit(tree))


def _slots(names: Sequence[str]) -> dict[str, str]:
    return {name: f"d[{i}]" for i, name in enumerate(names)}


@lru_cache(maxsize=4096)
def compile_shape(text: str, names: tuple[str, ...]) -> Callable[[Dims], int]:
    """A text as a function of the dims; raises VMError where it divides by zero."""
    function: Callable[[Dims], int] = _compile(python_source(text, _slots(names)))
    return _guarded(function, text, names) if "//" in text or "%" in text else function


@lru_cache(maxsize=4096)
def compile_shapes(
    texts: tuple[str, ...], names: tuple[str, ...]
) -> Callable[[Dims], tuple[int, ...]]:
    """Several texts as one function of the dims that gives a tuple."""
    values = [static_value(t) for t in texts]
    if all(v is not None for v in values):
        constant = tuple([v for v in values if v is not None])
        return lambda _: constant
    parts = "".join([f"{python_source(t, _slots(names))}, " for t in texts])
    function: Callable[[Dims], tuple[int, ...]] = _compile(f"({parts})")
    text = ", ".join(texts)
    return _guarded(function, text, names) if "//" in text or "%" in text else function


def _compile(source: str) -> Callable[[Dims], Any]:
    # The source is unparsed from a tree that passed the whitelist: nothing else can be in it.
    code = compile(f"lambda d: {source}", "<shape>", "eval")
    function: Callable[[Dims], Any] = eval(code, {"__builtins__": {}, "min": min, "max": max})
    return function


def _guarded(
    function: Callable[[Dims], Any], text: str, names: Sequence[str]
) -> Callable[[Dims], Any]:
    def checked(dims: Dims) -> Any:
        try:
            return function(dims)
        except ZeroDivisionError:
            values = ", ".join(f"{n} = {v}" for n, v in zip(names, dims, strict=False))
            raise VMError(f"The shape expression {text!r} divides by zero with {values}.") from None

    return checked
