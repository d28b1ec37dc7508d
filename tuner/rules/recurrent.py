"""Recurrent layers: all steps in one kernel, each a product of few rows and what becomes of it.

    for t:  gates = states[t] @ W             states[t + 1] = cell(inputs[t], gates)

becomes

    for t                                      one after another
      for b0, j0                               tiles of rows and columns, shared among threads
        tile = 0                               registers
        for k0, k1                             k1 unrolled
          for b1, jv, jl                       unrolled; lanes vectorized
            tile += states[t, b, k] * Wp[jp, k, jv, jl]
        gates = tile
      for b, j: states[t + 1] = cell(...)      in vectors

A GRU whose reset gate multiplies first has a second product, of what that gives: it is scheduled
like the first. The weight is read once a step and stays in the cache between them; where the graph
knows it to be constant its panels are packed. A step is short, so threads share it only where it is
a large one: each step waits for all of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ...support.target import Target
from ...tensorir.expr import BufferLoad, IntImm
from ...tensorir.function import PrimFunc
from ...tensorir.schedule import Schedule
from ...tensorir.stmt import Block, BlockRealize, For, SeqStmt, Stmt
from ..tiling.lanes import lanes_of, vectorize_loop, width_for, write_out
from ..tiling.panels import is_layout_free
from ..workload import blocks_in_order, product_of, static_extent
from .rule import Decide, Decisions, Rule, choice

VECTORS, ROWS, STEPS = (1, 2, 4, 8), (1, 2, 3, 4, 5, 6), (1, 2, 4)
SUMS = 8
"""Independent sums that hide the latency of a multiply-add."""
SHARED = 1 << 18
"""Terms of a step from which on threads share it."""


@dataclass(frozen=True)
class Product:
    """A block that multiplies the state of a step with a weight."""

    block: Block
    weight: BufferLoad


@dataclass(frozen=True)
class Steps:
    """A function whose block ``step`` makes one step: products, and the blocks between and behind
    them."""

    func: PrimFunc
    step: Block
    products: tuple[Product, ...]
    rest: tuple[str, ...]

    def sizes(self) -> tuple[int | None, int, int]:
        """Rows (None: symbolic), columns (that all products are multiples of) and terms."""
        first = self.products[0].block
        columns = math.gcd(*[static_extent(p.block, 1) or 0 for p in self.products])
        terms = static_extent(first, 2)
        assert terms is not None
        return static_extent(first, 0), columns, terms

    def lanes(self, target: Target) -> int:
        """Columns of a vector: as many as divide them all."""
        return math.gcd(lanes_of(target, self.products[0].block), self.sizes()[1])


def _vectors(steps: Steps, target: Target) -> tuple[int, ...]:
    vectors = steps.sizes()[1] // steps.lanes(target)
    return tuple([n for n in VECTORS if vectors % n == 0])


def _rows(steps: Steps, target: Target, vectors: int) -> tuple[int, ...]:
    """Rows of a tile, which divide them all, and whose sums are in registers beside a row of W."""
    rows, registers = steps.sizes()[0], target.vector_registers
    fitting = [n for n in ROWS if n == 1 or (n + 1) * vectors < registers]
    return tuple([n for n in fitting if n == 1 or (rows is not None and rows % n == 0)])


def _most(steps: Steps, target: Target) -> int:
    """As many vectors as give a tile of few rows its sums; fewer where there are rows for it."""
    rows = steps.sizes()[0] or 1
    wanted = SUMS if rows == 1 else SUMS // 2 if rows < 4 else 2
    return max([n for n in _vectors(steps, target) if n <= wanted])


@dataclass(frozen=True)
class StepDecisions(Decisions):
    """A tile of ``rows`` x ``vectors``, and the terms that are written out."""

    vectors: int = choice(lambda s, t, d: _vectors(s, t), lambda s, t, d: _most(s, t))
    rows: int = choice(
        lambda s, t, d: _rows(s, t, d.vectors), lambda s, t, d: max(_rows(s, t, d.vectors))
    )
    unroll: int = choice(
        lambda s, t, d: [n for n in STEPS if s.sizes()[2] % n == 0],
        lambda s, t, d: max([n for n in STEPS if s.sizes()[2] % n == 0]),
    )


class RecurrentRule(Rule[Steps, StepDecisions]):
    name = "recurrent"
    kind = "the steps of a recurrent layer"
    decisions = StepDecisions

    def match(self, func: PrimFunc, target: Target) -> Steps | None:
        step = next((b for b in blocks_in_order(func) if _is_step(b)), None)
        inner = [] if step is None else _nested(step.body)
        found = [Product(b, w) for b in inner if (w := _weight(b)) is not None]
        if step is None or not found:
            return None
        if any(static_extent(p.block, i) in (None, 0) for p in found for i in (1, 2)):
            return None
        rest = tuple([b.name for b in inner if not any(b is p.block for p in found)])
        return Steps(func, step, tuple(found), rest)

    def apply(self, sch: Schedule, roles: Steps, decisions: StepDecisions, decide: Decide) -> None:
        target, lanes = decide.target, roles.lanes(decide.target)
        for product in roles.products:
            _schedule_product(sch, roles, product, decisions, lanes, target)
        outside = [b.name for b in blocks_in_order(sch.func) if b.name != roles.step.name]
        for name in [*outside, *roles.rest]:
            *_, last = sch.get_loops(name)
            width = width_for(sch.get(last).extent, lanes_of(target, _named(sch, name)), 1)
            vectorize_loop(sch, last, width, width)


def _schedule_product(
    sch: Schedule,
    steps: Steps,
    product: Product,
    decisions: StepDecisions,
    lanes: int,
    target: Target,
) -> None:
    name, weight = product.block.name, product.weight.buffer
    rows, columns, terms = [static_extent(product.block, i) for i in range(3)]
    assert columns is not None
    assert terms is not None
    panel = decisions.vectors * lanes
    if is_layout_free(steps.func, weight) and panel < columns:
        place = [r.buffer for r in product.block.reads].index(weight)
        sch.transform_layout(name, ("read", place), lambda k, j: (j // panel, k, j % panel))
    kept = sch.get(sch.cache_write(name, 0, "register")).name
    row, column, term = sch.get_loops(name)
    i0, i1 = sch.split(row, [None, decisions.rows])
    j0, jv, jl = sch.split(column, [None, decisions.vectors, lanes])
    k0, k1 = sch.split(term, [None, decisions.unroll])
    sch.reorder(i0, j0, k0, k1, i1, jv, jl)
    sch.reverse_compute_at(kept, j0, preserve_unit_loops=True)
    *_, own_rows, own_columns = sch.get_loops(kept)
    own_vectors, own_lanes = sch.split(own_columns, [None, lanes])
    write_out(sch, (own_rows, own_vectors), own_lanes, lanes)
    begun = sch.get(sch.decompose_reduction(name, k0)).name
    *_, i1, jv, jl = sch.get_loops(begun)
    write_out(sch, (i1, jv), jl, lanes)
    *_, k1, i1, jv, jl = sch.get_loops(f"{name}_update")
    write_out(sch, (k1, i1, jv), jl, lanes)
    tiles = [i0, j0]
    if target.threads != 1 and (rows or 1) * columns * terms >= SHARED:
        counts = [e.value if isinstance(e := sch.get(t).extent, IntImm) else 1 for t in tiles]
        sch.parallel(tiles[counts.index(max(counts))])


def _is_step(block: Block) -> bool:
    """Whether a block makes one step after another, of blocks of its own."""
    kinds = [v.kind for v in block.iter_vars]
    return kinds == ["opaque"] and bool(_nested(block.body))


def _weight(block: Block) -> BufferLoad | None:
    """W[k, j] of a block that adds up products over rows, columns j and terms k."""
    factors = product_of(block)
    if factors is None or [v.kind for v in block.iter_vars] != ["spatial", "spatial", "reduce"]:
        return None
    wanted = [id(block.iter_vars[axis].var) for axis in (2, 1)]
    return next((w for w in factors if [id(i) for i in w.indices] == wanted), None)


def _nested(body: Stmt) -> list[Block]:
    """The blocks of plain loops in a block's body."""
    match body:
        case SeqStmt():
            return [b for s in body.stmts for b in _nested(s)]
        case For():
            return _nested(body.body)
        case BlockRealize():
            return [body.block]
    return []


def _named(sch: Schedule, name: str) -> Block:
    found = sch.get(sch.get_block(name))
    assert isinstance(found, Block)
    return found
