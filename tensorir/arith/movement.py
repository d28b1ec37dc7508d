"""How an index moves as loops run: by steps of each loop, cheaply and roughly.

                         as i takes 4 values     as j takes 16
    i * 16 + j           4 values, 16 apart      16 values, 1 apart
    (i * 16 + j) // 8    4 values, 2 apart       2 values, 1 apart

A cost model asks this of each access of thousands of candidates, where a form with proofs
(``linear``, ``iter_map``) would be too dear and nothing depends on the answer but an estimate.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from ...support.node import children
from ..expr import Cast, Expr, FloorDiv, FloorMod, IntImm, Mul, Sub, Var

Movement: TypeAlias = dict[int, tuple[int, int]]
"""Position of a loop to how many values an index takes as it runs, and how far apart."""


def movement(e: Expr, env: Mapping[Var, Movement]) -> Movement:
    """How an index moves with each loop. Exact for sums of loops, their quotients and remainders by
    constants that split a loop evenly; else it leaves out how terms interact."""
    match e:
        case Var():
            return dict(env.get(e, {}))
        case IntImm():
            return {}
        case Mul(b=IntImm(value=c)) if c:
            return {i: (n, step * c) for i, (n, step) in movement(e.a, env).items()}
        case Sub():
            second = {i: (n, -step) for i, (n, step) in movement(e.b, env).items()}
            return _joined(movement(e.a, env), second)
        case FloorDiv(b=IntImm(value=c)) if c > 0:
            return _quotient(movement(e.a, env), c)
        case FloorMod(b=IntImm(value=c)) if c > 0:
            return _remainder(movement(e.a, env), c)
        case Cast():
            return movement(e.value, env)
        case _:
            found: Movement = {}
            for child in children(e):
                if isinstance(child, Expr):
                    found = _joined(found, movement(child, env))
            return found


def _joined(a: Movement, b: Movement) -> Movement:
    """The terms of a sum; where both move with a loop as a digit and the next one do, what is left
    is one movement."""
    found = dict(a)
    for i, (n, step) in b.items():
        if i not in found:
            found[i] = (n, step)
            continue
        m, other = found[i]
        if m == n:
            found[i] = (n, step + other)
        else:
            found[i] = (n * m, min(abs(step), abs(other)))
    return {i: t for i, t in found.items() if t[1]}


def _quotient(terms: Movement, c: int) -> Movement:
    found: Movement = {}
    for i, (n, step) in terms.items():
        if step % c == 0:
            found[i] = (n, step // c)
            continue
        values = -(-n * abs(step) // c)
        if values > 1:
            found[i] = (min(values, n), max(1, abs(step) // c))
    return found


def _remainder(terms: Movement, c: int) -> Movement:
    found: Movement = {}
    for i, (n, step) in terms.items():
        if step % c:
            found[i] = (max(1, min(n, -(-c // abs(step)))), step)
    return {i: t for i, t in found.items() if t[0] > 1 or len(terms) == 1}
