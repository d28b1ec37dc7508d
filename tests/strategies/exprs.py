"""Random expressions of every kind of node, built as they stand (nothing is folded).

``exprs(dtype, variables, buffers)`` are scalars of any dtype, well-typed but not guarded against
division by zero: for text and rewriting, not for running. ``index_exprs(variables)`` are int64 with
positive divisors, and can be computed. ``draw_expr`` and ``draw_index`` are the same for
composites.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, TypeVar

from hypothesis import strategies as st

from burnish.support.dtype import DType
from burnish.tensorir import expr as e
from burnish.tensorir.buffer import Buffer
from burnish.tensorir.expr import BOOL, INDEX, Expr, FloatImm, IntImm, Var
from burnish.tensorir.intrinsics import UNARY_FLOAT

C = TypeVar("C")
Draw: TypeAlias = Callable[[st.SearchStrategy[Any]], Any]
Form: TypeAlias = Callable[[DType, int], Expr]
Binary: TypeAlias = Callable[[Expr, Expr], Expr]

ARITHMETIC: tuple[Binary, ...] = (e.Add, e.Sub, e.Mul, e.FloorDiv, e.FloorMod, e.Div, e.Min, e.Max)
INDEX_ARITHMETIC: tuple[Binary, ...] = (e.Add, e.Sub, e.Mul, e.FloorDiv, e.FloorMod, e.Min, e.Max)
COMPARISONS: tuple[Binary, ...] = (e.EQ, e.NE, e.LT, e.LE, e.GT, e.GE)
PREDICATES = ("isnan", "isinf", "isfinite")
BINARY_FLOAT = ("pow", "atan2", "copysign", "fmod")
UNARY_INT = ("abs", "popcount", "clz", "bitwise_not")
BINARY_INT = ("bitwise_and", "bitwise_or", "bitwise_xor", "shift_left", "shift_right")

_SMALL = st.integers(-20, 100)
_POSITIVE = st.integers(1, 8)
_FLOAT = st.one_of(
    st.sampled_from([0.0, -0.0, 1.0, 0.1, 1e-30, 1e20, float("inf"), float("-inf"), float("nan")]),
    st.floats(-1e6, 1e6),
)


def pick(draw: Draw, choices: Sequence[C]) -> C:
    return choices[draw(st.integers(0, len(choices) - 1))]


def draw_constant(draw: Draw, kind: DType) -> Expr:
    """A constant of a scalar dtype, with the odd ones among floats."""
    if kind.is_float:
        return FloatImm(draw(_FLOAT), kind)
    if kind.is_bool:
        return IntImm(int(draw(st.booleans())), BOOL)
    value = draw(_SMALL)
    return IntImm(abs(value) if kind.kind == "uint" else value, kind)


class _Drawer:
    """Draws expressions over ``variables`` and elements of ``buffers``."""

    def __init__(self, draw: Draw, variables: Sequence[Var], buffers: Sequence[Buffer]) -> None:
        self.draw, self.variables, self.buffers = draw, variables, buffers

    def expr(self, dtype: str, depth: int) -> Expr:
        kind = DType(dtype)
        forms: list[Form] = [self.leaf] if depth <= 0 else self.forms(kind)
        return pick(self.draw, forms)(kind, depth - 1)

    def forms(self, kind: DType) -> list[Form]:
        forms: list[Form] = [self.leaf, self.select, self.if_then_else, self.cast, self.let]
        if any(b.dtype is kind for b in self.buffers):
            forms.append(self.load)
        if kind.is_bool:
            return [*forms, self.logic, self.negation, self.comparison, self.predicate, self.likely]
        forms += [self.arithmetic, self.arithmetic, self.unary, self.binary]
        if kind.is_float:
            forms.append(self.fma)
        if kind == "int32":
            forms.append(self.reinterpret)
        return forms

    def leaf(self, kind: DType, depth: int) -> Expr:
        own = [v for v in self.variables if v.dtype is kind]
        if own and self.draw(st.booleans()):
            return pick(self.draw, own)
        return draw_constant(self.draw, kind)

    def select(self, kind: DType, depth: int) -> Expr:
        return e.Select(self.expr("bool", depth), self.expr(kind, depth), self.expr(kind, depth))

    def if_then_else(self, kind: DType, depth: int) -> Expr:
        args = (self.expr("bool", depth), self.expr(kind, depth), self.expr(kind, depth))
        return e.Call("if_then_else", args, kind)

    def cast(self, kind: DType, depth: int) -> Expr:
        return e.Cast(
            kind, self.expr(pick(self.draw, ["int32", "float32", "uint8", "int64"]), depth)
        )

    def let(self, kind: DType, depth: int) -> Expr:
        var = Var(pick(self.draw, ["x", "i", "y"]), INDEX)
        value = self.expr("int64", depth)
        inner = _Drawer(self.draw, [*self.variables, var], self.buffers)
        return e.Let(var, value, inner.expr(kind, depth))

    def load(self, kind: DType, depth: int) -> Expr:
        b = pick(self.draw, [b for b in self.buffers if b.dtype is kind])
        return e.BufferLoad(b, tuple([self.expr("int64", depth) for _ in b.shape]))

    def logic(self, kind: DType, depth: int) -> Expr:
        form: Binary = pick(self.draw, [e.And, e.Or])
        return form(self.expr("bool", depth), self.expr("bool", depth))

    def negation(self, kind: DType, depth: int) -> Expr:
        return e.Not(self.expr("bool", depth))

    def comparison(self, kind: DType, depth: int) -> Expr:
        compared = pick(self.draw, ["int64", "float32", "int32", "bool"])
        return pick(self.draw, COMPARISONS)(self.expr(compared, depth), self.expr(compared, depth))

    def predicate(self, kind: DType, depth: int) -> Expr:
        return e.Call(pick(self.draw, PREDICATES), (self.expr("float32", depth),), BOOL)

    def likely(self, kind: DType, depth: int) -> Expr:
        return e.Call("likely", (self.expr("bool", depth),), BOOL)

    def arithmetic(self, kind: DType, depth: int) -> Expr:
        return pick(self.draw, ARITHMETIC)(self.expr(kind, depth), self.expr(kind, depth))

    def unary(self, kind: DType, depth: int) -> Expr:
        name = pick(self.draw, UNARY_FLOAT if kind.is_float else UNARY_INT)
        return e.Call(name, (self.expr(kind, depth),), kind)

    def binary(self, kind: DType, depth: int) -> Expr:
        name = pick(self.draw, BINARY_FLOAT if kind.is_float else BINARY_INT)
        return e.Call(name, (self.expr(kind, depth), self.expr(kind, depth)), kind)

    def fma(self, kind: DType, depth: int) -> Expr:
        return e.Call("fma", tuple([self.expr(kind, depth) for _ in range(3)]), kind)

    def reinterpret(self, kind: DType, depth: int) -> Expr:
        return e.Call("reinterpret", (self.expr("float32", depth),), kind)


def draw_expr(
    draw: Draw,
    dtype: str,
    variables: Sequence[Var] = (),
    buffers: Sequence[Buffer] = (),
    depth: int = 2,
) -> Expr:
    """A scalar expression of ``dtype`` at most ``depth`` operators deep."""
    return _Drawer(draw, variables, buffers).expr(dtype, depth)


def draw_index(draw: Draw, variables: Sequence[Var], depth: int = 2) -> Expr:
    """An int64 expression that can be computed for all values of the variables."""
    if depth <= 0 or draw(st.booleans()):
        own = [v for v in variables if v.dtype is INDEX]
        if own and draw(st.booleans()):
            return pick(draw, own)
        return IntImm(draw(st.integers(0, 16)))
    form = pick(draw, INDEX_ARITHMETIC)
    left = draw_index(draw, variables, depth - 1)
    if form in (e.Mul, e.FloorDiv, e.FloorMod):
        return form(left, IntImm(draw(_POSITIVE)))
    return form(left, draw_index(draw, variables, depth - 1))


@st.composite
def exprs(
    draw: Draw,
    dtype: str,
    variables: Sequence[Var] = (),
    buffers: Sequence[Buffer] = (),
    depth: int = 3,
) -> Expr:
    return draw_expr(draw, dtype, variables, buffers, depth)


@st.composite
def index_exprs(draw: Draw, variables: Sequence[Var], depth: int = 3) -> Expr:
    return draw_index(draw, variables, depth)
