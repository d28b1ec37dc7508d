"""Conditions: what a conjunction joins, and joining it again."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from ..arith import expr_key
from ..arith.rules_logic import conjuncts as conjuncts
from ..expr import EQ, GE, GT, INDEX, LE, LT, NE, Expr, all_of, const
from .affine import Bounds

TRUE = const(True, "bool")


def conjunction(parts: Sequence[Expr]) -> Expr:
    """All of the conditions, each once."""
    seen: dict[Hashable, Expr] = {}
    for p in parts:
        for c in conjuncts(p):
            seen.setdefault(expr_key(c), c)
    return all_of(list(seen.values()))


def simplify_condition(c: Expr, bounds: Bounds) -> Expr:
    """A comparison with both sides in canonical form."""
    if isinstance(c, (LT, LE, GT, GE, EQ, NE)) and c.a.dtype is INDEX:
        return type(c)(bounds.simplify(c.a), bounds.simplify(c.b))
    return c
