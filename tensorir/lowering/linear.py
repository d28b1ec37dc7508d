"""Canonical linear forms of int64 index expressions, and what loop bounds prove about them.

Lowering and code generation reason about addresses only: sums of integer multiples of products of
atoms, plus a constant. An atom is a variable or an expression that is not linear (a floor division,
a loaded index); equal atoms are recognised by a structural key, so ``i * 4 + j - i * 3`` becomes
``i + j`` in one walk. ``Scope`` knows the ranges of variables in force and uses them to drop floor
divisions and comparisons. The forms are cheap and exact but know no general algebra: the proving
simplifier of schedules is ``tensorir.arith``.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator
from contextlib import contextmanager

from ...support.node import map_children, walk
from ..expr import (
    BOOL,
    EQ,
    GE,
    GT,
    INDEX,
    LE,
    LT,
    NE,
    Add,
    And,
    Broadcast,
    BufferLoad,
    Call,
    Cast,
    CompareOp,
    Expr,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mul,
    Not,
    Or,
    Ramp,
    Select,
    StringImm,
    Sub,
    Var,
    add,
    floordiv,
    floormod,
    logical_and,
    logical_not,
    logical_or,
    maximum,
    minimum,
    mul,
)

Key = Hashable
Monomial = tuple[Key, ...]
Bound = tuple[int | None, int | None]
_MAX_TERMS = 32
UNBOUNDED: Bound = (None, None)


class Linear:
    """``sum(coefficient * product of atoms) + const``; ``terms`` maps a monomial (the sorted keys
    of its atoms) to (atoms, coefficient), in order of first appearance. Treated as a value."""

    __slots__ = ("const", "terms")

    def __init__(self, terms: dict[Monomial, tuple[tuple[Expr, ...], int]], const: int) -> None:
        self.terms = terms
        self.const = const

    @property
    def is_const(self) -> bool:
        return not self.terms

    def key(self) -> Key:
        """Equal for equal forms."""
        return (self.const, frozenset([(m, c) for m, (_, c) in self.terms.items()]))

    def scaled(self, factor: int) -> Linear:
        if factor == 1:
            return self
        if factor == 0:
            return Linear({}, 0)
        return Linear({m: (a, c * factor) for m, (a, c) in self.terms.items()}, self.const * factor)

    def plus(self, other: Linear, sign: int = 1) -> Linear:
        if not other.terms:
            return Linear(self.terms, self.const + sign * other.const)
        terms = dict(self.terms)
        for m, (atoms, c) in other.terms.items():
            old = terms.get(m)
            total = sign * c + (old[1] if old else 0)
            if total:
                terms[m] = (atoms, total)
            elif old:
                del terms[m]
        return Linear(terms, self.const + sign * other.const)

    def times(self, other: Linear) -> Linear:
        """The product, multiplied out."""
        if other.is_const:
            return self.scaled(other.const)
        if self.is_const:
            return other.scaled(self.const)
        result = Linear({}, self.const * other.const)
        if self.const:
            result = result.plus(Linear(other.terms, 0).scaled(self.const))
        if other.const:
            result = result.plus(Linear(self.terms, 0).scaled(other.const))
        for ma, (aa, ca) in self.terms.items():
            for mb, (ab, cb) in other.terms.items():
                mono = tuple(sorted(ma + mb, key=hash))
                result = result.plus(Linear({mono: (aa + ab, ca * cb)}, 0))
        return result

    def coefficient(self, var: Var) -> Linear | None:
        """The factor of ``var``; None where ``var`` stands inside an atom or with a power."""
        key: Key = id(var)
        found = Linear({}, 0)
        for m, (atoms, c) in self.terms.items():
            count = m.count(key)
            if count > 1 or any(_mentions(a, var) for a in atoms if a is not var):
                return None
            if count:
                rest = tuple([a for a in atoms if a is not var])
                mono = tuple([k for k in m if k != key])
                found = found.plus(Linear({mono: (rest, c)}, 0) if rest else Linear({}, c))
        return found

    def without(self, var: Var) -> Linear:
        """The terms in which ``var`` is no factor."""
        key: Key = id(var)
        return Linear({m: t for m, t in self.terms.items() if key not in m}, self.const)

    def expr(self) -> Expr:
        """As an expression: the terms added, then those subtracted, then the constant."""
        result: Expr | None = None
        signed = sorted(self.terms.values(), key=lambda t: t[1] < 0)
        offset = self.const
        if signed and signed[0][1] < 0 and offset > 0:
            result, offset = IntImm(offset, INDEX), 0
        for atoms, c in signed:
            product: Expr = atoms[0]
            for a in atoms[1:]:
                product = mul(product, a)
            negative = c < 0 and result is not None
            scale = -c if negative else c
            if scale != 1:
                product = mul(product, IntImm(scale, INDEX))
            if result is None:
                result = product
            else:
                result = Sub(result, product) if negative else Add(result, product)
        if result is None:
            return IntImm(self.const, INDEX)
        if offset < 0:
            return Sub(result, IntImm(-offset, INDEX))
        return add(result, IntImm(offset, INDEX)) if offset else result


def _mentions(e: Expr, var: Var) -> bool:
    return any(n is var for n in walk(e))


def expr_key(e: Expr) -> Key:
    """A structural key of any expression: equal for structurally equal ones (variables and buffers
    by identity)."""
    kind = type(e)
    if kind is Var:
        return id(e)
    if kind is IntImm or kind is FloatImm or kind is StringImm:
        return (kind.__name__, repr(e.value), e.dtype)  # type: ignore[attr-defined]
    if kind is BufferLoad:
        assert isinstance(e, BufferLoad)
        guard = expr_key(e.predicate) if e.predicate is not None else None
        return ("load", id(e.buffer), tuple([expr_key(i) for i in e.indices]), guard)
    parts: list[Key] = [kind.__name__, e.dtype]
    for name in e.init_fields:
        value = getattr(e, name)
        if isinstance(value, Expr):
            parts.append(expr_key(value))
        elif type(value) is tuple:
            parts.append(tuple([expr_key(v) if isinstance(v, Expr) else v for v in value]))
        else:
            parts.append(value)
    return tuple(parts)


def _interval_mul(a: Bound, b: Bound) -> Bound:
    if None not in a and None not in b:
        products = [x * y for x in a for y in b if x is not None and y is not None]
        return min(products), max(products)
    if a[0] is not None and b[0] is not None and a[0] >= 0 and b[0] >= 0:
        return a[0] * b[0], None
    return UNBOUNDED


def _interval_scale(a: Bound, c: int) -> Bound:
    lo = None if a[0] is None else a[0] * c
    hi = None if a[1] is None else a[1] * c
    return (lo, hi) if c >= 0 else (hi, lo)


class Scope:
    """The ranges of the variables in force: numbers where known, and for loop variables also the
    linear forms of their first and last value."""

    def __init__(self) -> None:
        self.bounds: dict[int, Bound] = {}
        self.ends: dict[int, tuple[Linear, Linear]] = {}
        self.order: list[Var] = []
        self.fixed: dict[int, Linear] = {}

    def bind(self, var: Var, minimum_: Expr, extent: Expr) -> None:
        """``var`` runs over ``[minimum_, minimum_ + extent)`` and that range is not empty."""
        first = self.linear(minimum_)
        last = first.plus(self.linear(extent))
        last = Linear(last.terms, last.const - 1)
        self.bounds[id(var)] = (self.interval(first)[0], self.interval(last)[1])
        if first.key() == last.key():
            self.fixed[id(var)] = first
        self.ends[id(var)] = (first, last)
        self.order.append(var)

    def bind_nonnegative(self, var: Var) -> None:
        """``var`` is a symbolic dimension."""
        self.bounds[id(var)] = (0, None)

    @contextmanager
    def loop(self, var: Var, minimum_: Expr, extent: Expr) -> Iterator[None]:
        """``bind`` for the time of the context."""
        self.bind(var, minimum_, extent)
        try:
            yield
        finally:
            self.order.pop()
            del self.bounds[id(var)], self.ends[id(var)]
            self.fixed.pop(id(var), None)

    @contextmanager
    def where(self, condition: Expr) -> Iterator[None]:
        """What a condition says of the bounds of single variables, for the time of the context."""
        saved = self.bounds
        self.bounds = dict(saved)
        self._narrow(condition)
        try:
            yield
        finally:
            self.bounds = saved

    def _narrow(self, condition: Expr) -> None:
        match condition:
            case And(a, b):
                self._narrow(a)
                self._narrow(b)
            case LT(a, b) | LE(a, b) if a.dtype is INDEX:
                self._at_most(self.linear(a).plus(self.linear(b), -1), -(type(condition) is LT))
            case GT(a, b) | GE(a, b) if a.dtype is INDEX:
                self._at_most(self.linear(b).plus(self.linear(a), -1), -(type(condition) is GT))

    def _at_most(self, form: Linear, limit: int) -> None:
        """``form <= limit``."""
        if len(form.terms) != 1:
            return
        ((atoms, factor),) = form.terms.values()
        if len(atoms) != 1 or not isinstance(atoms[0], Var) or id(atoms[0]) not in self.bounds:
            return
        lo, hi = self.bounds[id(atoms[0])]
        end = (limit - form.const) // abs(factor)
        if factor > 0:
            hi = end if hi is None else min(hi, end)
        else:
            lo = -end if lo is None else max(lo, -end)
        self.bounds[id(atoms[0])] = (lo, hi)

    # -- linear forms -----------------------------------------------------------------------------
    def linear(self, e: Expr) -> Linear:
        """The linear form of a scalar integer expression."""
        kind = type(e)
        if kind is IntImm:
            return Linear({}, e.value)  # type: ignore[attr-defined]
        if kind is Var:
            fixed = self.fixed.get(id(e))
            if fixed is not None:
                return fixed
            return Linear({(id(e),): ((e,), 1)}, 0)
        if kind is Add:
            return self.linear(e.a).plus(self.linear(e.b))  # type: ignore[attr-defined]
        if kind is Sub:
            return self.linear(e.a).plus(self.linear(e.b), -1)  # type: ignore[attr-defined]
        if kind is Mul:
            return self._product(e)  # type: ignore[arg-type]
        if kind is FloorDiv or kind is FloorMod:
            return self._divmod(e)  # type: ignore[arg-type]
        if kind is Min or kind is Max:
            return self._extreme(e)  # type: ignore[arg-type]
        return self._other(e)

    def _other(self, e: Expr) -> Linear:
        """The form of what is no arithmetic."""
        if isinstance(e, Call) and e.op == "abs":
            return self._absolute(e)
        if isinstance(e, Cast) and isinstance(e.value, IntImm) and e.value.dtype.kind == "int":
            return Linear({}, e.value.value)
        simple = self.simplify_children(e)
        # What a decided choice leaves may be a sum.
        return self._atom(simple) if type(simple) is type(e) else self.linear(simple)

    def _atom(self, e: Expr) -> Linear:
        if type(e) is IntImm:
            return Linear({}, e.value)
        return Linear({(expr_key(e),): ((e,), 1)}, 0)

    def _product(self, e: Mul) -> Linear:
        a, b = self.linear(e.a), self.linear(e.b)
        if len(a.terms) * len(b.terms) > _MAX_TERMS:
            return self._atom(Mul(a.expr(), b.expr()))
        return a.times(b)

    def _divmod(self, e: FloorDiv | FloorMod) -> Linear:
        is_div = type(e) is FloorDiv
        a, b = self.linear(e.a), self.linear(e.b)
        if not b.is_const or b.const <= 0:
            if is_div:
                a, b = _one_division(self, a, b)
            build = floordiv if is_div else floormod
            return self._atom(build(a.expr(), b.expr()))
        c = b.const
        whole = {m: (at, k // c) for m, (at, k) in a.terms.items() if k % c == 0}
        rest = Linear({m: t for m, t in a.terms.items() if m not in whole}, a.const % c)
        outer = Linear(whole, a.const // c)
        if rest.is_const:
            return outer if is_div else rest
        lo, hi = self.interval(rest)
        if lo is not None and hi is not None and lo // c == hi // c:
            return (
                Linear(outer.terms, outer.const + lo // c)
                if is_div
                else _shift(rest, -(lo // c) * c)
            )
        rest, c = self._reduce_by_gcd(rest, c) if is_div else (rest, c)
        if is_div:
            nested = _nested_quotient(rest)
            if nested is not None:
                # (x // a + r) // c is (x + r * a) // (a * c).
                dividend, place = nested
                inner = _shift(self.linear(dividend), rest.const * place)
                return outer.plus(self.linear(FloorDiv(inner.expr(), IntImm(place * c, INDEX))))
            return outer.plus(self._atom(FloorDiv(rest.expr(), IntImm(c, INDEX))))
        return self._atom(FloorMod(rest.expr(), IntImm(c, INDEX)))

    def _reduce_by_gcd(self, rest: Linear, c: int) -> tuple[Linear, int]:
        """``(4 * x + r) // 8`` is ``(x + r // 4) // 2`` where 4 divides every other coefficient."""
        g = math.gcd(c, *[k for _, k in rest.terms.values()])
        if g == 1:
            return rest, c
        return Linear({m: (a, k // g) for m, (a, k) in rest.terms.items()}, rest.const // g), c // g

    def _extreme(self, e: Min | Max) -> Linear:
        a, b = self.linear(e.a), self.linear(e.b)
        is_min = type(e) is Min
        gap = self.interval(a.plus(b, -1))
        if gap[1] is not None and gap[1] <= 0:
            return a if is_min else b
        if gap[0] is not None and gap[0] >= 0:
            return b if is_min else a
        build = minimum if is_min else maximum
        return self._atom(build(a.expr(), b.expr()))

    def _absolute(self, e: Call) -> Linear:
        inner = self.linear(e.args[0])
        lo, hi = self.interval(inner)
        if lo is not None and lo >= 0:
            return inner
        if hi is not None and hi <= 0:
            return inner.scaled(-1)
        return self._atom(Call(e.op, (inner.expr(),), e.dtype))

    # -- bounds -----------------------------------------------------------------------------------
    def interval(self, form: Linear) -> Bound:
        """Inclusive numeric bounds of a form; None where unbounded."""
        lo: int | None = form.const
        hi: int | None = form.const
        for atoms, c in form.terms.values():
            bound = self._atom_bound(atoms[0])
            for a in atoms[1:]:
                bound = _interval_mul(bound, self._atom_bound(a))
            low, high = _interval_scale(bound, c)
            lo = None if lo is None or low is None else lo + low
            hi = None if hi is None or high is None else hi + high
        return lo, hi

    def _atom_bound(self, e: Expr) -> Bound:
        match e:
            case Var():
                return self.bounds.get(id(e), UNBOUNDED)
            case FloorDiv(a, IntImm(c)) if c > 0:
                lo, hi = self._bound_of(a)
                return (None if lo is None else lo // c, None if hi is None else hi // c)
            case FloorMod(a, IntImm(c)) if c > 0:
                return 0, c - 1
            case FloorDiv(a, b):
                low_a, high_a = self._bound_of(a)
                low_b = self._bound_of(b)[0]
                if low_a is not None and low_a >= 0 and low_b is not None and low_b >= 0:
                    return 0, high_a
                return UNBOUNDED
            case FloorMod(a, b):
                low_b, high_b = self._bound_of(b)
                if low_b is not None and low_b >= 0:
                    return 0, None if high_b is None else max(high_b - 1, 0)
                return UNBOUNDED
            case Min(a, b) | Max(a, b):
                return self._extreme_bound(e)
            case Cast(_, value) if value.dtype.kind == "int" and value.dtype.lanes == 1:
                return self._bound_of(value)
            case _:
                return UNBOUNDED

    def _bound_of(self, e: Expr) -> Bound:
        """Bounds of a scalar integer. Only what is int64 is a linear form; arithmetic of narrower
        integers wraps around, and has the bounds of its dtype at most."""
        if e.dtype is INDEX:
            return self.interval(self.linear(e))
        if isinstance(e, IntImm):
            return e.value, e.value
        if e.dtype.kind != "int":
            return UNBOUNDED
        lo, hi = self._atom_bound(e)
        most = (1 << (e.dtype.bits - 1)) - 1
        return -most - 1 if lo is None else lo, most if hi is None else hi

    def _extreme_bound(self, e: Min | Max) -> Bound:
        (la, ha), (lb, hb) = self._bound_of(e.a), self._bound_of(e.b)
        if type(e) is Min:
            lo = None if la is None or lb is None else min(la, lb)
            known = [h for h in (ha, hb) if h is not None]
            return lo, min(known) if known else None
        hi = None if ha is None or hb is None else max(ha, hb)
        known = [x for x in (la, lb) if x is not None]
        return max(known) if known else None, hi

    def _extreme_form(self, form: Linear, *, upper: bool) -> Linear:
        """``form`` with loop variables replaced by the end of their range, innermost first."""
        for var in reversed(self.order):
            if (id(var),) not in form.terms and not any(id(var) in m for m in form.terms):
                continue
            factor = form.coefficient(var)
            if factor is None:
                return form
            lo, hi = self.interval(factor)
            first, last = self.ends[id(var)]
            if lo is not None and lo >= 0:
                end = last if upper else first
            elif hi is not None and hi <= 0:
                end = first if upper else last
            else:
                return form
            form = form.without(var).plus(factor.times(end))
        # The end of a loop may be a digit of a size: with the digits above it makes the size.
        return self._without_quotients(_merge_divmod(form, self), upper=upper)

    def _without_quotients(self, form: Linear, *, upper: bool) -> Linear:
        """A bound of ``form`` by ``x - c < (x // c) * c <= x``."""
        for mono, (atoms, k) in form.terms.items():
            quotient = atoms[0]
            if (
                len(atoms) > 1
                or not isinstance(quotient, FloorDiv)
                or not isinstance(quotient.b, IntImm)
            ):
                continue
            c = quotient.b.value
            if k % c:
                continue
            x = self.linear(quotient.a)
            bound = x if (k > 0) == upper else Linear(x.terms, x.const - c + 1)
            rest = Linear({m: t for m, t in form.terms.items() if m != mono}, form.const)
            return self._without_quotients(rest.plus(bound.scaled(k // c)), upper=upper)
        return form

    def is_below(self, form: Linear, limit: int) -> bool:
        """Whether ``form < limit`` always holds."""
        hi = self.interval(form)[1]
        if hi is not None and hi < limit:
            return True
        hi = self.interval(self._extreme_form(form, upper=True))[1]
        return hi is not None and hi < limit

    def is_at_least(self, form: Linear, limit: int) -> bool:
        """Whether ``form >= limit`` always holds."""
        lo = self.interval(form)[0]
        if lo is not None and lo >= limit:
            return True
        lo = self.interval(self._extreme_form(form, upper=False))[0]
        return lo is not None and lo >= limit

    # -- simplification ---------------------------------------------------------------------------
    def simplify(self, e: Expr) -> Expr:
        """An index or condition with its int64 parts in canonical form and decided comparisons
        folded."""
        if e.dtype is INDEX:
            return _merge_divmod(self.linear(e), self).expr()
        return self.simplify_children(e)

    def simplify_value(self, e: Expr) -> Expr:
        """The same for a value: int64 arithmetic on loaded data wraps and is left as written."""
        if e.dtype is INDEX and _has_load(e):
            return self._map(e)
        return self.simplify(e)

    def simplify_children(self, e: Expr) -> Expr:
        """``simplify`` of what stands below ``e``, and of ``e`` itself where it is a condition."""
        match e:
            case Var() | IntImm() | FloatImm() | StringImm() | Ramp() | Broadcast():
                return e
            case EQ() | NE() | LT() | LE() | GT() | GE():
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
        """A comparison of int64 decided where bounds decide it, else in the form ``terms op
        const``."""
        if e.a.dtype is not INDEX or _has_load(e):
            return self._map(e)
        form = self.linear(e.a).plus(self.linear(e.b), -1)
        verdict = self._decide(type(e), form)
        if verdict is not None:
            return IntImm(int(verdict), BOOL)
        left = {m: t for m, t in form.terms.items() if t[1] > 0}
        right = Linear({m: (a, -c) for m, (a, c) in form.terms.items() if c < 0}, 0)
        build = type(e)
        return build(
            Linear(left, max(form.const, 0)).expr(), _shift(right, max(-form.const, 0)).expr()
        )

    def _decide(self, kind: type, form: Linear) -> bool | None:
        """Whether ``form kind 0`` holds, where that is known."""
        if kind is GT or kind is GE:
            return self._decide(LT if kind is GT else LE, form.scaled(-1))
        if kind is LT or kind is LE:
            limit = 0 if kind is LT else 1
            if self.is_below(form, limit):
                return True
            return False if self.is_at_least(form, limit) else None
        equal: bool | None = None
        if form.is_const:
            equal = form.const == 0
        elif self.is_below(form, 0) or self.is_at_least(form, 1):
            equal = False
        return equal if equal is None or kind is EQ else not equal


def _has_load(e: Expr) -> bool:
    return any(type(n) is BufferLoad for n in walk(e))


def _shift(form: Linear, by: int) -> Linear:
    return Linear(form.terms, form.const + by)


def _nested_quotient(form: Linear) -> tuple[Expr, int] | None:
    """The ``x`` and ``a`` of a form ``x // a + r`` with a positive constant ``a``."""
    if len(form.terms) != 1:
        return None
    ((atoms, k),) = form.terms.values()
    atom = atoms[0]
    if len(atoms) > 1 or k != 1 or type(atom) is not FloorDiv or type(atom.b) is not IntImm:
        return None
    return (atom.a, atom.b.value) if atom.b.value > 0 else None


def _one_division(scope: Scope, a: Linear, b: Linear) -> tuple[Linear, Linear]:
    """``x // p // q`` as ``x`` and ``p * q``, its factors by name, for divisors that are sizes."""
    while len(a.terms) == 1 and not a.const:
        ((atoms, k),) = a.terms.values()
        quotient = atoms[0]
        if len(atoms) > 1 or k != 1 or not isinstance(quotient, FloorDiv):
            break
        inner = scope.linear(quotient.b)
        if not _is_size(scope, inner) or not _is_size(scope, b):
            break
        a, b = scope.linear(quotient.a), inner.times(b)
    named = {m: (tuple(sorted(at, key=_name)), k) for m, (at, k) in b.terms.items()}
    return a, Linear(named, b.const)


def _is_size(scope: Scope, form: Linear) -> bool:
    """Whether a divisor is known not to be negative; zero is none, by the program's word."""
    low = scope.interval(form)[0]
    return low is not None and low >= 0


def _name(e: Expr) -> str:
    return e.name if isinstance(e, Var) else ""


def _merge_divmod(form: Linear, scope: Scope) -> Linear:
    """``(x // c) * (c * k) + (x % c) * k`` is ``x * k``; ``c`` and ``k`` may be symbolic."""
    mods = [(m, a, k) for m, (a, k) in form.terms.items() if any(type(x) is FloorMod for x in a)]
    for mono, atoms, k in mods:
        at = next(i for i, x in enumerate(atoms) if type(x) is FloorMod)
        rest = atoms[at]
        assert isinstance(rest, FloorMod)
        if mono not in form.terms:
            continue
        scale = Linear({}, k)
        for i, x in enumerate(atoms):
            if i != at:
                scale = scale.times(scope.linear(x))
        quotient = scope.linear(FloorDiv(rest.a, rest.b))
        whole = quotient.times(scope.linear(rest.b)).times(scale)
        matched = Linear({mono: form.terms[mono]}, 0).plus(whole)
        # Every term of the quotient must be there with its coefficient, else the merge adds terms.
        if all(m in form.terms and form.terms[m][1] == t[1] for m, t in matched.terms.items()):
            form = form.plus(matched, -1).plus(scope.linear(rest.a).times(scale))
    return form
