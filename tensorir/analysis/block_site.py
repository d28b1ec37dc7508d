"""A block at its place in a function, as a primitive looks at it."""

from __future__ import annotations

from dataclasses import dataclass

from ...support.errors import ScheduleError
from ...support.node import Node
from ..function import PrimFunc
from ..stmt import Block, BlockRealize
from .paths import Path, realize_of, scope_of
from .preconditions import fail


@dataclass(slots=True)
class BlockSite:
    """The function, the primitive that asks, and the path to the block."""

    func: PrimFunc
    primitive: str
    path: Path

    @property
    def realize(self) -> BlockRealize:
        return realize_of(self.path)

    @property
    def block(self) -> Block:
        return self.realize.block

    @property
    def scope(self) -> Block:
        return scope_of(self.path)

    def error(self, kind: type[ScheduleError], found: str, guilty: Node) -> ScheduleError:
        """The error of a precondition, with the program printed and the guilty node marked."""
        return fail(kind, self.primitive, self.func, [guilty], found)
