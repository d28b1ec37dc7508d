"""AnnotatePattern: what a PrimFunc does to its indices, which is all that fusion needs to know.

The kinds, from the loosest to the strictest about its neighbours:

| pattern | each element of the output reads |
|---|---|
| ``elementwise`` | the element at the same indices |
| ``broadcast`` | the element at some of the same indices, in order |
| ``injective`` | an element at computed indices (transpose, slice, concat) |
| ``reduction`` | many elements, combined (sum, max, pooling) |
| ``out_fusable`` | many products of two operands, summed: matmul, convolution |
| ``opaque`` | anything else (softmax, sorting): never fused |

The pattern is read off the blocks of the unscheduled body, never off a name, so a PrimFunc of a
user has one too. A function of several blocks has the strictest kind of them, if the blocks fit a
chain; a sum in two steps is one sum."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...support.node import children, walk
from ...support.passes import Pass
from ...support.remembered import remembered
from ...tensorir.buffer import Buffer
from ...tensorir.expr import (
    Add,
    BufferLoad,
    Call,
    Cast,
    Div,
    Expr,
    IntImm,
    Max,
    Min,
    Mul,
    Select,
    Var,
)
from ...tensorir.function import PrimFunc
from ...tensorir.stmt import Block, BlockRealize, BufferStore, For, SeqStmt, Stmt
from ...tensorir.visitor import loads_from
from ..module import IRModule
from .legalize import LEGALIZED

PATTERNS = ("elementwise", "broadcast", "injective", "reduction", "out_fusable", "opaque")
_LIGHT = ("elementwise", "broadcast", "injective")


@dataclass(frozen=True)
class AnnotatePattern(Pass):
    """Write the attribute ``op_pattern`` on every PrimFunc that is not scheduled and lacks it.

    *requires*: nothing. *ensures*: each PrimFunc but the scheduled ones has an ``op_pattern``.

        T.func_attr({"global_symbol": "relu"})
    becomes
        T.func_attr({"global_symbol": "relu", "op_pattern": "elementwise"})
    """

    legalized_only: bool = False
    """Leave the PrimFuncs that users wrote alone, so that they are never fused."""

    def run(self, module: IRModule) -> IRModule:
        for name, func in module.prim_funcs.items():
            if func.attr("is_scheduled") or func.attr("op_pattern"):
                continue
            if func.attr(LEGALIZED) or not self.legalized_only:
                module[name] = func.with_attr("op_pattern", classify(func))
        return module


def classify(func: PrimFunc) -> str:
    """The pattern of a function's body: one of PATTERNS."""
    if not isinstance(func.body, BlockRealize) or any(isinstance(p, Var) for p in func.params):
        return "opaque"
    blocks = leaf_blocks(func.body.block.body)
    if not blocks:
        return "opaque"
    return _combine(blocks, [classify_block(b) for b in blocks])


def leaf_blocks(body: Stmt) -> list[Block] | None:
    """The blocks of plain loop nests in order; None for a body of any other form."""
    match body:
        case SeqStmt():
            found: list[Block] = []
            for stmt in body.stmts:
                inner = leaf_blocks(stmt)
                if inner is None:
                    return None
                found += inner
            return found
        case For():
            return (
                leaf_blocks(body.body) if body.kind == "serial" and not body.annotations else None
            )
        case BlockRealize():
            return (
                [body.block]
                if isinstance(body.predicate, IntImm) and body.predicate.value
                else None
            )
    return None


def _combine(blocks: Sequence[Block], kinds: Sequence[str]) -> str:
    heavy = [i for i, k in enumerate(kinds) if k not in _LIGHT]
    if not heavy:
        return max(kinds, key=PATTERNS.index)
    first = heavy[-1]
    if "opaque" in kinds or len(heavy) > 2:
        return "opaque"
    if len(heavy) == 2 and not _adds_up(blocks[first], blocks[heavy[0]]):
        return "opaque"
    after = range(first + 1, len(blocks))
    # What follows may only touch up the result in place of its own shape.
    same_shape = all(_spatial(blocks[i]) == _spatial(blocks[first]) for i in after)
    if same_shape and all(kinds[i] in ("elementwise", "broadcast") for i in after):
        return kinds[first]
    return "opaque"


def _adds_up(total: Block, terms: Block) -> bool:
    """Whether one block sums what another writes over some of its axes, and has no others: both
    are one sum, in two steps."""
    written, axes = terms.writes[0].buffer, {id(a.var) for a in total.iter_vars}
    reads = [n for n in walk(total.body) if isinstance(n, BufferLoad) and n.buffer is written]
    return len(reads) == 1 and {id(i) for i in reads[0].indices} == axes


def _spatial(block: Block) -> tuple[object, ...]:
    """The extents of the spatial axes, comparable: numbers and identities of symbolic dims."""
    return tuple(
        [
            tuple(
                [
                    n.value if isinstance(n, IntImm) else id(n) if isinstance(n, Var) else type(n)
                    for n in walk(a.dom.extent)
                ]
            )
            for a in block.iter_vars
            if a.kind == "spatial"
        ]
    )


@remembered
def classify_block(block: Block) -> str:
    """The pattern of one block: a single store, over spatial and perhaps reduce axes."""
    store = block.body
    kinds = {id(a.var): a.kind for a in block.iter_vars}
    if (
        not isinstance(store, BufferStore)
        or block.match_buffers
        or not set(kinds.values()) <= {"spatial", "reduce"}
    ):
        return "opaque"
    if not all(_is_axis(i, kinds, "spatial") or _is_zero(i) for i in store.indices):
        return "opaque"
    written = [id(i) for i in store.indices if isinstance(i, Var)]
    if len(set(written)) != len(written):
        return "opaque"
    if "reduce" in kinds.values():
        return _classify_reduction(block, store, kinds)
    if any(id(a.var) not in written for a in block.iter_vars):
        return "opaque"
    loads = [n for n in walk(store.value, (Buffer,)) if isinstance(n, BufferLoad)]
    if any(load.buffer is store.buffer for load in loads):
        return "opaque"
    return max(
        (_classify_load(load, store) for load in loads), key=PATTERNS.index, default="broadcast"
    )


def _is_axis(index: Expr, kinds: dict[int, str], kind: str) -> bool:
    return isinstance(index, Var) and kinds.get(id(index)) == kind


def _is_zero(index: Expr) -> bool:
    return isinstance(index, IntImm) and index.value == 0


def _classify_load(load: BufferLoad, store: BufferStore) -> str:
    if len(load.indices) == len(store.indices) and all(
        a is b or (_is_zero(a) and _is_one(d))
        for a, b, d in zip(load.indices, store.indices, store.buffer.shape, strict=True)
    ):
        return "elementwise"
    position = -1
    order = {id(i): p for p, i in enumerate(store.indices)}
    for index in load.indices:
        if _is_zero(index):
            continue
        place = order.get(id(index), -1)
        if not isinstance(index, Var) or place <= position:
            return "injective"
        position = place
    return "broadcast"


def _is_one(dim: Expr) -> bool:
    return isinstance(dim, IntImm) and dim.value == 1


def _classify_reduction(block: Block, store: BufferStore, kinds: dict[int, str]) -> str:
    if block.init is None or not isinstance(store.value, (Add, Mul, Max, Min)):
        return "opaque"
    term = store.value.b if _loads_target(store.value.a, store) else store.value.a
    target = store.value.a if term is store.value.b else store.value.b
    if not _loads_target(target, store) or loads_from(term, store.buffer):
        return "opaque"
    while isinstance(term, Cast):
        term = term.value
    if isinstance(store.value, Add) and isinstance(term, Mul):
        left, right = _axes(term.a, kinds), _axes(term.b, kinds)
        if left is not None and right is not None and left != right:
            return "out_fusable"
    return "reduction"


def _loads_target(e: Expr, store: BufferStore) -> bool:
    return (
        isinstance(e, BufferLoad)
        and e.buffer is store.buffer
        and all(
            a is b or (_is_zero(a) and _is_zero(b))
            for a, b in zip(e.indices, store.indices, strict=True)
        )
    )


def _axes(e: Expr, kinds: dict[int, str]) -> frozenset[int] | None:
    """The spatial axes an operand of the product depends on; None if it loads nothing over a reduce
    axis."""
    inside = {
        id(n)
        for load in walk(e)
        if isinstance(load, BufferLoad)
        for i in load.indices
        for n in walk(i)
    }
    if not any(kinds.get(v) == "reduce" for v in inside):
        return None
    return frozenset(v for v in inside if kinds.get(v) == "spatial")


# -- the order of reading ------------------------------------------------------------------------
@remembered
def looks_up_rows(func: PrimFunc) -> bool:
    """Whether a function reads rows at places that data tell, each row in order: a look-up in a
    table."""
    return any(
        b.iter_vars
        and n.indices
        and n.indices[-1] is b.iter_vars[-1].var
        and any(isinstance(m, BufferLoad) for i in n.indices[:-1] for m in walk(i))
        for b, n in _reads(func)
    )


@remembered
def turns_rows(func: PrimFunc) -> bool:
    """Whether what a function writes in a row it reads from many: a transpose."""
    for b, n in _reads(func):
        last = b.iter_vars[-1].var if b.iter_vars else None
        if not n.indices or not isinstance(n.indices[-1], Var) or n.indices[-1] is last:
            continue
        if any(m is last for i in n.indices[:-1] for m in walk(i)):
            return True
    return False


@remembered
def reads_windows(func: PrimFunc) -> bool:
    """Whether a function reads windows: two of its axes together say a place."""
    axes = {v.var for b in _blocks(func) for v in b.iter_vars}
    return any(
        len({m for m in walk(i) if isinstance(m, Var) and m in axes}) > 1
        for _, n in _reads(func)
        for i in n.indices
        if not isinstance(i, Var)
    )


@remembered
def computes(func: PrimFunc) -> bool:
    """Whether a function does more with what it reads than move it: a quotient or an elementary
    function at least, which take as long as several reads."""
    return any(
        isinstance(n, Div) or (isinstance(n, Call) and n.op != "if_then_else")
        for b in _blocks(func)
        for n in walk(b.body, (Buffer,))
    )


def has_seams(func: PrimFunc) -> bool:
    """Whether where an element is decides what it is, as of a concatenation or a pad."""
    return _seams(func)[0]


def cuts_rows(func: PrimFunc) -> bool:
    """Whether where an element is in its row decides what it is."""
    return _seams(func)[1]


@remembered
def _seams(func: PrimFunc) -> tuple[bool, bool]:
    anywhere = in_row = False
    for b in _blocks(func):
        axes = [v.var for v in b.iter_vars]
        for n in walk(b.body):
            asked = n.condition if isinstance(n, Select) else None
            if isinstance(n, Call) and n.op == "if_then_else":
                asked = n.args[0]
            found = [] if asked is None else [a for a in axes if _asks(asked, a)]
            anywhere |= bool(found)
            in_row |= any(a is axes[-1] for a in found)
    return anywhere, in_row


def _asks(condition: Expr, axis: Var) -> bool:
    """Whether a condition is about an axis itself, not about what data say there."""
    if isinstance(condition, BufferLoad):
        return False
    return condition is axis or any(
        _asks(c, axis) for c in children(condition) if isinstance(c, Expr)
    )


def _blocks(func: PrimFunc) -> list[Block]:
    if not isinstance(func.body, BlockRealize):
        return []
    return leaf_blocks(func.body.block.body) or []


def _reads(func: PrimFunc) -> list[tuple[Block, BufferLoad]]:
    """The loads of a function's blocks, with the block of each."""
    return [
        (b, n) for b in _blocks(func) for n in walk(b.body, (Buffer,)) if isinstance(n, BufferLoad)
    ]
