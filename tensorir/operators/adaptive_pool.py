"""Adaptive pooling: windows that divide each spatial dim into a given number of parts.

Part ``i`` of ``out`` is from ``i * size // out`` to ``ceil((i + 1) * size / out)``. Where ``out``
does not divide the size, windows differ by one element and the reduction is guarded. Axes are then
reduced one after the other, and where parts of rows are large: whole rows first, which are vectors,
then what is left in a row.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ...support.dtype import DType
from ...support.errors import ComputeError
from ..expr import (
    INDEX,
    BufferLoad,
    Expr,
    IntImm,
    Var,
    all_of,
    const,
    div,
    floordiv,
    min_value,
    mul,
    sub,
)
from ..expr import cast as cast_expr
from ..intrinsics import call_intrin
from ..te import compute as te
from ..te.compute import Tensor, compute
from .elementwise import elementwise
from .pool import LARGE
from .reduce import accumulator
from .window import arranged, parts_of


@dataclass(frozen=True)
class _Parts:
    """One spatial dim of ``size`` in ``out`` parts of at most ``widest`` elements."""

    size: Expr
    out: int
    widest: Expr
    even: bool

    @staticmethod
    def of(size: Expr, out: int) -> _Parts:
        if out == 1:
            return _Parts(size, out, size, even=True)
        if not isinstance(size, IntImm):
            raise ComputeError("adaptive_pool: expected static spatial dims.")
        n = size.value
        widest = max([-(-(i + 1) * n // out) - i * n // out for i in range(out)], default=0)
        return _Parts(size, out, IntImm(widest, INDEX), even=n % out == 0)

    def start(self, i: Expr) -> Expr:
        if self.out == 1:
            return IntImm(0, INDEX)
        return mul(i, self.widest) if self.even else floordiv(i * self.size, self.out)

    def end(self, i: Expr) -> Expr:
        return floordiv((i + 1) * self.size + (self.out - 1), self.out)

    @property
    def is_whole(self) -> bool:
        """Whether each part is one element."""
        return isinstance(self.size, IntImm) and self.size.value == self.out

    def count(self, i: Expr) -> Expr:
        return self.widest if self.even else sub(self.end(i), self.start(i))


def adaptive_pool(
    x: Tensor, *, output_size: Sequence[int], mode: str, channels_last: bool = False
) -> Tensor:
    """The mean (``mode="avg"``) or the maximum (``"max"``) of each part; see the module.

    Raises ComputeError for symbolic spatial dims that do not become 1.
    """
    last = channels_last
    batch, channels, spatial = parts_of(x.shape, last=last)
    if len(output_size) != len(spatial) or mode not in ("avg", "max"):
        raise ComputeError("adaptive_pool: expected an output size a spatial dim, and avg or max.")
    parts = [_Parts.of(s, out) for s, out in zip(spatial, output_size, strict=True)]
    wide = accumulator(x.dtype)
    pixels = list(range(1, 1 + len(parts)) if last else range(2, 2 + len(parts)))
    name = f"adaptive_{mode}_pool"
    if all(p.even for p in parts) and not _are_large(parts, last=last):
        stages = [list(zip(pixels, parts, strict=True))]
    else:
        stages = [[(d, p)] for d, p in zip(pixels, parts, strict=True) if not p.is_whole]
    found = x
    for number, stage in enumerate(stages):
        is_last = mode == "max" and wide is x.dtype and number == len(stages) - 1
        found = _combined(found, stage, mode, wide, name if is_last else f"{name}_sum")
    if mode == "max":
        if found.dtype is x.dtype:
            return found
        return elementwise(name, lambda v: cast_expr(v, x.dtype), found)

    def mean(*indices: Var) -> Expr:
        count: Expr = IntImm(1, INDEX)
        for d, p in zip(pixels, parts, strict=True):
            count = mul(count, p.count(indices[d]))
        number = (
            const(float(count.value), wide) if isinstance(count, IntImm) else cast_expr(count, wide)
        )
        return cast_expr(div(BufferLoad(found, indices), number), x.dtype)

    shape = arranged(batch, channels, [IntImm(o, INDEX) for o in output_size], last=last)
    return compute(shape, mean, name)


def _are_large(parts: Sequence[_Parts], *, last: bool) -> bool:
    """Whether parts of even size are combined one axis after the other; see ``pool``. All of an
    image is one reduction."""
    known = [p.widest.value for p in parts if isinstance(p.widest, IntImm)]
    several = len(known) == len(parts) > 1 and any(p.out > 1 for p in parts)
    return several and not last and known[-1] >= LARGE and math.prod(known[:-1]) > 1


def _combined(
    x: Tensor, stage: Sequence[tuple[int, _Parts]], mode: str, wide: DType, name: str
) -> Tensor:
    """The sums or maxima of the parts of some axes."""
    steps = [te.reduce_axis((0, p.widest), f"k{d}") for d, p in stage]
    combine = te.sum if mode == "avg" else te.max

    def term(*indices: Var) -> Expr:
        own: list[Expr] = list(indices)
        for (d, p), k in zip(stage, steps, strict=True):
            own[d] = p.start(indices[d]) + k
        value = cast_expr(BufferLoad(x, tuple(own)), wide)
        inside = [own[d] < p.end(indices[d]) for d, p in stage if not p.even]
        if inside:
            other = const(0.0, wide) if mode == "avg" else min_value(wide)
            value = call_intrin("if_then_else", all_of(inside), value, other)
        return combine(value, axis=steps)

    shape = list(x.shape)
    for d, p in stage:
        shape[d] = IntImm(p.out, INDEX)
    return compute(tuple(shape), term, name)
