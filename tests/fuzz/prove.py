"""The command behind ``make prove``: what the arithmetic of indices proves, z3 proves too.

Random facts are told to an ``Analyzer`` (``strategies/index_queries``) and it is asked about
random claims. What it says holds is given to z3 as the question whether the facts and the negation
can hold together: ``unsat`` confirms it, ``sat`` is a defect, with the values that show it, and z3
may not know. Beside ``can_prove``: ``can_prove_equal``, ``simplify``, ``bounds``, ``modular``.

Index arithmetic is that of integers without bounds, and division by zero is undefined, so divisors
are assumed not to be 0. z3's division is Euclidean; it is corrected where divisors are negative.
What z3 may spend on a question is counted in its own units, so that a busy machine makes no
difference.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from multiprocessing import get_context
from typing import Any

import z3

from burnish.tensorir import expr as e
from burnish.tensorir.arith import Analyzer
from burnish.tensorir.expr import EQ, GE, LE, Expr, FloorMod, IntImm, Select, Var, as_expr
from burnish.tensorir.text.printer import print_expr
from burnish.tests.strategies.index_queries import Questions
from burnish.tests.tensorir.arith.evaluate import UndefinedError, evaluate

CLAIMS = 10
"""Claims for one set of facts."""
EFFORT = 400_000
"""Units of z3's resource limit for one question; a tenth of a second, about."""
CHUNK = 100
"""Sets of facts for which a process is asked at once."""
OUTCOMES = ("confirmed", "z3 does not know", "wrong")


# -- translation -----------------------------------------------------------------------------------
class Translation:
    """Expressions as z3's terms; ``divisors`` are all that something is divided by."""

    def __init__(self) -> None:
        self.terms: dict[Expr, Any] = {}
        self.divisors: list[Any] = []

    def __call__(self, x: Expr) -> Any:
        found = self.terms.get(x)
        if found is None:
            found = self.terms[x] = self._translate(x)
        return found

    def _translate(self, x: Expr) -> Any:
        match x:
            case Var():
                return z3.Int(f"{x.name}")
            case IntImm():
                return z3.BoolVal(bool(x.value)) if x.dtype.is_bool else z3.IntVal(x.value)
            case e.Not():
                return z3.Not(self(x.a))
            case Select():
                return z3.If(self(x.condition), self(x.true_value), self(x.false_value))
        a, b = self(x.a), self(x.b)  # type: ignore[attr-defined]
        if isinstance(x, e.FloorDiv | e.FloorMod | e.Div):
            self.divisors.append(b)
        return OPERATIONS[type(x)](a, b)


def floor_quotient(a: Any, b: Any) -> Any:
    """``a // b``. z3's remainder is never negative, so its quotient by a negative divisor is
    rounded up where it is not exact."""
    euclidean = a / b
    if z3.is_int_value(b) and b.as_long() > 0:
        return euclidean
    return z3.If(z3.And(b < 0, a % b != 0), euclidean - 1, euclidean)


def floor_remainder(a: Any, b: Any) -> Any:
    """``a % b``, of the sign of the divisor."""
    if z3.is_int_value(b) and b.as_long() > 0:
        return a % b
    return z3.If(z3.And(b < 0, a % b != 0), a % b + b, a % b)


def truncated_quotient(a: Any, b: Any) -> Any:
    """The quotient rounded towards zero."""
    return z3.If(a >= 0, a / b, -(-a / b))


OPERATIONS: dict[type, Callable[[Any, Any], Any]] = {
    e.Add: lambda a, b: a + b,
    e.Sub: lambda a, b: a - b,
    e.Mul: lambda a, b: a * b,
    e.FloorDiv: floor_quotient,
    e.FloorMod: floor_remainder,
    e.Div: truncated_quotient,
    e.Min: lambda a, b: z3.If(a <= b, a, b),
    e.Max: lambda a, b: z3.If(a >= b, a, b),
    e.EQ: lambda a, b: a == b,
    e.NE: lambda a, b: a != b,
    e.LT: lambda a, b: a < b,
    e.LE: lambda a, b: a <= b,
    e.GT: lambda a, b: a > b,
    e.GE: lambda a, b: a >= b,
    e.And: lambda a, b: z3.And(a, b),
    e.Or: lambda a, b: z3.Or(a, b),
}


# -- questions -------------------------------------------------------------------------------------
@dataclass
class Tally:
    """How many claims there were, how many were proved, and what z3 says of those; the same of what
    else the analyzer says; and what is wrong."""

    claims: int = 0
    proved: Counter[str] = field(default_factory=Counter)
    said: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        self.claims += other.claims
        self.proved.update(other.proved)
        self.said.update(other.said)
        self.wrong += other.wrong

    def text(self) -> str:
        """The summary, in two lines."""
        proved, said = (
            ", ".join(f"{counts[o]} {o}" for o in OUTCOMES) for counts in (self.proved, self.said)
        )
        return (
            f"{self.claims} claims, {self.proved.total()} proved: {proved}\n"
            f"{self.said.total()} equalities, simplifications, bounds and remainders: {said}"
        )


class Facts:
    """One set of facts, told to an analyzer and to z3."""

    def __init__(self, seed: str) -> None:
        self.seed = seed
        self.questions = Questions(random.Random(seed))
        self.tally = Tally()
        self.solver = z3.Solver()
        self.solver.set("rlimit", EFFORT)
        self.translate = Translation()
        for condition in self.questions.known.conditions():
            self.solver.add(self.translate(condition))

    def ask(self) -> Tally:
        """All claims about these facts."""
        q, rng = self.questions, self.questions.rng
        analyzer = Analyzer()
        with ExitStack() as stack:
            q.known.tell(analyzer, stack)
            for _ in range(CLAIMS):
                if rng.random() < 0.1:
                    self._elsewhere(analyzer)
                claim = q.claim()
                self.tally.claims += 1
                if analyzer.can_prove(claim):
                    self._check(claim, self.tally.proved, "proved")
            for what, claim in self._statements(analyzer):
                self._check(claim, self.tally.said, what)
        return self.tally

    def _elsewhere(self, analyzer: Analyzer) -> None:
        """Ask under other facts, which must be forgotten afterwards."""
        q = self.questions
        with analyzer.scope():
            for v, *_ in q.known.loops:
                analyzer.bind(v, q.rng.choice((1, 4)))
            with analyzer.constraint(q.condition()):
                analyzer.can_prove(q.claim())

    def _statements(self, analyzer: Analyzer) -> Iterator[tuple[str, Expr]]:
        """What else the analyzer says, as conditions that hold if it is right."""
        q = self.questions
        a, b = q.pair()
        yield "simplified", EQ(a, analyzer.simplify(a))
        condition = q.condition()
        simplified = analyzer.simplify(condition)
        yield "simplified", e.Or(e.And(condition, simplified), e.Not(e.Or(condition, simplified)))
        for x in (a, b):
            low, high = analyzer.bounds(x)
            yield (
                "bounds",
                e.And(
                    GE(x, as_expr(low)) if low is not None else as_expr(True),
                    LE(x, as_expr(high)) if high is not None else as_expr(True),
                ),
            )
            coefficient, base = analyzer.modular(x)
            if coefficient != 1:
                m = FloorMod(x - base, as_expr(coefficient)) if coefficient else x - base
                yield "modular", EQ(m, as_expr(0))
        if analyzer.can_prove_equal(a, b):
            yield "equal", EQ(a, b)
        least, most = analyzer.difference(a, b)
        if least is not None:
            yield "least difference", GE(a - b, as_expr(least))
        if most is not None:
            yield "greatest difference", LE(a - b, as_expr(most))

    def _check(self, claim: Expr, counts: Counter[str], what: str) -> None:
        for p in self.questions.points:
            try:
                if not evaluate(claim, p):
                    values = {v.name: value for v, value in p.items()}
                    self._wrong(claim, counts, what, str(values))
                    return
            except UndefinedError:
                continue
        self.solver.push()
        self.solver.add(z3.Not(self.translate(claim)))
        self.solver.add([d != 0 for d in self.translate.divisors])
        found = self.solver.check()
        if found == z3.sat:
            self._wrong(claim, counts, what, str(self.solver.model()))
        else:
            counts["confirmed" if found == z3.unsat else "z3 does not know"] += 1
        self.solver.pop()

    def _wrong(self, claim: Expr, counts: Counter[str], what: str, values: str) -> None:
        counts["wrong"] += 1
        known = "; ".join(print_expr(c) for c in self.questions.known.conditions())
        self.tally.wrong.append(f"seed {self.seed}: {what}: {print_expr(claim)}\n"
                                f"    known: {known}\n    but: {values}")  # fmt: skip


def ask_many(seed: int, first: int, count: int) -> Tally:
    """The claims about some sets of facts of a seed."""
    tally = Tally()
    for n in range(first, first + count):
        tally.add(Facts(f"{seed}/{n}").ask())
    return tally


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--count", type=int, default=10_000, help="claims")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    args = parser.parse_args()
    begin = time.perf_counter()
    sets = -(-args.count // CLAIMS)
    firsts = range(0, sets, CHUNK)
    tally = Tally()
    with ProcessPoolExecutor(args.jobs, mp_context=get_context("spawn")) as pool:
        for part in pool.map(
            ask_many, [args.seed] * len(firsts), firsts, [min(CHUNK, sets - f) for f in firsts]
        ):
            tally.add(part)
            for line in part.wrong:
                print(line, flush=True)
    print(tally.text())
    print(f"seed {args.seed}, {time.perf_counter() - begin:.0f} s in {args.jobs} processes")
    sys.exit(bool(tally.wrong))


if __name__ == "__main__":
    main()
