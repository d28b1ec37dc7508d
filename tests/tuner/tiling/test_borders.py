"""Which results have windows inside of an image, and how tiles of them are cut."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from burnish.tensorir import operators as op
from burnish.tensorir.expr import IntImm, Var, floordiv
from burnish.tensorir.te.compute import create_prim_func, placeholder
from burnish.tuner.tiling.borders import Axis, image_of, offset_of, padded_axis
from burnish.tuner.workload import block_named


@pytest.mark.parametrize(
    ("axis", "tile", "parts"),
    [
        (Axis(14, 1, 13), 4, [(4, 4), (8, 4), (2, 2)]),
        (Axis(12, 1, 11), 4, [(4, 4), (4, 4), (4, 4)]),
        (Axis(12, 0, 12), 4, [(12, 4)]),
        (Axis(12, 5, 12), 4, [(8, 4), (4, 4)]),
        (Axis(3, 1, 2), 4, [(3, 3)]),
        (Axis(9, 1, 9), 2, [(2, 2), (6, 2), (1, 1)]),
        (Axis(4, 3, 3), 1, [(3, 1), (1, 1)]),
    ],
)
def test_tiles_at_borders_stand_apart(axis: Axis, tile: int, parts: list[tuple[int, int]]) -> None:
    assert axis.parts(tile) == parts


@given(
    size=st.integers(1, 20),
    kernel=st.integers(1, 5),
    stride=st.integers(1, 3),
    dilation=st.integers(1, 3),
    before=st.integers(0, 4),
    after=st.integers(0, 4),
    tile=st.integers(1, 8),
)
@settings(max_examples=150, deadline=None, derandomize=True)
def test_what_is_inside_reads_no_padding(
    size: int, kernel: int, stride: int, dilation: int, before: int, after: int, tile: int
) -> None:
    reach = (kernel - 1) * dilation
    results = (size + before + after - reach - 1) // stride + 1
    if size + before + after <= reach:
        return
    p, k = Var("p"), Var("k")
    axis = padded_axis(p * stride + k * dilation, p, k, (results, kernel), before, size)
    assert axis is not None
    assert (axis.stride, axis.reach) == (stride, reach + 1)
    for i in range(results):
        inside = before <= i * stride and i * stride + reach < before + size
        assert inside == (axis.first <= i < axis.last)
    parts = axis.parts(tile)
    assert sum(extent for extent, _ in parts) == results
    assert all(extent % t == 0 and 0 < t <= tile for extent, t in parts)


def test_an_index_that_is_not_affine_has_no_axis() -> None:
    p, k = Var("p"), Var("k")
    assert padded_axis(floordiv(p, IntImm(2)) + k, p, k, (8, 3), 1, 8) is None
    assert padded_axis(floordiv(p * 12, IntImm(5)) + k, p, k, (5, 4), 0, 12) is None
    assert padded_axis(p + floordiv(k, IntImm(2)), p, k, (8, 3), 0, 8) is None
    assert padded_axis(k - p, p, k, (8, 3), 1, 8) is None
    assert padded_axis(p + Var("m"), p, k, (8, 3), 1, 8) is None


def test_padding_is_read_off_its_block() -> None:
    x, w = placeholder((1, 6, 7, 4), name="x"), placeholder((4, 1, 3, 3), name="w")
    y = op.conv(
        x, w, strides=[1, 1], padding=[1, 2, 3, 0], dilation=[1, 1], groups=4, channels_last=True
    )
    func = create_prim_func([x, w, y])
    pad = block_named(func, "conv_pad")
    image = image_of(pad)
    assert image is not None
    assert image.buffer is func.params[0]
    assert [offset_of(pad, image, d) for d in range(4)] == [0, 1, 3, 0]
    assert image_of(block_named(func, "conv")) is None
