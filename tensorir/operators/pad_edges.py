"""Padding with elements of the tensor itself: mirrored, repeated at the edge, or from the other
side."""

from __future__ import annotations

from collections.abc import Sequence

from ...support.errors import ComputeError
from ..expr import INDEX, BufferLoad, Expr, IntImm, Var, const, maximum, minimum
from ..intrinsics import call_intrin
from ..te.compute import Tensor, compute

PAD_MODES = ("reflect", "replicate", "circular")


def pad_edges(x: Tensor, pad_width: Sequence[int], mode: str) -> Tensor:
    """``x`` with its own elements around it; ``pad_width`` is (before, after) for each axis, flat.

    ``reflect`` mirrors about the edge element, which is not repeated; ``replicate`` repeats it;
    ``circular`` goes on at the other side. Widths are less than the size of their axis in
    ``reflect``, and at most it in ``circular``. Raises ComputeError for another mode or number of
    widths, negative ones, or a static size that is too small.
    """
    if mode not in PAD_MODES:
        raise ComputeError(f"pad_edges: expected mode {', '.join(PAD_MODES)}, found {mode!r}.")
    if len(pad_width) != 2 * x.ndim or any(w < 0 for w in pad_width):
        raise ComputeError(
            f"pad_edges: expected {2 * x.ndim} widths of at least 0, found {list(pad_width)}."
        )
    before, after = pad_width[::2], pad_width[1::2]
    for d, size in enumerate(x.shape):
        widest = max(before[d], after[d])
        least = widest + (mode == "reflect") if widest else 0
        least = min(least, 1) if mode == "replicate" else least
        if isinstance(size, IntImm) and size.value < least:
            raise ComputeError(
                f"pad_edges: axis {d} has {size.value} elements, and {mode} padding of {widest} "
                f"needs {least}."
            )
    dims = [s + b + a for s, b, a in zip(x.shape, before, after, strict=True)]

    def element(*indices: Var) -> Expr:
        own: list[Expr] = []
        for i, size, b, a in zip(indices, x.shape, before, after, strict=True):
            own.append(_place(i - b, size, mode) if b or a else i)
        return BufferLoad(x, tuple(own))

    return compute(dims, element, "pad_edges")


def _place(i: Expr, size: Expr, mode: str) -> Expr:
    """Where ``i`` reads. It ends inside for every ``i``: a symbolic size may be too small."""
    last = size - 1
    if mode == "circular":
        up = call_intrin("if_then_else", i < 0, i + size, i)
        i = call_intrin("if_then_else", up >= size, up - size, up)
    elif mode == "reflect":
        i = last - call_intrin("abs", last - call_intrin("abs", i))
    return minimum(maximum(i, const(0, INDEX)), last)
