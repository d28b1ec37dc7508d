"""Sizes in C: shape texts over a model's named sizes as expressions of an array ``d``.

A text is Python's integer arithmetic (``vm.shape_text``): division rounds down and the remainder
has the divisor's sign, which is what the functions in ``ARITHMETIC`` do. What a text divides by is
kept in ``divisors``; whoever evaluates it looks at those first.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from ..support.errors import InternalError
from ..vm.shape_text import parse_shape

ARITHMETIC = """\
__attribute__((unused)) static int64_t quotient(int64_t a, int64_t b) {
    if (b == 0) return 0;
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}
__attribute__((unused)) static int64_t rest(int64_t a, int64_t b) { return a - quotient(a, b) * b; }
__attribute__((unused)) static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
__attribute__((unused)) static int64_t greatest(int64_t a, int64_t b) { return a > b ? a : b; }
"""
"""The functions that expressions call."""

_SIGNS: dict[type[ast.AST], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
}
_DIVISIONS: dict[type[ast.AST], str] = {ast.FloorDiv: "quotient", ast.Mod: "rest"}
_FUNCTIONS = {"min": "least", "max": "greatest"}


class CSizes:
    """Makes C of texts over these names; ``d[i]`` is the i-th."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)
        self.divisors: list[str] = []
        """What is divided by and is no number, an operand before what it is in."""

    def expression(self, text: str) -> str:
        """A shape text in C. Raises ParseError for what is none."""
        return self._made(parse_shape(text, self.names))

    def divided_by_zero(self) -> str:
        """Statements that return a sentence where something is divided by zero."""
        problem = 'return "a size is divided by zero";'
        return "".join([f"    if ({divisor} == 0) {problem}\n" for divisor in self.divisors])

    def _made(self, n: ast.expr) -> str:
        match n:
            case ast.Constant(value=int() as value):
                return f"INT64_C({value})"
            case ast.Name(id=name):
                return f"d[{self.names.index(name)}]"
            case ast.UnaryOp(operand=operand):
                return f"(-{self._made(operand)})"
            case ast.BinOp(left=left, op=op, right=right):
                a, b = self._made(left), self._made(right)
                if type(op) in _SIGNS:
                    return f"({a} {_SIGNS[type(op)]} {b})"
                is_number = isinstance(right, ast.Constant) and right.value != 0
                if not is_number and b not in self.divisors:
                    self.divisors.append(b)
                return f"{_DIVISIONS[type(op)]}({a}, {b})"
            case ast.Compare(left=left, ops=ops, comparators=others):
                made = [self._made(value) for value in (left, *others)]
                pairs = zip(made, ops, made[1:], strict=False)
                return f"({' && '.join([f'{a} {_SIGNS[type(op)]} {b}' for a, op, b in pairs])})"
            case ast.Call(func=ast.Name(id=name), args=[first, *others]):
                found = self._made(first)
                for other in others:
                    found = f"{_FUNCTIONS[name]}({found}, {self._made(other)})"
                return found
        raise InternalError(f"a shape text holds {ast.unparse(n)}")
