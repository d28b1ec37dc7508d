"""A schedule of a program that is one's own: the layout of its parameters may change, and the
schedule knows what callers pass then."""

from __future__ import annotations

from typing import Any

from burnish.tensorir.arith.index_map import IndexMap
from burnish.tensorir.function import PrimFunc
from burnish.tensorir.schedule import Schedule


class OwnSchedule(Schedule):
    """``layouts`` are the changes in order: a parameter's position, and the map from its old
    indices to the new ones."""

    def __init__(self, *args: Any, **given: Any) -> None:
        self.layouts: tuple[tuple[int, IndexMap], ...] = ()
        self._last_map: IndexMap | None = None
        super().__init__(*args, **given)

    def _keeps_signature(self, func_name: str) -> str:
        return ""

    def _index_map(self, m: IndexMap) -> IndexMap:
        self._last_map = super()._index_map(m)
        return self._last_map

    def _commit(self, func_name: str, func: PrimFunc) -> None:
        before = self._functions[func_name].buffers
        for at, (old, new) in enumerate(zip(before, func.buffers, strict=True)):
            if old is not new:
                assert self._last_map is not None
                self.layouts = (*self.layouts, (at, self._last_map))
        super()._commit(func_name, func)
