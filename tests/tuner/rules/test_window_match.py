"""What is a window, and what only looks like one."""

from __future__ import annotations

from typing import Any

from burnish.tensorir import operators as op
from burnish.tensorir.compute import create_prim_func, placeholder
from burnish.tensorir.function import PrimFunc
from burnish.tuner.rules.window_match import match_window

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
