"""Convolutions with channels last: every stride, padding, dilation and odd size; the assembly."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from burnish.tensorir import operators as op
from burnish.tensorir.function import PrimFunc
from burnish.tensorir.te.compute import create_prim_func, placeholder
from burnish.tests.graphir import window_reference
from burnish.tests.tuner.rules.checking import (
    HASWELL,
    SKYLAKE,
    Shape,
    Workload,
    assembly_of,
    check_rule,
    scheduled,
)
from burnish.tuner.rules.conv import match_conv
from burnish.tuner.tiling.sharing import PARALLEL_GRAIN


def conv(
    x: Shape, w: Shape, *, stride: int = 1, pad: int = 0, dilation: int = 1, groups: int = 1,
    image_last: bool = True, relu: bool = True, dtype: str = "float32",
) -> Workload:  # fmt: skip
    n = len(x) - 2
    options: dict[str, Any] = {
        "strides": [stride] * n,
        "padding": [pad] * (2 * n),
        "dilation": [dilation] * n,
        "groups": groups,
        "channels_last": image_last,
        "out_channels_last": True,
    }
    return Workload(
        lambda a, b: op.relu(op.conv(a, b, **options)) if relu else op.conv(a, b, **options),
        lambda a, b: np.maximum(window_reference.conv(a, b, **options), 0 if relu else -np.inf),
        x,
        w,
        dtype=dtype,
    )


@pytest.mark.parametrize("columns", [1, 5, 16, 17, 33, 64])
@pytest.mark.parametrize("width", [1, 4, 7, 15, 30])
def test_any_width_and_channels(columns: int, width: int) -> None:
    check_rule(conv((1, 3, width, 6), (columns, 6, 1, 1), relu=False), "conv", seeds=1)


@pytest.mark.parametrize(
    "workload",
    [
        conv((2, 9, 9, 8), (33, 8, 3, 3), pad=1),
        conv((1, 16, 9, 8), (32, 8, 3, 3), pad=1, stride=2),
        conv((1, 9, 17, 4), (32, 4, 5, 3), pad=2, dilation=2),
        conv((1, 3, 30, 30), (20, 3, 7, 7), pad=3, stride=2, image_last=False),
        conv((1, 8, 8, 3), (24, 3, 4, 4), stride=4),
        conv((1, 8, 8, 12), (40, 12, 1, 1), stride=2),
        conv((2, 20, 6), (18, 6, 3), pad=1),
        conv((1, 4, 5, 6, 3), (10, 3, 3, 3, 3), pad=1),
        conv((1, 9, 9, 1), (17, 1, 3, 3), pad=1),
        conv((1, 6, 6, 5), (7, 5, 3, 3), pad=1, dtype="float64"),
    ],
    ids=range(10),
)
def test_windows(workload: Workload) -> None:
    check_rule(workload, "conv", tolerance=1e-4)


@pytest.mark.parametrize("batch", [1, 3])
def test_one_dim_with_enough_work_to_share(batch: int) -> None:
    """The loop that is cut at the image's borders is not the one that threads share."""
    assert batch * 520 * 32 > PARALLEL_GRAIN
    check_rule(conv((batch, 520, 32), (20, 32, 3), pad=1), "conv", tolerance=2e-4, seeds=1)
    check_rule(conv((batch, 520, 32), (20, 32, 5), pad=4, dilation=2), "conv", tolerance=2e-4)


def test_symbolic_batch() -> None:
    check_rule(conv(("n", 7, 7, 8), (20, 8, 3, 3), pad=1), "conv", n=[1, 3], tolerance=1e-4)


@pytest.mark.parametrize(
    ("x", "w", "stride", "sizes"),
    [
        ((1, "n", 8), (20, 8, 3), 1, (3, 4, 15, 40)),
        ((1, "n", 8), (20, 8, 3), 2, (3, 4, 5, 31, 40)),
        ((1, "n", 1), (20, 1, 10), 5, (10, 14, 15, 101)),
        ((2, "n", 9, 8), (20, 8, 3, 3), 2, (3, 4, 15, 16)),
    ],
)
def test_named_sizes_without_padding(
    x: Shape, w: Shape, stride: int, sizes: tuple[int, ...]
) -> None:
    """What is left of a row is a size, though nothing is known of the row."""
    check_rule(conv(x, w, stride=stride), "conv", n=sizes, tolerance=2e-4, seeds=1)


def test_weights_first_where_they_are_larger_than_the_cache() -> None:
    workload = conv((1, 7, 7, 512), (128, 512, 3, 3), pad=1)
    name, func = scheduled(workload.func)
    assert name == "conv"
    workload.check(func, tolerance=2e-3)
    first = next(line for line in func.script().splitlines() if " in T.grid(" in line)
    assert "conv_pad" not in first  # the image is padded whole, before the panels


@pytest.mark.parametrize(
    "workload",
    [
        conv((1, 9, 14, 32), (32, 4, 3, 3), pad=1, groups=8),
        conv((2, 7, 7, 64), (64, 32, 3, 3), pad=1, stride=2, groups=2),
        conv((1, 6, 9, 32), (96, 8, 3, 3), pad=2, dilation=2, groups=4),
        conv((1, 5, 6, 15), (9, 5, 3, 3), pad=1, groups=3),
        conv((1, 8, 8, 16), (32, 1, 3, 3), pad=1, groups=16),
        conv((1, 5, 5, 12), (6, 2, 1, 1), groups=6),
        conv((1, 20, 32), (32, 8, 3), pad=1, groups=4),
        conv((1, 4, 4, 256), (256, 128, 3, 3), pad=1, groups=2),
    ],
    ids=range(8),
)
def test_groups(workload: Workload) -> None:
    check_rule(workload, "conv", tolerance=2e-4, seeds=1)


@pytest.mark.parametrize(
    "workload",
    [
        conv((1, 9, 14, 34), (34, 17, 3, 3), pad=1, groups=2),
        conv((3, 9, 14, 100), (100, 50, 3, 3), pad=1, groups=2, relu=False),
        conv((1, 7, 7, 36), (60, 12, 3, 3), pad=1, stride=2, groups=3),
        conv((2, 20, 14), (26, 7, 3), pad=1, groups=2),
        conv((1, 9, 9, 14), (50, 7, 3, 3), pad=1, groups=2, dtype="float64"),
        conv((1, 4, 5, 6, 6), (18, 3, 3, 3, 3), pad=1, groups=2),
        conv((1, 3, 3, 646), (646, 323, 3, 3), pad=1, groups=2),
        conv((2, 13, 16), (48, 1, 2), groups=16),
        conv((1, 9, 9, 16), (80, 1, 3, 3), pad=1, groups=16),
    ],
    ids=range(9),
)
def test_groups_that_do_not_fill_vectors(workload: Workload) -> None:
    check_rule(workload, "conv", tolerance=3e-4, seeds=1)


def test_groups_that_do_not_fill_vectors_have_an_epilogue() -> None:
    options = {"strides": [1, 1], "padding": [1] * 4, "dilation": [1, 1], "groups": 2}
    workload = Workload(
        lambda x, w: op.sigmoid(op.conv(x, w, **options, channels_last=True)),
        lambda x, w: 1 / (1 + np.exp(-window_reference.conv(
            x, w, **options, channels_last=True, out_channels_last=True
        ))),
        (2, 6, 7, 34), (34, 17, 3, 3),
    )  # fmt: skip
    check_rule(workload, "conv", tolerance=1e-4, seeds=1)


@pytest.mark.parametrize("each", [5, 12, 17, 50])
def test_a_group_that_does_not_fill_vectors_is_padded(each: int) -> None:
    """The groups were computed with the lanes that divide them, 17 channels one by one."""
    x = placeholder((1, 14, 14, 2 * each), name="x")
    w = placeholder((2 * each, each, 3, 3), name="w")
    y = op.conv(
        x, w, strides=[1, 1], padding=[1] * 4, dilation=[1, 1], groups=2, channels_last=True
    )
    func = create_prim_func([x, w, y]).with_attr("layout_free", [1])
    name, done = scheduled(func, target=SKYLAKE)
    assert name == "conv"
    blocks = re.split(r"(?m)^\.L\w+:", assembly_of(done, SKYLAKE))
    inner = max(blocks, key=lambda b: b.count("vfmadd"))
    wide = "ymm" if each == 5 else "zmm"
    assert len(re.findall(rf"vfmadd\w+ps\s.*%{wide}\d+", inner)) >= 14
    assert not re.search(r"vfmadd\w+ss", inner)


def test_a_small_group_is_a_part_of_a_register() -> None:
    x, w = placeholder((1, 28, 28, 64), name="x"), placeholder((64, 4, 3, 3), name="w")
    y = op.conv(
        x, w, strides=[1, 1], padding=[1] * 4, dilation=[1, 1], groups=16, channels_last=True
    )
    func = create_prim_func([x, w, y]).with_attr("layout_free", [1])
    name, done = scheduled(func, target=SKYLAKE)
    assert name == "conv"
    text = assembly_of(done, SKYLAKE)
    assert "vgather" not in text
    blocks = re.split(r"(?m)^\.L\w+:", text)
    inner = max(blocks, key=lambda b: b.count("vfmadd"))
    assert len(re.findall(r"vfmadd\w+\s.*%xmm\d+", inner)) == 14 * 4
    assert "(%rsp)" not in inner.split("\tj")[0]


def test_the_few_channels_of_a_first_layer_are_written_out() -> None:
    workload = conv((1, 3, 12, 13), (24, 3, 3, 3), pad=1, stride=2, image_last=False)
    text = scheduled(workload.func, target=HASWELL)[1].script()
    assert "for c_1 in T.unroll(3)" in text
    workload.check(scheduled(workload.func)[1])


@pytest.mark.parametrize("image_last", [False, True])
@pytest.mark.parametrize("pad", [1, 2])
def test_vectors_of_padding_do_not_ask_where_they_are(image_last: bool, pad: int) -> None:
    shape = (1, 20, 22, 8) if image_last else (1, 8, 20, 22)
    workload = conv(shape, (16, 8, 3, 3), pad=pad, image_last=image_last)
    found = scheduled(workload.func)[1]
    workload.check(found)
    # What stands before the columns of the image, in it, and behind: three loops.
    assert len(re.findall(r'T\.block\("conv_pad\w*"\)', found.script())) == 3


def test_several_convolutions_are_not_matched() -> None:
    x, w = placeholder((1, 5, 5, 4)), placeholder((4, 4, 1, 1))
    plain: dict[str, Any] = {
        "strides": [1, 1], "padding": [0] * 4, "dilation": [1, 1], "channels_last": True,
    }  # fmt: skip
    twice = op.conv(op.conv(x, w, **plain), w, **plain)
    assert match_conv(create_prim_func([x, w, twice])) is None


def layer(channels: int, width: int) -> PrimFunc:
    x, w = (
        placeholder((1, width, width, channels), name="x"),
        placeholder((channels, channels, 3, 3)),
    )
    b = placeholder((channels,), name="b")
    y = op.conv(x, w, b, strides=[1, 1], padding=[1] * 4, dilation=[1, 1], channels_last=True)
    return create_prim_func([x, w, b, op.relu(y)]).with_attr("layout_free", [1])


@pytest.mark.parametrize(
    ("target", "register", "fmas"), [(SKYLAKE, "zmm", 28), (HASWELL, "ymm", 12 * 4)]
)
def test_no_spills_in_the_inner_loop(target: Any, register: str, fmas: int) -> None:
    text = assembly_of(scheduled(layer(64, 56), target=target)[1], target)
    # The loop with the most multiply-adds: a step of depth for each of many sums of the tile, four
    # for each of a few.
    blocks = re.split(r"(?m)^\.L\w+:", text)
    inner = max(blocks, key=lambda b: b.count("vfmadd"))
    assert len(re.findall(rf"vfmadd\w+\s.*%{register}\d+", inner)) == fmas
    assert "(%rsp)" not in inner.split("\tj")[0]
