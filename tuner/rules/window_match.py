"""Which blocks are windows: each result combines a window of pixels of its own channel.

    Y[n, p, q, c] = combine over kh, kw of X[n, p * s + kh, q * s + kw, c] (* W[c, 0, kh, kw])

with channels last: depthwise convolutions (with weights) and pooling (without).
"""

from __future__ import annotations

from dataclasses import dataclass

from ...support.node import walk
from ...tensorir.expr import BufferLoad, IntImm, Var
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


def match_window(func: PrimFunc) -> Window | None:
    """The one such block of a function, or None."""
    reductions = [b for b in blocks_in_order(func) if is_reduction(b)]
    return _match(func, reductions[0]) if len(reductions) == 1 else None


def _match(func: PrimFunc, block: Block) -> Window | None:
    kinds = [v.kind for v in block.iter_vars]
    spatial = [i for i, k in enumerate(kinds) if k == "spatial"]
    kernel = tuple([i for i, k in enumerate(kinds) if k == "reduce"])
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
    for p, k, index in zip(pixels, kernel, x.indices[1:-1], strict=True):
        used = {id(n) for n in walk(index) if isinstance(n, Var)}
        if id(variables[p]) not in used or not used <= {id(variables[p]), id(variables[k])}:
            return None
    if w is not None and not _is_filter(w, variables[channel], [variables[k] for k in kernel]):
        return None
    pad = next((b.name for b in blocks_in_order(func) if b.writes[0].buffer is x.buffer), "")
    return Window(block.name, batch, tuple(pixels), channel, kernel, x, w, pad)


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
