"""Constant bounds of index expressions: interval arithmetic over the canonical form.

Sound, never exact by promise: the value of an expression lies in its interval for every value that
the bindings and constraints allow. Symbolic bounds (``i <= m - 1``) are the business of ``prove``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from ..expr import (
    Cast,
    Div,
    Expr,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mul,
    Select,
    Var,
    int_limits,
)
from .linear import Linear

if TYPE_CHECKING:
    from .facts import Facts


class Interval(NamedTuple):
    """The integers from ``min`` to ``max``, both included; None stands for no bound."""

    min: int | None
    max: int | None


EVERYTHING = Interval(None, None)
NON_NEGATIVE = Interval(0, None)


def intersect(a: Interval, b: Interval) -> Interval:
    """The integers in both."""
    low = a.min if b.min is None else b.min if a.min is None else max(a.min, b.min)
    high = a.max if b.max is None else b.max if a.max is None else min(a.max, b.max)
    return Interval(low, high)


def union(a: Interval, b: Interval) -> Interval:
    """The smallest interval around both."""
    low = None if a.min is None or b.min is None else min(a.min, b.min)
    high = None if a.max is None or b.max is None else max(a.max, b.max)
    return Interval(low, high)


def linear_interval(s: Facts, x: Linear) -> Interval:
    """Bounds of a sum: the sum of its terms' bounds."""
    low: int | None = x.const
    high: int | None = x.const
    for atom, k in x.terms.items():
        a, b = atom_interval(s, atom)
        if k < 0:
            a, b = b, a
        low = None if low is None or a is None else low + k * a
        high = None if high is None or b is None else high + k * b
        if low is None and high is None:
            return EVERYTHING
    return Interval(low, high)


def atom_interval(s: Facts, atom: Expr) -> Interval:
    """Bounds of an atom: what a constraint said of it, within what its operands allow."""
    known = s.intervals.get(atom)
    if known is None:
        rule = _RULES.get(type(atom))
        known = rule(s, atom) if rule is not None else _by_dtype(atom)
        s.intervals[atom] = known
    return known


def _guarded(rule: Callable[[Facts, Expr], Interval]) -> Callable[[Facts, Expr], Interval]:
    """For atoms whose operands must be simplified first: a constraint on the atom itself would lead
    back here, and then its dtype has to do."""

    def bounded(s: Facts, atom: Expr) -> Interval:
        if atom in s.being_bounded:
            return _by_dtype(atom)
        s.being_bounded.add(atom)
        try:
            return rule(s, atom)
        finally:
            s.being_bounded.discard(atom)

    return bounded


def _by_dtype(e: Expr) -> Interval:
    """All values of a narrow integer type; int64 arithmetic has no useful bound."""
    dtype = e.dtype
    if not (dtype.is_integer or dtype.is_bool):
        return EVERYTHING
    if dtype.bits == 64:
        return Interval(0, None) if dtype.kind == "uint" else EVERYTHING
    return Interval(*int_limits(dtype))


def _var(s: Facts, e: Expr) -> Interval:
    assert isinstance(e, Var)
    return s.var_intervals.get(e) or _by_dtype(e)


def multiply(a: Interval, b: Interval) -> Interval:
    """Bounds of a product; an unbounded side counts only where it can matter."""
    if None not in a and None not in b:
        products = [x * y for x in a for y in b if x is not None and y is not None]
        return Interval(min(products), max(products))
    if a.min is not None and b.min is not None and a.min >= 0 and b.min >= 0:
        return Interval(a.min * b.min, None)
    if a.max is not None and b.max is not None and a.max <= 0 and b.max <= 0:
        return Interval(a.max * b.max, None)
    if (a.min is not None and b.max is not None and a.min >= 0 and b.max <= 0) or (
        b.min is not None and a.max is not None and b.min >= 0 and a.max <= 0
    ):
        return Interval(None, 0)
    return EVERYTHING


def _product(s: Facts, e: Expr) -> Interval:
    factors = s.atoms.factors_of(e)
    if len(factors) == 1:
        return EVERYTHING
    result = atom_interval(s, factors[0])
    for f in factors[1:]:
        result = multiply(result, atom_interval(s, f))
    if len(factors) == 2 and factors[0] is factors[1]:
        result = intersect(result, NON_NEGATIVE)
    return result


def _operands(s: Facts, e: Any) -> tuple[Interval, Interval]:
    """Bounds of the two operands of an atom. Those of an int64 one are sums; one of another integer
    type, or of which a part is being bounded now, was never taken apart."""
    parts = s.atoms.parts.get(e)
    if parts is not None:
        return linear_interval(s, parts[0]), linear_interval(s, parts[1])
    return expr_interval(s, e.a), expr_interval(s, e.b)


def _narrow(rule: Callable[[Facts, Expr], Interval]) -> Callable[[Facts, Expr], Interval]:
    """For operations of any integer type; those narrower than int64 also keep to their dtype."""
    guarded = _guarded(rule)

    def bounded(s: Facts, atom: Expr) -> Interval:
        if atom in s.atoms.parts:
            return rule(s, atom)
        return intersect(guarded(s, atom), _by_dtype(atom))

    return bounded


def _floordiv(s: Facts, e: Expr) -> Interval:
    value, divisor = _operands(s, e)
    if divisor.min is None or divisor.min < 0:
        return EVERYTHING
    least, most = max(divisor.min, 1), divisor.max
    low, high = value
    if low is not None:
        low = low // least if low < 0 else 0 if most is None else low // max(most, 1)
    if high is not None:
        high = high // least if high >= 0 else -1 if most is None else high // max(most, 1)
    return Interval(low, high)


def _floormod(s: Facts, e: Expr) -> Interval:
    value, divisor = _operands(s, e)
    if divisor.min is None or divisor.min < 0:
        return EVERYTHING
    high = None if divisor.max is None else divisor.max - 1
    if value.min is not None and value.min >= 0 and value.max is not None:
        high = value.max if high is None else min(high, value.max)
    return Interval(0, high)


def _truncdiv(s: Facts, e: Expr) -> Interval:
    value, divisor = _operands(s, e)
    if value.min is not None and value.min >= 0 and divisor.min is not None and divisor.min >= 0:
        return Interval(0, value.max)
    if None in value:
        return EVERYTHING
    most = max(abs(v) for v in value if v is not None)
    return Interval(-most, most)


def _min(s: Facts, e: Expr) -> Interval:
    a, b = _operands(s, e)
    return Interval(union(a, b).min, intersect(a, b).max)


def _max(s: Facts, e: Expr) -> Interval:
    a, b = _operands(s, e)
    return Interval(intersect(a, b).min, union(a, b).max)


def expr_interval(s: Facts, e: Expr) -> Interval:
    """Bounds of any scalar integer or bool expression."""
    if e.dtype.lanes != 1 or e.dtype.is_float or e.dtype.kind == "handle":
        return EVERYTHING
    if e.dtype == "int64":
        return linear_interval(s, s.linear(e))
    if type(e) is IntImm:
        return Interval(e.value, e.value)
    return atom_interval(s, e)


def _select(s: Facts, e: Expr) -> Interval:
    assert isinstance(e, Select)
    return union(expr_interval(s, e.true_value), expr_interval(s, e.false_value))


def _cast(s: Facts, e: Expr) -> Interval:
    assert isinstance(e, Cast)
    own, value = _by_dtype(e), e.value
    if not (value.dtype.is_integer or value.dtype.is_bool) or value.dtype.lanes != 1:
        return own
    inner = expr_interval(s, value)
    fits = (own.min is None or (inner.min is not None and inner.min >= own.min)) and (
        own.max is None or (inner.max is not None and inner.max <= own.max)
    )
    return inner if fits else own


_RULES: dict[type, Callable[[Facts, Expr], Interval]] = {
    Var: _var,
    Mul: _product,
    FloorDiv: _narrow(_floordiv),
    FloorMod: _narrow(_floormod),
    Div: _narrow(_truncdiv),
    Min: _narrow(_min),
    Max: _narrow(_max),
    Select: _guarded(_select),
    Cast: _guarded(_cast),
}
