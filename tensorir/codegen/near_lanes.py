"""Vector indices whose lanes stand near each other: every other element, each element twice, a row
backwards.

    A[v * 2], A[v // 2], A[15 - v]   for v in lanes

What lies between the first and the last element is inside of the buffer as these are, so that it
may be read in contiguous vectors, of which shuffles take the lanes. A vector that is ``filling``
reads beside them: that it is inside of the buffer is for the one who asks for it to prove.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ...support.node import map_children, walk
from ..arith.linear import Linear
from ..expr import Add, Broadcast, Expr, FloorDiv, FloorMod, IntImm, Mul, Ramp, Sub, Var, add, mul
from .shuffles import Place

_NODES = (Var, IntImm, Ramp, Broadcast, Add, Sub, Mul, FloorDiv, FloorMod)
"""What an index is made of whose lanes are looked at one by one."""


@dataclass(frozen=True)
class NearLanes:
    """Elements to read, and the lanes among them: vectors of ``width`` elements begin ``starts``
    behind ``first``; ``places`` has the vector and the lane in it of each lane."""

    first: Linear
    starts: list[int]
    width: int
    places: list[Place]

    def filling(self, lanes: int) -> NearLanes | None:
        """The same as lanes of one whole vector that begins at a multiple of ``lanes``, where a
        load of their number is more than one instruction; None elsewhere, and where it has not all
        of them. It reads elements beside these."""
        begin = self.first.const % lanes
        is_one_load = self.width & (self.width - 1) == 0
        if is_one_load or len(self.starts) > 1 or begin + self.width > lanes:
            return None
        places = [(n, lane + begin) for n, lane in self.places]
        return NearLanes(self.first.shift(-begin), self.starts, lanes, places)


def near_lanes(index: Expr, linear: Callable[[Expr], Linear]) -> NearLanes | None:
    """How to read a vector index by few vectors, none of them wider than it is; None where
    distances between lanes are not known, or so large that there are more than half as many vectors
    as lanes. ``linear`` gives the linear form of a scalar index."""
    lanes = index.dtype.lanes
    if not all(_is_known_by_lane(n) for n in walk(index)):
        return None
    forms = [linear(lane_of(index, k)) for k in range(lanes)]
    first = min(forms, key=lambda form: form.const)
    if len({Linear(form.terms).key for form in forms}) > 1:
        return None
    distances = [form.const - first.const for form in forms]
    span = max(distances) + 1
    width = min(lanes, span)
    if span > width * lanes:
        return None
    starts = [*range(0, span - width, width), span - width]
    if 2 * len(starts) > lanes:
        return None
    vectors = [min(distance // width, len(starts) - 1) for distance in distances]
    places = [(n, distance - starts[n]) for n, distance in zip(vectors, distances, strict=True)]
    return NearLanes(first, starts, width, places)


def _is_known_by_lane(n: object) -> bool:
    return isinstance(n, _NODES) and not (isinstance(n, Var) and n.dtype.lanes > 1)


def lane_of(index: Expr, lane: int) -> Expr:
    """The scalar index that a lane of a vector index, made of ``_NODES``, is."""
    match index:
        case Ramp(base, stride, _):
            return add(base, mul(stride, lane))
        case Broadcast(value, _):
            return value
        case Var() | IntImm():
            return index
        case _:
            return map_children(index, lambda n: lane_of(n, lane) if isinstance(n, Expr) else n)
