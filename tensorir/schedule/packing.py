"""Packing: the elements of an array in the order that a layout map gives them.

A schedule may change the layout of a ``layout_free`` parameter (``transform_layout``); whoever
calls the function packs the argument by the same map. Packing is a renaming of elements plus
padding: it is done by indexing, and nothing is run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...support.aligned import aligned_empty
from ...support.errors import InternalError
from ..arith import IndexMap
from ..arith.evaluate import OF_ARRAYS, evaluate
from ..expr import Expr, IntImm
from .primitives.transform_layout import whole_digits


def pack_array(
    data: np.ndarray, index_map: IndexMap, pad_value: float | None, dtype: str
) -> np.ndarray:
    """The array whose element at ``index_map(i)`` is ``data[i]``; elements that no ``i`` reaches
    are ``pad_value``.

    64-byte aligned. ``dtype`` matters for bfloat16, whose bits ``data`` holds as uint16. The map is
    an injection of the array's shape, as ``transform_layout`` made sure.
    """
    sizes = packed_shape(data.shape, index_map, pad_value)
    packed = aligned_empty(sizes, data.dtype)
    pad = _pad_element(0.0 if pad_value is None else pad_value, dtype, data.dtype)
    view = _digit_view(data, index_map, sizes, pad)
    if view is not None:
        packed[...] = view
        return packed
    if packed.size != data.size:
        packed[...] = pad
    packed[_places(data.shape, index_map)] = data
    return packed


def unpack_array(packed: np.ndarray, index_map: IndexMap, shape: Sequence[int]) -> np.ndarray:
    """The array of ``shape`` that ``pack_array`` laid out by ``index_map``; aligned."""
    data = aligned_empty(shape, packed.dtype)
    digits = _digits(index_map, tuple(shape), packed.shape)
    if digits is None:
        data[...] = packed[_places(tuple(shape), index_map)]
        return data
    order, whole = digits
    if tuple(whole) == tuple(shape):
        data.reshape([packed.shape[k] for k in order])[...] = packed.transpose(order)
    else:
        data[...] = packed.transpose(order).reshape(whole)[tuple([slice(n) for n in shape])]
    return data


def packed_shape(
    shape: Sequence[int], index_map: IndexMap, pad_value: float | None
) -> tuple[int, ...]:
    """The shape of an array of ``shape`` after ``pack_array``."""
    dims: tuple[Expr, ...] = tuple([IntImm(n) for n in shape])
    sizes = _static(
        index_map.map_shape(dims if pad_value is None else whole_digits(index_map, dims))
    )
    if sizes is None:
        raise InternalError(f"the layout of a constant of shape {tuple(shape)} is symbolic")
    return sizes


def _places(shape: tuple[int, ...], index_map: IndexMap) -> Any:
    """Where the elements of an array go, as an index. Open grids: an output of one index stays a
    vector, and NumPy broadcasts."""
    grids = np.ogrid[tuple([slice(n) for n in shape])]
    values: dict[Expr, Any] = dict(zip(index_map.inputs, grids, strict=True))
    places = [evaluate(o, values.__getitem__, OF_ARRAYS) for o in index_map.outputs]
    return tuple(places) or ...


def _digit_view(
    data: np.ndarray, index_map: IndexMap, sizes: tuple[int, ...], pad: Any
) -> np.ndarray | None:
    """``data`` with its axes taken apart into digits and permuted, where the map does nothing else:
    a copy of that is several times as fast as an assignment by indices. None for other maps."""
    digits = _digits(index_map, data.shape, sizes)
    if digits is None:
        return None
    order, whole = digits
    if tuple(whole) != data.shape:
        padded = np.full(whole, pad, data.dtype)
        padded[tuple([slice(n) for n in data.shape])] = data
        data = padded
    shape = [sizes[k] for k in order]
    return data.reshape(shape).transpose([order.index(k) for k in range(len(order))])


def _digits(
    index_map: IndexMap, extents: tuple[int, ...], sizes: tuple[int, ...]
) -> tuple[list[int], list[int]] | None:
    """The outputs in the order in which they are the digits of the inputs, high ones first, and
    what each input counts to then; None where the map does something else."""
    digits = index_map.digits(extents)
    if digits is None:
        return None
    order = [k for k, d in enumerate(digits) if d is None and sizes[k] == 1]
    whole: list[int] = []
    for var, extent in zip(index_map.inputs, extents, strict=True):
        own = sorted([(d.lower, d.extent, k) for k, d in enumerate(digits) if d and d.var is var])
        below = 1
        for lower, count, k in own:
            if lower != below or count > sizes[k]:
                return None
            below *= sizes[k]
        if below < extent:
            return None
        order += [k for _, _, k in reversed(own)]
        whole.append(below)
    return (order, whole) if len(order) == len(digits) else None


def _static(shape: tuple[Expr, ...]) -> tuple[int, ...] | None:
    sizes = [n.value for n in shape if isinstance(n, IntImm)]
    return tuple(sizes) if len(sizes) == len(shape) else None


def _pad_element(pad_value: float, dtype: str, held: np.dtype[Any]) -> Any:
    if dtype != "bfloat16":
        return held.type(pad_value)
    bits = int(np.float32(pad_value).view(np.uint32))
    return np.uint16((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16)
