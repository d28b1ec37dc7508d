"""TuneTask: one workload to tune, and the keys its records are kept under.

A workload is a PrimFunc up to the names in it (``structural_hash``); a record belongs to a workload and
a target key: CPU name, features, thread limit and the schema version of the records.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from ..support.node import walk
from ..support.structural import structural_hash
from ..support.target import Target
from ..tensorir.expr import (
    Add,
    Call,
    Div,
    FloatImm,
    IntImm,
    Max,
    Min,
    Mul,
    Sub,
)
from ..tensorir.function import PrimFunc
from ..tensorir.stmt import Block, BufferStore

SCHEMA_VERSION = 1
_ARITHMETIC = (Add, Sub, Mul, Div, Min, Max)


@dataclass(frozen=True)
class TuneTask:
    """``func`` is unscheduled; ``weight`` is how often the model calls it."""

    name: str
    func: PrimFunc
    target: Target
    weight: int = 1

    @cached_property
    def workload(self) -> str:
        """Hash of the function, names left out."""
        return structural_hash(self.func)

    @property
    def target_key(self) -> str:
        return target_key(self.target)

    @cached_property
    def flop(self) -> float:
        """Floating-point operations of one call (intrinsics count one); 0 where sizes are symbolic."""
        return count_flop(self.func)


def target_key(target: Target) -> str:
    """What of a target decides whether a measurement made for it holds."""
    threads = target.threads or "any"
    return f"v{SCHEMA_VERSION} {target.cpu} {','.join(target.features)} threads={threads}"


def count_flop(func: PrimFunc) -> float:
    """Float operations of the blocks' bodies, each times the extents of the block's axes."""
    total = 0.0
    for n in walk(func.body):
        if not isinstance(n, Block) or not n.iter_vars:
            continue
        points = 1.0
        for iter_var in n.iter_vars:
            extent = iter_var.dom.extent
            points *= extent.value if isinstance(extent, IntImm) else 0.0
        operations = 0
        for store in walk(n.body):
            if isinstance(store, BufferStore):
                operations += sum(
                    1
                    for e in walk(store.value)
                    if isinstance(e, (*_ARITHMETIC, Call)) and e.dtype.is_float and not isinstance(e, FloatImm)
                )
        total += points * operations
    return total
