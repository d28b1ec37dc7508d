"""Index maps as primitives take them: given as such, or as Python functions."""

from __future__ import annotations

from collections.abc import Callable

from ....support.errors import LayoutError
from ...analysis.paths import find_block, realize_of
from ...arith import IndexMap
from ...function import PrimFunc


def as_index_map(index_map: IndexMap | Callable[..., object], ndim: int) -> IndexMap:
    """An index map, from itself or from a Python function; raises LayoutError for a wrong arity or
    anything else."""
    if not (isinstance(index_map, IndexMap) or callable(index_map)):
        raise LayoutError(
            "index_map",
            "Expected a function from indices to indices, such as lambda i, j: (j, i); found "
            f"{index_map!r}.",
        )
    return index_map if isinstance(index_map, IndexMap) else IndexMap.from_function(index_map, ndim)


def axes_map(
    func: PrimFunc,
    block_name: str,
    index_map: IndexMap | Callable[..., object],
    primitive: str,
) -> IndexMap:
    """An index map of a block's axes."""
    block = realize_of(find_block(func, block_name, primitive)).block
    return as_index_map(index_map, len(block.iter_vars))
