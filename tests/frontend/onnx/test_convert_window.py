"""Convolutions and pooling against onnx's reference."""

from __future__ import annotations

import numpy as np
import pytest

from burnish.frontend.onnx import import_onnx
from burnish.tests.frontend.onnx.oracle import check, evaluate, model, operators_of, refusal

RNG = np.random.default_rng(0)


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


X1, X2, X3 = normal(2, 4, 9), normal(2, 4, 8, 7), normal(1, 4, 5, 6, 4)
SHAPES = {3: "float[N, 4, 9] x", 4: "float[N, 4, 8, 7] x", 5: "float[N, 4, 5, 6, 4] x"}


@pytest.mark.parametrize(
    ("x", "w", "attributes"),
    [
        (X1, (6, 4, 3), ""),
        (X1, (6, 4, 3), "<strides = [2], pads = [1, 2]>"),
        (X2, (6, 4, 3, 3), ""),
        (X2, (6, 4, 3, 2), "<strides = [2, 1], pads = [1, 0, 2, 1], kernel_shape = [3, 2]>"),
        (X2, (6, 4, 3, 3), "<dilations = [2, 1], pads = [1, 1, 1, 1]>"),
        (X2, (6, 2, 3, 3), "<group = 2>"),
        (X2, (4, 1, 3, 3), "<group = 4>"),
        (X2, (6, 4, 3, 2), '<auto_pad = "SAME_UPPER">'),
        (X2, (6, 4, 2, 2), '<auto_pad = "SAME_LOWER", strides = [2, 2]>'),
        (X2, (6, 4, 3, 3), '<auto_pad = "VALID">'),
        (X3, (2, 4, 2, 3, 2), "<strides = [1, 2, 1]>"),
    ],
)
@pytest.mark.parametrize("biased", [False, True])
def test_conv(x: np.ndarray, w: tuple[int, ...], attributes: str, biased: bool) -> None:
    weights = {"w": normal(*w)} | ({"b": normal(w[0])} if biased else {})
    call = "(x, w, b)" if biased else "(x, w)"
    made = model(f"y = Conv{attributes}{call}", SHAPES[x.ndim], 11, weights=weights)
    assert operators_of(check(made, x=x, tolerance=2e-4)) == ["conv"]


@pytest.mark.parametrize(
    ("x", "w", "attributes"),
    [
        (X1, (4, 3, 4), "<strides = [3]>"),
        (X2, (4, 3, 3, 3), ""),
        (X2, (4, 3, 3, 3), "<strides = [2, 2], pads = [1, 1, 1, 1], output_padding = [1, 1]>"),
        (X2, (4, 3, 2, 2), "<dilations = [2, 2]>"),
    ],
)
def test_conv_transpose(x: np.ndarray, w: tuple[int, ...], attributes: str) -> None:
    weights = {"w": normal(*w), "b": normal(w[1])}
    made = model(f"y = ConvTranspose{attributes}(x, w, b)", SHAPES[x.ndim], 11, weights=weights)
    assert operators_of(check(made, x=x, tolerance=2e-4)) == ["conv_transpose"]


@pytest.mark.parametrize(
    ("x", "attributes"),
    [
        (X1, "kernel_shape = [3], strides = [2]"),
        (X2, "kernel_shape = [2, 2]"),
        (X2, "kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]"),
        (X2, "kernel_shape = [2, 2], strides = [2, 2], ceil_mode = 1"),
        (X3, "kernel_shape = [2, 3, 2], strides = [1, 2, 2]"),
    ],
)
@pytest.mark.parametrize("name", ["MaxPool", "AveragePool"])
def test_pools(name: str, x: np.ndarray, attributes: str) -> None:
    shape = SHAPES[x.ndim] if "ceil" not in attributes else "float[2, 4, 8, 7] x"
    check(model(f"y = {name}<{attributes}>(x)", shape, 12), x=x)


def test_pads_that_differ() -> None:
    """onnx's evaluator mixes up these pads."""
    text = "y = MaxPool<kernel_shape = [3, 2], pads = [1, 0, 1, 1]>(x)"
    imported = import_onnx(model(text, SHAPES[4], 12))
    padded = np.pad(X2, ((0, 0), (0, 0), (1, 1), (0, 1)), constant_values=-np.inf)
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 2), (2, 3))
    np.testing.assert_array_equal(evaluate(imported, {"x": X2})[0], windows.max((-1, -2)))


def test_variants_of_pools() -> None:
    dilated = "MaxPool<kernel_shape = [2, 3], dilations = [2, 1]>(x)"
    check(model(f"y = {dilated}", SHAPES[4], 12), x=X2)
    counted = "kernel_shape = [3, 3], pads = [1, 1, 1, 1], count_include_pad = 1"
    check(model(f"y = AveragePool<{counted}>(x)", SHAPES[4], 12), x=X2)


@pytest.mark.parametrize("name", ["GlobalAveragePool", "GlobalMaxPool"])
@pytest.mark.parametrize("x", [X1, X2, X3], ids=["1", "2", "3"])
def test_global_pools(name: str, x: np.ndarray) -> None:
    sizes = ", ".join("HWD"[: x.ndim - 2])
    imported = import_onnx(model(f"y = {name}(x)", f"float[N, 4, {sizes}] x", 12))
    over = np.mean if "Average" in name else np.max
    expected = over(x, tuple(range(2, x.ndim)), keepdims=True)
    np.testing.assert_allclose(evaluate(imported, {"x": x})[0], expected, rtol=1e-5, atol=1e-6)


def test_groups_of_a_conv_transpose() -> None:
    """onnx's evaluator refuses groups; they are convolutions of their own, joined."""
    w = normal(4, 3, 3, 3)
    text = "y = ConvTranspose<strides = [2, 1]{}>(x, w)"
    whole = import_onnx(model(text.format(", group = 2"), SHAPES[4], 11, weights={"w": w}))
    parts = []
    for half in (slice(0, 2), slice(2, 4)):
        made = model(text.format(""), "float[N, 2, 8, 7] x", 11, weights={"w": w[half]})
        parts += evaluate(import_onnx(made), {"x": X2[:, half]})
    found = evaluate(whole, {"x": X2})[0]
    np.testing.assert_allclose(found, np.concatenate(parts, 1), rtol=1e-5, atol=1e-5)


CONV, W = "y = Conv{}(x, w)", {"w": normal(6, 4, 3, 3)}


@pytest.mark.parametrize(
    ("text", "shape", "message"),
    [
        (CONV.format("<strides = [2]>"), SHAPES[4], "strides has 1 entries, not 2"),
        (CONV.format("<pads = [0, -1, 0, 0]>"), SHAPES[4], "negative pads cannot be imported"),
        (CONV.format('<auto_pad = "SAME">'), SHAPES[4], "auto_pad 'SAME' is unknown"),
        (
            CONV.format('<auto_pad = "SAME_UPPER", strides = [2, 2]>'),
            "float[N, 4, H, W] x",
            "auto_pad of a symbolic size",
        ),
        (
            'y = ConvTranspose<auto_pad = "SAME_UPPER">(x, w)',
            "float[N, 6, H, 7] x",
            "needs static sizes",
        ),
        (
            "y, i = MaxPool<kernel_shape = [2, 2]>(x)\nz = Add(i, i)",
            SHAPES[4],
            "needs static sizes",
        ),
    ],
)
def test_what_cannot_be_imported(text: str, shape: str, message: str) -> None:
    weights = W if "(x, w)" in text else {}
    outputs = "float y, int64 z" if "z =" in text else "float y"
    assert message in refusal(model(text, shape, 19, weights=weights, outputs=outputs))


@pytest.mark.parametrize("counted", [0, 1])
def test_means_of_elements_apart(counted: int) -> None:
    attributes = f"dilations = [2, 2], pads = [1, 1, 1, 1], count_include_pad = {counted}"
    made = model(f"y = AveragePool<kernel_shape = [2, 2], {attributes}>(x)", SHAPES[4], 19)
    check(made, x=np.random.default_rng(0).random((2, 4, 8, 7)).astype(np.float32))


@pytest.mark.parametrize("order", [0, 1])
def test_maxima_and_where_they_were(order: int) -> None:
    attributes = f"kernel_shape = [2, 3], strides = [2, 2], storage_order = {order}"
    made = model(f"y, i = MaxPool<{attributes}>(x)", "float[2, 4, 8, 7] x", 19,
                 outputs="float y, int64 i")  # fmt: skip
    check(made, x=np.random.default_rng(0).random((2, 4, 8, 7)).astype(np.float32))


@pytest.mark.parametrize("how", ['auto_pad = "SAME_UPPER"', "output_shape = [9, 9]"])
def test_transposed_convolutions_of_a_given_size(how: str) -> None:
    made = model(f"y = ConvTranspose<{how}>(x, w)", "float[N, 6, 8, 7] x", 19, weights=W)
    y = evaluate(import_onnx(made), {"x": np.ones((1, 6, 8, 7), np.float32)})[0]
    assert y.shape[2:] == ((8, 7) if "auto" in how else (9, 9))
