"""Winograd's convolution against direct convolution in float64: sizes, paddings, errors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from burnish.support.errors import ComputeError
from burnish.tensorir import operators as ops
from burnish.tensorir.expr import Var
from burnish.tensorir.operators import winograd
from burnish.tensorir.operators.winograd import (
    KERNEL,
    SIZES,
    Blocks,
    error_bound,
    fits_integers,
    plan_blocks,
    rows_together,
    transform_bytes,
    transform_weight,
    transforms,
)
from burnish.tensorir.te.compute import placeholder

Run = Callable[..., np.ndarray]


def direct(x: np.ndarray, w: np.ndarray, padding: tuple[int, ...]) -> np.ndarray:
    """The convolution of (n, h, w, c) with (o, c, 3, 3), in float64."""
    top, bottom, left, right = padding
    wide = np.pad(x.astype(np.float64), [(0, 0), (top, bottom), (left, right), (0, 0)])
    rows, columns = wide.shape[1] - 2, wide.shape[2] - 2
    return sum(  # type: ignore[return-value]
        wide[:, i : i + rows, j : j + columns] @ w[:, :, i, j].T.astype(np.float64)
        for i in range(KERNEL)
        for j in range(KERNEL)
    )


def uniform(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).uniform(-1, 1, shape).astype(np.float32)


@pytest.mark.parametrize("m", SIZES)
@pytest.mark.parametrize(
    ("image", "padding"),
    [
        ((1, 4, 4), (1, 1, 1, 1)),
        ((2, 7, 5), (1, 1, 1, 1)),
        ((1, 9, 3), (0, 0, 0, 0)),
        ((3, 6, 10), (2, 0, 0, 1)),
        ((1, 1, 1), (1, 1, 1, 1)),
    ],
)
def test_it_is_the_convolution(
    run: Run, m: int, image: tuple[int, ...], padding: tuple[int, ...]
) -> None:
    x, w, bias = uniform(*image, 5), uniform(7, 5, 3, 3), uniform(7)
    found = run(
        lambda a, u, b: ops.winograd_conv(a, u, b, padding=padding, tile=m),
        x,
        transform_weight(w, m),
        bias,
    )
    np.testing.assert_allclose(found, direct(x, w, padding) + bias, atol=2e-5)


@pytest.mark.parametrize("zero", [0, 255])
@pytest.mark.parametrize("dtypes", [("uint8", "int8"), ("int8", "int8"), ("uint8", "uint8")])
@pytest.mark.parametrize(
    ("image", "padding"), [((1, 4, 4), (1, 1, 1, 1)), ((2, 7, 5), (0, 1, 2, 1))]
)
def test_bytes_are_exact(
    run: Run,
    image: tuple[int, ...],
    padding: tuple[int, ...],
    dtypes: tuple[str, str],
    zero: int,
) -> None:
    rng = np.random.default_rng(zero)
    x, w = (
        rng.integers(np.iinfo(d).min, np.iinfo(d).max + 1, s)
        for d, s in zip(dtypes, ((*image, 5), (7, 5, 3, 3)), strict=True)
    )
    x[0], w[0] = np.iinfo(dtypes[0]).max, np.iinfo(dtypes[1]).min
    w[1] = np.iinfo(dtypes[1]).max
    found = run(
        lambda a, u: ops.winograd_conv(a, u, padding=padding, tile=2, pad_value=float(zero)),
        x.astype("int16"),
        transform_bytes(w),
    )
    assert found.dtype == np.int32
    np.testing.assert_array_equal(found, direct(x - zero, w, padding) + zero * w.sum((1, 2, 3)))


def test_the_most_channels_whose_sums_are_integers_of_32_bits() -> None:
    channels = max(c for c in range(2000) if fits_integers(c))
    x, w = np.full((1, 4, 4, channels), 255), np.full((1, channels, 3, 3), 255)
    assert 4 * direct(x, w, (0, 0, 0, 0)).max() < 1 << 31
    assert channels >= 512
    u = transform_bytes(w)
    assert u.max() == 9 * 255


def signs_that_add_up(m: int, shape: tuple[int, ...], outputs: int) -> tuple[np.ndarray, ...]:
    """Inputs and weights of 1 and -1 for which the transforms' terms have one sign each where the
    products are largest: the rounding errors of all channels grow together."""
    t = transforms(m)
    size = np.abs(t.inputs).sum(1) * np.abs(t.weights).sum(1) * np.abs(t.outputs).max(0)
    row = int(np.argmax(size))
    tile = np.sign(np.outer(t.inputs[row], t.inputs[row]) + 1e-9)
    kernel = np.sign(np.outer(t.weights[row], t.weights[row]) + 1e-9)
    n, height, width, channels = shape
    image = np.tile(tile, (-(-height // m) + 1, -(-width // m) + 1))[:height, :width]
    x = np.broadcast_to(image[None, :, :, None], (n, height, width, channels))
    w = np.broadcast_to(kernel, (outputs, channels, KERNEL, KERNEL))
    # Not powers of two, so that every operation rounds.
    return (x * np.float32(0.9)).astype(np.float32), (w * np.float32(0.7)).astype(np.float32)


def hard_inputs(kind: str, m: int, channels: int) -> tuple[np.ndarray, ...]:
    """An image (1, 9, 9, channels) and weights (3, channels, 3, 3)."""
    rng = np.random.default_rng(channels)
    shapes = (1, 9, 9, channels), (3, channels, KERNEL, KERNEL)
    if kind == "signs":
        return signs_that_add_up(m, *shapes[:1], 3)
    pair = [rng.standard_normal(s) for s in shapes]
    if kind == "positive":
        pair = [rng.random(s) for s in shapes]
    elif kind == "range":
        pair = [v * 10.0 ** rng.uniform(-8, 3, v.shape) for v in pair]
    elif kind == "cancelling":
        pair[1] -= pair[1].mean((2, 3), keepdims=True)
        pair[0] += 100
    elif kind == "constant":
        pair = [np.full(s, 0.1) for s in shapes]
    return tuple([v.astype(np.float32) for v in pair])


@pytest.mark.parametrize("m", SIZES)
@pytest.mark.parametrize("channels", [1, 32, 300])
@pytest.mark.parametrize("kind", ["normal", "positive", "range", "cancelling", "constant", "signs"])
def test_no_error_is_above_the_bound(run: Run, kind: str, channels: int, m: int) -> None:
    x, w = hard_inputs(kind, m, channels)
    found = run(
        lambda a, u: ops.winograd_conv(a, u, padding=(1, 1, 1, 1), tile=m),
        x,
        transform_weight(w, m),
    )
    error = np.abs(found - direct(x, w, (1, 1, 1, 1))).max()
    assert error <= error_bound(m, channels) * float(np.abs(x).max()) * float(np.abs(w).max())


@pytest.mark.parametrize(("m", "factor", "more"), [(2, 64, 22), (4, 564, 30)])
def test_the_bound_is_the_one_that_is_told(m: int, factor: int, more: int) -> None:
    """In the README, in docs/math.md, and in the module."""
    for channels in (32, 128, 512):
        told = factor * channels * (channels + more) * 2.0**-24
        assert error_bound(m, channels) == pytest.approx(told, rel=1e-3)
    text = f"{factor} C (C + {more}) u"
    assert text in (winograd.__doc__ or "")
    root = Path(__file__).parents[3]
    assert all(text in (root / name).read_text() for name in ("README.md", "docs/math.md"))


@pytest.mark.parametrize("m", SIZES)
def test_the_matrices_are_exact(m: int) -> None:
    t = transforms(m)
    for matrix in (t.inputs, t.outputs):
        assert np.array_equal(matrix, matrix.astype(np.float32))
    # Any three weights and any tile of inputs: the outputs are those of the sum of products.
    rng = np.random.default_rng(0)
    d, g = rng.standard_normal(m + 2), rng.standard_normal(3)
    found = t.outputs @ ((t.weights @ g) * (t.inputs @ d))
    np.testing.assert_allclose(found, np.convolve(d, g[::-1], "valid"), rtol=1e-12)


def test_a_block_of_tiles_leaves_room_in_the_cache() -> None:
    whole = rows_together(7, 7, 4, 128, 128, 1 << 20)
    assert whole == 7
    assert rows_together(14, 14, 4, 64, 64, 1 << 20) == 2
    assert rows_together(13, 13, 4, 4096, 64, 1 << 18) == 1


def test_weights_in_no_cache_are_fetched_once_a_block() -> None:
    # One block of tiles in the cache, or weights that stay in it: nothing is fetched again.
    assert plan_blocks(7, 7, 4, 128, 128, 1 << 20) == Blocks(7, products_first=False)
    assert plan_blocks(14, 14, 4, 64, 64, 1 << 20) == Blocks(2, products_first=False)
    # A quarter of that cache is too small for either.
    assert plan_blocks(7, 7, 4, 128, 128, 1 << 18) == Blocks(7, products_first=True)
    assert plan_blocks(4, 4, 2, 512, 512, 1 << 19) == Blocks(4, products_first=True)
    # All of one block, beside weights that do not stay: products first, if their results do.
    assert plan_blocks(7, 7, 4, 128, 128, 1 << 21) == Blocks(7, products_first=True)
    assert plan_blocks(7, 7, 2, 256, 256, 1 << 21) == Blocks(7, products_first=True)
    assert plan_blocks(7, 7, 2, 256, 256, 1 << 20) == Blocks(7, products_first=False)
    # The block stays within a farther cache.
    assert plan_blocks(28, 28, 4, 128, 128, 1 << 18) == Blocks(2, products_first=True)


def test_what_does_not_fit_is_refused() -> None:
    x, u = placeholder((1, 8, 8, 4), "float32"), placeholder((6, 6, 3, 4), "float32")
    symbolic = placeholder((1, Var("h"), 8, 4), "float32")
    half = placeholder((6, 6, 3, 4), "float16")
    other = placeholder((6, 6, 3, 5), "float32")
    for a, b, padding, tile, text in (
        (x, u, (1, 1, 1, 1), 3, r"tiles of \(2, 4\) outputs, found 3"),
        (x, u, (1, 1, 1, 1), 2, r"u\[4, 4, o, 4\], found \[6, 6, 3, 4\]"),
        (x, other, (1, 1, 1, 1), 4, r"u\[6, 6, o, 4\]"),
        (x, half, (1, 1, 1, 1), 4, "operands of float32"),
        (x, u, (1, 1), 4, "4 paddings"),
        (symbolic, u, (1, 1, 1, 1), 4, "static sizes"),
        (placeholder((1, 1, 8, 4), "float32"), u, (0, 0, 0, 0), 4, "does not fit 1 x 8"),
        (placeholder((8, 8, 4), "float32"), u, (1, 1, 1, 1), 4, "x.n, h, w, c."),
    ):
        with pytest.raises(ComputeError, match=text):
            ops.winograd_conv(a, b, padding=padding, tile=tile)
