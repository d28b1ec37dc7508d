"""Convolutions with channels last: a register tile of pixels of a row x vectors of output channels.

    for n, p, q, o, kh, kw, c:   Y[n, p, q, o] += X[n, p * s + kh, q * s + kw, c] * W[o, c, kh, kw]

becomes, with weights packed as [o / panel][kh][kw][c][panel],

    for n, p0                              rows of pixels, some together
      Xp = padded rows of X                where the convolution pads
      for p1, q0                           tiles of pixels
        for o0                             panels of channels
          Y_tile = 0                       registers
          for kh, kw, c0, c1               c1 unrolled
            Y_tile[q1, ov, ol] += X[...] * Wp[o0, kh, kw, c, ov, ol]
          E(Y_tile)                        the epilogue, from registers

or, where all weights are larger than a core's cache and the image is not, with the panels
outermost, so that each weight comes from memory once. This is a matrix product whose rows are
pixels: see ``matmul``; long sums are added up in blocks of steps: see ``partial_sums``. Georganas
et al., "Anatomy of High-Performance Deep Learning Convolutions on SIMD Architectures" (2018), is
where the loops come from.

Two channels of bfloat16 are one step, a dot product in each lane, on CPUs that are fast at these:
weights have them side by side, [o / panel][kh][kw][c / 2][panel][2], and sums are not cut into
blocks. Where the CPU has tile registers, 16 pixels x 16 channels are a block of a tile, and 64
bytes of channels a step (see ``tile_registers``). Elsewhere bfloat16 is read, widened, and
multiplied as float32 is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ...support.node import walk
from ...support.target import Target
from ...tensorir.expr import BufferLoad, Expr, IntImm, Var
from ...tensorir.function import PrimFunc
from ...tensorir.lowering.tile_nests import MOST
from ...tensorir.schedule import LoopRV, Schedule
from ...tensorir.stmt import Block
from ..tiling.borders import image_of, offset_of
from ..tiling.groups import group_size, panel_of, wants_groups_apart
from ..tiling.inline import inline_elementwise
from ..tiling.lanes import lanes_of, up_to_power
from ..tiling.panels import lay_out
from ..tiling.partial_sums import Blocks, plan_blocks_of_steps
from ..tiling.register_tile import Instruction, RegisterTile, tile_parts
from ..tiling.sharing import points_of, share
from ..tiling.tile_model import STEPS, TALLEST_TILE, VECTORS, TileShape, row_tile, rows_of_tile
from ..tiling.tile_registers import (
    TILE_VECTORS,
    TileProduct,
    best_shape,
    multiplies,
    shapes,
    tile_product_of,
)
from ..tiling.tiles import (
    CACHE_SHARE,
    bytes_of,
    consumer_or_copy,
    divisor,
    outlets,
    pad_columns,
    steps_unrolled,
)
from ..workload import block_named, blocks_in_order, product_of, static_extent
from .reduction import schedule_rest
from .rule import Decide, Decisions, Rule, choice

ROWS_TOGETHER = 8
"""Rows of pixels that are padded together."""


@dataclass(frozen=True)
class Convolution:
    """A block ``Y[n, spatial..., o] += X[n, windows..., c] * W[o, c, kernel...]``.

    Axes are positions in the block's iter vars. ``pixels`` are the spatial axes of the image,
    ``channel`` is o, ``kernel`` and ``depth`` are reduce axes; ``pad`` is the block that pads X,
    or empty. With groups X is read at channels ``o // each * own + c``; see ``groups``.
    """

    block: str
    batch: int
    pixels: tuple[int, ...]
    channel: int
    kernel: tuple[int, ...]
    depth: int
    x: BufferLoad
    w: BufferLoad
    w_read: int
    pad: str
    each: int | None = None
    """The output channels of a group; None where there is one group."""
    group: int | None = None
    """The axis of groups, in front of ``channel``, where they are apart."""


def match_conv(func: PrimFunc) -> Convolution | None:
    """The one convolution of a function, with channels last, or None."""
    found = [c for b in blocks_in_order(func) if (c := _match(func, b)) is not None]
    return found[0] if len(found) == 1 else None


def _match(func: PrimFunc, block: Block) -> Convolution | None:
    operands = product_of(block)
    if operands is None:
        return None
    x, w = operands
    axes = {id(v.var): i for i, v in enumerate(block.iter_vars)}
    kinds = [v.kind for v in block.iter_vars]
    count = len(w.indices) - 2
    if count < 1 or len(x.indices) != count + 2 or len(kinds) != 2 * count + 3:
        return None
    own = [axes.get(id(i)) for i in w.indices]
    channel, depth, *kernel = own
    if channel is None or depth is None or any(k is None for k in kernel):
        return None
    spatial = [i for i, k in enumerate(kinds) if k == "spatial"]
    if kinds[channel] != "spatial" or channel != spatial[-1] or len(spatial) != count + 2:
        return None
    batch, *pixels = spatial[:-1]
    if x.indices[0] is not block.iter_vars[batch].var:
        return None
    last = x.indices[-1] is block.iter_vars[depth].var
    first = x.indices[1] is block.iter_vars[depth].var
    each: int | None = None
    if not (last or first):
        c = block.iter_vars[depth]
        each = group_size(x.indices[-1], block.iter_vars[channel].var, c.var, c.dom.extent)
        if each is None:
            return None
    windows = x.indices[2:] if first else x.indices[1:-1]
    for p, k, index in zip(pixels, kernel, windows, strict=True):
        used = {id(n) for n in walk(index) if isinstance(n, Var)}
        assert k is not None
        if not used <= {id(block.iter_vars[p].var), id(block.iter_vars[k].var)}:
            return None
    pad = next((b.name for b in blocks_in_order(func) if b.writes[0].buffer is x.buffer), "")
    reads = [r.buffer for r in block.reads]
    at = next(i for i, b in enumerate(reads) if b is w.buffer)
    fixed = tuple([k for k in kernel if k is not None])
    return Convolution(block.name, batch, tuple(pixels), channel, fixed, depth, x, w, at, pad, each)


@dataclass(frozen=True)
class ConvRoles:
    """The convolution of a function."""

    func: PrimFunc
    conv: Convolution

    @property
    def block(self) -> Block:
        return block_named(self.func, self.conv.block)

    @property
    def width(self) -> int | None:
        """Pixels of a row."""
        return static_extent(self.block, self.conv.pixels[-1])

    def tile_product(self, target: Target) -> TileProduct | None:
        """The product of tile registers, None where the target has none for this convolution."""
        conv, block = self.conv, self.block
        x, w, total = str(conv.x.dtype), str(conv.w.dtype), str(block.writes[0].buffer.dtype)
        depth = static_extent(block, conv.depth)
        if (
            not multiplies(target, x, w, total)
            or conv.each is not None
            or conv.x.indices[-1] is not block.iter_vars[conv.depth].var
            or depth is None
        ):
            return None
        return tile_product_of(depth, conv.x.dtype.bits, whole=True)

    def _register_lanes(self, target: Target) -> int:
        return target.vector_lanes(self.block.writes[0].buffer.dtype)

    def apart(self, target: Target) -> bool:
        """Whether groups are an axis of their own."""
        each = self.conv.each
        return each is not None and wants_groups_apart(each, self._register_lanes(target))

    def lanes(self, target: Target) -> int:
        """Channels of a vector."""
        if self.tile_product(target) is not None:
            return MOST
        lanes, each = self._register_lanes(target), self.conv.each
        if each is None:
            return lanes
        return min(lanes, up_to_power(each)) if self.apart(target) else panel_of(each, lanes, 1)[0]

    def vectors(self, target: Target) -> tuple[int, ...]:
        """The vectors that a tile may have: panels end with a group."""
        each = self.conv.each
        if self.tile_product(target) is not None:
            return TILE_VECTORS
        if each is None or self.apart(target):
            return VECTORS
        lanes = self.lanes(target)
        return tuple([v for v in VECTORS if each % (v * lanes) == 0])

    def best_tile(self, target: Target) -> TileShape:
        """The tile that the model suggests."""
        columns = self.conv.each
        if columns is None:
            columns = static_extent(self.block, self.conv.channel)
        return row_tile(columns, self.width, self.lanes(target), target.instructions)

    def best_vectors(self, target: Target) -> int:
        """Those of the best tile, or as many fewer as a group takes."""
        if self.tile_product(target) is not None:
            return best_shape(self.width, static_extent(self.block, self.conv.channel))[1]
        wanted = self.best_tile(target).vectors
        return max([v for v in self.vectors(target) if v <= wanted])


def _best_pixels(roles: ConvRoles, vectors: int, target: Target) -> int:
    most = _pixels(roles, vectors, target)[-1]
    if roles.tile_product(target) is not None:
        channels = static_extent(roles.block, roles.conv.channel)
        return min(best_shape(roles.width, channels)[0], most)
    return min(roles.best_tile(target).rows, most)


def _pixels(roles: ConvRoles, vectors: int, target: Target) -> tuple[int, ...]:
    if roles.tile_product(target) is not None:
        return shapes(vectors)
    return rows_of_tile(roles.width or TALLEST_TILE, vectors, target)


@dataclass(frozen=True)
class ConvDecisions(Decisions):
    """A tile of ``pixels`` x ``vectors`` of channels; whether panels of weights are the outermost
    loop (``weights_first``); the steps of channels that are written out, at most."""

    vectors: int = choice(lambda c, t, d: c.vectors(t), lambda c, t, d: c.best_vectors(t))
    pixels: int = choice(
        lambda c, t, d: _pixels(c, d.vectors, t),
        lambda c, t, d: _best_pixels(c, d.vectors, t),
    )
    weights_first: int = choice(
        lambda c, t, d: (0, 1), lambda c, t, d: _weights_first(c.func, c.conv, t)
    )
    unroll: int = choice(
        lambda c, t, d: STEPS,
        lambda c, t, d: steps_unrolled(
            t, d.pixels * d.vectors, static_extent(c.block, c.conv.depth)
        ),
    )


class ConvRule(Rule[ConvRoles, ConvDecisions]):
    name = "conv"
    kind = "one convolution"
    decisions = ConvDecisions

    def match(self, func: PrimFunc, target: Target) -> ConvRoles | None:
        conv = match_conv(func)
        return None if conv is None else ConvRoles(func, conv)

    def prepare(self, sch: Schedule, roles: ConvRoles) -> None:
        inline_elementwise(sch, keep=(roles.conv.x.buffer, roles.conv.w.buffer))

    def apply(
        self, sch: Schedule, roles: ConvRoles, decisions: ConvDecisions, decide: Decide
    ) -> None:
        schedule_conv(sch, roles, decisions, decide.target)
        schedule_rest(sch, decide.target, decide)


def schedule_conv(
    sch: Schedule, roles: ConvRoles, decisions: ConvDecisions, target: Target
) -> None:
    """Tile the convolution, the block that pads for it, and the epilogue behind it."""
    conv, block = roles.conv, roles.block
    lanes, vectors = roles.lanes(target), decisions.vectors
    panel = vectors * lanes
    weights_first = bool(decisions.weights_first)
    unroll = _unroll(block, conv, decisions.unroll, target)
    blocks = _blocks(block, conv, unroll)
    tiles = roles.tile_product(target)
    grouped: Instruction | TileProduct | None = tiles
    if tiles is None and takes_pairs(block, conv, target):
        grouped = instruction_of(conv, lanes)
    if grouped is not None:
        blocks = None
    if blocks is None and tiles is None:
        stored = outlets(sch, conv.block)
    else:
        stored = (consumer_or_copy(sch, conv.block, "global"),)
    if roles.apart(target):
        conv = _groups_apart(sch, conv, stored)
    together = 1 if grouped is None else 32 // conv.x.dtype.bits
    _pack(sch, conv, panel, target, together)
    pad_columns(sch, conv.block, panel)
    tile = RegisterTile(
        decisions.pixels, (vectors, lanes), unroll, blocks=blocks, instruction=grouped
    )
    outer = _order(
        sch, conv, stored, panel, rows_together(block, conv.pixels), weights_first=weights_first
    )
    between = 0 if weights_first else 1
    parts = tile_parts(sch, (conv.block, *stored), outer, tile, between=between, is_panel=True)
    front = sch.get_loops(parts[0][0][1])[: outer + 1]
    is_near = bool(conv.pad) and not weights_first and len(conv.pixels) > 1
    if is_near:
        sch.compute_at(conv.pad, front[len(conv.pixels) - 1], preserve_unit_loops=True)
    share(sch, target, front, points_of(block))
    if conv.pad:
        vectorize_pad(sch, conv.pad, target, alone=not is_near)


def _blocks(block: Block, conv: Convolution, unroll: int) -> Blocks | None:
    """The blocks of steps whose sums are added up; None where one is all, or sums are exact."""
    if not block.writes[0].buffer.dtype.is_float:
        return None
    extents = [static_extent(block, i) for i in (*conv.kernel, conv.depth)]
    return plan_blocks_of_steps(extents, unroll)


def _unroll(block: Block, conv: Convolution, wanted: int, target: Target) -> int:
    """Steps of channels that are written out: all of the few of a first layer, unless operands must
    be loaded, and those of several steps would spill. Not a row of the window: neighbouring pixels
    share its elements, which are then kept, in the sums' registers."""
    depth = static_extent(block, conv.depth)
    fits = target.instructions.reads_memory and depth is not None and depth <= wanted
    return depth if fits and depth is not None else divisor(depth, wanted)


def rows_together(block: Block, pixels: tuple[int, ...]) -> int:
    """How many rows of pixels are padded together: a divisor of them."""
    if len(pixels) < 2:
        return 1
    rows = static_extent(block, pixels[-2])
    if rows is None:
        return 1
    return max(d for d in range(1, ROWS_TOGETHER + 1) if rows % d == 0)


def _weights_first(func: PrimFunc, conv: Convolution, target: Target) -> bool:
    """Whether panels of weights are the outermost loop: the image stays in a core's cache, and all
    weights would not."""
    image, weights = bytes_of(conv.x), bytes_of(conv.w)
    if image is None or weights is None:
        return False
    limit = CACHE_SHARE * target.l2_bytes
    return weights > limit and image < weights


def _groups_apart(sch: Schedule, conv: Convolution, stored: tuple[str, ...]) -> Convolution:
    """Make the groups an axis of their own, of the convolution and of its outlets: each group is
    padded to whole panels then."""
    each = conv.each
    assert each is not None

    def split_last(*indices: Var) -> tuple[Expr, ...]:
        *front, o = indices
        return (*front, o // each, o % each)

    def split_channel(*indices: Var) -> tuple[Expr, ...]:
        front, o, rest = indices[: conv.channel], indices[conv.channel], indices[conv.channel + 1 :]
        return (*front, o // each, o % each, *rest)

    sch.transform_block_layout(conv.block, split_channel)
    for name in stored:
        sch.transform_block_layout(name, split_last)
    for name in (conv.block, *stored[:-1]):
        sch.transform_layout(name, ("write", 0), split_last)
    later = {k: v + (v > conv.channel) for k, v in enumerate((*conv.kernel, conv.depth))}
    *kernel, depth = later.values()
    return replace(
        conv, channel=conv.channel + 1, group=conv.channel, kernel=tuple(kernel), depth=depth
    )


def takes_pairs(block: Block, conv: Convolution, target: Target) -> bool:
    """Whether the products are those of pairs of channels in bfloat16, by an instruction that does
    more of them a cycle than multiply-adds."""
    x, w = conv.x, conv.w
    depth = static_extent(block, conv.depth)
    return (
        target.instructions.has_fast_pairs
        and conv.each is None
        and x.dtype == w.dtype == "bfloat16"
        and block.writes[0].buffer.dtype == "float32"
        and x.indices[-1] is block.iter_vars[conv.depth].var
        and depth is not None
        and depth % 2 == 0
    )


def instruction_of(conv: Convolution, lanes: int) -> Instruction:
    """The dot products of pairs, for a vector of sums."""
    return Instruction(f"dot_bf16bf16f32_{lanes}x2", 2)


def _pack(sch: Schedule, conv: Convolution, panel: int, target: Target, together: int) -> None:
    """Give the weights the layout of panels: their own where that is free, else a copy's. So many
    channels lie ``together``, those of one output."""

    def packed(*indices: Var) -> tuple[Expr, ...]:
        *group, o, c = indices[: -len(conv.kernel)]
        front = (*group, o // panel, *indices[-len(conv.kernel) :])
        if together == 1:
            return (*front, c, o % panel)
        return (*front, c // together, o % panel, c % together)

    def by_groups(*indices: Var) -> tuple[Expr, ...]:
        o, *rest = indices
        assert conv.each is not None
        return (o // conv.each, o % conv.each, *rest)

    maps = (packed,) if conv.group is None else (by_groups, packed)
    copy = lay_out(sch, conv.block, conv.w_read, *maps)
    if copy is None:
        return
    lanes = lanes_of(target, sch.get(copy))
    *_, inside = sch.get_loops(copy)
    extent = sch.get(inside).extent
    if isinstance(extent, IntImm) and extent.value % lanes == 0:
        _, lane = sch.split(inside, [None, lanes])
        sch.vectorize(lane)


def _order(
    sch: Schedule,
    conv: Convolution,
    stored: tuple[str, ...],
    panel: int,
    together: int,
    *,
    weights_first: bool,
) -> int:
    """Order the loops of product and epilogue; the number of loops in front of a row's pixels.

    Panels outside: o0, n, rows..., q, o1, kernel, c. Else: n, rows..., q, o0, o1, kernel, c.
    """
    for name in (conv.block, *stored):
        loops = sch.get_loops(name)
        if name != conv.block:
            *spatial, channel = loops
            group = None if conv.group is None else spatial.pop()
        else:
            channel = loops[conv.channel]
            group = None if conv.group is None else loops[conv.group]
            spatial = [loops[i] for i in (conv.batch, *conv.pixels)]
        o0, o1 = sch.split(channel, [None, panel])
        if group is not None:
            sch.reorder(group, o0)
            o0 = sch.fuse(group, o0)
        *rows, q = spatial
        if len(rows) > 1:
            p0, p1 = sch.split(rows[-1], [None, together])
            rows = [*rows[:-1], p0, p1]
        inner = [loops[i] for i in (*conv.kernel, conv.depth)] if name == conv.block else []
        if weights_first:
            sch.reorder(o0, *rows, q, o1, *inner)
        else:
            sch.reorder(*rows, q, o0, o1, *inner)
    return len(rows) + int(weights_first)


def vectorize_pad(sch: Schedule, pad: str, target: Target, *, alone: bool) -> None:
    """Vectorise the block that pads, and share it where it has a nest of its own.

    The innermost axis with padding is cut into what stands before the image, in it, and behind, so
    that no vector asks where it is.
    """
    block = sch.get(sch.get_block(pad))
    *loops, last = sch.get_loops(pad)
    lanes = lanes_of(target, block)
    axis, cuts = _borders(sch, block, [*loops, last])
    innermost = axis == len(block.iter_vars) - 1
    place = len(loops) + axis - (len(block.iter_vars) - 1)
    if alone:
        # What is written in parts is no longer seen to be written whole: share loops first, but
        # for the one that is cut.
        share(sch, target, loops[:place] if cuts else loops, points_of(block))
    if not innermost:
        _vectorize(sch, last, lanes)
    at = [*loops, last][place]
    parts = sch.loop_partition(at, [*cuts, None]) if cuts else [at]
    if innermost:
        for part in parts:
            _vectorize(sch, part, lanes)


def _vectorize(sch: Schedule, loop: LoopRV, lanes: int) -> None:
    extent = sch.get(loop).extent
    if isinstance(extent, IntImm) and extent.value > 1:
        _, lane = sch.split(loop, [None, min(lanes, up_to_power(extent.value))])
        sch.vectorize(lane)


def _borders(sch: Schedule, pad: Block, loops: Sequence[LoopRV]) -> tuple[int, list[int]]:
    """The innermost axis of a block along which it pads, and the extents of all parts but the last
    that its loop is cut into; the last axis and none where there is nothing to cut."""
    image = image_of(pad)
    count = len(pad.iter_vars)
    for axis in reversed(range(1, count)):
        before = offset_of(pad, image, axis) if image is not None else None
        extent = sch.get(loops[axis - count]).extent
        size = image.buffer.shape[axis] if image is not None else None
        if before is None or not isinstance(extent, IntImm) or not isinstance(size, IntImm):
            break
        inside = min(size.value, extent.value - before)
        if before < 0 or inside <= 0:
            break
        if before or before + inside < extent.value:
            cuts = [n for n in (before, inside) if n]
            return axis, cuts[: 2 if before + inside < extent.value else len(cuts) - 1]
    return count - 1, []
