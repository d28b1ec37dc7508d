"""Arguments in the layout that a scheduled function expects of them.

A schedule may change the layout of a ``layout_free`` parameter; it leaves the maps in the attribute
``layout_maps``: ``[parameter, index map, pad value]``, in order. A model's weights are packed by
them once, so a candidate is measured on packed arguments, and the packing is no part of its time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...tensorir.arith import IndexMap
from ...tensorir.function import PrimFunc
from ...tensorir.schedule import pack_array, parse_index_map
from ...vm.tensor import Tensor


def pack_arguments(func: PrimFunc, arguments: Sequence[Tensor]) -> list[Tensor]:
    """The arguments, those whose layout the schedule of ``func`` changed packed into new
    tensors."""
    return pack_by_maps(func.attr("layout_maps") or (), arguments)


def pack_by_maps(maps: Sequence[Sequence[Any]], arguments: Sequence[Tensor]) -> list[Tensor]:
    """As ``pack_arguments``, by the attribute itself."""
    packed = list(arguments)
    for index, text, pad_value in maps:
        packed[index] = pack_tensor(packed[index], parse_index_map(text), pad_value)
    return packed


def pack_tensor(x: Tensor, index_map: IndexMap, pad_value: float | None) -> Tensor:
    """The tensor whose element at ``index_map(i)`` is ``x[i]``; see ``pack_array``."""
    return Tensor(pack_array(x.data, index_map, pad_value, x.dtype), x.dtype)
