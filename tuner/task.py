"""TuneTask: one workload to tune, and the keys its records are kept under.

A workload is a PrimFunc up to the names in it (``structural_hash``) and up to the attributes that
only tell where it came from. A record belongs to a workload and a target key: CPU name, features,
thread limit and the schema version of the records. Nothing here searches or measures.

A function of named sizes is measured at several of them: its task says which, its time is the
geometric mean of theirs (each counts alike, however long a call takes there), and they are part of
its target key, because times at other sizes are others.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

from ..support.errors import TuningError
from ..support.host import native_target, resolve
from ..support.node import replace, walk
from ..support.structural import structural_hash
from ..support.target import Target
from ..tensorir.bind_sizes import bind_sizes
from ..tensorir.expr import (
    Add,
    BufferLoad,
    Call,
    Cast,
    Div,
    Expr,
    ExternCall,
    IntImm,
    Max,
    Min,
    Mul,
    Sub,
    Var,
)
from ..tensorir.function import PrimFunc
from ..tensorir.stmt import Block, BlockRealize, BufferStore

SCHEMA_VERSION = 2
Sizes: TypeAlias = tuple[tuple[int, ...], ...]
"""Values of a function's symbolic sizes, once for each measurement."""
_SIZES = " sizes="
_COUNTED = (Add, Sub, Mul, Div, Min, Max, Call)
_OF_A_TERM = 2
"""Operations of a term of a sum of products."""
_MEANT = ("is_scheduled", "inplace", "layout_free", "layout_maps")
"""The attributes that decide what code a function may become; all others are left out of
workloads."""


def strip_attrs(func: PrimFunc) -> PrimFunc:
    """``func`` with only the attributes that count in a workload."""
    return replace(func, attrs=tuple([(k, v) for k, v in func.attrs if k in _MEANT and v]))


@dataclass(frozen=True)
class TuneTask:
    """``func`` is unscheduled; ``weight`` is how often the model calls it; what the target leaves
    open is taken from this machine. ``sizes`` are what a function's symbolic sizes are measured at:
    tuples of values, in the order of ``func.shape_vars``."""

    name: str
    func: PrimFunc
    target: Target
    weight: int = field(default=1, kw_only=True)
    sizes: Sizes = field(default=(), kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "target", resolve(self.target))

    @cached_property
    def stripped(self) -> PrimFunc:
        """The function as it is searched over and kept in the database."""
        return strip_attrs(self.func)

    @cached_property
    def workload(self) -> str:
        """Hash of the function, names left out."""
        return structural_hash(self.stripped)

    @property
    def target_key(self) -> str:
        """What of the target decides whether a measurement made for it holds, and the sizes that
        were measured."""
        return target_key(self.target) + sizes_key(self.sizes)

    @cached_property
    def instances(self) -> tuple[PrimFunc, ...]:
        """The function at each of the sizes; itself where it is static."""
        return instances_of(self.stripped, self.sizes)

    @cached_property
    def flop(self) -> float:
        """Floating-point operations of one call (intrinsics count one): at several sizes the
        geometric mean, as of the times."""
        return geometric_mean([count_flop(f) for f in self.instances])

    def verify_tunable(self) -> None:
        """Raise TuningError unless the function can be searched over: static or with sizes to
        measure, with blocks, and with nothing but tensors for parameters."""
        name, func = self.name, self.func
        if not isinstance(func.body, BlockRealize):
            raise TuningError(
                f"{name!r} is lowered: it has no blocks left to schedule. Tune the function before "
                "it is lowered."
            )
        known = func.shape_vars
        dims = ", ".join(repr(v.name) for v in known)
        if known and not self.sizes:
            raise TuningError(
                f"{name!r} has symbolic sizes ({dims}), and a measurement needs numbers. Say which "
                f"with sizes=, a list of dicts: sizes=[{{{known[0].name!r}: 1}}, "
                f"{{{known[0].name!r}: 64}}]."
            )
        if any(len(values) != len(known) for values in self.sizes):
            raise TuningError(
                f"{name!r} has the sizes ({dims}), and the task measures {self.sizes}: each of "
                f"these needs {len(known)} values."
            )
        scalars = [p.name for p in func.params if isinstance(p, Var)]
        if scalars:
            raise TuningError(
                f"{name!r} has scalar parameters ({', '.join(map(repr, scalars))}); pass them as "
                "tensors of shape ()."
            )
        called = [n.symbol for n in walk(func.body) if isinstance(n, ExternCall)]
        if called:
            raise TuningError(
                f"{name!r} calls the function of C {called[0]!r}, which the processes that "
                "candidates are measured in do not have. Schedule it by hand, and tune the others."
            )
        if not func.written:
            raise TuningError(
                f"{name!r} writes none of its parameters: it has no result to compare."
            )

    def verify_measurable(self) -> None:
        """Raise TuningError unless this machine can run code for the target, and as fast as it."""
        host, target = native_target(), self.target
        missing = [f for f in target.features if f.startswith("+") and f not in host.features]
        if (target.triple, target.cpu) == (host.triple, host.cpu) and not missing:
            return
        lacks = f" (it lacks {', '.join(missing)})" if missing else ""
        raise TuningError(
            f"{str(target)!r} is another machine than this one, an {host.cpu} of "
            f"{host.triple}{lacks}: what is measured here says nothing about it. Tune on that "
            "machine, with the target 'native', and bring its records here."
        )


def instances_of(func: PrimFunc, sizes: Sizes) -> tuple[PrimFunc, ...]:
    """``func`` at each of the sizes; alone itself where there are none."""
    if not sizes:
        return (func,)
    known = func.shape_vars
    return tuple([bind_sizes(func, dict(zip(known, values, strict=True))) for values in sizes])


def sizes_key(sizes: Sizes) -> str:
    """The sizes' part of a record's key, after the target's; empty without sizes."""
    listed = ";".join([",".join(map(str, values)) for values in sizes])
    return f"{_SIZES}{listed}" if sizes else ""


def sizes_of_key(key: str) -> Sizes:
    """The sizes that a record's key names; none where its function was static. A key is text of a
    file: raises ValueError where it names no numbers."""
    _, found, listed = key.partition(_SIZES)
    if not found:
        return ()
    return tuple([tuple(map(int, values.split(","))) for values in listed.split(";")])


def largest(sizes: Sizes) -> tuple[int, ...]:
    """The sizes of the most elements: those a cost model is asked about."""
    return max(sizes, key=math.prod, default=())


def geometric_mean(values: Sequence[float]) -> float:
    """The geometric mean; 0 where a value is, and of one value itself."""
    if len(values) == 1 or min(values) <= 0:
        return min(values)
    return math.exp(sum(map(math.log, values)) / len(values))


def target_key(target: Target) -> str:
    """The target's part of a record's key; the features as a short hash, for there are dozens."""
    features = hashlib.sha256(",".join(sorted(target.features)).encode()).hexdigest()[:8]
    return f"v{SCHEMA_VERSION} {target.cpu} features={features} threads={target.threads or 'any'}"


def count_flop(func: PrimFunc) -> float:
    """Operations of floats in the blocks' bodies, and those of sums of products of narrow integers,
    each times the extents of the block's axes."""
    total = 0.0
    for n in walk(func.body):
        if not isinstance(n, Block) or not n.iter_vars:
            continue
        points = 1.0
        for iter_var in n.iter_vars:
            extent = iter_var.dom.extent
            points *= extent.value if isinstance(extent, IntImm) else 0.0
        stores = [store for store in walk(n.body) if isinstance(store, BufferStore)]
        count = sum(_operations(store.value) for store in stores)
        if not count and _narrow_factors(n):
            count = _OF_A_TERM
        total += points * count
    return total


def narrow_operands(func: PrimFunc) -> tuple[str, ...]:
    """The two types of the factors of a function's sums of products, where both are narrower than
    32 bits; () where there are none."""
    blocks = [n for n in walk(func.body) if isinstance(n, Block)]
    return next((found for b in blocks if (found := _narrow_factors(b))), ())


def _narrow_factors(block: Block) -> tuple[str, ...]:
    if not any(v.kind == "reduce" for v in block.iter_vars):
        return ()
    for product in walk(block.body):
        if isinstance(product, Mul):
            factors = [product.a, product.b]
            loads = [f.value if isinstance(f, Cast) else f for f in factors]
            if all(isinstance(x, BufferLoad) and x.dtype.bits < 32 for x in loads):
                return tuple([str(x.dtype) for x in loads])
    return ()


def _operations(value: Expr) -> int:
    """The float operations of one evaluation; a choice is none."""
    count = 0
    for e in walk(value):
        if isinstance(e, _COUNTED) and e.dtype.is_float:
            count += not (isinstance(e, Call) and e.op == "if_then_else")
    return count
