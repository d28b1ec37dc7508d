"""The methods of the primitives that no rule calls, each imported when it is first asked for.

Compiling a model never asks. ``dir``, ``help``, traces and type checkers find the methods where all
others are: ``Schedule`` has the base ``ByHandMethods``, and ``BY_HAND`` says in which file of
``by_hand`` each of them is.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .trace.rows import BY_HAND, BY_HAND_ROOM

if TYPE_CHECKING:
    from .by_hand.cache_inplace import CacheInplace
    from .by_hand.decompose_padding import DecomposePadding
    from .by_hand.enter_postproc import EnterPostproc
    from .by_hand.fuse_reduction_epilogue import FuseReductionEpilogue
    from .by_hand.lift_allocation import LiftAllocation
    from .by_hand.pack import Pack
    from .by_hand.reindex import Reindex
    from .by_hand.reindex_cache_write import ReindexCacheWrite
    from .by_hand.rolling_buffer import RollingBuffer
    from .by_hand.sample_compute_location import SampleComputeLocation
    from .by_hand.sample_partitioned_tile import SamplePartitionedTile
    from .by_hand.stage_memory import StageMemory

    class ByHandMethods(
        SamplePartitionedTile,
        SampleComputeLocation,
        EnterPostproc,
        DecomposePadding,
        FuseReductionEpilogue,
        StageMemory,
        Pack,
        CacheInplace,
        ReindexCacheWrite,
        Reindex,
        LiftAllocation,
        RollingBuffer,
    ):
        """All of them, as type checkers see them."""

else:

    class _OnFirstUse:
        """Stands for a method until it is asked for, which puts the method in its place."""

        def __init__(self, file: str) -> None:
            self.file = file

        def __set_name__(self, owner: type, name: str) -> None:
            self.owner, self.name = owner, name

        def __get__(self, sch: object, kind: type | None = None) -> Any:
            module = import_module(f"{BY_HAND_ROOM}.{self.file}")
            mixin = getattr(module, self.file.title().replace("_", ""))
            setattr(self.owner, self.name, vars(mixin)[self.name])
            return getattr(kind if sch is None else sch, self.name)

    ByHandMethods = type(
        "ByHandMethods", (), {name: _OnFirstUse(file) for name, file in BY_HAND.items()}
    )
