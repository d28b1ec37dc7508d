"""``Scope``: what lowering and code generation ask ``arith`` about indices, statement by statement.

Addresses are the linear forms of ``arith`` (``Scope.linear``), with the loops in force bound one
inside the other. What is lowering's own is the walk over values: int64 arithmetic on loaded data
wraps and is left as written, conditions are decided one by one and not under each other, and
``likely`` goes. Facts come from loops, sizes and the conditions that a statement stands under.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ...support.node import map_children, walk
from ..arith import rules_compare
from ..arith.bounds import Interval, linear_interval
from ..arith.linear import Linear, constant, render
from ..arith.prove import prove_nonneg
from ..arith.simplify import Simplifier
from ..buffer import Range
from ..expr import (
    INDEX,
    And,
    Broadcast,
    BufferLoad,
    Call,
    CompareOp,
    Expr,
    FloatImm,
    IntImm,
    Not,
    Or,
    Ramp,
    Select,
    StringImm,
    Var,
    logical_and,
    logical_not,
    logical_or,
)


class Scope(Simplifier):
    """The variables in force. Forms are compared with those of the same scope."""

    max_goals = 12
    """Most of what schedules had to prove holds in programs already: a short search will do."""

    @contextmanager
    def loop(self, var: Var, minimum: Expr, extent: Expr) -> Iterator[None]:
        """``var`` runs over ``[minimum, minimum + extent)``, which is not empty, for the time of
        the context."""
        with self.scope():
            self.bind(var, Range(minimum, extent))
            yield

    def interval(self, form: Linear) -> Interval:
        """Inclusive numeric bounds of a form; None where unbounded."""
        return linear_interval(self, form)

    def is_below(self, form: Linear, limit: int) -> bool:
        """Whether ``form < limit`` always holds."""
        return prove_nonneg(self, constant(limit - 1) - form)

    def is_at_least(self, form: Linear, limit: int) -> bool:
        """Whether ``form >= limit`` always holds."""
        return prove_nonneg(self, form.shift(-limit))

    # -- simplification ---------------------------------------------------------------------------
    def _simplify_once(self, e: Expr) -> Expr:
        return render(self.linear(e)) if e.dtype is INDEX else self.rebuild(e)

    def simplify_value(self, e: Expr) -> Expr:
        """``simplify`` for a value: int64 arithmetic on loaded data wraps and is left as
        written."""
        if e.dtype is INDEX and _has_load(e):
            return self._map(e)
        return self.simplify(e)

    def rebuild(self, e: Expr) -> Expr:
        """``e`` around its simplified parts, and ``e`` itself decided where it is a condition."""
        match e:
            case Var() | IntImm() | FloatImm() | StringImm() | Ramp() | Broadcast():
                return e
            case CompareOp():
                return self.compare(e)
            case And(a, b):
                return logical_and(self.simplify(a), self.simplify(b))
            case Or(a, b):
                return logical_or(self.simplify(a), self.simplify(b))
            case Not(a):
                return logical_not(self.simplify(a))
            case Select(condition, a, b):
                return self._choice(e, condition, a, b)
            case Call("if_then_else", (condition, a, b)):
                return self._choice(e, condition, a, b)
            case Call("likely", (a,)):
                return self.simplify(a)
            case _:
                return self._map(e)

    def _choice(self, e: Select | Call, condition: Expr, a: Expr, b: Expr) -> Expr:
        condition = self.simplify(condition)
        if type(condition) is IntImm:
            return self.simplify_value(a if condition.value else b)
        parts = (condition, self.simplify_value(a), self.simplify_value(b))
        if type(e) is Select:
            return Select(*parts)
        return Call("if_then_else", parts, e.dtype)

    def _map(self, e: Expr) -> Expr:
        if type(e) is BufferLoad:
            guard = self.simplify(e.predicate) if e.predicate is not None else None
            return BufferLoad(e.buffer, tuple([self.simplify(i) for i in e.indices]), guard)
        return map_children(e, lambda n: self.simplify_value(n) if isinstance(n, Expr) else n)

    def compare(self, e: CompareOp) -> Expr:
        """A comparison of int64 decided where it can be, else with each term on the side where it
        is positive."""
        if e.a.dtype is not INDEX or _has_load(e):
            return self._map(e)
        return rules_compare.compare(self, e)


def _has_load(e: Expr) -> bool:
    return any(type(n) is BufferLoad for n in walk(e))
