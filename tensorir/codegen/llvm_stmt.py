"""Statements as LLVM control flow: one match.

Loops are emitted rotated (the test at the end, one guard in front where the extent may be zero),
with the loop variable itself as the only phi. A parallel loop is handed to ``function``, which
outlines it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import assert_never

from llvmlite import ir

from ...support.errors import CodegenError, InternalError
from ...support.node import walk
from ..buffer import Buffer
from ..expr import INDEX, Call, IntImm
from ..intrinsics import DOTS, is_costly
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
from .held_constants import HeldConstants, KernelBuilder
from .tiles import TileEmitter
from .work import Work


class StmtEmitter(TileEmitter):
    """Emits statements in order; ``on_parallel`` takes the parallel loops. With ``looks``, long
    loops look at the address ``cancel`` now and then, and the function returns where it is not
    0."""

    def __init__(
        self, builder: ir.IRBuilder, on_parallel: Callable[[For], None], *, may_alias: bool = False
    ) -> None:
        super().__init__(builder, may_alias=may_alias)
        self.on_parallel = on_parallel
        self.holds_constants = self.in_tile = False
        self.looks: Work | None = None
        self.cancel: ir.Value | None = None
        self._cancelled: ir.Block | None = None

    def stmt(self, s: Stmt) -> None:  # noqa: C901 - one match over a closed set
        """Emit ``s``; raises CodegenError for what no kernel can do."""
        self.calls = {}
        if self.region is not None:
            self.in_region(s)
            return
        match s:
            case SeqStmt(stmts):
                self._sequence(stmts)
            case BufferStore():
                self.store(s)
            case For():
                if s.kind == "parallel":
                    self.on_parallel(s)
                elif not (self.is_for_tiles(s) and self.tile_region([s])):
                    self.emit_loop(s)
            case IfThenElse():
                self._condition(s)
            case LetStmt(var, value, body):
                self.bind(var, self.expr(value))
                self.stmt(body)
            case Allocate(_, body):
                # The function made its memory at entry.
                around = self.in_tile
                self.in_tile = around or (self.holds_constants and _is_tile_of_dots(s))
                self.stmt(body)
                self.in_tile = around
            case Evaluate(value):
                if not isinstance(value, IntImm):
                    self.expr(value)
            case Block() | BlockRealize():
                raise InternalError("a block reached code generation")
            case _:
                assert_never(s)

    def _sequence(self, stmts: tuple[Stmt, ...]) -> None:
        for first, run in self.tile_runs(self.join(stmts)):
            if first and self.looks is not None and self.looks.looks_before(run[0]):
                self.look()
            if len(run) > 1 and self.tile_region(run):
                continue
            for n, x in enumerate(run):
                if n and self.looks is not None and self.looks.looks_before(x):
                    self.look()
                self.stmt(x)

    def emit_loop(self, s: For) -> None:
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
        strip = self.looks.strip(s) if self.looks is not None else None
        if strip is not None and strip > 1:
            self._in_strips(s, start, end, guard, strip)
        else:
            self._each(s, start, end, guard, looks=strip is not None)

    def _in_strips(
        self, s: For, start: ir.Value, end: ir.Value, guard: ir.Value | None, strip: int
    ) -> None:
        """As ``counted``, with a look before every ``strip`` iterations."""
        before = self.builder.block
        body, after = self.builder.append_basic_block(), self.builder.append_basic_block()
        if guard is None:
            self.builder.branch(body)
        else:
            self.builder.cbranch(guard, body, after)
        self.builder.position_at_end(body)
        with self.frame(before, is_loop=True, is_certain=guard is None):
            first = self.builder.phi(start.type)
            first.add_incoming(start, before)
            self.look()
            following = self.builder.add(first, constant_index(strip), flags=("nsw",))
            more = self.builder.icmp_signed("<", following, end)
            self._each(s, first, self.builder.select(more, following, end), None, looks=False)
            first.add_incoming(following, self.builder.block)
            self.builder.cbranch(more, body, after)
        self.builder.position_at_end(after)

    def look(self) -> None:
        """Return from the function where the caller wants that."""
        b = self.builder
        assert self.cancel is not None
        if self._cancelled is None:
            self._cancelled = b.function.append_basic_block("cancelled")
            ir.IRBuilder(self._cancelled).ret_void()
        flag = b.load_atomic(self.cancel, "monotonic", 8, typ=ir.IntType(64))
        go_on = b.append_basic_block()
        b.cbranch(b.icmp_signed("==", flag, constant_index(0)), go_on, self._cancelled)
        b.position_at_end(go_on)

    def _each(
        self, s: For, start: ir.Value, end: ir.Value, guard: ir.Value | None, *, looks: bool
    ) -> None:
        before = self.builder.block
        body, after = self.builder.append_basic_block(), self.builder.append_basic_block()
        if guard is None:
            self.builder.branch(body)
        else:
            self.builder.cbranch(guard, body, after)
        self.builder.position_at_end(body)
        with (
            self.frame(before, is_loop=True, is_certain=guard is None),
            self._constants_held(s, before),
        ):
            var = self.builder.phi(start.type)
            var.add_incoming(start, before)
            self.bind(s.var, var)
            if looks:
                self.look()
            self.stmt(s.body)
            following = self.builder.add(var, constant_index(1), flags=("nuw", "nsw"))
            var.add_incoming(following, self.builder.block)
            more = self.builder.icmp_signed("<", following, end)
            self.builder.cbranch(more, body, after)
        self.builder.position_at_end(after)

    @contextmanager
    def _constants_held(self, s: For, before: ir.Block) -> Iterator[None]:
        """In a loop beside a tile of dot products, the constants of its functions live from
        ``before`` it on."""
        b = self.builder
        wanted = self.holds_constants and self.in_tile and _is_costly(s)
        if not wanted or not isinstance(b, KernelBuilder) or b.held:
            yield
            return
        b.held = HeldConstants(before)
        yield
        b.held = None

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


def _is_costly(s: For) -> bool:
    return any(isinstance(n, Call) and is_costly(n) for n in walk(s, (Buffer,)))


def _is_tile_of_dots(s: Allocate) -> bool:
    """Whether these are registers in which dot products are summed."""
    return s.buffer.scope == "register" and any(
        isinstance(n, Call) and n.op in DOTS for n in walk(s.body, (Buffer,))
    )
