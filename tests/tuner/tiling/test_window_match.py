"""What is a window, and what only looks like one."""

from __future__ import annotations

from typing import Any

from burnish.tensorir import operators as op
from burnish.tensorir.function import PrimFunc
from burnish.tensorir.te.compute import create_prim_func, placeholder
from burnish.tuner.tiling.window_match import match_row_window, match_window

CONV: dict[str, Any] = {"strides": [1, 1], "padding": [1] * 4, "dilation": [1, 1]}


def convolution(groups: int, *, last: bool = True, own: int = 1) -> PrimFunc:
    shape = (1, 8, 8, groups * own) if last else (1, groups * own, 8, 8)
    x, w = placeholder(shape, name="x"), placeholder((groups * own, own, 3, 3), name="w")
    y = op.conv(x, w, groups=groups, channels_last=last, **CONV)
    return create_prim_func([x, w, y])


def test_a_depthwise_convolution_has_weights_and_a_pad() -> None:
    window = match_window(convolution(16))
    assert window is not None
    assert (window.block, window.pad) == ("conv", "conv_pad")
    assert (window.batch, window.pixels, window.channel) == (0, (1, 2), 3)
    assert window.w is not None
    assert window.w.buffer.name == "w"


def test_pooling_has_none() -> None:
    x = placeholder((1, 8, 8, 16), name="x")
    y = op.max_pool(
        x, kernel=[2, 2], strides=[2, 2], padding=[0] * 4, dilation=[1, 1], channels_last=True,
        ceil_mode=False,
    )  # fmt: skip
    window = match_window(create_prim_func([x, y]))
    assert window is not None
    assert window.w is None
    assert window.pad == ""


def test_sums_over_channels_are_none() -> None:
    assert match_window(convolution(4, own=4)) is None
    assert match_window(convolution(1, own=8)) is None
    assert match_window(convolution(16, last=False)) is None


def pool(shape: tuple[int, ...], *, last: bool = False, stride: int = 2, pad: int = 0) -> PrimFunc:
    n = len(shape) - 2
    x = placeholder(shape, name="x")
    y = op.max_pool(
        x, kernel=[2] * n, strides=[stride] * n, padding=[pad] * (2 * n), dilation=[1] * n,
        channels_last=last,
    )  # fmt: skip
    return create_prim_func([x, y])


def test_windows_of_rows() -> None:
    window = match_row_window(pool((1, 16, 8, 8), pad=1))
    assert window is not None
    assert (window.block, window.pad) == ("max_pool", "max_pool_pad")
    assert window.x.buffer.name == "max_pool_pad"
    assert (window.lead, window.pixels, window.kernel) == ((0, 1), (2, 3), (4, 5))
    window = match_row_window(pool((1, 16, 8)))
    assert window is not None
    assert (window.lead, window.pixels, window.kernel, window.pad) == ((0, 1), (2,), (3,), "")


def test_what_is_no_window_of_rows() -> None:
    assert match_row_window(pool((1, 8, 8, 16), last=True)) is None
    assert match_row_window(pool((1, 16, 2, 2))) is None  # a reduction of the image
    assert match_row_window(convolution(16, last=False)) is None  # has weights
    x = placeholder((4, 8, 8), name="x")
    assert match_row_window(create_prim_func([x, op.sum(x, axis=[2])])) is None
