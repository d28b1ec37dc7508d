"""The simplifier: walks an expression once, bottom-up, and keeps a canonical form of every part.

int64 arithmetic becomes a ``Linear`` (``linear``), bools go to ``rules_logic`` and
``rules_compare``, everything else (floats, loads, narrow integers, vectors) is rebuilt around its
simplified parts. Results are memoized by node; new facts about variables start new memos. The rules
themselves are the tables of ``rules_*.py``. Values are preserved for every evaluation that is
defined: no int64 overflow, no division by zero.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...support.node import map_children
from ..buffer import Buffer
from ..expr import (
    BOOL,
    INDEX,
    Add,
    Call,
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
    Sub,
    Var,
    cast,
)
from . import rules_add, rules_compare, rules_divmod, rules_logic
from .bounds import linear_interval
from .facts import Facts
from .linear import Linear, constant, render, same_structure
from .prove import is_divisor_positive

IF_THEN_ELSE = "if_then_else"


class Simplifier(Facts):
    """The walk over expressions; facts and memos are those of ``Facts``."""

    # -- expressions of any dtype ------------------------------------------------------------------
    def simplify(self, e: Expr) -> Expr:
        """An equal expression in canonical form; ``e`` itself where it is in it."""
        known = self.memo.get(e)
        if known is not None:
            return known
        result = self._simplify_once(e)
        self.memo[e] = result
        self.memo[result] = result
        return result

    def _simplify_once(self, e: Expr) -> Expr:
        kind = type(e)
        if kind is Var or kind is IntImm:
            if kind is Var and e.dtype is INDEX and (e in self.substitutions or self._fixed(e)):
                return render(self.linear(e))
            return e if e.dtype is INDEX or not self.truths else rules_logic.recall(self, e)
        if e.dtype is INDEX:
            result = render(self.linear(e))
        elif e.dtype is BOOL:
            result = rules_logic.simplify_bool(self, e)
        else:
            result = self.rebuild(e)
        return e if same_structure(result, e) else result

    def _fixed(self, v: Expr) -> bool:
        low, high = linear_interval(self, Linear({v: 1}))
        return low is not None and low == high

    def rebuild(self, e: Expr) -> Expr:
        """``e`` around its simplified parts, with conditionals on constants decided."""
        if type(e) is Select:
            return rules_logic.simplify_conditional(
                self, e, (e.condition, e.true_value, e.false_value)
            )
        if type(e) is Call and e.op == IF_THEN_ELSE:
            return rules_logic.simplify_conditional(self, e, e.args)
        if type(e) is Cast:
            return cast(self.simplify(e.value), e.dtype)
        return map_children(e, self._child)

    def _child(self, n: Any) -> Any:
        if isinstance(n, Expr):
            return self.simplify(n)
        return n if isinstance(n, Buffer) else map_children(n, self._child)

    # -- int64 -----------------------------------------------------------------------------------
    def linear(self, e: Expr) -> Linear:
        """The canonical form of an int64 expression."""
        known = self.linears.get(e)
        if known is None:
            convert = _CONVERT.get(type(e))
            known = self._opaque(e) if convert is None else convert(self, e)
            self.linears[e] = known
        return known

    def _opaque(self, e: Expr) -> Linear:
        rebuilt = self.rebuild(e)
        if type(rebuilt) in _CONVERT:
            return self.linear(rebuilt)
        if type(rebuilt) is Call and rebuilt.op == "abs":
            x = self.linear(rebuilt.args[0])
            low, high = linear_interval(self, x)
            if low is not None and low >= 0:
                return x
            if high is not None and high <= 0:
                return x.scale(-1)
        return self.atoms.opaque(rebuilt)

    def _var(self, e: Any) -> Linear:
        known = self.substitutions.get(e)
        if known is not None:
            return known
        low, high = linear_interval(self, Linear({e: 1}))
        return constant(low) if low is not None and low == high else Linear({e: 1})

    def _sum(self, e: Any) -> Linear:
        """Sums and multiples of sums are collected over the whole chain, then rewritten once."""
        terms: dict[Expr, int] = {}
        const = 0
        pending: list[tuple[Any, int]] = [(e, 1)]
        while pending:
            n, k = pending.pop()
            kind = type(n)
            if kind is Add:
                pending.append((n.b, k))
                pending.append((n.a, k))
            elif kind is Sub:
                pending.append((n.b, -k))
                pending.append((n.a, k))
            elif kind is IntImm:
                const += k * n.value
            elif kind is Mul and type(n.b) is IntImm:
                pending.append((n.a, k * n.b.value))
            else:
                x = self.linear(n)
                const += k * x.const
                for atom, c in x.terms.items():
                    terms[atom] = terms.get(atom, 0) + k * c
        if 0 in terms.values():
            terms = {atom: c for atom, c in terms.items() if c}
        return rules_add.rewrite_sum(self, Linear(terms, const))

    def _mul(self, e: Any) -> Linear:
        if type(e.b) is IntImm:
            return self._sum(e)
        product = self.atoms.multiply(self.linear(e.a), self.linear(e.b))
        return rules_add.rewrite_sum(self, product)

    def _floordiv(self, e: Any) -> Linear:
        return self.floordiv(self.linear(e.a), self.linear(e.b))

    def _floormod(self, e: Any) -> Linear:
        return self.floormod(self.linear(e.a), self.linear(e.b))

    def _truncdiv(self, e: Any) -> Linear:
        x, d = self.linear(e.a), self.linear(e.b)
        if not x.terms and not d.terms and d.const:
            quotient = abs(x.const) // abs(d.const)
            return constant(quotient if (x.const < 0) == (d.const < 0) else -quotient)
        low = linear_interval(self, x).min
        if low is not None and low >= 0 and is_divisor_positive(self, d):
            return self.floordiv(x, d)
        return self.atoms.binary(Div, x, d)

    def _extremum(self, e: Any) -> Linear:
        return rules_compare.extremum(self, type(e), self.linear(e.a), self.linear(e.b))

    def floordiv(self, x: Linear, d: Linear) -> Linear:
        """The canonical form of ``x // d``."""
        if d.terms:
            return rules_divmod.floordiv_symbolic(self, x, d)
        c = d.const
        if c == 1:
            return x
        if c <= 0:
            if c and not x.terms:
                return constant(x.const // c)
            return self.atoms.binary(FloorDiv, x, d)
        for rule in rules_divmod.FLOORDIV_RULES:
            result = rule(self, x, c)
            if result is not None:
                return result
        return self._known(self.atoms.binary(FloorDiv, x, d))

    def floormod(self, x: Linear, d: Linear) -> Linear:
        """The canonical form of ``x % d``."""
        if d.terms:
            return rules_divmod.floormod_symbolic(self, x, d)
        c = d.const
        if c == 1:
            return constant(0)
        if c <= 0:
            if c and not x.terms:
                return constant(x.const % c)
            return self.atoms.binary(FloorMod, x, d)
        for rule in rules_divmod.FLOORMOD_RULES:
            result = rule(self, x, c)
            if result is not None:
                return result
        return self._known(self.atoms.binary(FloorMod, x, d))

    def _known(self, x: Linear) -> Linear:
        """The constant that a constraint says ``x`` is, else ``x``."""
        if not self.facts:
            return x
        low, high = linear_interval(self, x)
        return constant(low) if low is not None and low == high else x


_CONVERT: dict[type, Callable[[Simplifier, Any], Linear]] = {
    IntImm: lambda _, e: constant(e.value),
    Var: Simplifier._var,
    Add: Simplifier._sum,
    Sub: Simplifier._sum,
    Mul: Simplifier._mul,
    FloorDiv: Simplifier._floordiv,
    FloorMod: Simplifier._floormod,
    Div: Simplifier._truncdiv,
    Min: Simplifier._extremum,
    Max: Simplifier._extremum,
}
