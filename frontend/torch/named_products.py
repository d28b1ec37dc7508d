"""Functions of whole tensors that torch computes for sizes it knows, written for named ones.

    torch.kron(x, y)        x[:, None] * y                    of each axis, one behind the other
    torch.tril_indices(n)   ones(n, n).tril().nonzero().T     in the order of rows

torch's own count in integers of C++; ``size_functions`` calls these in their place.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def take_along_dim(input: Tensor, indices: Tensor, dim: int | None = None) -> Tensor:
    """Elements by their places along an axis, all other axes broadcast; without one, in a row."""
    if dim is None:
        return take_along_dim(input.reshape(-1), indices.reshape(-1), 0)
    axis = dim % input.ndim
    size = input.shape[axis]
    others = [[*x.shape[:axis], 1, *x.shape[axis + 1 :]] for x in (input, indices)]
    shape = torch.broadcast_shapes(*others)
    whole = input.expand([*shape[:axis], size, *shape[axis + 1 :]])
    places = indices.expand([*shape[:axis], indices.shape[axis], *shape[axis + 1 :]])
    return whole.gather(axis, places % size)


def kron(input: Tensor, other: Tensor) -> Tensor:
    """The Kronecker product."""
    ndim = max(input.ndim, other.ndim)
    a, b = (x.reshape([1] * (ndim - x.ndim) + list(x.shape)) for x in (input, other))
    outer = a.reshape([s for size in a.shape for s in (size, 1)])
    product = outer * b.reshape([s for size in b.shape for s in (1, size)])
    return product.reshape([m * n for m, n in zip(a.shape, b.shape, strict=True)])


def vander(x: Tensor, N: Any = None, increasing: bool = False) -> Tensor:
    """Powers of the elements, a row each; as many as there are elements, or ``N``."""
    count = x.shape[0] if N is None else N
    whole = x if x.is_floating_point() else x.to(torch.int64)
    powers = torch.arange(count)
    return whole[:, None] ** (powers if increasing else count - 1 - powers)


def tril_indices(row: Any, col: Any, offset: Any = 0, **options: Any) -> Tensor:
    """The places on and below a diagonal."""
    return _places(torch.ones(row, col, dtype=torch.bool).tril(offset), options)


def triu_indices(row: Any, col: Any, offset: Any = 0, **options: Any) -> Tensor:
    """The places on and above a diagonal."""
    return _places(torch.ones(row, col, dtype=torch.bool).triu(offset), options)


def _places(mask: Tensor, options: dict[str, Any]) -> Tensor:
    return mask.nonzero().T.to(options.get("dtype") or torch.int64)
