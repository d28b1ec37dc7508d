"""Operators of torch whose results have as many elements as the data say.

    nonzero(x)  ->  n = (x != 0).sum().item()      from here on n is a named size
                    of all places the first n, behind one another

The number is read first; all that follows is of a named size, and compiled as such. What torch
knows of the number (it is none below 0, and no more than there are elements) is told to its
tracer, which asks.
"""

from __future__ import annotations

import torch
from torch import Tensor

from .decompositions import aten, decomposes, searchsorted


def number_of(count: Tensor, most: int | torch.SymInt | None = None) -> int:
    """A size that data tell."""
    n: int = count.item()  # type: ignore[assignment]  # a SymInt while torch traces
    torch._check(n >= 0)
    if most is not None:
        torch._check(n <= most)
    return n


def true_places(mask: Tensor) -> Tensor:
    """The places in a row of the elements of a mask that are true."""
    flat = mask.reshape(-1)
    size = flat.shape[0]
    n = number_of(flat.to(torch.int64).sum(), size)
    if isinstance(size, int) and size == 0:
        return torch.zeros(0, dtype=torch.int64)
    # Each place goes where its number says; all that are false go behind the last.
    number = flat.to(torch.int64).cumsum(0) - 1
    row = torch.zeros(size + 1, dtype=torch.int64)
    row = row.scatter(0, torch.where(flat, number, size), torch.arange(size))
    return row.narrow(0, 0, n)


@decomposes(aten.nonzero.default)
def nonzero(x: Tensor) -> Tensor:
    """The places of the elements that are not 0, a row each."""
    places = true_places(x if x.dtype is torch.bool else x != 0)
    columns = []
    for extent in reversed(x.shape):
        columns.append(places % extent)
        places = places // extent
    if not columns:
        return places.new_zeros((places.shape[0], 0))
    return torch.stack(columns[::-1], 1)


@decomposes(aten.nonzero_numpy.default)
def nonzero_numpy(x: Tensor) -> list[Tensor]:
    """The same, a tensor for each axis."""
    return list(nonzero(x if x.ndim else x.reshape(1)).unbind(1))


@decomposes(aten.masked_select.default)
def masked_select(x: Tensor, mask: Tensor) -> Tensor:
    x, mask = torch.broadcast_tensors(x, mask)
    return x.reshape(-1).index_select(0, true_places(mask))


def has_mask(indices: list[Tensor | None]) -> bool:
    """Whether a tensor of truth values is among some indices."""
    return any(i is not None and i.dtype in (torch.bool, torch.uint8) for i in indices)


@decomposes(aten.index.Tensor)
def index(x: Tensor, indices: list[Tensor | None]) -> Tensor:
    """A mask is the places where it is true, along the axes that it has."""
    if not has_mask(indices):
        return NotImplemented
    given = [i for i in indices if i is not None]
    leading = indices[0] is not None and len(given) == 1
    if leading:
        mask = given[0]
        rest = x.shape[mask.ndim :]
        rows = x.reshape(-1, *rest) if mask.ndim else x.unsqueeze(0)
        return rows.index_select(0, true_places(mask))
    found: list[Tensor | None] = []
    for i in indices:
        if i is None or i.dtype not in (torch.bool, torch.uint8):
            found.append(i)
        else:
            found += list(nonzero(i).unbind(1))
    result: Tensor = aten.index.Tensor(x, found)
    return result


@decomposes(aten.repeat_interleave.Tensor)
def repeat_interleave(repeats: Tensor, *, output_size: int | None = None) -> Tensor:
    """The number of each element, as often as it says."""
    if repeats.shape[0] == 0:
        return torch.zeros(0, dtype=repeats.dtype)
    ends = repeats.to(torch.int64).cumsum(0)
    n = number_of(ends[-1]) if output_size is None else output_size
    return searchsorted(ends, torch.arange(n), right=True).to(repeats.dtype)


@decomposes(aten.bincount.default)
def bincount(x: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    """How often each number from 0 to the largest is there, or the sum of its weights."""
    dtype = torch.int64
    if weights is not None:
        dtype = torch.float32 if weights.dtype is torch.float32 else torch.float64
    if x.shape[0] == 0:
        return torch.zeros(minlength, dtype=dtype)
    n = number_of((x.max().to(torch.int64) + 1).clamp(min=minlength))
    share = torch.ones_like(x, dtype=dtype) if weights is None else weights.to(dtype)
    return torch.zeros(n, dtype=dtype).index_add(0, x.to(torch.int64), share)


@decomposes(aten._unique2.default)
def unique2(
    x: Tensor, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False
) -> tuple[Tensor, Tensor, Tensor]:
    """Each value once, in order; where each element's is; how often each is there."""
    values, order = torch.sort(x.reshape(-1), stable=True)
    distinct, number, counts = _runs(values)
    inverse = torch.zeros_like(number).scatter(0, order, number)
    return distinct, inverse.reshape(x.shape), counts


@decomposes(aten.unique_consecutive.default)
def unique_consecutive(
    x: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Each run of equal values once."""
    if dim is not None:
        return NotImplemented
    distinct, number, counts = _runs(x.reshape(-1))
    return distinct, number.reshape(x.shape), counts


def _runs(values: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The first of each run of equal values, the number of each element's run, and how many each
    has."""
    size = values.shape[0]
    if isinstance(size, int) and size == 0:
        none = torch.zeros(0, dtype=torch.int64)
        return values.clone(), none, none
    is_first = torch.cat([torch.ones(1, dtype=torch.bool), values[1:] != values[:-1]])
    starts = true_places(is_first)
    number = is_first.to(torch.int64).cumsum(0) - 1
    counts = torch.zeros_like(starts).index_add(0, number, torch.ones_like(number))
    return values.index_select(0, starts), number, counts
