"""Indexing of several axes by data: ``x[:, i, :, j]`` with index tensors that broadcast together.

As in NumPy: neighbouring axes are replaced where they stand, others by new leading dims. Indices
out of range read the nearest element, see ``index``.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...support.errors import ComputeError
from ..expr import INDEX, BufferLoad, Expr, IntImm, Var
from ..te.compute import Tensor, compute
from .elementwise import broadcast_load, broadcast_shape
from .index import inside
from .reduce import normal_axes


def indexed_axes(axes: Sequence[int], ndim: int, count: int) -> tuple[list[int], int]:
    """Ascending axes from the front, and where the dims of the indices stand in the result.

    Raises ComputeError unless there is one for each of ``count`` indices.
    """
    normal = [normal_axes(a, ndim)[0] for a in axes]
    if len(normal) != count or not count or sorted(set(normal)) != normal:
        raise ComputeError(
            f"Expected ascending axes, one for each of {count} index tensors, found {list(axes)}."
        )
    return normal, normal[0] if normal[-1] - normal[0] == count - 1 else 0


def advanced_index(x: Tensor, *indices: Tensor, axes: Sequence[int]) -> Tensor:
    """``x`` at ``indices``, which stand for the axes ``axes``, one each.

    Raises ComputeError for indices that are no integers, or that do not broadcast.
    """
    normal, first = indexed_axes(axes, x.ndim, len(indices))
    for i in indices:
        if not i.dtype.is_integer or i.dtype.is_bool:
            raise ComputeError(f"advanced_index: expected integer indices, found {i.dtype}.")
    shape = broadcast_shape([i.shape for i in indices])
    kept = [d for d in range(x.ndim) if d not in normal]
    dims = [x.shape[d] for d in kept]

    def element(*at: Var) -> Expr:
        where = at[first : first + len(shape)]
        rest = (*at[:first], *at[first + len(shape) :])
        own: list[Expr] = [IntImm(0, INDEX)] * x.ndim
        for d, v in zip(kept, rest, strict=True):
            own[d] = v
        for d, i in zip(normal, indices, strict=True):
            own[d] = inside(broadcast_load(i, where, shape), x.shape[d])
        return BufferLoad(x, tuple(own))

    return compute((*dims[:first], *shape, *dims[first:]), element, "advanced_index")
