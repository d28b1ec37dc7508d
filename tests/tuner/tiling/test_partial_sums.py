"""Sums in blocks: which blocks there are, and the errors that they leave."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from burnish.tensorir import operators as op
from burnish.tensorir.operators.winograd import transform_weight
from burnish.tests.graphir import window_reference
from burnish.tests.native import call_native
from burnish.tests.tuner.rules.checking import Workload, scheduled
from burnish.tuner.tiling.partial_sums import LONGER, LONGEST, Blocks, plan_blocks_of_steps

PLAIN = {
    "strides": [1, 1], "padding": [1] * 4, "dilation": [1, 1], "groups": 1, "channels_last": True,
    "out_channels_last": True,
}  # fmt: skip


@pytest.mark.parametrize(
    ("extents", "blocks"),
    [
        ((3, 3, 16), None),  # one block is all
        ((3, 3, 64), Blocks(0, 3, 192)),  # a row of the window
        ((3, 3, 100), Blocks(1, 3, 100)),  # an element of the window
        ((3, 3, 512), Blocks(2, 4, 128)),  # some channels of one
        ((512,), Blocks(0, 4, 128)),
        ((3, 3, 257), Blocks(1, 3, 257)),  # a prime: longer, but of one length
        ((257,), None),
        ((3, 3, 1021), Blocks(2, 6, 171)),  # a large prime: the last is shorter
        ((11, 11, 3), Blocks(0, 3, 132)),
        ((1 << 20,), Blocks(0, 1 << 10, 1 << 10)),
        ((3, None, 64), None),
    ],
)
def test_blocks(extents: tuple[int | None, ...], blocks: Blocks | None) -> None:
    assert plan_blocks_of_steps(extents, 4) == blocks


@pytest.mark.parametrize("depth", range(1, 1500, 7))
def test_no_block_is_longer_than_it_may_be(depth: int) -> None:
    for extents in ((depth,), (3, 3, depth), (1, 7, depth)):
        blocks = plan_blocks_of_steps(extents, 4)
        total = int(np.prod(extents))
        assert (total if blocks is None else blocks.steps) <= LONGER
        if total > LONGER:
            assert blocks is not None
            assert blocks.parts <= extents[blocks.loop]
        if total <= LONGEST:
            assert blocks is None


def relative_error(workload: Workload, wanted: np.ndarray, inputs: Sequence[np.ndarray]) -> float:
    """The largest error of the scheduled function relative to the largest result."""
    found = np.zeros(wanted.shape, np.float32)
    call_native(scheduled(workload.func)[1], *inputs, found)
    return float(np.abs(found - wanted).max() / np.abs(wanted).max())


@pytest.mark.parametrize(("channels", "stride"), [(512, 1), (100, 1), (1021, 1), (2048, 2)])
def test_the_error_of_a_convolution(channels: int, stride: int) -> None:
    """One sum after the other left 2.9e-6 for 512 channels; PyTorch leaves 4e-7."""
    options = {**PLAIN, "strides": [stride, stride]}
    workload = Workload(
        lambda x, w: op.conv(x, w, **options), lambda x, w: x, (1, 7, 7, channels),
        (32, channels, 3, 3),
    )  # fmt: skip
    x, w = workload.arguments()
    wanted = window_reference.conv(x.astype(np.float64), w.astype(np.float64), **options)
    assert relative_error(workload, wanted, (x, w)) <= 6e-7


@pytest.mark.parametrize("tile", [2, 4])
def test_the_error_of_winograd(tile: int) -> None:
    """With each product's sum one after the other, 512 channels left 8e-7 and 3.8e-6."""
    a = tile + 2
    workload = Workload(
        lambda x, u: op.winograd_conv(x, u, padding=(1, 1, 1, 1), tile=tile), lambda x, u: x,
        (1, 8, 8, 512), (a, a, 32, 512),
    )  # fmt: skip
    rng = np.random.default_rng(0)
    x = rng.standard_normal((1, 8, 8, 512)).astype(np.float32)
    w = rng.standard_normal((32, 512, 3, 3)).astype(np.float32)
    wanted = window_reference.conv(x.astype(np.float64), w.astype(np.float64), **PLAIN)
    error = relative_error(workload, wanted, (x, transform_weight(w, tile)))
    assert error <= {2: 5e-7, 4: 1.8e-6}[tile]
