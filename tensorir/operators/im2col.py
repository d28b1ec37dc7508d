"""What the windows of a convolution read, as rows: it is their product with the weight as a matrix
(K. Chellapilla, S. Puri, P. Simard, "High performance convolutional neural networks for document
processing", 2006). Channels are last, so that a place of a window is a run."""

from __future__ import annotations

from collections.abc import Sequence

from ...support.errors import ComputeError
from ..expr import INDEX, BufferLoad, Expr, IntImm, Var
from ..te import compute as te
from ..te.compute import Tensor
from .window import arranged, check_window, pad_spatial, parts_of, window_extent


def im2col(
    x: Tensor,
    *,
    kernel: Sequence[int],
    strides: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    pad_value: float = 0.0,
) -> Tensor:
    """The windows of ``x`` (batch, pixels..., channels): (batch, windows..., kernel..., channels).

    ``kernel``, ``strides`` and ``dilation`` have an int a spatial dim, ``padding`` two, of
    ``pad_value``. Raises ComputeError for ranks that do not fit.
    """
    count = x.ndim - 2
    check_window("im2col", count, strides, padding, dilation)
    if len(kernel) != count:
        raise ComputeError(f"im2col: expected {count} sizes of the kernel, found {list(kernel)}.")
    batch, channels, spatial = parts_of(x.shape, last=True)
    padded = pad_spatial(x, padding, pad_value, "im2col_pad", last=True)
    extents = [
        window_extent(s, IntImm(k, INDEX), stride, padding[2 * d], padding[2 * d + 1], dil)
        for d, (s, k, stride, dil) in enumerate(
            zip(spatial, kernel, strides, dilation, strict=True)
        )
    ]

    def element(*indices: Var) -> Expr:
        n, c = indices[0], indices[-1]
        at, steps = indices[1 : count + 1], indices[count + 1 : -1]
        place = [i * s + k * d for i, s, k, d in zip(at, strides, steps, dilation, strict=True)]
        return BufferLoad(padded, arranged(n, c, place, last=True))

    return te.compute((batch, *extents, *kernel, channels), element, "im2col")
