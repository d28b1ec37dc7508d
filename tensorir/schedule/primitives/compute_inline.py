"""compute_inline: a block's value where its buffer is read."""

from __future__ import annotations

from collections.abc import Sequence

from ....support.errors import DependenceError, NotCompleteBlockError
from ....support.node import replace, walk
from ...analysis.affine import Bounds, loop_bounds
from ...analysis.circular_buffers import require_no_circle
from ...analysis.conditions import conjuncts
from ...analysis.hidden_accesses import require_scope_declared
from ...analysis.loop_order import rewritten_input
from ...analysis.nested_blocks import Nested, consumers_of, is_output_block, scope_blocks
from ...analysis.paths import (
    Path,
    all_loops_above,
    conditions_above,
    find_block,
    find_inner_block,
    loops_above,
    realize_of,
    rebuild,
    scope_of,
    with_body,
)
from ...analysis.preconditions import fail, require_complete
from ...analysis.region_cover import axis_of_index, says_domain
from ...analysis.whole_runs import is_unconditional
from ...buffer import Buffer
from ...expr import BufferLoad, Var
from ...function import PrimFunc
from ...stmt import Block, BufferStore, MatchBuffer, Stmt
from ...visitor import free_vars, substitute
from ..foreign_memory import require_no_pointer
from ..primitive import BLOCK, PLACES, primitive
from ..rewriting.inlining import (
    InlineLoads,
    plain_store,
    require_sole_writer,
    with_inferred_regions,
    without_block,
)
from ..state import BlockLike, ScheduleState


class ComputeInline(ScheduleState):
    @primitive(PLACES, block=BLOCK)
    def compute_inline(self, block: BlockLike) -> None:
        """Remove a block and put its value where its buffer is read.

        Requires:

        - a complete block, whose body is one store at distinct axes of its own; where it stands
          under a predicate, one that holds for all that is read (NotCompleteBlockError);
        - a buffer that is no output of the scope and has no other writer; operands that are not
          overwritten later (DependenceError). What nobody reads goes.

        Before::

            @T.prim_func
            def main(A: T.Buffer((8, 6), "float32"), C: T.Buffer((8, 6), "float32")):
                B = T.alloc_buffer((8, 6))
                for i, j in T.grid(8, 6):
                    with T.block("B"):
                        vi, vj = T.axis.remap("SS", [i, j])
                        B[vi, vj] = A[vi, vj] + T.float32(1)
                for i, j in T.grid(8, 6):
                    with T.block("C"):
                        vi, vj = T.axis.remap("SS", [i, j])
                        C[vi, vj] = B[vi, vj] * T.float32(2)

        Schedule::

            sch.compute_inline("B")

        After::

            @T.prim_func
            def main(A: T.Buffer((8, 6), "float32"), C: T.Buffer((8, 6), "float32")):
                for i, j in T.grid(8, 6):
                    with T.block("C"):
                        vi, vj = T.axis.remap("SS", [i, j])
                        C[vi, vj] = (A[vi, vj] + T.float32(1)) * T.float32(2)
        """
        owner, name = self._block(block)
        self._commit(owner, compute_inline(self._functions[owner], name, checks=self.enable_checks))


def compute_inline(func: PrimFunc, block_name: str, *, checks: bool = True) -> PrimFunc:
    """Remove a complete block and put its value where its buffer is read."""
    path = find_inner_block(func, block_name, "compute_inline")
    realize = realize_of(path)
    block = realize.block
    require_complete(func, block, "compute_inline")
    require_no_circle(func, block, "compute_inline")
    scope = scope_of(path)
    if is_output_block(func, scope, block):
        found = f"{block_name!r} writes an output of the function, which must be stored."
        raise fail(DependenceError, "compute_inline", func, [block], found)
    require_scope_declared(func, scope, block, "compute_inline")
    store = plain_store(func, block, "compute_inline")
    axes = _store_axes(func, block, store, "compute_inline")
    consumers = consumers_of(scope, block)
    if not consumers:
        _require_unused(func, scope, block, store.buffer)
        return without_block(func, block_name, store.buffer)
    _require_no_view(func, consumers, store.buffer, "compute_inline")
    require_no_pointer(func, store.buffer, "compute_inline")
    if checks:
        require_sole_writer(func, path, scope, store.buffer, "compute_inline")
        _require_made(func, path, consumers, store, axes)
        _require_inputs_kept(func, path, scope, consumers)
    changed = func
    for n in consumers:
        new = _inlined(n.block, store, axes)
        at = find_block(changed, n.block.name, "compute_inline")
        leaf = realize_of(at)
        changed = with_body(changed, rebuild(at, replace(leaf, block=new)))
    return without_block(changed, block_name, store.buffer)


def _require_unused(func: PrimFunc, scope: Block, block: Block, buffer: Buffer) -> None:
    """Nobody but the block, whose values nothing reads, uses its buffer."""
    own = {id(n) for n in walk(block)}
    others = [
        n
        for n in walk(func.body)
        if isinstance(n, (BufferLoad, BufferStore)) and n.buffer is buffer and id(n) not in own
    ]
    views = [n for n in walk(func.body) if isinstance(n, MatchBuffer) and n.source.buffer is buffer]
    if others or views or buffer not in scope.alloc_buffers or len(scope_blocks(scope)) < 2:
        found = f"Nothing reads what {block.name!r} writes, but others use its buffer."
        raise fail(DependenceError, "compute_inline", func, [block], found)


def _require_made(
    func: PrimFunc,
    path: Path,
    consumers: Sequence[Nested],
    store: BufferStore,
    axes: Sequence[Var | None],
) -> None:
    """The block's predicate holds in each instance that a consumer reads."""
    if is_unconditional(path):
        return
    realize = realize_of(path)
    block = realize.block
    over = {
        value: it.var
        for it, value in zip(block.iter_vars, realize.iter_values, strict=True)
        if isinstance(value, Var)
    }
    loops = loop_bounds(all_loops_above(path))
    wanted = [
        substitute(c, over)
        for c in conjuncts(realize.predicate)
        if not says_domain(c, realize, loops)
    ]
    known = set(axes)
    direct = not conditions_above(path) and all(
        v in known for c in wanted for v in free_vars([c]) if v in loops or v in over.values()
    )
    for n in consumers:
        domains = Bounds({it.var: it.dom for it in n.block.iter_vars})
        parts = [n.block.body] if n.block.init is None else [n.block.body, n.block.init]
        for load in [x for part in parts for x in walk(part)]:
            if not isinstance(load, BufferLoad) or load.buffer is not store.buffer:
                continue
            at = {a: i for a, i in zip(axes, load.indices, strict=True) if a is not None}
            if not direct or not all(domains.proves(substitute(c, at)) for c in wanted):
                found = (
                    f"{block.name!r} runs under a condition that may leave out what "
                    f"{n.block.name!r} reads; its value is not defined everywhere."
                )
                raise fail(NotCompleteBlockError, "compute_inline", func, [block], found)


def _require_inputs_kept(
    func: PrimFunc, path: Path, scope: Block, consumers: Sequence[Nested]
) -> None:
    """What was written for the block in an iteration of its loops is still there where consumers
    read it outside of these."""
    block = realize_of(path).block
    own = loops_above(path)
    left = [x for x in own if not all(any(x is y for y in n.loops) for n in consumers)]
    rewritten = rewritten_input(block, left, scope_blocks(scope))
    if rewritten is not None:
        n, loop = rewritten
        found = (
            f"{n.block.name!r} writes what {block.name!r} reads again in later iterations of "
            f"{loop.var.name!r}, outside of which the value would be computed."
        )
        raise fail(DependenceError, "compute_inline", func, [n.block], found)


def _require_no_view(
    func: PrimFunc, consumers: Sequence[Nested], buffer: Buffer, primitive: str
) -> None:
    """Nothing reads the buffer through a view: a view needs elements that are stored."""
    for n in consumers:
        for view in walk(n.block):
            if isinstance(view, MatchBuffer) and view.source.buffer is buffer:
                found = f"{n.block.name!r} reads {buffer.name!r} through a T.match_buffer."
                raise fail(NotCompleteBlockError, primitive, func, [n.block], found)


def _store_axes(
    func: PrimFunc, block: Block, store: BufferStore, primitive: str
) -> list[Var | None]:
    """The iter var of each index of a store; None for an index that is no iter var, which must
    be 0 in a dimension of extent 1."""
    axes = [axis_of_index(block, i) for i in store.indices]
    named = [a for a in axes if a is not None]
    fixed = [
        i
        for i, a, dim in zip(store.indices, axes, store.buffer.shape, strict=True)
        if a is None and not (getattr(i, "value", None) == 0 and getattr(dim, "value", None) == 1)
    ]
    missing = {it.var for it in block.iter_vars} - set(named)
    used = {n for n in walk(store.value) if isinstance(n, Var)}
    if fixed or len(set(named)) != len(named) or missing & used:
        found = (
            f"{block.name!r} does not store at distinct axes of its own, so a load of its "
            "buffer names no single instance."
        )
        raise fail(NotCompleteBlockError, primitive, func, [block], found)
    return axes


def _inlined(block: Block, store: BufferStore, axes: Sequence[Var | None]) -> Block:
    inliner = InlineLoads(store, axes)
    body: Stmt = inliner.visit(block.body)
    init = None if block.init is None else inliner.visit(block.init)
    return with_inferred_regions(replace(block, body=body, init=init, reads=(), writes=()))
