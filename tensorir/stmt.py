"""Statements of tensorir: loops, blocks, stores.

A PrimFunc's body is the BlockRealize of a *root block*, which allocates the intermediate buffers.
Below it, loops around BlockRealizes. A **block** is a unit of computation over *iter vars*; its
BlockRealize binds each iter var to an expression of the loops around it. ``spatial`` iterations are
independent; ``reduce`` iterations combine into the same element, after ``init``, which runs at the
first of them. Blocks nest. Lowering (``tensorir.lowering``) removes blocks; after it only loops,
stores, lets and conditions over flat buffers remain.
"""

from __future__ import annotations

from dataclasses import field
from typing import Any, TypeAlias

from ..support.node import Node, node
from ..support.other_names import OtherName
from .buffer import Buffer, BufferRegion, Range
from .expr import Expr, Var

FOR_KINDS = ("serial", "parallel", "vectorized", "unrolled", "thread_binding")
AXIS_KINDS = ("spatial", "reduce", "scan", "opaque")
LIFTED = "lift_allocation"
"""The annotation of a loop with the names of buffers that live for all of its iterations."""


@node
class IterVar(Node):
    """An axis of a block: ``var`` takes the values of ``dom``; ``kind`` is one of AXIS_KINDS."""

    var: Var
    dom: Range
    kind: str


@node
class BufferStore(Node):
    """``buffer[indices] = value``; lanes where ``predicate`` (after lowering) is false are not
    written."""

    buffer: Buffer
    value: Expr
    indices: tuple[Expr, ...]
    predicate: Expr | None = None


@node
class For(Node):
    """``for var in [min, min + extent)``; ``thread`` names the axis of a thread_binding loop.

    ``annotations`` is a tuple of (key, value) pairs: values are str, int, float, bool or lists of
    them.
    """

    var: Var
    min: Expr
    extent: Expr
    kind: str
    body: Stmt
    thread: str = ""
    annotations: tuple[tuple[str, Any], ...] = ()
    loop_var = OtherName("var")
    thread_binding = OtherName("thread")


@node
class Block(Node):
    """A unit of computation; ``name`` is unique within its PrimFunc."""

    name: str
    iter_vars: tuple[IterVar, ...]
    reads: tuple[BufferRegion, ...]
    writes: tuple[BufferRegion, ...]
    body: Stmt
    init: Stmt | None = None
    alloc_buffers: tuple[Buffer, ...] = ()
    match_buffers: tuple[MatchBuffer, ...] = ()
    annotations: tuple[tuple[str, Any], ...] = ()
    name_hint = OtherName("name")


@node
class MatchBuffer(Node):
    """``buffer`` names a region of another buffer inside a block."""

    buffer: Buffer
    source: BufferRegion


@node
class BlockRealize(Node):
    """Runs ``block`` with its iter vars bound to ``iter_values``, where ``predicate`` holds."""

    iter_values: tuple[Expr, ...]
    predicate: Expr
    block: Block


@node
class SeqStmt(Node):
    """Statements one after another; never nested directly, never of length one (use ``seq``)."""

    stmts: tuple[Stmt, ...]


@node
class IfThenElse(Node):
    condition: Expr
    then_case: Stmt
    else_case: Stmt | None = None


@node
class LetStmt(Node):
    """``body`` with ``var`` bound to ``value``."""

    var: Var
    value: Expr
    body: Stmt


@node
class Evaluate(Node):
    """An expression for its effect (an opaque intrinsic call), or the constant 0 for nothing."""

    value: Expr


@node
class Allocate(Node):
    """After lowering: ``buffer`` lives during ``body`` (plan_allocations gives it its place)."""

    buffer: Buffer
    body: Stmt
    annotations: tuple[tuple[str, Any], ...] = field(default=())


Stmt: TypeAlias = (
    BufferStore | For | Block | BlockRealize | SeqStmt | IfThenElse | LetStmt | Evaluate | Allocate
)
LEAVES = (BufferStore, Evaluate, Buffer, BufferRegion, IterVar, MatchBuffer)
"""The classes of nodes below which there is no statement: where a walk in search of statements
need not go, and most nodes are."""


def seq(*stmts: Stmt) -> Stmt:
    """The statements in order, flattened; the statement itself where there is one."""
    flat: list[Stmt] = []
    for s in stmts:
        if isinstance(s, SeqStmt):
            flat.extend(s.stmts)
        else:
            flat.append(s)
    return flat[0] if len(flat) == 1 else SeqStmt(tuple(flat))


def annotation(n: For | Block | Allocate, key: str, default: Any = None) -> Any:
    """The value of an annotation, or ``default``."""
    for k, v in n.annotations:
        if k == key:
            return v
    return default
