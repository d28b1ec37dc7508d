"""Arguments in the layout that a scheduled function expects of them.

A schedule may change the layout of a ``layout_free`` parameter; it leaves the maps in the attribute
``layout_maps``: ``[parameter, index map, pad value]``, in order. A model's weights are packed by
them once, so a candidate is measured on packed arguments, and the packing is no part of its time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..support.errors import BuildError, InternalError
from ..tensorir.arith import IndexMap
from ..tensorir.expr import Add, Expr, FloorDiv, FloorMod, IntImm, Max, Min, Mul, Sub, Var
from ..tensorir.function import PrimFunc
from ..tensorir.schedule import parse_index_map, whole_digits
from ..vm.native import Tensor, array, empty


def pack_arguments(func: PrimFunc, arguments: Sequence[Tensor]) -> list[Tensor]:
    """The arguments, those whose layout the schedule of ``func`` changed packed into new
    tensors."""
    packed = list(arguments)
    for index, text, pad_value in func.attr("layout_maps") or ():
        packed[index] = pack_tensor(packed[index], parse_index_map(text), pad_value)
    return packed


def pack_tensor(x: Tensor, index_map: IndexMap, pad_value: float | None) -> Tensor:
    """The tensor whose element at ``index_map(i)`` is ``x[i]``; elements that no ``i`` reaches are
    ``pad_value``. The map is an injection of the shape: ``transform_layout`` made sure."""
    shape: tuple[Expr, ...] = tuple([IntImm(n) for n in x.shape])
    full = shape if pad_value is None else whole_digits(index_map, shape)
    sizes = [n.value for n in index_map.map_shape(full) if isinstance(n, IntImm)]
    if len(sizes) != len(index_map.outputs):
        raise BuildError(f"the layout of an argument of shape {x.shape} is symbolic")
    result = empty(sizes, x.dtype)
    result.data[...] = array(0.0 if pad_value is None else pad_value, x.dtype).data
    # Open grids: an output of one index stays a vector, and NumPy broadcasts when it assigns.
    grids = np.ogrid[tuple([slice(n) for n in x.shape])]
    values = dict(zip(index_map.inputs, grids, strict=True))
    result.data[tuple([_evaluate(o, values) for o in index_map.outputs])] = x.data
    return result


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
