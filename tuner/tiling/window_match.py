"""Which blocks are windows: each result combines a window of pixels of its own channel.

    Y[n, p, q, c] = combine over kh, kw of X[n, p * s + kh, q * s + kw, c] (* W[c, 0, kh, kw])

with channels last: depthwise convolutions (with weights) and pooling (without). With channels
first, pooling alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...support.node import walk
from ...tensorir.expr import BufferLoad, Expr, IntImm, Var
from ...tensorir.function import PrimFunc
from ...tensorir.stmt import Block, BufferStore
from ..workload import blocks_in_order, is_reduction, product_of


@dataclass(frozen=True)
class Window:
    """A block that combines windows of pixels channel by channel; positions in its iter vars.

    ``x`` is the image's load, ``w`` the weights' (None for pooling), ``pad`` the block that makes
    the image, or empty.
    """

    block: str
    batch: int
    pixels: tuple[int, ...]
    channel: int
    kernel: tuple[int, ...]
    x: BufferLoad
    w: BufferLoad | None
    pad: str

    @property
    def lead(self) -> tuple[int, ...]:
        """The axes before the pixels."""
        return (self.batch,)


@dataclass(frozen=True)
class RowWindow:
    """A block that combines windows of an image whose last axes are pixels; positions in its iter
    vars. ``lead`` are the axes before the pixels, ``x`` the image's load, ``pad`` the block that
    makes the image, or empty.
    """

    block: str
    lead: tuple[int, ...]
    pixels: tuple[int, ...]
    kernel: tuple[int, ...]
    x: BufferLoad
    pad: str


def match_row_window(func: PrimFunc) -> RowWindow | None:
    """The one window over the last axes of an image, or None."""
    reductions = [b for b in blocks_in_order(func) if is_reduction(b)]
    return _match_rows(func, reductions[0]) if len(reductions) == 1 else None


def _match_rows(func: PrimFunc, block: Block) -> RowWindow | None:
    spatial, kernel = _axes(block)
    if not kernel or len(spatial) < len(kernel) or not isinstance(block.body, BufferStore):
        return None
    found = _operands(block)
    if found is None or found[1] is not None:
        return None
    x, variables = found[0], [v.var for v in block.iter_vars]
    count = len(spatial) - len(kernel)
    lead, pixels = spatial[:count], spatial[count:]
    plain = [*block.body.indices, *x.indices[:count]]
    if len(x.indices) != len(spatial) or len(plain) != len(spatial) + count:
        return None
    if any(i is not variables[s] for i, s in zip(plain, (*spatial, *lead), strict=True)):
        return None
    if not _are_pixels(x.indices[count:], variables, pixels, kernel):
        return None
    return RowWindow(block.name, lead, pixels, kernel, x, _maker(func, x))


def match_window(func: PrimFunc) -> Window | None:
    """The one such block of a function, or None."""
    reductions = [b for b in blocks_in_order(func) if is_reduction(b)]
    return _match(func, reductions[0]) if len(reductions) == 1 else None


def _match(func: PrimFunc, block: Block) -> Window | None:
    spatial, kernel = _axes(block)
    if len(spatial) < 3 or len(kernel) != len(spatial) - 2:
        return None
    if not isinstance(block.body, BufferStore):
        return None
    batch, *pixels, channel = spatial
    found = _operands(block)
    if found is None:
        return None
    x, w = found
    variables = [v.var for v in block.iter_vars]
    if len(x.indices) != len(spatial) or x.indices[0] is not variables[batch]:
        return None
    if x.indices[-1] is not variables[channel]:
        return None
    if not _are_pixels(x.indices[1:-1], variables, pixels, kernel):
        return None
    if w is not None and not _is_filter(w, variables[channel], [variables[k] for k in kernel]):
        return None
    return Window(block.name, batch, tuple(pixels), channel, kernel, x, w, _maker(func, x))


def _axes(block: Block) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The positions of the spatial and of the reduce axes."""
    kinds = [v.kind for v in block.iter_vars]
    spatial = tuple([i for i, k in enumerate(kinds) if k == "spatial"])
    return spatial, tuple([i for i, k in enumerate(kinds) if k == "reduce"])


def _are_pixels(
    indices: Sequence[Expr], variables: list[Var], pixels: Sequence[int], kernel: Sequence[int]
) -> bool:
    """Whether each index is made of a pixel's axis and, perhaps, that of its window's steps."""
    for p, k, index in zip(pixels, kernel, indices, strict=True):
        used = {id(n) for n in walk(index) if isinstance(n, Var)}
        if id(variables[p]) not in used or not used <= {id(variables[p]), id(variables[k])}:
            return False
    return True


def _maker(func: PrimFunc, x: BufferLoad) -> str:
    """The block that makes what a load reads, or empty."""
    return next((b.name for b in blocks_in_order(func) if b.writes[0].buffer is x.buffer), "")


def _operands(block: Block) -> tuple[BufferLoad, BufferLoad | None] | None:
    product = product_of(block)
    if product is not None:
        return product
    store = block.body
    assert isinstance(store, BufferStore)
    loads = [
        n for n in walk(store.value) if isinstance(n, BufferLoad) and n.buffer is not store.buffer
    ]
    return (loads[0], None) if len(loads) == 1 else None


def _is_filter(w: BufferLoad, channel: Var, kernel: list[Var]) -> bool:
    """Whether weights are indexed [channel, 0, kernel...]."""
    c, one, *steps = w.indices if len(w.indices) > 2 else (None, None)
    return (
        c is channel
        and isinstance(one, IntImm)
        and len(steps) == len(kernel)
        and all(a is b or isinstance(a, IntImm) for a, b in zip(steps, kernel, strict=True))
    )
