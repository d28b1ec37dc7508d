"""Winograd's convolutions: every size of image, tile and batch; the assembly of the products."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import numpy as np
import pytest

from burnish.graphir.passes.select_winograd import SelectWinograd, Shape
from burnish.support.host import native_target
from burnish.support.target import Target
from burnish.tensorir import operators as op
from burnish.tensorir.function import PrimFunc
from burnish.tensorir.operators.winograd import (
    SIZES,
    error_bound,
    plan_blocks,
    transform_bytes,
    transform_weight,
    transforms,
)
from burnish.tensorir.schedule import pack_array, parse_index_map
from burnish.tensorir.te.compute import Tensor, create_prim_func, placeholder
from burnish.tests import assembly
from burnish.tests.graphir import window_reference
from burnish.tests.native import call_native
from burnish.tests.tensorir.operators.test_winograd import direct
from burnish.tests.tuner.rules.checking import (
    HASWELL,
    SKYLAKE,
    Workload,
    assembly_of,
    check_rule,
    scheduled,
)
from burnish.tuner.rules.winograd import WinogradRoles, match_winograd
from burnish.tuner.tiling.partial_sums import plan_blocks_of_steps
from burnish.tuner.tiling.tile_model import most_sums

ONES = (1, 1, 1, 1)


def winograd(
    n: int | str, h: int, w: int, c: int, o: int, m: int,
    padding: tuple[int, int, int, int] = ONES, *, epilogue: bool = True,
) -> Workload:  # fmt: skip
    """relu(conv + residual), or the convolution alone, with a weight that is transformed."""
    a = m + 2

    def build(x: Tensor, u: Tensor, *rest: Tensor) -> Tensor:
        if not rest:
            return op.winograd_conv(x, u, padding=padding, tile=m)
        bias, residual = rest
        y = op.winograd_conv(x, u, bias, padding=padding, tile=m)
        return op.relu(op.add(y, residual))

    def reference(x: np.ndarray, u: np.ndarray, *rest: np.ndarray) -> np.ndarray:
        y = window_reference.winograd_conv(x, u, padding=padding, tile=m)
        return np.maximum(y + rest[0] + rest[1], 0) if rest else y

    down, across = h + padding[0] + padding[1] - 2, w + padding[2] + padding[3] - 2
    shapes = [(n, h, w, c), (a, a, o, c)]
    more = [(o,), (n, down, across, o)] if epilogue else []
    return Workload(build, reference, *shapes, *more)


@pytest.mark.parametrize("m", [2, 4])
@pytest.mark.parametrize(
    ("image", "padding"),
    [((1, 8, 8), ONES), ((1, 7, 9), ONES), ((2, 5, 6), ONES), ((1, 9, 14), (0, 0, 2, 0))],
)
def test_any_image(m: int, image: tuple[int, int, int], padding: tuple[int, int, int, int]) -> None:
    check_rule(winograd(*image, 16, 32, m, padding), "winograd", seeds=1, tolerance=5e-4)


@pytest.mark.parametrize(
    ("image", "channels", "outputs"), [((8, 8), 16, 32), ((7, 9), 16, 32), ((14, 14), 256, 256)]
)
@pytest.mark.parametrize("m", [2, 4])
def test_any_number_of_images(m: int, image: tuple[int, int], channels: int, outputs: int) -> None:
    work = winograd("n", *image, channels, outputs, m)
    check_rule(work, "winograd", seeds=1, tolerance=2e-3, n=[1, 3, 0, 2])


def integers(n: int, h: int, w: int, c: int, o: int, zero: int = 0) -> PrimFunc:
    """A convolution of bytes and an epilogue, with weights whose layout is free."""
    x, u = (placeholder(s, "int16", name=a) for a, s in (("x", (n, h, w, c)), ("u", (4, 4, o, c))))
    y = op.winograd_conv(x, u, padding=ONES, tile=2, pad_value=float(zero))
    func = create_prim_func([x, u, op.add(y, y)])
    return func.with_attr("layout_free", [1])


@pytest.mark.parametrize(
    ("image", "channels", "outputs"),
    [((1, 8, 8), 16, 32), ((1, 7, 9), 24, 16), ((2, 5, 6), 32, 8), ((1, 28, 28), 64, 16)],
)
def test_integers_are_exact(image: tuple[int, int, int], channels: int, outputs: int) -> None:
    rng = np.random.default_rng(channels)
    x = rng.integers(0, 256, (*image, channels)).astype("int16")
    w = rng.integers(-128, 128, (outputs, channels, 3, 3)).astype("int8")
    x[0, :4], w[0] = 255, -128
    expected = (2 * (direct(x - 7, w, ONES) + 7 * w.astype("int64").sum((1, 2, 3)))).astype("int32")
    made = integers(*image, channels, outputs, 7)
    for sampled, seed in ((False, 0), (True, 1), (True, 2)):
        name, func = scheduled(made, sampled=sampled, seed=seed, target=HASWELL)
        assert name == "winograd"
        packed = transform_bytes(w)
        for _, text, pad in func.attr("layout_maps") or ():
            packed = pack_array(packed, parse_index_map(text), pad, "int16")
        found = np.full(expected.shape, -77, "int32")
        call_native(func, x, packed, found)
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("cpu", ["haswell", "skylake-avx512"])
def test_products_of_integers_are_of_pairs_in_registers(cpu: str) -> None:
    target = Target(f"llvm -mcpu={cpu}")
    _, func = scheduled(integers(1, 24, 24, 64, 64), target=target)
    loops = assembly.innermost_loops(assembly.kernel_lines(func, target))
    words = [[x.operation for x in loop] for loop in loops]
    tile = max(words, key=lambda w: w.count("vpmaddwd"))
    assert tile.count("vpmaddwd") == tile.count("vpaddd") >= 8
    assert assembly.spills(loops[words.index(tile)]) == []


def test_several_blocks_of_tiles() -> None:
    # The transformed inputs of 20 x 17 tiles are larger than the cache.
    check_rule(winograd(1, 80, 68, 64, 16, 4), "winograd", seeds=2, tolerance=2e-3)


@pytest.mark.parametrize(("l2_bytes", "blocks"), [(1 << 15, 1), (1 << 14, 2), (1 << 13, 4)])
@pytest.mark.parametrize("batch", [1, 2])
def test_products_come_first_where_weights_are_in_no_cache(
    l2_bytes: int, blocks: int, batch: int
) -> None:
    workload = winograd(batch, 15, 18, 16, 32, 4)
    plan = plan_blocks(4, 5, 4, 16, 32, l2_bytes)
    assert (plan.products_first, 4 // plan.together) == (True, blocks)
    target = replace(native_target(), l2_bytes=l2_bytes)
    func = workload.func.with_attr("layout_free", [1])
    name, found = scheduled(workload.func, target=target)
    assert name == "winograd"
    workload.check(found, tolerance=1e-3)
    workload.check(found, tolerance=1e-3, threads=3)
    # Weights lie in the order in which they are read: i, j, panels, channels.
    ((_, layout, _),) = scheduled(func, target=target)[1].attr("layout_maps")
    assert layout.startswith("lambda i0, i1, i2, i3: (i0, i1, i2 // ")


def test_tiles_leave_registers_to_load_into() -> None:
    # 196 tiles in one block: 6 x 2 sums, and not the 14 x 1 that use all of 16 registers.
    target = Target("llvm -mcpu=znver3")
    func = winograd(1, 56, 56, 64, 64, 4).func.with_attr("layout_free", [1])
    text = assembly_of(scheduled(func, target=target)[1], target)
    loops = re.split(r"^\.LBB\S+:", text, flags=re.M)
    products = [s.split("\tj")[0] for s in loops if "prefetch" in s]
    assert [s.count("vfmadd") for s in products] == [12 * 4, 8 * 4]
    assert not any("(%rsp)" in s for s in products)


@pytest.mark.parametrize("cpu", ["skylake-avx512", "haswell", "x86-64", "generic"])
@pytest.mark.parametrize("m", [2, 4])
def test_transforms_keep_a_column_or_a_row_in_registers(cpu: str, m: int) -> None:
    func = winograd(1, 16, 16, 32, 32, m).func.with_attr("layout_free", [1])
    text = scheduled(func, target=Target(f"llvm -mcpu={cpu}"))[1].script()
    scopes = dict(
        re.findall(r"(winograd_\w+) = T.alloc_buffer\(.*?(scope=\"register\")?\)\n", text)
    )
    assert not scopes["winograd_rows"]
    assert not scopes["winograd_columns"]
    assert scopes["winograd_output"]


def test_without_an_epilogue() -> None:
    check_rule(winograd(1, 8, 12, 32, 48, 4, epilogue=False), "winograd", tolerance=1e-3)


def test_channels_that_fill_no_vectors_are_left_to_other_rules() -> None:
    func = winograd(1, 6, 6, 5, 7, 2).func
    assert match_winograd(func) is not None
    assert scheduled(func)[0] != "winograd"


def test_what_is_matched() -> None:
    found = match_winograd(winograd(1, 6, 6, 16, 16, 4).func)
    assert found is not None
    assert (found.tile, found.channels, found.outputs) == (4, 16, 16)
    assert found.pad == "winograd_pad"
    other = Workload(
        lambda a, b: op.matmul(a, b, transpose_b=True), lambda a, b: a, (4, 4, 8, 16), (4, 4, 8, 16)
    )
    assert match_winograd(other.func) is None


@pytest.mark.parametrize(("target", "register"), [(SKYLAKE, "zmm"), (HASWELL, "ymm")])
def test_products_run_in_registers(target: object, register: str) -> None:
    func = winograd(1, 16, 16, 32, 32, 4).func.with_attr("layout_free", [1])
    name, scheduled_func = scheduled(func, target=target)  # type: ignore[arg-type]
    assert name == "winograd"
    text = assembly_of(scheduled_func, target)  # type: ignore[arg-type]
    loops = re.split(r"^\.LBB\S+:", text, flags=re.M)
    products = max(loops, key=lambda s: s.count("vfmadd231ps"))
    fmas = [line for line in products.splitlines() if "vfmadd231ps" in line and register in line]
    assert len(fmas) >= (16 if register == "zmm" else 32)
    # Neither sums nor transformed inputs go through memory between the products.
    assert "vmovaps\t%" not in products.split("vfmadd231ps")[1]


def test_the_reference_is_the_convolution() -> None:
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((1, 6, 7, 3)), rng.standard_normal((2, 3, 3, 3))
    g = transforms(4).weights
    u = np.einsum("iy,ocyx,jx->ijoc", g, w, g)
    workload = winograd(1, 6, 7, 3, 2, 4, epilogue=False)
    np.testing.assert_allclose(workload.reference(x, u), direct(x, w, ONES), rtol=1e-9, atol=1e-9)


def largest_error(x: np.ndarray, w: np.ndarray, tile: int | None) -> float:
    """The largest error of the scheduled convolution, with tiles or direct, relative to the largest
    result."""
    second = w if tile is None else transform_weight(w, tile)

    def build(a: Tensor, b: Tensor) -> Tensor:
        if tile is not None:
            return op.winograd_conv(a, b, padding=ONES, tile=tile)
        return op.conv(a, b, strides=[1, 1], padding=ONES, dilation=[1, 1], channels_last=True)

    inputs = [placeholder(v.shape, name="ab"[i]) for i, v in enumerate((x, second))]
    name, func = scheduled(create_prim_func([*inputs, build(*inputs)]))
    assert name == ("conv" if tile is None else "winograd")
    wanted = direct(x, w, ONES)
    found = np.zeros(wanted.shape, np.float32)
    call_native(func, x, second, found)
    return float(np.abs(found - wanted).max() / np.abs(wanted).max())


@pytest.mark.parametrize("kind", ["normal", "positive"])
@pytest.mark.parametrize(
    ("channels", "size"),
    [(32, 8), (32, 28), (64, 7), (64, 14), (128, 14), (128, 28), (256, 14), (512, 14), (1024, 7)],
)
def test_strict_is_no_worse_than_fast(channels: int, size: int, kind: str) -> None:
    """At 256 channels of 14 x 14 and at 1024 of 7 x 7 the error of direct convolution, in one sum
    after the other, was larger than Winograd's. (Below 4e-7, as PyTorch's, chance decides.)"""
    options = SelectWinograd("llvm -mcpu=znver4")
    tile = options.tile(Shape(1, size, size, channels, channels))
    assert tile is not None
    rng = np.random.default_rng(0)
    draw = rng.standard_normal if kind == "normal" else rng.random
    x = draw((1, size, size, channels)).astype(np.float32)
    w = draw((16, channels, 3, 3)).astype(np.float32)
    strict = largest_error(x, w, None)
    assert strict <= max(4e-7, largest_error(x, w, tile))
    assert strict <= 5.5e-7


@pytest.mark.parametrize("channels", [1, 7, *range(32, 4096, 61)])
def test_the_bound_of_direct_convolution_is_smaller(channels: int) -> None:
    """To first order: the products that go through most additions, of 9 C terms of at most 1."""
    blocks = plan_blocks_of_steps((3, 3, channels))
    terms = 9 * channels
    longest = (
        terms
        if blocks is None
        else blocks.steps + math.prod((3, 3, channels)[: blocks.loop]) * blocks.parts
    )
    for m in SIZES:
        assert terms * (longest + 1) * 2.0**-24 < error_bound(m, channels)


def test_a_tile_leaves_registers_to_operands_that_must_be_loaded() -> None:
    # 13 tiles of rows in a block of one row would be one tile of 13 x 2.
    target = Target("llvm -mcpu=neoverse-n1 -cores=2")
    func = winograd(1, 4, 52, 16, 32, 4).func
    found = match_winograd(func)
    assert found is not None
    roles = WinogradRoles(func, found)
    assert roles.size == (1, 1, 13)
    tile = roles.best_tile(1, target)
    assert tile.rows * tile.vectors <= most_sums(target.instructions)
