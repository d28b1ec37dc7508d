"""Winograd's convolutions: blocks of tiles, whose transforms stay in a core's cache.

The blocks of ``tensorir/operators/winograd.py`` become, with weights packed as
[outputs / panel][a][a][channels][panel],

    for n, y0                               blocks of tiles: rows of tiles of an image
      for t, c0                             tiles, vectors of channels
        for x: Z[:, x] = B^T X[:, x]        columns, by way of registers; Z stays in the first cache
        for i: V[i, :, t, c] = Z[i, :] B    rows
      for o0                                panels of outputs
        for i, j                            a * a matrix products
          for t0                            tiles of rows
            M_tile = 0                      registers
            for c0, c1:  M_tile[t1, ov, ol] += V[i, j, t, c] * Up[o0, i, j, c, ov, ol]
            M[i, j, t, o] = M_tile
        for t, ov                           tiles, vectors of outputs
          for j: R[:, j] = A^T M[:, j]      Y = E(A^T M A), like the inputs
          for p: Y[p, :] = E(R[p, :] A)

The values of a whole tile are more than there are registers, those of a column or a row are not. V
and M are as large as one block of tiles and one panel want them. The products are those of
``matmul``; sums over many channels are added up in blocks, see ``partial_sums``.

Where blocks small enough for the cache would fetch weights that are in no cache again and again,
the products come *first*, one after the other over a larger block: each weight is fetched once, in
the order it lies in, ahead of its use, and V and M go through a farther cache, once.

    for n, y0                               larger blocks of tiles
      V, as above
      for i, j                              a * a matrix products
        for o0                              panels of outputs, whose weights are asked for ahead
          for t0                            tiles of rows
            M[i, j, t, o] = the sum over c, as above; weights are [a][a][outputs / panel][...]
      for o0, t, ov                         vectors of outputs, tiles
        Y = E(A^T M A)
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from ...support.abi import LINE_BYTES, PAGE_BYTES
from ...support.errors import ScheduleValueError
from ...support.target import Target
from ...tensorir.arith.linear import offset_of
from ...tensorir.buffer import Buffer
from ...tensorir.expr import Expr, IntImm, Var
from ...tensorir.function import PrimFunc
from ...tensorir.operators.winograd import KERNEL, plan_blocks
from ...tensorir.operators.winograd import Blocks as TileBlocks
from ...tensorir.schedule import LoopRV, Schedule
from ...tensorir.stmt import Block
from ...tensorir.visitor import loads_in
from ..tiling.inline import inline_elementwise
from ..tiling.lanes import write_out
from ..tiling.panels import lay_out
from ..tiling.partial_sums import plan_blocks_of_steps
from ..tiling.register_tile import Instruction, RegisterTile, tile_parts
from ..tiling.sharing import ENOUGH_TILES, points_of, share, share_tiles
from ..tiling.tile_model import (
    STEPS,
    TALLEST_TILE,
    VECTORS,
    TileShape,
    cycles_of_rows,
    most_sums,
    operand_registers,
    rows_of_tile,
)
from ..tiling.tiles import divisor, steps_unrolled
from ..workload import (
    block_named,
    blocks_in_order,
    is_spatial,
    match_matmul,
    static_extent,
)
from .rule import Decide, Decisions, Rule, choice

PANELS_AHEAD = 2
"""Panels of weights that are asked for before they are read, where the products come first."""


@dataclass(frozen=True)
class Winograd:
    """The blocks by role, in order; ``pad`` may be empty. ``across`` tiles are in a row of tiles,
    of ``tile`` x ``tile`` outputs each; ``result`` takes the tiles apart."""

    pad: str
    rows: str
    input: str
    product: str
    columns: str
    output: str
    result: str
    tile: int
    w_read: int
    channels: int
    outputs: int


def match_winograd(func: PrimFunc) -> Winograd | None:
    """The one Winograd convolution of a function: a batch of a * a products, whose rows come out of
    a transform, and whose results go through one; else None."""
    blocks = blocks_in_order(func)
    found = [m for b in blocks if (m := match_matmul(b)) is not None]
    if len(found) != 1 or len(found[0].batch) != 2 or len(found[0].rows) != 1:
        return None
    (m,) = found
    product = block_named(func, m.block)
    size = static_extent(product, m.batch[0])
    channels, outputs = static_extent(product, m.reduce[0]), static_extent(product, m.columns[-1])
    if size is None or size <= KERNEL - 1 or size != static_extent(product, m.batch[1]):
        return None
    if channels is None or outputs is None or [*m.batch, *m.rows, *m.columns] != [0, 1, 2, 3]:
        return None
    given = _writer(blocks, m.x.buffer)
    sums = given and _writer(blocks, _only_read(given))
    columns = _reader(blocks, product)
    output = columns and _reader(blocks, columns)
    result = output and _reader(blocks, output)
    if not (given and sums and columns and output and result):
        return None
    tile = static_extent(columns, 0)
    shapes = [(sums, (size, size)), (given, (size, size)), (columns, (tile, size))]
    for block, front in (*shapes, (output, (tile, tile))):
        extents = tuple([static_extent(block, i) for i in range(len(block.iter_vars))])
        if not is_spatial(block) or len(extents) != 4 or extents[:2] != front:
            return None
    if tile is None or tile != size - KERNEL + 1:
        return None
    pad = _writer(blocks, _only_read(sums))
    return Winograd(
        pad.name if pad else "", sums.name, given.name, product.name, columns.name, output.name,
        result.name, tile, m.w_read, channels, outputs,
    )  # fmt: skip


def _only_read(block: Block) -> Buffer | None:
    buffers = {id(r.buffer): r.buffer for r in block.reads}
    return next(iter(buffers.values())) if len(buffers) == 1 else None


def _writer(blocks: list[Block], buffer: Buffer | None) -> Block | None:
    return next((b for b in blocks if any(w.buffer is buffer for w in b.writes)), None)


def _reader(blocks: list[Block], producer: Block) -> Block | None:
    """The one block that reads what another writes, or None."""
    written = producer.writes[0].buffer
    found = [b for b in blocks if b is not producer and any(r.buffer is written for r in b.reads)]
    return found[0] if len(found) == 1 else None


@dataclass(frozen=True)
class _Plan:
    """The decisions: ``together`` rows of ``across`` tiles are a block of tiles; ``tile`` is what
    is summed in registers; ``several`` blocks are shared among threads, else the panels of one.
    ``first`` says that the products come first, see the module."""

    together: int
    across: int
    several: bool
    first: bool
    tile: RegisterTile
    points: int
    group: int
    lanes: int
    """Elements of a vector of inputs."""


@dataclass(frozen=True)
class WinogradRoles:
    """The convolution of a function, as products of transformed tiles."""

    func: PrimFunc
    found: Winograd

    @property
    def product(self) -> Block:
        return block_named(self.func, self.found.product)

    @property
    def size(self) -> tuple[int | None, int, int]:
        """Images of the batch (None: any number), rows of tiles, tiles of a row."""
        result = block_named(self.func, self.found.result)
        batch = static_extent(result, 0)
        down, across = (_tiles(result, axis, self.found.tile) for axis in (1, 2))
        return batch, down, across

    def lanes(self, target: Target) -> int:
        """Channels of a vector."""
        return target.vector_lanes(self.product.writes[0].buffer.dtype)

    @property
    def group(self) -> int:
        """Terms of a sum that an instruction takes: pairs of int16."""
        return 2 if self.product.writes[0].buffer.dtype == "int32" else 1

    def together(self) -> tuple[int, ...]:
        """How many rows of tiles may be a block."""
        _, down, _ = self.size
        return tuple([d for d in range(1, down + 1) if down % d == 0])

    def best_blocks(self, target: Target) -> TileBlocks:
        """The blocks that the model suggests."""
        _, down, across = self.size
        found, size = self.found, self.product.reads[self.found.w_read].buffer.dtype.bits // 8
        sizes = (found.tile, found.channels, found.outputs)
        return plan_blocks(down, across, *sizes, target.l2_bytes, size)

    def blocks(self, together: int) -> tuple[int, int]:
        """Blocks (of an image, where their number is not known), and tiles of a block."""
        batch, down, across = self.size
        return (1 if batch is None else batch) * down // together, together * across

    def is_one_block(self, together: int) -> bool:
        """Whether all tiles are one block. Of several, what is left of a block's tiles could not be
        told from the next block's."""
        batch, down, _ = self.size
        return batch == 1 and down == together

    def vectors(self, target: Target) -> tuple[int, ...]:
        """The vectors that a tile may have: panels are whole."""
        lanes = self.lanes(target)
        return tuple([v for v in VECTORS if self.found.outputs % (v * lanes) == 0])

    def best_tile(self, together: int, target: Target) -> TileShape:
        """The tile of the products that the model suggests."""
        _, tiles = self.blocks(together)
        columns = self.found.outputs // self.lanes(target)
        return _best_tile(tiles, columns, self.is_one_block(together), target)

    def heights(self, together: int, vectors: int, target: Target) -> tuple[int, ...]:
        """The rows that a tile of so many vectors may have."""
        _, tiles = self.blocks(together)
        heights = rows_of_tile(tiles, vectors, target)
        return tuple([r for r in heights if self.is_one_block(together) or tiles % r == 0])


def _up_to(values: tuple[int, ...], wanted: int) -> int:
    return max([v for v in values if v <= wanted])


@dataclass(frozen=True)
class WinogradDecisions(Decisions):
    """``together`` rows of tiles are a block; the products of one come first, or those of a panel
    (``products_first``); they have tiles of ``rows`` x ``vectors``, and the steps of channels that
    are written out, at most."""

    together: int = choice(lambda w, t, d: w.together(), lambda w, t, d: w.best_blocks(t).together)
    products_first: int = choice(
        lambda w, t, d: (0, 1), lambda w, t, d: w.best_blocks(t).products_first
    )
    vectors: int = choice(
        lambda w, t, d: w.vectors(t),
        lambda w, t, d: _up_to(w.vectors(t), w.best_tile(d.together, t).vectors),
    )
    rows: int = choice(
        lambda w, t, d: w.heights(d.together, d.vectors, t),
        lambda w, t, d: _up_to(
            w.heights(d.together, d.vectors, t), w.best_tile(d.together, t).rows
        ),
    )
    unroll: int = choice(
        lambda w, t, d: STEPS, lambda w, t, d: steps_unrolled(t, d.rows * d.vectors)
    )


class WinogradRule(Rule[WinogradRoles, WinogradDecisions]):
    name = "winograd"
    kind = "one convolution by Winograd's algorithm"
    decisions = WinogradDecisions

    def match(self, func: PrimFunc, target: Target) -> WinogradRoles | None:
        found = match_winograd(func)
        if found is None:
            return None
        roles = WinogradRoles(func, found)
        lanes = roles.lanes(target)
        if found.outputs % lanes or found.channels % lanes:
            raise ScheduleValueError(
                "winograd",
                f"Expected channels that fill vectors of {lanes}, found {found.channels} and "
                f"{found.outputs}.",
            )
        return roles

    def prepare(self, sch: Schedule, roles: WinogradRoles) -> None:
        found = roles.found
        inner = (found.pad, found.rows, found.input, found.columns, found.output)
        keep = [block_named(sch.func, n).writes[0].buffer for n in inner if n]
        inline_elementwise(sch, keep=keep)

    def apply(
        self, sch: Schedule, roles: WinogradRoles, decisions: WinogradDecisions, decide: Decide
    ) -> None:
        schedule_winograd(sch, roles, decisions, decide.target)


def schedule_winograd(
    sch: Schedule, roles: WinogradRoles, decisions: WinogradDecisions, target: Target
) -> None:
    """Schedule the transforms, the products between them, and the block that pads."""
    found, plan = roles.found, _plan(roles, decisions, target)

    def packed(*indices: Var) -> tuple[Expr, ...]:
        i, j, o, c = indices
        inside: tuple[Expr, ...] = (c, o % plan.tile.width)
        if plan.group > 1:
            inside = (c // plan.group, o % plan.tile.width, c % plan.group)
        if plan.first:
            return (i, j, o // plan.tile.width, *inside)
        return (o // plan.tile.width, i, j, *inside)

    lay_out(sch, found.product, found.w_read, packed)
    scope = "register" if plan.tile.blocks is None else "global"
    taken = sch.cache_write(found.product, 0, scope).name
    block, panels, vector, row = _order_result(sch, found, plan)
    sch.set_scope(found.output, 0, "register")
    sch.compute_at(found.output, row)
    _by_rows(sch, found.output)
    sch.compute_at(found.columns, vector)
    _by_columns(sch, found.columns)
    for name in (taken, found.product):
        sch.compute_at(name, block if plan.first else panels, preserve_unit_loops=True)
    if plan.first:
        _spread(sch, (found.input, found.product))
        _panels_outside(sch, (found.product, taken), plan)
    # What is written in parts is no longer seen to be written whole: share loops first.
    if not plan.several:
        share(sch, target, [panels], plan.points)
    if plan.first and not plan.several:
        share(sch, target, sch.get_loops(found.product)[2:3], plan.points)
    _schedule_product(sch, found.product, taken, plan)
    tiles = _schedule_input(sch, found, block, plan)
    if plan.several:
        share_tiles(sch, target, sch.get_loops(found.result)[:2], plan.points)
    else:
        share(sch, target, [tiles], plan.points)
    if found.pad:
        _vectorize_pad(sch, found.pad, plan.lanes)


def _plan(roles: WinogradRoles, decisions: WinogradDecisions, target: Target) -> _Plan:
    found = roles.found
    _, _, across = roles.size
    blocks, _ = roles.blocks(decisions.together)
    unroll = divisor(found.channels, decisions.unroll)
    tile = RegisterTile(
        decisions.rows,
        (decisions.vectors, roles.lanes(target)),
        unroll,
        ahead=PANELS_AHEAD * found.channels // unroll if decisions.products_first else 0,
        blocks=plan_blocks_of_steps([found.channels], unroll),
    )
    group = roles.group
    if group > 1:
        intrinsic = f"dot_i16i16i32_{roles.lanes(target)}x{group}"
        instruction = Instruction(intrinsic, group)
        tile = replace(tile, unroll=1, ahead=0, blocks=None, instruction=instruction)
    return _Plan(
        decisions.together,
        across,
        blocks >= ENOUGH_TILES,
        bool(decisions.products_first),
        tile,
        points_of(roles.product),
        group,
        math.gcd(found.channels, roles.lanes(target) * group),
    )


def _best_tile(tiles: int, columns: int, rest: bool, target: Target) -> TileShape:
    """The tile of a product of ``tiles`` rows and ``columns`` vectors that takes the fewest cycles:
    whole panels, and without ``rest`` tiles of one height."""
    costs: dict[TileShape, float] = {}
    known = target.instructions
    spare = operand_registers(known)
    for vectors in range(1, 5):
        for rows in range(1, min(TALLEST_TILE, tiles) + 1):
            if columns % vectors or (tiles % rows and not rest):
                continue
            sums = rows * vectors
            if sums + vectors + spare > known.registers or sums > most_sums(known):
                continue
            steps = cycles_of_rows(tiles, rows, vectors, known.ports)
            costs[TileShape(rows, vectors)] = steps * (columns // vectors)
    return min(costs, key=lambda shape: costs[shape])


def _tiles(result: Block, axis: int, tile: int) -> int:
    extent = static_extent(result, axis)
    assert extent is not None
    return math.ceil(extent / tile)


def _order_result(sch: Schedule, found: Winograd, plan: _Plan) -> tuple[LoopRV, ...]:
    """Order the loops of the result as n, y0, o0, y1, x, ov, p, q, ol; those of y0, o0, ov, p."""
    n, p, q, o = sch.get_loops(found.result)
    y0, y1, p1 = sch.split(p, [None, plan.together, found.tile])
    x, q1 = sch.split(q, [None, found.tile])
    o0, ov, ol = sch.split(o, [None, *plan.tile.columns])
    sch.reorder(n, y0, o0, y1, x, ov, p1, q1, ol)
    write_out(sch, [q1], ol)
    return y0, o0, ov, p1


def _by_columns(sch: Schedule, name: str) -> None:
    """Run the first step of a transform column by column of a tile: the values of one are in
    registers."""
    *_, rows, columns, lane = sch.get_loops(name)
    sch.reorder(columns, rows, lane)
    write_out(sch, [rows], lane)


def _by_rows(sch: Schedule, name: str) -> None:
    """Run the second step row by row."""
    *_, columns, lane = sch.get_loops(name)
    write_out(sch, [columns], lane)


def _spread(sch: Schedule, blocks: tuple[str, ...]) -> None:
    """Put the a * a products that blocks write a line more than a multiple of a page apart: what a
    transform reads and writes of all of them shares no set."""
    for name in blocks:
        size = block_named(sch.func, name).writes[0].buffer.dtype.bits // 8
        sch.storage_align(name, 0, 1, PAGE_BYTES // size, LINE_BYTES // size)


def _panels_outside(sch: Schedule, blocks: tuple[str, ...], plan: _Plan) -> None:
    """Order the loops of products that come first as ..., i, j, o0, t, o1, c."""
    for name in blocks:
        loops = sch.get_loops(name)
        t, o, *rest = loops[4:]
        o0, o1 = sch.split(o, [None, plan.tile.width])
        sch.reorder(o0, t, o1, *rest)


def _schedule_product(sch: Schedule, product: str, taken: str, plan: _Plan) -> None:
    """Cut the tiles of a block into tiles of rows, which ``taken`` takes out of registers."""
    outer = len(sch.get_loops(product)) - 3
    tile_parts(sch, (product, taken), outer, plan.tile, is_panel=True)


def _schedule_input(sch: Schedule, found: Winograd, block: LoopRV, plan: _Plan) -> LoopRV:
    """Transform the inputs of a block of tiles, a vector of channels of a tile at a time; the loop
    over rows of tiles."""
    sch.compute_at(found.input, block, preserve_unit_loops=True)
    *_, i, j, t, c = sch.get_loops(found.input)
    y, x = sch.split(t, [plan.together, plan.across])
    c0, lane = sch.split(c, [None, plan.lanes])
    sch.reorder(y, x, c0, i, j, lane)
    sch.compute_at(found.rows, c0)
    _by_columns(sch, found.rows)
    _by_rows(sch, found.input)
    if found.pad:
        sch.compute_at(found.pad, block, preserve_unit_loops=True)
    return y


def _vectorize_pad(sch: Schedule, pad: str, lanes: int) -> None:
    """Copy the columns of the image, and fill those beside them, in loops of their own: no vector
    asks where it is."""
    block = block_named(sch.func, pad)
    (load,) = loads_in(block.body)
    width = load.buffer.shape[2]
    left = max(0, -offset_of(load.indices[2])[1])
    *_, columns, channel = sch.get_loops(pad)
    extent = sch.get(columns).extent
    _, lane = sch.split(channel, [None, lanes])
    sch.vectorize(lane)
    assert isinstance(width, IntImm)
    assert isinstance(extent, IntImm)
    cuts = [n for n in (left, width.value) if n]
    if left + width.value < extent.value:
        sch.loop_partition(columns, [*cuts, None])
    elif left:
        sch.loop_partition(columns, [left, None])
