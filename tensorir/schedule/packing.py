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
from ..expr import Add, Expr, FloorDiv, FloorMod, IntImm, Max, Min, Mul, Sub, Var
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
    values = dict(zip(index_map.inputs, grids, strict=True))
    return tuple([_evaluate(o, values) for o in index_map.outputs]) or ...


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
    outputs = [_digit(o) for o in index_map.outputs]
    order: list[int] = []
    whole: list[int] = []
    for var, extent in zip(index_map.inputs, extents, strict=True):
        own = [(d[1], d[2], k) for k, d in enumerate(outputs) if d is not None and d[0] is var]
        below = 1
        for divisor, modulus, k in sorted(own):
            if divisor != below or (modulus and modulus != sizes[k]):
                return None
            below *= sizes[k]
        if below < extent:
            return None
        order += [k for _, _, k in sorted(own, reverse=True)]
        whole.append(below)
    return (order, whole) if len(order) == len(outputs) else None


def _digit(e: Expr) -> tuple[Var, int, int] | None:
    """``v // divisor % modulus`` as (v, divisor, modulus), modulus 0 where there is none."""
    match e:
        case Var():
            return e, 1, 0
        case FloorDiv(a, IntImm(c)) if (inner := _digit(a)) is not None and c > 0:
            var, divisor, modulus = inner
            return (var, divisor * c, modulus // c) if modulus % c == 0 else None
        case FloorMod(a, IntImm(c)) if (inner := _digit(a)) is not None and c > 0:
            var, divisor, modulus = inner
            return (var, divisor, c) if modulus % c == 0 else None
    return None


def _static(shape: tuple[Expr, ...]) -> tuple[int, ...] | None:
    sizes = [n.value for n in shape if isinstance(n, IntImm)]
    return tuple(sizes) if len(sizes) == len(shape) else None


def _pad_element(pad_value: float, dtype: str, held: np.dtype[Any]) -> Any:
    if dtype != "bfloat16":
        return held.type(pad_value)
    bits = int(np.float32(pad_value).view(np.uint32))
    return np.uint16((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16)


def _evaluate(e: Expr, values: dict[Var, np.ndarray]) -> Any:
    match e:
        case IntImm(value):
            return value
        case Var():
            return values[e]
        case Add(a, b):
            return _evaluate(a, values) + _evaluate(b, values)
        case Sub(a, b):
            return _evaluate(a, values) - _evaluate(b, values)
        case Mul(a, b):
            return _evaluate(a, values) * _evaluate(b, values)
        case FloorDiv(a, b):
            return _evaluate(a, values) // _evaluate(b, values)
        case FloorMod(a, b):
            return _evaluate(a, values) % _evaluate(b, values)
        case Min(a, b):
            return np.minimum(_evaluate(a, values), _evaluate(b, values))
        case Max(a, b):
            return np.maximum(_evaluate(a, values), _evaluate(b, values))
        case _:
            raise InternalError(f"a layout map holds {type(e).__name__}")
