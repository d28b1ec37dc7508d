"""Dimensions: the arithmetic of shapes. Text, proof of equality, broadcasting, solving for callee
dims.

A dimension is a ``tensorir`` expression: a non-negative int64 constant, a symbolic Var, or sums,
products and floor divisions of them. Equality is *proved* by the canonical form of
``tensorir.arith``, which knows nothing of the variables here: two dims that are equal for every
value of these through ring arithmetic have one form. What is not proved equal is treated as
different; this file never guesses, and it evaluates nothing."""

from __future__ import annotations

import ast
from collections.abc import Callable, Hashable, Mapping, Sequence

from ..tensorir.arith import Analyzer, Interval
from ..tensorir.arith.linear import LinearKey, expr_key
from ..tensorir.arith.one_size import simplest
from ..tensorir.arith.rules_divmod import divide_polynomial
from ..tensorir.arith.simplify import Simplifier
from ..tensorir.expr import (
    Add,
    BinaryOp,
    Expr,
    ExprLike,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mul,
    Sub,
    Var,
    add,
    as_expr,
    floordiv,
    floormod,
    maximum,
    minimum,
    mul,
    sub,
)
from ..tensorir.text.dim_text import DimError as DimError
from ..tensorir.text.dim_text import print_dim as print_dim
from ..tensorir.visitor import free_vars


# -- text --------------------------------------------------------------------------------------
def print_shape(shape: Sequence[Expr], name_of: Callable[[Var], str] = lambda v: v.name) -> str:
    """A shape as an error message shows it: ``(m, 784)``."""
    inner = ", ".join(print_dim(d, name_of) for d in shape)
    return f"({inner},)" if len(shape) == 1 else f"({inner})"


def parse_dim(text: str, var_of: Callable[[str], Expr]) -> Expr:
    """The dim that ``print_dim`` wrote; ``var_of`` gives the Var of a name. Raises DimError."""
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except SyntaxError:
        raise DimError(f"Expected a dimension such as 'm' or 'm * 2'; found {text!r}.") from None
    return _parse(tree, text, var_of)


_PARSED: dict[type[ast.operator], type[Add | Sub | Mul | FloorDiv | FloorMod]] = {
    ast.Add: Add,
    ast.Sub: Sub,
    ast.Mult: Mul,
    ast.FloorDiv: FloorDiv,
    ast.Mod: FloorMod,
}


def _parse(tree: ast.expr, text: str, var_of: Callable[[str], Expr]) -> Expr:
    match tree:
        case ast.Constant(value=int() as value) if not isinstance(value, bool):
            return IntImm(value)
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() as value)):
            return IntImm(-value)
        case ast.Name(id=name):
            return var_of(name)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _PARSED:
            return _PARSED[type(op)](_parse(left, text, var_of), _parse(right, text, var_of))
        case ast.Call(func=ast.Name(id="min" | "max" as name), args=[first, second]):
            a, b = _parse(first, text, var_of), _parse(second, text, var_of)
            return Min(a, b) if name == "min" else Max(a, b)
    raise DimError(f"Expected +, -, *, //, %, min or max of dims; found {text!r}.")


# -- equality ----------------------------------------------------------------------------------
def dim_equal(a: Expr, b: Expr) -> bool:
    """Whether the dims are proved equal for all values of their variables."""
    if a is b:
        return True
    if isinstance(a, (IntImm, Var)) and isinstance(b, (IntImm, Var)):
        return isinstance(a, IntImm) and isinstance(b, IntImm) and a.value == b.value
    s = Simplifier()
    return s.linear(a).key == s.linear(b).key


class KnownDims:
    """Dims, of which it is known whether one is proved equal to one of them."""

    def __init__(self) -> None:
        self._forms = Simplifier()
        self._seen: set[Hashable] = set()
        self._keys: set[LinearKey] = set()

    def add(self, dim: Expr) -> None:
        written = expr_key(dim)
        if written not in self._seen:
            self._seen.add(written)
            self._keys.add(self._forms.linear(dim).key)

    def __contains__(self, dim: Expr) -> bool:
        return self._forms.linear(dim).key in self._keys


def shape_equal(a: Sequence[Expr], b: Sequence[Expr]) -> bool:
    """Whether the shapes have one rank and dims that are proved equal."""
    return len(a) == len(b) and all(dim_equal(x, y) for x, y in zip(a, b, strict=True))


def static_value(dim: Expr) -> int | None:
    """The dim as an int where it is proved to be one, else None."""
    if isinstance(dim, (IntImm, Var)):
        return dim.value if isinstance(dim, IntImm) else None
    form = Simplifier().linear(dim)
    return None if form.terms else form.const


def static_shape(shape: Sequence[Expr]) -> tuple[int, ...] | None:
    """The shape as ints, or None where a dim is symbolic."""
    values = [static_value(d) for d in shape]
    known = tuple([v for v in values if v is not None])
    return known if len(known) == len(values) else None


def fold_dim(dim: ExprLike) -> Expr:
    """An equal dim: constants folded, the same object where there is nothing to fold. What has
    ``min`` or ``max`` in it is the shortest part of it that it equals for all sizes."""
    expr = as_expr(dim)
    value = static_value(expr)
    if value is not None:
        return expr if isinstance(expr, IntImm) else IntImm(value)
    if isinstance(expr, (FloorDiv, FloorMod, Min, Max, Mul)):
        single = Simplifier().linear(expr).single
        return single if isinstance(single, Var) else simplest(expr)
    if isinstance(expr, (Add, Sub)):
        # A convolution after another adds and takes away: a deep network has chains of it.
        short = Simplifier().simplify(expr)
        return simplest(short if _length(short) < _length(expr) else expr)
    return expr


def _length(dim: Expr) -> int:
    """The numbers, names and operators of a dim."""
    return 1 + _length(dim.a) + _length(dim.b) if isinstance(dim, BinaryOp) else 1


def product(shape: Sequence[Expr]) -> Expr:
    """The number of elements; constants multiplied first, so that ``m * 28 * 28`` is ``m *
    784``."""
    number, result = 1, None
    for dim in shape:
        value = static_value(dim)
        if value is not None:
            number *= value
        else:
            result = dim if result is None else result * dim
    if result is None or number == 0:
        return IntImm(number)
    return result if number == 1 else result * number


# -- signs and bounds --------------------------------------------------------------------------
def is_nonnegative(dim: Expr) -> bool:
    """Whether a dim is proved to be at least 0 for all sizes in it, which are."""
    if isinstance(dim, (IntImm, Var)):
        return isinstance(dim, Var) or dim.value >= 0
    return _knowing_sizes(dim, {}).can_prove(dim >= 0)


def largest_value(dim: Expr, at_most: Mapping[str, int]) -> int | None:
    """A bound of a dim from above, where the sizes of these names have one; None where none is
    seen."""
    return _knowing_sizes(dim, at_most).bounds(dim).max


def _knowing_sizes(dim: Expr, at_most: Mapping[str, int]) -> Analyzer:
    analyzer = Analyzer()
    for var in free_vars([dim]):
        analyzer.simplifier.bind_interval(var, Interval(0, at_most.get(var.name)))
    return analyzer


# -- shapes ------------------------------------------------------------------------------------
def divide(dim: Expr, divisor: Expr) -> Expr | None:
    """``dim / divisor`` where it is proved exact, else None."""
    s = Simplifier()
    whole, part = s.linear(dim), s.linear(divisor)
    if whole.key == part.key:
        return IntImm(1)
    if not part.terms:
        exact = part.const and not any(c % part.const for c in (*whole.terms.values(), whole.const))
        return fold_dim(floordiv(dim, part.const)) if exact else None
    quotient, rest = divide_polynomial(s, whole, part)
    if rest.terms or rest.const:
        return None
    return floordiv(dim, divisor) if quotient.terms else IntImm(quotient.const)


def broadcast_shapes(a: Sequence[Expr], b: Sequence[Expr]) -> tuple[Expr, ...]:
    """NumPy's broadcasting of two shapes. A dim of 1 stretches; other dims must be proved equal.

    Raises DimError naming both dims.
    """
    result: list[Expr] = []
    for index in range(max(len(a), len(b))):
        x = a[len(a) - 1 - index] if index < len(a) else IntImm(1)
        y = b[len(b) - 1 - index] if index < len(b) else IntImm(1)
        if dim_equal(x, y):
            result.append(x if not isinstance(y, IntImm) else y)
        elif static_value(x) == 1:
            result.append(y)
        elif static_value(y) == 1:
            result.append(x)
        else:
            symbolic = static_value(x) is None or static_value(y) is None
            reason = "are not proved equal" if symbolic else "differ and neither is 1"
            place = f"(the {index + 1}. from the right)"
            message = f"dims {print_dim(x)} and {print_dim(y)} {place} {reason}"
            raise DimError(message, (x, y), -1 - index)
    return tuple(reversed(result))


def solve_dims(patterns: Sequence[Expr], actual: Sequence[Expr]) -> dict[Var, Expr]:
    """Values of the Vars in ``patterns`` that make them equal to ``actual``, dim by dim.

    A bare Var takes the actual dim; a compound pattern is matched node by node. Used to find the
    callee's dims from the types of the arguments. Raises DimError where a dim does not fit or a Var
    would need two values.
    """
    found: dict[Var, Expr] = {}
    compound: list[tuple[Expr, Expr]] = []
    for pattern, dim in zip(patterns, actual, strict=True):
        if isinstance(pattern, Var):
            _assign(found, pattern, dim)
        else:
            compound.append((pattern, dim))
    for pattern, dim in compound:
        _match(found, pattern, dim)
    for pattern, dim in compound:
        if not dim_equal(substitute_dim(pattern, found), dim):
            raise DimError(
                f"dim {print_dim(dim)} does not fit the parameter's dim {print_dim(pattern)}"
            )
    return found


def _assign(found: dict[Var, Expr], var: Var, dim: Expr) -> None:
    known = found.setdefault(var, dim)
    if not dim_equal(known, dim):
        raise DimError(
            f"symbolic dim {var.name} would be both {print_dim(known)} and {print_dim(dim)}"
        )


def _match(found: dict[Var, Expr], pattern: Expr, dim: Expr) -> None:
    """Match node by node, and sums of as many terms term by term, however they are nested; what
    does not match is left to the final comparison."""
    if isinstance(pattern, Var):
        found.setdefault(pattern, dim)
    elif isinstance(pattern, Add) and len(terms := _terms(pattern)) == len(_terms(dim)):
        for own, other in zip(terms, _terms(dim), strict=True):
            _match(found, own, other)
    elif isinstance(pattern, (Add, Sub, Mul, FloorDiv, FloorMod, Min, Max)) and type(
        pattern
    ) is type(dim):
        assert isinstance(dim, (Add, Sub, Mul, FloorDiv, FloorMod, Min, Max))
        _match(found, pattern.a, dim.a)
        _match(found, pattern.b, dim.b)


def _terms(dim: Expr) -> list[Expr]:
    """What a sum adds up, from left to right."""
    found: list[Expr] = []
    open_ = [dim]
    while open_:
        part = open_.pop()
        if isinstance(part, Add):
            open_ += [part.b, part.a]
        else:
            found.append(part)
    return found


_REBUILD: dict[type[Expr], Callable[[Expr, Expr], Expr]] = {
    Add: add,
    Sub: sub,
    Mul: mul,
    FloorDiv: floordiv,
    FloorMod: floormod,
    Min: minimum,
    Max: maximum,
}


def substitute_dim(dim: Expr, values: Mapping[Var, Expr]) -> Expr:
    """The dim with Vars replaced (by identity) and constants folded; the same object if none
    occurs."""
    if isinstance(dim, Var):
        return values.get(dim, dim)
    if isinstance(dim, (Add, Sub, Mul, FloorDiv, FloorMod, Min, Max)):
        a, b = substitute_dim(dim.a, values), substitute_dim(dim.b, values)
        return dim if a is dim.a and b is dim.b else _REBUILD[type(dim)](a, b)
    return dim


class OwnDims:
    """Gives a kernel symbolic dims of its own: called with a dim of the caller, the kernel's dim.

    Dims that are proved equal get one Var; a compound dim (``b * t``) gets a Var too, so that a
    kernel's dims can be read off the shapes of its arguments. Static dims stay as they are.
    """

    def __init__(self) -> None:
        self._forms = Simplifier()
        self._known: dict[LinearKey, Var] = {}

    def __call__(self, dim: Expr) -> Expr:
        form = self._forms.linear(dim)
        if not form.terms:
            return dim
        name = dim.name if isinstance(dim, Var) else "n"
        return self._known.setdefault(form.key, Var(name))
