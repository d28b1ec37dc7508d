"""cache_index: index computations of a block, done once and looked up.

``A[vi // 4 + vj // 4, vj // 2]`` becomes ``A[index_var_0[vi, vj], index_var_1[vj]]`` behind blocks
``index_0``, ``index_1`` that fill the tables, one entry for each combination of the axes that an
expression uses. Worth it where indices are dear and loops repeat them. An index may depend on data
in a buffer that the function only reads, along whole axes, so that the table reads nothing more.

Only the indices of loads are looked up. What a block writes must stay provable, and a table says
nothing about where its entries point; so a block loses what is known of the regions that it reads
through tables, and primitives that need these come first.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from ....support.errors import LayoutError, ScheduleValueError
from ....support.node import children, replace, walk
from ...analysis.buffers import buffer_names, require_scope
from ...analysis.paths import Path, block_names, find_block, fresh_name, realize_of, scope_path
from ...analysis.preconditions import fail
from ...arith import expr_key, point_region
from ...buffer import Buffer, BufferRegion
from ...expr import (
    INDEX,
    Add,
    BufferLoad,
    Expr,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mul,
    Select,
    Sub,
    Var,
    is_const,
)
from ...function import PrimFunc
from ...stmt import Block, BufferStore, IterVar, Stmt, seq
from ...visitor import Mutator, substitute
from ..primitive import ATTR, BLOCK, CACHES, primitive
from ..rewriting.inlining import with_inferred_regions
from ..rewriting.insertion import (
    Cached,
    allocate_in,
    change_block,
    insert_stmt,
    require_room,
    shared_place,
)
from ..rewriting.nests import nest_over_axes
from ..state import BlockLike, ScheduleState
from ..trace.handles import BlockHandle, BlockRV

_PRIMITIVE = "cache_index"
_COMPUTED = (Add, Sub, Mul, FloorDiv, FloorMod, Min, Max, Select)


class CacheIndex(ScheduleState):
    @primitive(CACHES, block=BLOCK, storage_scope=ATTR, cse_thresh=ATTR)
    def cache_index(
        self, block: BlockLike, storage_scope: str, cse_thresh: int = 0
    ) -> list[BlockRV]:
        """Compute the indices of a block's loads beforehand, into tables.

        Each index expression becomes a buffer over the axes it uses, filled by a block of its own
        before the loops of the block; these blocks are returned. With ``cse_thresh`` 0 whole
        indices are looked up, with a greater one the largest parts of them that occur at least that
        often. A block without computed indices stays as it is, and the list is empty. The indices
        of stores stay computed: what a block writes must be known. What it reads through a table is
        not known any more, so schedule the producers before.

        Requires:

        - a storage scope, and a threshold from 0 on (ScheduleValueError);
        - axes that begin at 0, with a greatest extent that is known when the function begins
          (LayoutError), and whose domains depend on no let and no loop's variable bound below the
          tables' place (DependenceError).

        Before::

            @T.prim_func
            def main(A: T.Buffer((40, 40), "float32"), B: T.Buffer((80, 80), "float32")):
                for i, j in T.grid(80, 80):
                    with T.block("B"):
                        vi, vj = T.axis.remap("SS", [i, j])
                        B[vi, vj] = A[vi // 4 + vj // 4, vj // 2]

        Schedule::

            first, second = sch.cache_index("B", "global")

        After::

            @T.prim_func
            def main(A: T.Buffer((40, 40), "float32"), B: T.Buffer((80, 80), "float32")):
                index_var_0 = T.alloc_buffer((80, 80), "int64")
                index_var_1 = T.alloc_buffer((80,), "int64")
                for ax0, ax1 in T.grid(80, 80):
                    with T.block("index_0"):
                        v0, v1 = T.axis.remap("SS", [ax0, ax1])
                        index_var_0[v0, v1] = v0 // 4 + v1 // 4
                for ax0 in range(80):
                    with T.block("index_1"):
                        v0 = T.axis.spatial(80, ax0)
                        index_var_1[v0] = v0 // 2
                for i, j in T.grid(80, 80):
                    with T.block("B"):
                        vi, vj = T.axis.remap("SS", [i, j])
                        B[vi, vj] = A[index_var_0[vi, vj], index_var_1[vj]]
        """
        owner, name = self._block(block)
        done = cache_index(self._functions[owner], name, storage_scope, cse_thresh)
        self._commit(owner, done.func)
        return [BlockHandle(b, owner) for b in done.blocks]


@dataclass(slots=True)
class _Table:
    """An expression, the axes it uses, and the buffer that holds its values."""

    value: Expr
    axes: list[IterVar]
    buffer: Buffer
    block_name: str


@dataclass(frozen=True, slots=True)
class _Allowed:
    """What an index may be made of: axes with their extents, symbolic dims, and the buffers that
    the function only reads, which hold the same whenever a table is filled."""

    axes: dict[Var, Expr]
    dims: set[Var]
    constants: set[int]

    def reads(self, load: BufferLoad) -> bool:
        """Whether a load is inside of its buffer for all values of the axes, whatever conditions
        stand around it: it goes along an axis in each dimension, to its end."""
        return id(load.buffer) in self.constants and all(
            isinstance(i, Var) and i in self.axes and expr_key(self.axes[i]) == expr_key(size)
            for i, size in zip(load.indices, load.buffer.shape, strict=True)
        )


def cache_index(func: PrimFunc, block_name: str, storage_scope: str, cse_thresh: int = 0) -> Cached:
    """Look the index expressions of a block's loads up in tables."""
    require_scope(storage_scope, _PRIMITIVE)
    if isinstance(cse_thresh, bool) or not isinstance(cse_thresh, int) or cse_thresh < 0:
        raise ScheduleValueError(
            _PRIMITIVE, f"cse_thresh must be an integer from 0 on; found {cse_thresh!r}."
        )
    path = find_block(func, block_name, _PRIMITIVE)
    block = realize_of(path).block
    indices = _load_indices(block)
    allowed = _Allowed(
        {it.var: it.dom.extent for it in block.iter_vars},
        set(func.shape_vars),
        {id(b) for b in func.params if isinstance(b, Buffer)} - {id(b) for b in func.written},
    )
    if cse_thresh:
        chosen = _common_parts(indices, allowed, cse_thresh)
    else:
        chosen = _distinct([e for e in indices if _is_computed(e, allowed)])
    if not chosen:
        return Cached(func, ())
    tables = _tables(func, path, chosen, storage_scope)
    scope = scope_path(path)
    holder = realize_of(scope[:-1]).block.name
    place = shared_place(func, scope, [block_name], block_name, _PRIMITIVE)
    fills = seq(*[_fill(t) for t in tables])
    changed = insert_stmt(func, place, place.child, fills, _PRIMITIVE)
    for t in tables:
        changed = allocate_in(changed, holder, t.buffer, _PRIMITIVE)
    lookups = {expr_key(t.value): t for t in tables}

    def use_tables(b: Block) -> Block:
        look = _LookUp(lookups)
        init = None if b.init is None else look.visit(b.init)
        new = replace(b, body=look.visit(b.body), init=init, reads=(), writes=())
        return with_inferred_regions(new)

    changed = change_block(changed, block_name, use_tables, _PRIMITIVE)
    return Cached(changed, tuple([t.block_name for t in tables]))


def _load_indices(block: Block) -> list[Expr]:
    parts: list[Stmt] = [block.body] if block.init is None else [block.init, block.body]
    return [i for part in parts for n in walk(part) if isinstance(n, BufferLoad) for i in n.indices]


def _is_computed(e: Expr, allowed: _Allowed) -> bool:
    """Whether an index is an operation over axes that can be done for all their values."""
    if not isinstance(e, _COMPUTED) or e.dtype is not INDEX:
        return False
    over_axes = False
    for n in walk(e):
        if isinstance(n, Var):
            if n not in allowed.axes and n not in allowed.dims:
                return False
            over_axes = True
        elif isinstance(n, (FloorDiv, FloorMod)):
            if not isinstance(n.b, IntImm) or n.b.value == 0:
                return False
        elif isinstance(n, BufferLoad) and not allowed.reads(n):
            return False
    return over_axes


def _distinct(found: Sequence[Expr]) -> list[Expr]:
    kept: dict[Hashable, Expr] = {}
    for e in found:
        kept.setdefault(expr_key(e), e)
    return list(kept.values())


def _common_parts(indices: Sequence[Expr], allowed: _Allowed, least: int) -> list[Expr]:
    """The largest parts that occur at least ``least`` times, those inside of larger ones not
    counted again."""
    chosen: dict[Hashable, Expr] = {}
    while True:
        count: dict[Hashable, int] = {}
        first: dict[Hashable, Expr] = {}
        for e in indices:
            for part in _parts(e, chosen):
                if _is_computed(part, allowed):
                    key = expr_key(part)
                    count[key] = count.get(key, 0) + 1
                    first.setdefault(key, part)
        often = [key for key, times in count.items() if times >= least]
        if not often:
            return list(chosen.values())
        largest = max(often, key=lambda key: sum(1 for _ in walk(first[key])))
        chosen[largest] = first[largest]


def _parts(e: Expr, chosen: dict[Hashable, Expr]) -> list[Expr]:
    """An expression and all below it, but for what is chosen already."""
    if expr_key(e) in chosen:
        return []
    below = [c for c in children(e) if isinstance(c, Expr)]
    return [e, *[part for c in below for part in _parts(c, chosen)]]


def _tables(func: PrimFunc, path: Path, chosen: Sequence[Expr], storage_scope: str) -> list[_Table]:
    block = realize_of(path).block
    buffers, blocks = buffer_names(func), set(block_names(func))
    tables: list[_Table] = []
    for number, e in enumerate(chosen):
        used = {n for n in walk(e) if isinstance(n, Var)}
        axes = [it for it in block.iter_vars if it.var in used]
        for it in axes:
            if not is_const(it.dom.min, 0):
                found = f"The axis {it.var.name!r} of {block.name!r} does not begin at 0."
                raise fail(LayoutError, _PRIMITIVE, func, [block], found)
        name = fresh_name(buffers, f"index_var_{number}")
        block_name = fresh_name(blocks, f"index_{number}")
        buffers.add(name)
        blocks.add(block_name)
        shape = require_room(func, path, block, axes, _PRIMITIVE)
        tables.append(_Table(e, axes, Buffer(name, tuple(shape), INDEX, storage_scope), block_name))
    return tables


def _fill(t: _Table) -> Stmt:
    fresh = {it.var: Var(f"v{d}") for d, it in enumerate(t.axes)}
    point = tuple(fresh.values())
    block = Block(
        t.block_name,
        tuple([IterVar(fresh[it.var], it.dom, "spatial") for it in t.axes]),
        _reads(t.value, fresh),
        (point_region(t.buffer, point),),
        BufferStore(t.buffer, substitute(t.value, fresh), point),
    )
    return nest_over_axes(block)


def _reads(value: Expr, fresh: dict[Var, Var]) -> tuple[BufferRegion, ...]:
    loads = {expr_key(n): n for n in walk(value) if isinstance(n, BufferLoad)}
    return tuple([substitute(point_region(n.buffer, n.indices), fresh) for n in loads.values()])


class _LookUp(Mutator):
    """Indices of loads with the chosen expressions looked up."""

    def __init__(self, tables: dict[Hashable, _Table]) -> None:
        self.tables = tables
        self.in_index = False

    def visit(self, n: Any) -> Any:
        if self.in_index and isinstance(n, _COMPUTED):
            t = self.tables.get(expr_key(n))
            if t is not None:
                return BufferLoad(t.buffer, tuple([it.var for it in t.axes]))
        return super().visit(n)

    def visit_Block(self, n: Block) -> Block:  # noqa: N802
        """A block inside also declares the tables that it reads."""
        block: Block = self.generic_visit(n)
        return block if block is n else with_inferred_regions(block)

    def visit_BufferLoad(self, n: BufferLoad) -> Expr:  # noqa: N802
        before, self.in_index = self.in_index, True
        indices = tuple([self.visit(i) for i in n.indices])
        self.in_index = before
        same = all(a is b for a, b in zip(indices, n.indices, strict=True))
        return n if same else BufferLoad(n.buffer, indices, n.predicate)
