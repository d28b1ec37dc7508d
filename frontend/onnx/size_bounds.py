"""What is learnt of sizes where two of them do not fit: bounds, and questions.

    ids = positions[:, :n]      512 positions: there are min(n, 512) ids
    y = Add(x, ids)             x has n rows, so that n is at most 512, or no call is right

The import is repeated with what it has learnt: then there are n ids. Calls with other sizes are
refused. Nothing of the kind is learnt of sizes that one call or another could broadcast:

    y = Add(a, b)               a has n rows, b has m

There the question is whether m is n. Where it is, the import is repeated with one name for both.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ...graphir.dim import dim_equal, fold_dim, largest_value, print_dim, static_value
from ...tensorir.arith.linear import offset_of
from ...tensorir.expr import Expr, Min, Var, minimum
from ...tensorir.visitor import free_vars


class BoundLearntError(Exception):
    """The import stops here, to be repeated: ``name`` is a size of at most ``most``. Never leaves
    it."""

    def __init__(self, name: str, most: int) -> None:
        super().__init__(name, most)
        self.name, self.most = name, most


def learn(error: BaseException, names: frozenset[str]) -> BoundLearntError | None:
    """What an error about dims that are not proved equal tells of one of the sizes ``names``."""
    dims = getattr(error, "dims", None)
    if dims is None:
        return None
    for least, whole in (dims, dims[::-1]):
        if not isinstance(least, Min):
            continue
        for part, limit in ((least.a, least.b), (least.b, least.a)):
            most = static_value(limit)
            # Of one element it could be broadcast to any number.
            if most is None or most < 2 or not dim_equal(part, whole):
                continue
            size, more = offset_of(part)
            if isinstance(size, Var) and size.name in names and most > more:
                return BoundLearntError(size.name, most - more)
    return None


def relation(error: BaseException, names: Collection[str]) -> tuple[str, str] | None:
    """One of the sizes ``names`` and what it would have to be, as text, so that two dims were equal
    which an error is about."""
    dims = getattr(error, "dims", None)
    if dims is None:
        return None
    for one, other in (dims, dims[::-1]):
        if isinstance(one, Var) and one.name in names:
            others = {v.name for v in free_vars([other])}
            if one.name not in others and others <= set(names):
                return one.name, print_dim(other)
    return None


def smaller(a: Expr, b: Expr, at_most: Mapping[str, int]) -> Expr:
    """The smaller of two sizes, of which some are bounded."""
    for one, other in ((a, b), (b, a)):
        limit, largest = static_value(other), largest_value(one, at_most)
        if limit is not None and largest is not None and largest <= limit:
            return one
    return fold_dim(minimum(a, b))
