"""Integer arithmetic about indices: simplification, bounds, proofs, regions, index maps."""

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
