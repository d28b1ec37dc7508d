"""Statements as LLVM control flow: one match.

Loops are emitted rotated (the test at the end, one guard in front where the extent may be zero),
with the loop variable itself as the only phi. A parallel loop is handed to ``function``, which
outlines it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import assert_never

from llvmlite import ir

from ...support.errors import CodegenError, InternalError
from ..expr import INDEX, IntImm
from ..stmt import (
    Allocate,
    Block,
    BlockRealize,
    BufferStore,
    Evaluate,
    For,
    IfThenElse,
    LetStmt,
    SeqStmt,
    Stmt,
)
from .frames import constant_index
from .llvm_expr import ExprEmitter


class StmtEmitter(ExprEmitter):
    """Emits statements in order; ``on_parallel`` takes the parallel loops."""

    def __init__(
        self, builder: ir.IRBuilder, on_parallel: Callable[[For], None], *, may_alias: bool = False
    ) -> None:
        super().__init__(builder, may_alias=may_alias)
        self.on_parallel = on_parallel

    def stmt(self, s: Stmt) -> None:  # noqa: C901 - one match over a closed set
        """Emit ``s``; raises CodegenError for what no kernel can do."""
        self.calls = {}
        match s:
            case SeqStmt(stmts):
                for x in stmts:
                    self.stmt(x)
            case BufferStore():
                self.store(s)
            case For():
                if s.kind == "parallel":
                    self.on_parallel(s)
                else:
                    self.loop(s)
            case IfThenElse():
                self._condition(s)
            case LetStmt(var, value, body):
                self.bind(var, self.expr(value))
                self.stmt(body)
            case Allocate(_, body):
                # The function made its memory at entry.
                self.stmt(body)
            case Evaluate(value):
                if not isinstance(value, IntImm):
                    self.expr(value)
            case Block() | BlockRealize():
                raise InternalError("a block reached code generation")
            case _:
                assert_never(s)

    def loop(self, s: For) -> None:
        """``for var in [min, min + extent)``."""
        if s.kind != "serial":
            raise InternalError(f"a loop of kind {s.kind} reached code generation")
        if s.var.dtype is not INDEX:
            raise CodegenError(f"Loop variable {s.var.name} must be int64, found {s.var.dtype}.")
        start, extent = self.index(s.min), self.index(s.extent)
        if isinstance(s.min, IntImm) and isinstance(s.extent, IntImm):
            end: ir.Value = constant_index(s.min.value + s.extent.value)
        elif isinstance(s.min, IntImm) and s.min.value == 0:
            end = extent
        else:
            end = self.builder.add(start, extent, flags=("nsw",))
        guard = None
        if not isinstance(s.extent, IntImm):
            guard = self.builder.icmp_signed(">", extent, constant_index(0))
        with self.scope.loop(s.var, s.min, s.extent):
            self.counted(s, start, end, guard)

    def counted(self, s: For, start: ir.Value, end: ir.Value, guard: ir.Value | None) -> None:
        """The body for each value from ``start`` below ``end``, at least once unless guarded."""
        before = self.builder.block
        body, after = self.builder.append_basic_block(), self.builder.append_basic_block()
        if guard is None:
            self.builder.branch(body)
        else:
            self.builder.cbranch(guard, body, after)
        self.builder.position_at_end(body)
        with self.frame(before, is_loop=True, is_certain=guard is None):
            var = self.builder.phi(start.type)
            var.add_incoming(start, before)
            self.bind(s.var, var)
            self.stmt(s.body)
            following = self.builder.add(var, constant_index(1), flags=("nuw", "nsw"))
            var.add_incoming(following, self.builder.block)
            more = self.builder.icmp_signed("<", following, end)
            self.builder.cbranch(more, body, after)
        self.builder.position_at_end(after)

    def _condition(self, s: IfThenElse) -> None:
        condition = self.expr(s.condition)
        before = self.builder.block
        then_block, after = self.builder.append_basic_block(), self.builder.append_basic_block()
        else_block = self.builder.append_basic_block() if s.else_case is not None else after
        self.builder.cbranch(condition, then_block, else_block)
        for block, case in ((then_block, s.then_case), (else_block, s.else_case)):
            if case is None:
                continue
            self.builder.position_at_end(block)
            with self.frame(before):
                self.stmt(case)
            self.builder.branch(after)
        self.builder.position_at_end(after)
