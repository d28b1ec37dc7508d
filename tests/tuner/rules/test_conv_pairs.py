"""Convolutions of bfloat16 by pairs of channels: numbers within the bound of float32 sums, with the
instruction and without; the inner loop."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from burnish.support.dtype import bfloat16_bits
from burnish.support.host import native_target
from burnish.support.target import Target
from burnish.tensorir import operators as op
from burnish.tensorir.function import PrimFunc
from burnish.tensorir.schedule import pack_array, parse_index_map
from burnish.tensorir.te.compute import create_prim_func, placeholder
from burnish.tensorir.text.printer import print_func
from burnish.tests import assembly
from burnish.tests.graphir import window_reference
from burnish.tests.native import call_native
from burnish.tests.tuner.rules.checking import scheduled
from burnish.tests.tuner.rules.test_bfloat16 import values, without_pairs

ZEN = Target("llvm -mcpu=znver4")
"""As in ``test_bfloat16``: the schedules' CPU, not that which runs them."""
Shape = tuple[int, ...]


def options(rank: int, stride: int, pad: int, dilation: int) -> dict[str, Any]:
    return {
        "strides": [stride] * rank,
        "padding": [pad] * (2 * rank),
        "dilation": [dilation] * rank,
        "groups": 1,
        "channels_last": True,
        "out_channels_last": True,
    }


def layer(x: Shape, w: Shape, *, free: bool = True, **window: Any) -> PrimFunc:
    a, b = (placeholder(s, "bfloat16", name=n) for n, s in (("x", x), ("w", w)))
    y = op.conv(a, b, **window, out_dtype="float32")
    func = create_prim_func([a, b, op.add(y, y)])
    return func.with_attr("layout_free", [1]) if free else func


def check(func: PrimFunc, x: Shape, w: Shape, window: dict[str, Any], threads: int = 1) -> None:
    rng = np.random.default_rng(0)
    a, b = (bfloat16_bits(rng.standard_normal(s).astype("float32")) for s in (x, w))
    expected = 2 * window_reference.conv(values(a), values(b), **window)
    terms = np.prod(w[1:]) + 1
    magnitudes = window_reference.conv(np.abs(values(a)), np.abs(values(b)), **window)
    packed = b
    for _, text, pad in func.attr("layout_maps") or ():
        packed = pack_array(b, parse_index_map(text), pad, "bfloat16")
    for target in (native_target(), without_pairs()):
        found = np.full(expected.shape, -77, "float32")
        call_native(func, a, packed, found, target=target, threads=threads)
        assert np.all(np.abs(found - expected) <= 2 * terms * 2.0**-24 * magnitudes)


@pytest.mark.parametrize(
    ("x", "w", "window"),
    [
        ((2, 9, 9, 8), (33, 8, 3, 3), (1, 1, 1)),
        ((1, 16, 9, 6), (32, 6, 3, 3), (2, 1, 1)),
        ((1, 9, 17, 4), (32, 4, 5, 3), (1, 2, 2)),
        ((1, 8, 8, 12), (40, 12, 1, 1), (2, 0, 1)),
        ((2, 20, 6), (18, 6, 3), (1, 1, 1)),
        ((1, 4, 5, 6, 2), (10, 2, 3, 3, 3), (1, 1, 1)),
        ((1, 6, 6, 32), (100, 32, 3, 3), (1, 1, 1)),
        ((1, 7, 7, 10), (3, 10, 3, 3), (1, 1, 1)),
    ],
    ids=range(8),
)
@pytest.mark.parametrize("free", [True, False], ids=["free", "copied"])
def test_windows(x: Shape, w: Shape, window: tuple[int, int, int], free: bool) -> None:
    known = options(len(x) - 2, *window)
    for sampled in (False, True):
        name, func = scheduled(layer(x, w, free=free, **known), sampled=sampled, target=ZEN)
        assert name == "conv"
        assert "dot2_bf16" in print_func(func)
        check(func, x, w, known, threads=1 + sampled)


@pytest.mark.parametrize(
    ("channels", "cpu"), [(5, "znver4"), (8, "sapphirerapids"), (8, "haswell")]
)
def test_odd_channels_and_other_cpus_multiply_float32(channels: int, cpu: str) -> None:
    x, w, known = (1, 6, 6, channels), (20, channels, 3, 3), options(2, 1, 1, 1)
    name, func = scheduled(layer(x, w, **known), target=Target(f"llvm -mcpu={cpu}"))
    assert name == "conv"
    assert "dot2_bf16" not in print_func(func)
    check(func, x, w, known)


def test_long_sums_are_not_cut_into_blocks() -> None:
    x, w, known = (1, 4, 4, 512), (16, 512, 3, 3), options(2, 1, 1, 1)
    _, func = scheduled(layer(x, w, **known), target=ZEN)
    check(func, x, w, known)


@pytest.mark.parametrize("width", [7, 14, 56])
def test_the_inner_loop(width: int) -> None:
    func = layer((1, width, width, 64), (64, 64, 3, 3), **options(2, 1, 1, 1))
    _, func = scheduled(func, target=ZEN)
    loops = assembly.innermost_loops(assembly.kernel_lines(func, ZEN))
    counts = [[x.operation for x in loop].count("vdpbf16ps") for loop in loops]
    assert max(counts) >= 14
    for loop, count in zip(loops, counts, strict=True):
        if count:
            assert assembly.spills(loop) == []
