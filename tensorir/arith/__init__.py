"""Integer arithmetic about indices: everybody who reasons about an index asks here.

An int64 expression becomes a ``Linear``, ``sum(coefficient * atom) + constant`` (``linear``), whose
atoms an ``Atoms`` interns, so that two forms are equal where their ``key`` is; other expressions
are compared by ``expr_key``. ``Facts`` hold what loops, dims and conditions say; from them follow
an ``Interval`` of every form (``bounds``), its remainders (``modular``) and proofs that it is not
negative (``prove``). ``Simplifier`` is the walk that makes forms, by the rules of ``rules_*``.
``IterMap`` takes forms apart into digits of loops (``iter_map``), which index maps (``index_map``)
and the sweeps of schedules rest on; ``region`` has the boxes that blocks touch. ``movement``
is the rough and cheap answer that a cost model takes. Schedules ask an
``Analyzer``; lowering asks its ``Scope``, a Simplifier that decides values one by one; dims of the
graph are forms of which nothing else is known, and those of one named size are compared for every
value of it (``one_size``).
"""

from .analyzer import Analyzer
from .bounds import Interval
from .index_map import IndexMap
from .iter_map import IterMap, IterMark, IterSplit, IterSum, detect_iter_map, is_affine_binding
from .linear import expr_key
from .region import (
    clip_region,
    full_region,
    infer_regions,
    point_region,
    region_covers,
    region_intersects,
    region_union,
    relax_region,
)

__all__ = [
    "Analyzer",
    "IndexMap",
    "Interval",
    "IterMap",
    "IterMark",
    "IterSplit",
    "IterSum",
    "clip_region",
    "detect_iter_map",
    "expr_key",
    "full_region",
    "infer_regions",
    "is_affine_binding",
    "point_region",
    "region_covers",
    "region_intersects",
    "region_union",
    "relax_region",
]
