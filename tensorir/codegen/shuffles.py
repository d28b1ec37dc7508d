"""Lanes of several vectors, in any order, as one vector: by shuffles of two vectors each."""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from ...support.dtype import DType
from .llvm_types import Literal, constant, shuffle_mask

Place = tuple[int, int]
"""A lane: the position of its vector, and its own in that."""


def resized(b: ir.IRBuilder, value: ir.Value, lanes: int) -> ir.Value:
    """The first ``lanes`` lanes, or all of them before poison."""
    own = value.type.count
    if own == lanes:
        return value
    poison = Literal(value.type, "poison")
    # Lanes from the second operand are poison.
    return b.shuffle_vector(value, poison, shuffle_mask(tuple([min(k, own) for k in range(lanes)])))


def selected_lanes(
    b: ir.IRBuilder, vectors: Sequence[ir.Value], places: Sequence[Place]
) -> ir.Value:
    """The lanes at ``places``, in their order. A vector of one lane may be a scalar, which is
    inserted."""
    wide = [v.type.count for v in vectors if isinstance(v.type, ir.VectorType)]
    lanes = max([len(places), *wide])
    result: ir.Value | None = None
    filled: dict[int, int] = {}
    for n, vector in enumerate(vectors):
        own = {k: at for k, (which, at) in enumerate(places) if which == n}
        if not isinstance(vector.type, ir.VectorType):
            continue
        operand = resized(b, vector, lanes)
        if result is None:
            result, filled = operand, own
            continue
        mask = [filled.get(k, lanes + own[k] if k in own else 0) for k in range(lanes)]
        result = b.shuffle_vector(result, operand, shuffle_mask(tuple(mask)))
        filled = {k: k for k in (*filled, *own)}
    if result is None:
        result = Literal(ir.VectorType(vectors[0].type, lanes), "poison")
    elif any(k != at for k, at in filled.items()):
        mask = [filled.get(k, 0) for k in range(lanes)]
        result = b.shuffle_vector(result, result, shuffle_mask(tuple(mask)))
    for k, (which, _) in enumerate(places):
        if not isinstance(vectors[which].type, ir.VectorType):
            place = constant(DType("int32"), k)
            result = b.insert_element(result, vectors[which], place)
    return resized(b, result, len(places))
