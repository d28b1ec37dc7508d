"""SegmentCall: what a segment (``codegen.segment``) is to do, planned by
``graphir.emit.plan_segments``, which needs no code generator for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from .expr import Expr

Operand = tuple[Literal["arg"], int] | tuple[Literal["workspace"], Expr]


@dataclass(frozen=True, slots=True)
class SegmentCall:
    """A call of the kernel ``symbol``.

    ``operands`` name its arguments: an argument of the segment by number, or a byte offset into
    the segment's workspace; ``dims`` are its symbolic dimensions over the segment's;
    ``workspace_offset`` says where its own workspace begins.
    """

    symbol: str
    operands: tuple[Operand, ...]
    dims: tuple[Expr, ...]
    workspace_offset: Expr
