"""Depthwise convolutions and pooling with channels last."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from burnish.tensorir import operators as op
from burnish.tensorir.te.compute import create_prim_func, placeholder
from burnish.tests.graphir import window_reference
from burnish.tests.tuner.rules.checking import (
    SKYLAKE,
    Shape,
    Workload,
    assembly_of,
    check_rule,
    scheduled,
)


def depthwise(
    x: Shape, kernel: tuple[int, ...], *, stride: int = 1, pad: int = 0, dilation: int = 1
) -> Workload:
    n, channels = len(x) - 2, int(x[-1])
    options: dict[str, Any] = {
        "strides": [stride] * n,
        "padding": [pad] * (2 * n),
        "dilation": [dilation] * n,
        "groups": channels,
        "channels_last": True,
    }
    return Workload(
        lambda a, b: op.relu(op.conv(a, b, **options)),
        lambda a, b: np.maximum(window_reference.conv(a, b, **options, out_channels_last=None), 0),
        x,
        (channels, 1, *kernel),
    )


@pytest.mark.parametrize("channels", [2, 8, 16, 24, 33, 64])
@pytest.mark.parametrize("width", [3, 9, 16])
def test_any_channels_and_width(channels: int, width: int) -> None:
    check_rule(depthwise((1, 5, width, channels), (3, 3), pad=1), "window", seeds=1)


@pytest.mark.parametrize(
    "workload",
    [
        depthwise((2, 9, 9, 24), (3, 3), pad=1, stride=2),
        depthwise((1, 9, 9, 16), (3, 3), pad=2, dilation=2),
        depthwise((1, 11, 11, 16), (7, 7), pad=3),
        depthwise((1, 20, 18), (5,), pad=2),
        depthwise((1, 4, 5, 6, 17), (3, 3, 3), pad=1),
        depthwise(("n", 6, 6, 20), (3, 3), pad=1),
    ],
    ids=range(6),
)
def test_windows(workload: Workload) -> None:
    dims = {d: [1, 3] for d in workload.dims}
    check_rule(workload, "window", **dims)


@pytest.mark.parametrize("pad", [0, 1])
@pytest.mark.parametrize("channels", [8, 19, 64])
def test_pooling(channels: int, pad: int) -> None:
    maximum: dict[str, Any] = {
        "kernel": [3, 3], "strides": [2, 2], "padding": [pad] * 4, "dilation": [1, 1],
        "channels_last": True, "ceil_mode": False,
    }  # fmt: skip
    shape = (1, 9, 11, channels)
    check_rule(
        Workload(
            lambda a: op.max_pool(a, **maximum),
            lambda a: window_reference.max_pool(a, **maximum),
            shape,
        ),
        "window",
    )
    mean = {k: v for k, v in maximum.items() if k != "dilation"} | {
        "count_include_pad": False, "divisor": None,
    }  # fmt: skip
    check_rule(
        Workload(
            lambda a: op.avg_pool(a, **mean),
            lambda a: window_reference.avg_pool(a, **mean),
            shape,
        ),
        "window",
    )


def test_each_weight_is_loaded_once_a_tile() -> None:
    x, w = placeholder((1, 56, 56, 32), name="x"), placeholder((32, 1, 3, 3), name="w")
    y = op.conv(
        x, w, strides=[1, 1], padding=[1] * 4, dilation=[1, 1], groups=32, channels_last=True
    )
    func = create_prim_func([x, w, y]).with_attr("layout_free", [1])
    text = assembly_of(scheduled(func, target=SKYLAKE)[1], SKYLAKE)
    blocks = re.split(r"(?m)^\.L\w+:", text)
    inner = max(blocks, key=lambda b: len(re.findall(r"vfmadd|vmulps", b)))
    products = re.findall(r"(?:vfmadd|vmulps)\w*\s.*%zmm", inner)
    assert len(products) == 9 * 8
    assert not re.search(r"vmovups\s+%zmm\d+, -?\d*\(%rsp\)", inner)


@pytest.mark.parametrize("width", [19, 79, 1501])
def test_a_row_that_nothing_divides_has_tiles_of_several_pixels(width: int) -> None:
    """Of a prime number of pixels each was a tile."""
    workload = depthwise((1, width + 39, 16), (40,))
    name, func = scheduled(workload.func, target=SKYLAKE)
    assert name == "window"
    tiles = re.findall(r"for i1_\w+ in T\.unroll\((\d+)\)", func.script())
    assert max(map(int, tiles)) == 8
    workload.check(scheduled(workload.func)[1], tolerance=1e-4)
