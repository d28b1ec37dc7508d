"""Rules for conditions: and, or, not, and the conditionals that depend on them.

A conjunction is simplified part by part, each part under the others as known facts, so that what is
implied disappears (``i < 4 and i < 8  ->  i < 4``); a disjunction the other way round. Comparisons
of integers are negated by turning the operator; those of floats are not, because of NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ...support.node import map_children, walk
from ..expr import (
    EQ,
    GE,
    GT,
    INDEX,
    LE,
    LT,
    NE,
    And,
    BufferLoad,
    Call,
    Expr,
    ExternCall,
    IntImm,
    Not,
    Or,
)
from .linear import expr_key, same_structure
from .rules_compare import FALSE, NEGATED, TRUE, compare

if TYPE_CHECKING:
    from .simplify import Simplifier

COMPARISONS = (EQ, NE, LT, LE, GT, GE)


def conjuncts(e: Expr) -> list[Expr]:
    """The conditions that a conjunction joins, left to right; none for true."""
    if type(e) is And:
        return [*conjuncts(e.a), *conjuncts(e.b)]
    return [] if type(e) is IntImm and e.value else [e]


def _disjuncts(e: Expr) -> list[Expr]:
    return [*_disjuncts(e.a), *_disjuncts(e.b)] if type(e) is Or else [e]


def negate(e: Expr) -> Expr:
    """not (a < b)  ->  a >= b  on integers;  not not x  ->  x;  de Morgan"""
    match e:
        case IntImm():
            return FALSE if e.value else TRUE
        case Not(a=a):
            return a
        case And(a=a, b=b):
            return Or(negate(a), negate(b))
        case Or(a=a, b=b):
            return And(negate(a), negate(b))
        case (
            EQ(a=a, b=b) | NE(a=a, b=b) | LT(a=a, b=b) | LE(a=a, b=b) | GT(a=a, b=b) | GE(a=a, b=b)
        ):
            if not a.dtype.is_float:
                kind: Any = NEGATED[type(e)]
                return kind(a, b)  # type: ignore[no-any-return]
    return Not(e)


def simplify_bool(s: Simplifier, e: Expr) -> Expr:
    """A scalar bool in canonical form; TRUE or FALSE where it can be decided."""
    rule = _RULES.get(type(e))
    result = rule(s, e) if rule is not None else s.rebuild(e)
    return recall(s, result) if s.truths else result


def recall(s: Simplifier, e: Expr) -> Expr:
    """The truth of a condition that a constraint stated; the condition itself where none did."""
    for condition, truth in s.truths:
        if same_structure(condition, e):
            return TRUE if truth else FALSE
    return e


def _compare(s: Simplifier, e: Any) -> Expr:
    if e.a.dtype is INDEX:
        return compare(s, e)
    a, b = s.simplify(e.a), s.simplify(e.b)
    kind: type[Expr] = type(e)
    if type(a) is IntImm and type(b) is IntImm:
        return TRUE if _FOLD[kind](a.value, b.value) else FALSE
    if not a.dtype.is_float and a.dtype.lanes == 1 and same_structure(a, b):
        return TRUE if kind in (EQ, LE, GE) else FALSE
    return e if a is e.a and b is e.b else _rebuild(e, iter((a, b)))


def _and(s: Simplifier, e: Any) -> Expr:
    return _junction(s, And, conjuncts(e))


def _or(s: Simplifier, e: Any) -> Expr:
    return _junction(s, Or, _disjuncts(e))


def _junction(s: Simplifier, kind: type, parts: Sequence[Expr]) -> Expr:
    """a and b  ->  a    {a implies b};   a or b  ->  a    {b implies a}"""
    neutral, absorbing = (TRUE, FALSE) if kind is And else (FALSE, TRUE)
    kept: list[Expr] = []
    seen = set()
    for part in parts:
        p = s.simplify(part)
        flat = conjuncts(p) if kind is And else _disjuncts(p)
        for q in flat:
            key = expr_key(q)
            if key in seen or _is_constant(q, neutral):
                continue
            if _is_constant(q, absorbing):
                return absorbing
            seen.add(key)
            kept.append(q)
    return _drop_implied(s, kind, kept, neutral, absorbing)


def _drop_implied(
    s: Simplifier, kind: type, kept: list[Expr], neutral: Expr, absorbing: Expr
) -> Expr:
    # Later parts first: of two equivalent ones the earlier stays.
    for i in reversed(range(len(kept))):
        others = kept[:i] + kept[i + 1 :]
        if not others:
            break
        with s.assuming(others if kind is And else [negate(o) for o in others]):
            verdict = s.simplify(kept[i])
        if _is_constant(verdict, absorbing):
            return absorbing
        if _is_constant(verdict, neutral):
            kept = others
    if not kept:
        return neutral
    result = kept[0]
    for q in kept[1:]:
        result = kind(result, q)
    return result


def _is_constant(e: Expr, value: Expr) -> bool:
    return isinstance(e, IntImm) and isinstance(value, IntImm) and e.value == value.value


def _not(s: Simplifier, e: Any) -> Expr:
    inner = s.simplify(e.a)
    turned = negate(inner)
    return s.simplify(turned) if type(turned) is not Not else turned


def simplify_conditional(s: Simplifier, e: Expr, parts: Sequence[Expr]) -> Expr:
    """select(true, a, b)  ->  a;   select(c, a, a)  ->  a;   each branch knows its condition"""
    condition = s.simplify(parts[0])
    if isinstance(condition, IntImm):
        return s.simplify(parts[1] if condition.value else parts[2])
    with s.assuming([condition]):
        a = s.simplify(parts[1])
    with s.assuming([negate(condition)]):
        b = s.simplify(parts[2])
    if same_structure(a, b):
        return a
    rebuilt = iter((condition, a, b))
    return e if condition is parts[0] and a is parts[1] and b is parts[2] else _rebuild(e, rebuilt)


def _rebuild(e: Expr, parts: Any) -> Expr:
    return map_children(e, lambda _: next(parts))


def is_stable(e: Expr) -> bool:
    """Whether a condition means the same later on: it reads no memory and calls nothing opaque."""
    return not any(isinstance(n, BufferLoad | Call | ExternCall) for n in walk(e))


_FOLD: dict[type, Callable[[int, int], bool]] = {
    EQ: lambda a, b: a == b,
    NE: lambda a, b: a != b,
    LT: lambda a, b: a < b,
    LE: lambda a, b: a <= b,
    GT: lambda a, b: a > b,
    GE: lambda a, b: a >= b,
}
_RULES: dict[type, Callable[[Simplifier, Any], Expr]] = {
    And: _and,
    Or: _or,
    Not: _not,
    **dict.fromkeys(COMPARISONS, _compare),
}
