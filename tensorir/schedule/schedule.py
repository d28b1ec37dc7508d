"""``Schedule``: a module being scheduled, with a method for each primitive.

A primitive that raises leaves the schedule as it was. Names and positions of parameters are TVM's.
A primitive is one file, which holds its row, its method, its preconditions and its rewrite; this
list of them is the registry, in the order of docs/primitives.md. Those that no rule calls are
imported when they are first asked for (``by_hand_methods.py``). What all need to know of the
schedule is in ``state.py``.
"""

from __future__ import annotations

from .by_hand_methods import ByHandMethods
from .primitives.add_unit_loop import AddUnitLoop
from .primitives.annotate import Annotate
from .primitives.apply_rule import ApplyRule
from .primitives.blockize import Blockize
from .primitives.cache_index import CacheIndex
from .primitives.cache_read import CacheRead
from .primitives.cache_write import CacheWrite
from .primitives.compute_at import ComputeAt
from .primitives.compute_inline import ComputeInline
from .primitives.decompose_reduction import DecomposeReduction
from .primitives.fission import Fission
from .primitives.fuse import Fuse
from .primitives.loop_kinds import LoopKinds
from .primitives.loop_partition import LoopPartition
from .primitives.merge import Merge
from .primitives.pad_einsum import PadEinsum
from .primitives.reindex_cache_read import ReindexCacheRead
from .primitives.reorder import Reorder
from .primitives.reorder_block_iter_var import ReorderBlockIterVar
from .primitives.reverse_compute_at import ReverseComputeAt
from .primitives.reverse_compute_inline import ReverseComputeInline
from .primitives.rfactor import Rfactor
from .primitives.sample_categorical import SampleCategorical
from .primitives.sample_perfect_tile import SamplePerfectTile
from .primitives.set_dtype import SetDtype
from .primitives.set_scope import SetScope
from .primitives.split import Split
from .primitives.storage_align import StorageAlign
from .primitives.tensorize import Tensorize
from .primitives.transform_block_layout import TransformBlockLayout
from .primitives.transform_layout import TransformLayout
from .queries import QueryMethods


class Schedule(
    QueryMethods,
    SamplePerfectTile,
    SampleCategorical,
    Split,
    LoopPartition,
    Fuse,
    Merge,
    Fission,
    Reorder,
    AddUnitLoop,
    LoopKinds,
    PadEinsum,
    ReorderBlockIterVar,
    TransformBlockLayout,
    Blockize,
    Tensorize,
    ComputeAt,
    ReverseComputeAt,
    ComputeInline,
    ReverseComputeInline,
    DecomposeReduction,
    Rfactor,
    CacheRead,
    CacheWrite,
    ReindexCacheRead,
    CacheIndex,
    TransformLayout,
    SetScope,
    SetDtype,
    StorageAlign,
    Annotate,
    ApplyRule,
    ByHandMethods,
):
    """A module (or a bare PrimFunc) and the trace of what was done to it.

    ``seed`` feeds the sampling primitives; None draws one, kept in ``.seed``. With
    ``enable_checks=False`` the proofs of legality are skipped, for traces that are known to be
    legal; what a rewrite needs in order to be well defined is still checked.
    """
