"""pack: a copy of a block's input in the order in which the block reads it.

    cache_read(block, buffer), compute_at(copy, loop), transform_layout(copy, index_map)

in one step. The copy holds what one iteration of the loop needs, contiguous where it is read one
element after the other; with a pad value it may have room that the input does not fill.
"""

from __future__ import annotations

from collections.abc import Callable

from ...analysis.paths import find_block, realize_of
from ...analysis.region_cover import axis_of_index
from ...arith import IndexMap
from ...expr import Var
from ...function import PrimFunc
from ..primitives.cache import cache_read
from ..primitives.compute_location import compute_at
from ..primitives.transform_layout import as_index_map, transform_layout


def pack(
    func: PrimFunc,
    block_name: str,
    buffer_index: int | str,
    loop_var: Var | None,
    index_map: IndexMap | Callable[..., object],
    storage_scope: str = "global",
    pad_value: float | int | None = None,
    *,
    checks: bool = True,
) -> tuple[PrimFunc, str]:
    """The function with the packed copy, under the loop (at its consumer's nest, if None is given),
    and the copy's name."""
    cached = cache_read(func, block_name, buffer_index, storage_scope)
    (name,) = cached.blocks
    source = realize_of(find_block(cached.func, name, "pack")).block.reads[0].buffer
    m = as_index_map(index_map, source.ndim)
    # A copy with padding runs over the packed layout, of which it can compute a part; any other
    # runs over the input, and finds its part there before its layout changes.
    if loop_var is None or pad_value is not None or _only_permutes(m):
        packed = transform_layout(cached.func, name, ("write", 0), m, pad_value)
        if loop_var is None:
            return packed, name
        if _runs_over_output(packed, name):
            return compute_at(packed, name, loop_var, checks=checks), name
    placed = compute_at(cached.func, name, loop_var, checks=checks)
    return transform_layout(placed, name, ("write", 0), m, pad_value), name


def _only_permutes(m: IndexMap) -> bool:
    return all(isinstance(o, Var) for o in m.outputs)


def _runs_over_output(func: PrimFunc, name: str) -> bool:
    block = realize_of(find_block(func, name, "pack")).block
    return all(axis_of_index(block, r.min) is not None for r in block.writes[0].region)
