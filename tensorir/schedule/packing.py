"""Packing: the elements of an array in the order that a layout map gives them.

A schedule may change the layout of a ``layout_free`` parameter (``transform_layout``); whoever
calls the function packs the argument by the same map. Packing is a renaming of elements plus
padding: it is done by indexing, and nothing is run.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...support.aligned import aligned_empty
from ...support.errors import InternalError
from ..arith import IndexMap
from ..expr import Add, Expr, FloorDiv, FloorMod, IntImm, Max, Min, Mul, Sub, Var
from .layout import whole_digits


def pack_array(
    data: np.ndarray, index_map: IndexMap, pad_value: float | None, dtype: str
) -> np.ndarray:
    """The array whose element at ``index_map(i)`` is ``data[i]``; elements that no ``i`` reaches
    are ``pad_value``.

    64-byte aligned. ``dtype`` matters for bfloat16, whose bits ``data`` holds as uint16. The map is
    an injection of the array's shape, as ``transform_layout`` made sure.
    """
    shape: tuple[Expr, ...] = tuple([IntImm(n) for n in data.shape])
    sizes = _static(
        index_map.map_shape(shape if pad_value is None else whole_digits(index_map, shape))
    )
    if sizes is None:
        raise InternalError(f"the layout of a constant of shape {data.shape} is symbolic")
    packed = aligned_empty(sizes, data.dtype)
    pad = _pad_element(0.0 if pad_value is None else pad_value, dtype, data.dtype)
    view = _digit_view(data, index_map, sizes, pad)
    if view is not None:
        packed[...] = view
        return packed
    if packed.size != data.size:
        packed[...] = pad
    # Open grids: an output of one index stays a vector, and NumPy broadcasts when it assigns.
    grids = np.ogrid[tuple([slice(n) for n in data.shape])]
    values = dict(zip(index_map.inputs, grids, strict=True))
    where = tuple([_evaluate(o, values) for o in index_map.outputs])
    if where:
        packed[where] = data
    else:
        packed[...] = data
    return packed


def _digit_view(
    data: np.ndarray, index_map: IndexMap, sizes: tuple[int, ...], pad: Any
) -> np.ndarray | None:
    """``data`` with its axes taken apart into digits and permuted, where the map does nothing else:
    a copy of that is several times as fast as an assignment by indices. None for other maps."""
    outputs = [_digit(o) for o in index_map.outputs]
    shape: list[int] = []
    order: list[int] = []
    whole: list[int] = []
    for var, extent in zip(index_map.inputs, data.shape, strict=True):
        own = [(d[1], d[2], k) for k, d in enumerate(outputs) if d is not None and d[0] is var]
        below = 1
        for divisor, modulus, k in sorted(own):
            if divisor != below or (modulus and modulus != sizes[k]):
                return None
            below *= sizes[k]
        if below < extent:
            return None
        digits = [k for _, _, k in sorted(own, reverse=True)]
        order += digits
        shape += [sizes[k] for k in digits]
        whole.append(below)
    if len(order) != len(outputs):
        return None
    if tuple(whole) != data.shape:
        padded = np.full(whole, pad, data.dtype)
        padded[tuple([slice(n) for n in data.shape])] = data
        data = padded
    return data.reshape(shape).transpose([order.index(k) for k in range(len(order))])


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
