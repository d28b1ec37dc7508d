"""Packing: the elements of an array in the order that a layout map gives them.

A schedule may change the layout of a ``layout_free`` parameter (``transform_layout``); whoever
calls the function packs the argument by the same map. Packing is a renaming of elements plus
padding: it is done by indexing, and nothing is run.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...support.abi import ALIGNMENT
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
    packed = _aligned(sizes, data.dtype)
    if packed.size != data.size:
        packed[...] = _pad_element(0.0 if pad_value is None else pad_value, dtype, data.dtype)
    # Open grids: an output of one index stays a vector, and NumPy broadcasts when it assigns.
    grids = np.ogrid[tuple([slice(n) for n in data.shape])]
    values = dict(zip(index_map.inputs, grids, strict=True))
    where = tuple([_evaluate(o, values) for o in index_map.outputs])
    if where:
        packed[where] = data
    else:
        packed[...] = data
    return packed


def _static(shape: tuple[Expr, ...]) -> tuple[int, ...] | None:
    sizes = [n.value for n in shape if isinstance(n, IntImm)]
    return tuple(sizes) if len(sizes) == len(shape) else None


def _aligned(shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray:
    # Kernels rely on the alignment of constants; memory that has it need not be copied at load.
    raw = np.empty(math.prod(shape) * dtype.itemsize + ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    return np.ndarray(shape, dtype, raw, start)


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
