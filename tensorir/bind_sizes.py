"""A function of named sizes with numbers in their place: what a measurement can run.

    def f(x: T.Buffer(("n", 4)), y: T.Buffer(("n", 4))): ...
with {n: 8} becomes
    def f(x: T.Buffer((8, 4)), y: T.Buffer((8, 4))): ...
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..support.node import map_children
from .arith import Analyzer
from .buffer import Buffer
from .expr import Expr, IntImm, Var
from .function import PrimFunc
from .visitor import Mutator


def bind_sizes(func: PrimFunc, sizes: Mapping[Var, int]) -> PrimFunc:
    """``func`` with its symbolic sizes ``sizes`` replaced by numbers, in every shape, stride, loop
    and index; the same object where there are none. Buffers are new ones."""
    return _Binder(sizes).visit(func) if sizes else func


class _Binder(Mutator):
    def __init__(self, sizes: Mapping[Var, int]) -> None:
        self.sizes = {id(v): IntImm(n) for v, n in sizes.items()}
        self.buffers: dict[int, Buffer] = {}
        self.analyzer = Analyzer()

    def visit(self, n: Any) -> Any:
        new = super().visit(n)
        # What a size stood in is a number now, or simpler.
        changed = new is not n and isinstance(new, Expr) and new.dtype.is_integer
        return self.analyzer.simplify(new) if changed else new

    def visit_Var(self, n: Var) -> Expr:  # noqa: N802
        return self.sizes.get(id(n), n)

    def visit_Buffer(self, n: Buffer) -> Buffer:  # noqa: N802
        if id(n) not in self.buffers:
            self.buffers[id(n)] = map_children(n, self.visit)
        return self.buffers[id(n)]
