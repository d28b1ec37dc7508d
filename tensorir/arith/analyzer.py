"""``Analyzer``: the one object through which the compiler asks questions about index arithmetic.

One analyzer belongs to one scope of variables: bind the loops, declare the symbolic dimensions,
ask. Answers are sound and incomplete: what is not proved may still be true.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ..expr import BOOL, EQ, INDEX, Expr, ExprLike, IntImm, Var, as_expr
from .bounds import EVERYTHING, Interval, expr_interval, linear_interval
from .facts import Domain
from .modular import linear_modular
from .prove import prove_nonneg
from .simplify import Simplifier


class Analyzer:
    """Facts about variables, and what follows from them. Cheap to construct."""

    __slots__ = ("simplifier",)

    def __init__(self) -> None:
        self.simplifier = Simplifier()

    def bind(self, var: Var, rng: Domain) -> None:
        """``var`` takes the values of a Range (symbolic or not), of ``[0, n)`` for an int n, or of
        ``lo..hi`` (both included) for a tuple. An earlier binding is replaced."""
        self.simplifier.bind(var, rng)

    def bind_expr(self, var: Var, expr: ExprLike) -> None:
        """``var`` stands for ``expr``: simplification puts the one in the place of the other."""
        self.simplifier.bind_expr(var, as_expr(expr))

    def declare_dim(self, var: Var) -> None:
        """``var`` is a symbolic dimension, hence at least 0."""
        self.simplifier.declare_dim(var)

    def simplify(self, expr: Expr) -> Expr:
        """An equal expression in canonical form; the same object where there is nothing to do."""
        return self.simplifier.simplify(expr)

    def bounds(self, expr: ExprLike) -> Interval:
        """The interval, ends included, that a scalar integer or bool expression lies in."""
        e = as_expr(expr)
        return expr_interval(self.simplifier, e if e.dtype is INDEX else self.simplify(e))

    def modular(self, expr: ExprLike) -> tuple[int, int]:
        """``coefficient, base``: the int64 value is ``coefficient * q + base`` for some integer q.
        (1, 0) says nothing; (0, base) says that it is ``base``."""
        e = as_expr(expr)
        return (
            linear_modular(self.simplifier, self.simplifier.linear(e))
            if e.dtype is INDEX
            else (1, 0)
        )

    def can_prove(self, cond: ExprLike) -> bool:
        """Whether the condition holds for all values of the variables."""
        e = as_expr(cond, BOOL)
        result = e if type(e) is IntImm else self.simplifier.simplify(e)
        return type(result) is IntImm and result.value != 0

    def can_prove_equal(self, a: ExprLike, b: ExprLike) -> bool:
        """Whether two expressions always have the same value."""
        x, y = as_expr(a), as_expr(b)
        if x is y:
            return not x.dtype.is_float
        if x.dtype is INDEX and y.dtype is INDEX:
            d = self.simplifier.linear(x) - self.simplifier.linear(y)
            if not d.terms:
                return d.const == 0
            return prove_nonneg(self.simplifier, d) and prove_nonneg(self.simplifier, d.scale(-1))
        return x.dtype is y.dtype and not x.dtype.is_float and self.can_prove(EQ(x, y))

    def difference(self, a: Expr, b: Expr) -> Interval:
        """The bounds of ``a - b`` for int64 expressions, found without rendering the difference:
        what the bounds of its terms say."""
        if a.dtype is not INDEX or b.dtype is not INDEX:
            return EVERYTHING
        s = self.simplifier
        return linear_interval(s, s.linear(a) - s.linear(b))

    def divides(self, expr: ExprLike, n: int) -> bool:
        """Whether ``expr`` is always a multiple of ``n`` (``n`` is not 0)."""
        coefficient, base = self.modular(expr)
        return coefficient % n == 0 and base % n == 0

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Bindings made inside the ``with`` end with it."""
        with self.simplifier.scope():
            yield

    @contextmanager
    def constraint(self, cond: ExprLike) -> Iterator[None]:
        """Inside the ``with``, ``cond`` holds. Conditions that read memory are ignored."""
        with self.simplifier.assuming([as_expr(cond, BOOL)]):
            yield
