"""Handles of blocks and loops: what a Schedule gives out and a trace calls ``b0`` and ``l1``.

A handle holds no path into the program. A loop is known by its variable, a block by its name, and
both survive every rewrite of the program around them. Handles compare by identity: a trace tells
two queries of one block apart.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from ...expr import Var


@dataclass(frozen=True, slots=True, eq=False)
class BlockHandle:
    """The block called ``name`` when the handle was made; a Schedule follows its renamings. One
    without a name is a place for a result in an Instruction that is written by hand."""

    name: str = ""
    func_name: str = ""

    def __repr__(self) -> str:
        return f"BlockRV({self.name!r})"


@dataclass(frozen=True, slots=True, eq=False)
class LoopHandle:
    """The loop over ``var``.

    ``place`` is set in what ``sample_compute_location`` gives when no loop was chosen: ``root``
    (stay where it is) or ``inline``. ``LoopHandle()`` is a place for a result in an Instruction
    that is written by hand.
    """

    var: Var = field(default_factory=lambda: Var("loop"))
    func_name: str = ""
    place: str = ""

    def __repr__(self) -> str:
        return f"LoopRV({self.place or self.var.name!r})"


BlockRV: TypeAlias = BlockHandle
LoopRV: TypeAlias = LoopHandle
