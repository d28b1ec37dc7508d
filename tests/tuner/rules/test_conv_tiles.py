"""Convolutions of bfloat16 in tile registers: windows, strides and channels of all sizes, in
emulated tiles and in loops."""

from __future__ import annotations

import re

import numpy as np
import pytest

from burnish.support.dtype import bfloat16_bits
from burnish.support.host import native_target
from burnish.tensorir.function import PrimFunc
from burnish.tensorir.lowering.tile_nests import TILE_REGISTERS
from burnish.tensorir.schedule import pack_array, parse_index_map
from burnish.tensorir.text.printer import print_func
from burnish.tests.graphir import window_reference
from burnish.tests.native import call_native
from burnish.tests.tuner.rules.checking import scheduled
from burnish.tests.tuner.rules.test_bfloat16 import values
from burnish.tests.tuner.rules.test_conv_pairs import Shape, layer, options
from burnish.tests.tuner.rules.test_tiles import SERVER, emulated, server_assembly, tiles_emitted


def check(func: PrimFunc, x: Shape, w: Shape, window: dict[str, object], threads: int = 1) -> None:
    rng = np.random.default_rng(0)
    a, b = (bfloat16_bits(rng.standard_normal(s).astype("float32")) for s in (x, w))
    expected = 2 * window_reference.conv(values(a), values(b), **window)
    terms = np.prod(w[1:]) + 1
    magnitudes = window_reference.conv(np.abs(values(a)), np.abs(values(b)), **window)
    packed = b
    for _, text, pad in func.attr("layout_maps") or ():
        packed = pack_array(b, parse_index_map(text), pad, "bfloat16")
    for target in (emulated(), native_target()):
        found = np.full(expected.shape, -77, "float32")
        call_native(func, a, packed, found, target=target, threads=threads)
        assert np.all(np.abs(found - expected) <= 2 * terms * 2.0**-24 * magnitudes)


@pytest.mark.parametrize(
    ("x", "w", "window"),
    [
        ((2, 9, 9, 8), (33, 8, 3, 3), (1, 1, 1)),
        ((1, 16, 9, 48), (32, 48, 3, 3), (2, 1, 1)),
        ((1, 9, 37, 16), (32, 16, 5, 3), (1, 2, 2)),
        ((1, 8, 8, 40), (40, 40, 1, 1), (2, 0, 1)),
        ((2, 50, 24), (18, 24, 3), (1, 1, 1)),
        ((1, 4, 5, 18, 8), (10, 8, 3, 3, 3), (1, 1, 1)),
        ((1, 6, 6, 32), (100, 32, 3, 3), (1, 1, 1)),
        ((1, 7, 7, 96), (3, 96, 3, 3), (1, 1, 1)),
    ],
    ids=range(8),
)
@pytest.mark.parametrize("free", [True, False], ids=["free", "copied"])
def test_windows(x: Shape, w: Shape, window: tuple[int, int, int], free: bool) -> None:
    known = options(len(x) - 2, *window)
    for sampled in (False, True):
        name, func = scheduled(layer(x, w, free=free, **known), sampled=sampled, target=SERVER)
        assert name == "conv"
        assert tiles_emitted(func) == {"zero", "load", "store", "bfloat16.bfloat16"}
        check(func, x, w, known, threads=1 + sampled)


@pytest.mark.parametrize("channels", [4, 34])
def test_channels_that_fill_no_tile_are_summed_otherwise(channels: int) -> None:
    x, w, known = (1, 6, 6, channels), (20, channels, 3, 3), options(2, 1, 1, 1)
    name, func = scheduled(layer(x, w, **known), target=SERVER)
    assert name == "conv"
    assert TILE_REGISTERS not in print_func(func)
    check(func, x, w, known)


def test_sums_stay_in_registers_over_the_whole_window() -> None:
    func = layer((1, 32, 32, 64), (64, 64, 3, 3), **options(2, 1, 1, 1))
    _, func = scheduled(func, target=SERVER)
    text = server_assembly(func)
    assert len(re.findall(r"\btilestored\b", text)) == len(re.findall(r"\btilezero\b", text)) == 4
    assert len(re.findall(r"\bldtilecfg\b", text)) <= 2
