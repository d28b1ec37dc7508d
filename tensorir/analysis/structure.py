"""The shapes of block bodies that primitives recognise: the update of a reduction, a plain copy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..arith import expr_key
from ..buffer import Buffer
from ..expr import (
    GT,
    Add,
    BufferLoad,
    Expr,
    Max,
    Min,
    Mul,
    Select,
    add,
    is_const,
    max_value,
    maximum,
    min_value,
    minimum,
    mul,
)
from ..stmt import Block, BufferStore
from ..visitor import loads_from

COMBINERS: dict[type[Expr], Callable[[Expr, Expr], Expr]] = {
    Add: add,
    Mul: mul,
    Max: maximum,
    Min: minimum,
}
"""The commutative operations a reduction may be regrouped over."""


@dataclass(slots=True)
class ReductionUpdate:
    """``buffer[indices] = combine(buffer[indices], term)``, starting from ``identity``."""

    buffer: Buffer
    indices: tuple[Expr, ...]
    combine: Callable[[Expr, Expr], Expr]
    term: Expr
    identity: Expr


def match_update(block: Block) -> ReductionUpdate | None:
    """The update of a reduction block with one store, or None where it is of another form.

    The init must hold the operation's neutral element: starting each partial result from anything
    else would count it several times.
    """
    init, body = block.init, block.body
    if not isinstance(init, BufferStore) or not isinstance(body, BufferStore):
        return None
    if init.predicate is not None or body.predicate is not None:
        return None
    if init.buffer is not body.buffer or not same_indices(init.indices, body.indices):
        return None
    operation = _operation(body.value)
    if operation is None:
        return None
    kind, combine, operands = operation
    for own, term in operands:
        if (
            isinstance(own, BufferLoad)
            and own.buffer is body.buffer
            and same_indices(own.indices, body.indices)
        ):
            if loads_from(term, body.buffer):
                return None
            if not is_identity(kind, init.value):
                return None
            return ReductionUpdate(body.buffer, body.indices, combine, term, init.value)
    return None


def _operation(
    value: Expr,
) -> tuple[type[Expr], Callable[[Expr, Expr], Expr], list[tuple[Expr, Expr]]] | None:
    """The operation that a reduction may be regrouped over, how to build it, and what is combined
    with what; None where it is another. ``x if x > m else m`` is a maximum that leaves NaN out."""
    match value:
        case Add(a, b) | Mul(a, b) | Max(a, b) | Min(a, b):
            return type(value), COMBINERS[type(value)], [(a, b), (b, a)]
        case Select(GT(x, m), a, b) if expr_key(x) == expr_key(a) and expr_key(m) == expr_key(b):
            return Max, _larger, [(m, x)]
        case _:
            return None


def _larger(m: Expr, x: Expr) -> Expr:
    return Select(GT(x, m), x, m)


def is_identity(kind: type[Expr], value: Expr) -> bool:
    """Whether a constant is the neutral element of an operation on its dtype."""
    if kind is Add:
        return is_const(value, 0)
    if kind is Mul:
        return is_const(value, 1)
    expected = min_value(value.dtype) if kind is Max else max_value(value.dtype)
    return is_const(value, expected.value)  # type: ignore[attr-defined]


def same_indices(a: tuple[Expr, ...], b: tuple[Expr, ...]) -> bool:
    """Whether two index tuples are the same expressions."""
    return len(a) == len(b) and all(expr_key(x) == expr_key(y) for x, y in zip(a, b, strict=True))
