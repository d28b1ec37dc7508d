"""The methods of ``Schedule``, a file for each group of primitives."""

from ..queries import QueryMethods
from .annotations import AnnotationPrimitives
from .blocks import BlockPrimitives
from .caches import CachePrimitives
from .loop_kinds import LoopKindPrimitives
from .loops import LoopPrimitives
from .places import PlacePrimitives
from .reductions import ReductionPrimitives
from .sampling import SamplingPrimitives
from .storage import StoragePrimitives

__all__ = [
    "AnnotationPrimitives",
    "BlockPrimitives",
    "CachePrimitives",
    "LoopKindPrimitives",
    "LoopPrimitives",
    "PlacePrimitives",
    "QueryMethods",
    "ReductionPrimitives",
    "SamplingPrimitives",
    "StoragePrimitives",
]
