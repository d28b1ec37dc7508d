"""SelectWinograd: convolutions that are faster as Winograd's, by an estimate of their cycles.

F(4, 3) needs a quarter of the products, F(2, 3) four ninths, but they transform inputs and outputs,
and their weights are 4 and 1.8 times as large: where few pixels share a weight, it takes longer to
fetch the weights than what is gained. Weights are transformed here, in float64, rounded once. What
this does to the error is told, and bounded, in ``tensorir/operators/winograd.py``; who wants the
error of direct convolution leaves the pass out (``precision="strict"``).

A dilated convolution is one without dilation of each phase of the pixels: with a dilation of d rows
and columns that are equal modulo d become an image of their own, and afterwards go back. Where d
does not divide the image and its padding, zeros make it so, and what they add to the result is cut
off.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial

from ...support.passes import Pass
from ...support.target import Target
from ...tensorir.operators.winograd import (
    FARTHER,
    KERNEL,
    SIZES,
    plan_blocks,
    transform_weight,
)
from ..dim import static_shape, static_value
from ..expr import Atom, Call, Constant, Identity, ShapeExpr, Value, Var
from ..module import IRModule
from ..mutator import ExprMutator
from ..op import attr, reshaped, tensor_type_of, type_of
from ..type import TensorType, Type

FEWEST_CHANNELS = 32
"""Inputs and outputs of a convolution below which nothing is gained."""
GAIN = 1.2
"""How much faster the estimate has to be."""
FMAS_A_CYCLE = 2
DIRECT_SHARE, PRODUCT_SHARE = 0.7, 0.65
"""The parts of the peak that kernels of direct convolution and of the products come to."""
HIDDEN = 0.5
"""The part of the shorter time, of products and of fetching, that passes during the other where
weights are asked for ahead."""
TRANSFORM_CYCLES = {2: 150, 4: 330}
"""Cycles for the transform of a vector of tiles, of inputs or of outputs."""
CACHED = 0.75
"""The part of the cache that weights may take to stay in it."""


@dataclass(frozen=True)
class Shape:
    """What a convolution's cost depends on: outputs are ``rows`` x ``columns`` pixels of ``batch``
    images. Of a dilated convolution they are what its phases are, and ``moved`` the elements that
    go to phases and back."""

    batch: int
    rows: int
    columns: int
    channels: int
    outputs: int
    moved: int = 0

    @property
    def pixels(self) -> int:
        return self.batch * self.rows * self.columns


@dataclass(frozen=True)
class Axis:
    """One axis of pixels: zeros that are put ``before`` and ``behind`` the image so that the
    dilation divides it, and the ``padding`` and the ``results`` of each of its phases."""

    before: int
    behind: int
    padding: tuple[int, int]
    results: int

    @staticmethod
    def of(size: int, padding: Sequence[int], step: int) -> Axis:
        first, last = padding
        before = first % step
        behind = -(size + before) % step
        inner = first // step, max(0, -(-(last - behind) // step))
        pixels = (before + size + behind) // step
        return Axis(before, behind, inner, pixels + sum(inner) - KERNEL + 1)


@dataclass(frozen=True)
class SelectWinograd(Pass):
    """Replace ``conv`` by ``winograd_conv`` where an estimate says that it is faster: float32,
    kernels of 3 x 3, strides of 1, one group, channels last, constant weights, static sizes (of any
    number of images: by the estimate for one), any dilation.

    ``target`` tells how wide vectors are, what caches hold, and how fast bytes come.
    *requires*: channels-last. *ensures*: what is replaced is faster by ``GAIN`` at least, as far as
    the estimate knows.

        y = R.conv(x, w, strides=[1, 1], padding=[1, 1, 1, 1], ..., channels_last=True)
    becomes
        y = R.winograd_conv(x, u, padding=[1, 1, 1, 1], tile=4)     # u: (6, 6, 64, 64)
    """

    target: str = "llvm -mcpu=x86-64-v3"

    @cached_property
    def _target(self) -> Target:
        return Target(self.target)

    def run(self, module: IRModule) -> IRModule:
        return _Selector(module, self).transform()

    def tile(self, shape: Shape) -> int | None:
        """The m of F(m, 3) for a convolution, or None where direct convolution is the choice."""
        lanes = self._target.vector_lanes("float32")
        few = min(shape.channels, shape.outputs) < FEWEST_CHANNELS
        if few or shape.channels % lanes or shape.outputs % lanes:
            return None
        costs = {m: self.winograd_cycles(shape, m) for m in SIZES}
        best = min(costs, key=lambda m: costs[m])
        return best if costs[best] * GAIN <= self.direct_cycles(shape) else None

    def direct_cycles(self, shape: Shape) -> float:
        """The estimate for direct convolution."""
        weights = KERNEL * KERNEL * shape.channels * shape.outputs
        products = shape.pixels * weights / self._products_a_cycle(DIRECT_SHARE)
        return products + self._fetching(weights * 4, 1)

    def winograd_cycles(self, shape: Shape, m: int) -> float:
        """The estimate for F(m, 3)."""
        down, across = math.ceil(shape.rows / m), math.ceil(shape.columns / m)
        tiles = shape.batch * down * across
        weights = (m + KERNEL - 1) ** 2 * shape.channels * shape.outputs
        products = tiles * weights / self._products_a_cycle(PRODUCT_SHARE)
        values = tiles * (shape.channels + shape.outputs)
        target = self._target
        plan = plan_blocks(down, across, m, shape.channels, shape.outputs, target.l2_bytes)
        blocks = shape.batch * down // plan.together
        fetching = self._fetching(weights * 4, blocks)
        transforms = values / target.vector_lanes("float32") * TRANSFORM_CYCLES[m]
        transforms += self._moving(4 * shape.moved, FARTHER * target.l2_bytes)
        if not plan.products_first:
            return products + transforms + fetching
        # Weights are asked for ahead, while others are multiplied.
        moved = 4 * (m + KERNEL - 1) ** 2 * values
        work = products + fetching - HIDDEN * min(products, fetching)
        return work + transforms + self._moving(moved, moved / blocks)

    def _products_a_cycle(self, share: float) -> float:
        return FMAS_A_CYCLE * self._target.vector_lanes("float32") * share

    def _fetching(self, size: int, times: int) -> float:
        """Cycles to fetch weights so many times; once they are small enough, they stay. All of a
        model's are more than caches hold."""
        if size <= CACHED * self._target.l2_bytes:
            return 0.0
        return times * size / self._target.memory.one_core[-1]

    def _moving(self, size: float, together: float) -> float:
        """Cycles to write bytes and to read them, so many ``together``."""
        return 2 * size / self._target.memory.bytes_a_cycle(together)


class _Selector(ExprMutator):
    def __init__(self, module: IRModule, options: SelectWinograd) -> None:
        super().__init__(module)
        self.options = options
        self.made: dict[tuple[Identity, int], Constant] = {}

    def visit_Call(self, call: Call) -> Value:  # noqa: N802
        new = super().visit_Call(call)
        assert isinstance(new, Call)
        shape = _shape_of(new)
        tile = None if shape is None else self.options.tile(shape)
        if tile is None:
            return new
        x, w, *bias = new.args
        assert isinstance(w, Constant)
        steps = attr(new, "dilation")
        axes = _axes_of(new)
        attrs = (("padding", tuple([p for a in axes for p in a.padding])), ("tile", tile))
        args = (self.phases(self.padded(x, axes), steps), self.transformed(w, tile), *bias)
        made = Call("winograd_conv", args, attrs).with_span(new.span)
        if all(d == 1 for d in steps):
            return made
        return self.cut(self.together(self.emit(made), steps), type_of(new))

    def padded(self, x: Atom, axes: Sequence[Axis]) -> Atom:
        """An image with the zeros that the axes ask for."""
        widths = (0, 0, *[n for a in axes for n in (a.before, a.behind)], 0, 0)
        if not any(widths):
            return x
        return self.emit(Call("pad", (x,), (("pad_width", widths), ("pad_value", 0.0))))

    def cut(self, whole: Call, wanted: Type) -> Value:
        """The rows and columns that a convolution has, of the image made of its phases."""
        assert isinstance(wanted, TensorType)
        sizes = static_shape(wanted.shape[1:])
        assert sizes is not None
        dims = whole.args[1]
        assert isinstance(dims, ShapeExpr)
        if static_shape(dims.values[1:]) == sizes:
            return whole
        attrs = (("axes", (1, 2)), ("begin", (0, 0)), ("end", sizes[:2]), ("strides", (1, 1)))
        return Call("strided_slice", (self.emit(whole),), attrs)

    def phases(self, x: Atom, steps: Sequence[int]) -> Atom:
        """An image as a batch of those that a dilation makes of it."""
        down, across = steps
        if down == across == 1:
            return x
        kind = tensor_type_of(x)
        batch, rows, columns, channels = kind.shape
        cut = (batch, rows // down, down, columns // across, across, channels)
        apart = self.emit(
            Call("permute_dims", (self.emit(reshaped(x, cut)),), (("axes", (0, 2, 4, 1, 3, 5)),))
        )
        whole = (batch * (down * across), *cut[1:4:2], channels)
        return self.emit(reshaped(apart, whole), "phases")

    def together(self, x: Var, steps: Sequence[int]) -> Call:
        """The image of a batch of its phases."""
        kind = tensor_type_of(x)
        down, across = steps
        batch, rows, columns, channels = kind.shape
        images = batch // (down * across)
        cut = self.emit(reshaped(x, (images, down, across, rows, columns, channels)))
        joined = self.emit(Call("permute_dims", (cut,), (("axes", (0, 3, 1, 4, 2, 5)),)))
        return reshaped(joined, (images, rows * down, columns * across, channels))

    def transformed(self, w: Constant, tile: int) -> Constant:
        key = (w.identity, tile)
        if key not in self.made:
            transform = partial(transform_weight, m=tile)
            self.made[key] = self.derive("winograd", transform, w).with_span(w.span)
        return self.made[key]


def _shape_of(call: Call) -> Shape | None:
    """The sizes of a convolution that can be Winograd's; None for any other call."""
    if call.op != "conv" or not attr(call, "channels_last"):
        return None
    if attr(call, "out_channels_last") not in (None, True) or attr(call, "groups") != 1:
        return None
    x, w = type_of(call.args[0]), type_of(call.args[1])
    out = type_of(call)
    assert isinstance(x, TensorType)
    assert isinstance(w, TensorType)
    assert isinstance(out, TensorType)
    if x.dtype != "float32" or not isinstance(call.args[1], Constant):
        return None
    if static_shape(w.shape[2:]) != (KERNEL, KERNEL):
        return None
    if any(v != 1 for v in attr(call, "strides")):
        return None
    sizes = static_shape(out.shape[1:])
    own = static_shape(x.shape[1:])
    known = static_value(x.shape[0])
    if sizes is None or own is None or 0 in (known, *sizes):
        return None
    batch = 1 if known is None else known
    rows, columns, outputs = sizes
    down, across = attr(call, "dilation")
    if down == across == 1:
        return Shape(batch, rows, columns, own[2], outputs)
    moved = batch * (math.prod(own) + math.prod(sizes))
    rows, columns = (a.results for a in _axes_of(call))
    return Shape(batch * down * across, rows, columns, own[2], outputs, moved)


def _axes_of(call: Call) -> list[Axis]:
    """The axes of pixels of a convolution."""
    kind, padding = tensor_type_of(call.args[0]), attr(call, "padding")
    sizes = static_shape(kind.shape[1:])
    assert sizes is not None
    steps = attr(call, "dilation")
    return [Axis.of(sizes[d], padding[2 * d : 2 * d + 2], steps[d]) for d in (0, 1)]
