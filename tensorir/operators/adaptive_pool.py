"""Adaptive pooling: windows that divide each spatial dim into a given number of parts.

Part ``i`` of ``out`` is from ``i * size // out`` to ``ceil((i + 1) * size / out)``. Where ``out``
does not divide the size, windows differ by one element and the reduction is guarded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...support.errors import ComputeError
from .. import compute as te
from ..compute import Tensor, compute
from ..expr import (
    INDEX,
    BufferLoad,
    Expr,
    IntImm,
    Var,
    all_of,
    const,
    floordiv,
    min_value,
    mul,
    sub,
)
from ..expr import cast as cast_expr
from ..intrinsics import call_intrin
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
    steps = [te.reduce_axis((0, p.widest), f"k{d}") for d, p in enumerate(parts)]
    wide = accumulator(x.dtype) if mode == "avg" else x.dtype
    combine = te.sum if mode == "avg" else te.max

    def term(*indices: Var) -> Expr:
        n, c, at = parts_of(indices, last=last)
        own = [p.start(i) + k for p, i, k in zip(parts, at, steps, strict=True)]
        value = cast_expr(BufferLoad(x, arranged(n, c, own, last=last)), wide)
        inside = [o < p.end(i) for p, i, o in zip(parts, at, own, strict=True) if not p.even]
        if inside:
            other = const(0.0, wide) if mode == "avg" else min_value(wide)
            value = call_intrin("if_then_else", all_of(inside), value, other)
        return combine(value, axis=steps)

    shape = arranged(batch, channels, [IntImm(o, INDEX) for o in output_size], last=last)
    if mode == "max":
        return compute(shape, term, "adaptive_max_pool")
    sums = compute(shape, term, "adaptive_avg_pool_sum")

    def mean(*indices: Var) -> Expr:
        count: Expr = IntImm(1, INDEX)
        for p, i in zip(parts, parts_of(indices, last=last)[2], strict=True):
            count = mul(count, p.count(i))
        number = (
            const(float(count.value), wide) if isinstance(count, IntImm) else cast_expr(count, wide)
        )
        return cast_expr(BufferLoad(sums, indices) / number, x.dtype)

    return compute(shape, mean, "adaptive_avg_pool")
