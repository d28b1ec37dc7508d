"""Convolutions and their transposes against torch in float64: strides, paddings, dilations, groups,
one to three dims, both layouts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from burnish import te
from burnish.support.errors import ComputeError
from burnish.tensorir import operators as ops

Run = Callable[..., np.ndarray]
CONVS = {1: torch.conv1d, 2: torch.conv2d, 3: torch.conv3d}
TRANSPOSES = {1: torch.conv_transpose1d, 2: torch.conv_transpose2d, 3: torch.conv_transpose3d}


def array(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed + sum(shape)).standard_normal(shape)


def last(x: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(np.moveaxis(x, 1, -1))


@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize(
    ("x", "w", "kwargs"),
    [
        ((2, 3, 8), (4, 3, 3), {}),
        ((2, 3, 8, 7), (5, 3, 3, 3), {"padding": 1}),
        ((1, 3, 9, 9), (4, 3, 3, 2), {"stride": 2, "padding": (1, 0)}),
        ((1, 4, 9, 8), (4, 4, 3, 3), {"dilation": (2, 1), "padding": 2}),
        ((1, 6, 7, 7), (6, 1, 3, 3), {"groups": 6, "padding": 1}),
        ((1, 3, 7, 7), (6, 1, 3, 3), {"groups": 3, "stride": 2}),
        ((1, 4, 5, 5), (6, 2, 3, 3), {"groups": 2, "padding": 1}),
        ((1, 5, 6, 6), (7, 5, 1, 1), {}),
        ((2, 1, 6, 6), (3, 1, 2, 2), {}),
        ((1, 2, 5, 4, 6), (3, 2, 2, 3, 2), {"stride": (1, 2, 1), "padding": (0, 1, 1)}),
    ],
)
def test_conv(
    run: Run, x: tuple[int, ...], w: tuple[int, ...], kwargs: dict[str, Any], channels_last: bool
) -> None:
    a, b, bias = array(*x), array(*w, seed=1), array(w[0])
    n = len(x) - 2
    wanted = CONVS[n](torch.tensor(a), torch.tensor(b), torch.tensor(bias), **kwargs).numpy()
    options = options_of(n, kwargs)
    found = run(
        lambda x, w, c: ops.conv(x, w, c, channels_last=channels_last, **options),
        last(a) if channels_last else a,
        b,
        bias,
    )
    np.testing.assert_allclose(found, last(wanted) if channels_last else wanted, rtol=1e-12)


def options_of(n: int, kwargs: dict[str, Any]) -> dict[str, Any]:
    def each(key: str, default: int) -> list[int]:
        value = kwargs.get(key, default)
        return list(value) if isinstance(value, tuple) else [value] * n

    return {
        "strides": each("stride", 1),
        "padding": [p for p in each("padding", 0) for _ in range(2)],
        "dilation": each("dilation", 1),
        "groups": kwargs.get("groups", 1),
    }


def test_layouts_of_input_and_result_may_differ(run: Run) -> None:
    a, b = array(1, 3, 6, 6), array(4, 3, 3, 3)
    wanted = torch.conv2d(torch.tensor(a), torch.tensor(b), padding=1).numpy()
    found = run(
        lambda x, w: ops.conv(
            x, w, strides=[1, 1], padding=[1] * 4, dilation=[1, 1], out_channels_last=True
        ),
        a,
        b,
    )
    np.testing.assert_allclose(found, last(wanted), rtol=1e-12)


def test_asymmetric_padding(run: Run) -> None:
    a, b = array(1, 2, 5, 5), array(3, 2, 2, 2)
    padded = np.pad(a, [(0, 0), (0, 0), (0, 1), (2, 0)])
    wanted = torch.conv2d(torch.tensor(padded), torch.tensor(b)).numpy()
    found = run(
        lambda x, w: ops.conv(x, w, strides=[1, 1], padding=[0, 1, 2, 0], dilation=[1, 1]), a, b
    )
    np.testing.assert_allclose(found, wanted, rtol=1e-12)


def test_symbolic_batch_and_size(run: Run) -> None:
    a, b = array(3, 2, 9, 6), array(4, 2, 3, 3)
    wanted = torch.conv2d(torch.tensor(a), torch.tensor(b), padding=1, stride=2).numpy()
    found = run(
        lambda x, w: ops.conv(x, w, strides=[2, 2], padding=[1] * 4, dilation=[1, 1]),
        a,
        b,
        shapes=[("n", 2, "h", 6), (4, 2, 3, 3)],
    )
    np.testing.assert_allclose(found, wanted, rtol=1e-12)


def test_half_precision_accumulates_in_float32(run: Run) -> None:
    a, b = array(1, 40, 5, 5).astype("float16"), array(3, 40, 3, 3).astype("float16")
    wanted = torch.conv2d(torch.tensor(a).double(), torch.tensor(b).double()).numpy()
    found = run(lambda x, w: ops.conv(x, w, strides=[1, 1], padding=[0] * 4, dilation=[1, 1]), a, b)
    assert found.dtype == np.float16
    np.testing.assert_allclose(found, wanted.astype(np.float16), rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize(
    ("x", "w", "kwargs"),
    [
        ((2, 3, 5), (3, 4, 3), {}),
        ((1, 3, 5, 4), (3, 4, 3, 3), {"stride": 2, "padding": 1, "output_padding": 1}),
        ((1, 4, 4, 4), (4, 2, 2, 3), {"stride": (2, 3), "groups": 2}),
        ((1, 2, 4, 4), (2, 3, 3, 3), {"dilation": 2, "padding": (1, 2)}),
        ((1, 4, 5, 5), (4, 1, 3, 3), {"groups": 4, "stride": 2}),
        ((1, 2, 3, 3, 2), (2, 3, 2, 2, 2), {"stride": 2}),
        ((1, 2, 4, 4), (2, 3, 1, 1), {"padding": 1}),
    ],
)
def test_conv_transpose(
    run: Run, x: tuple[int, ...], w: tuple[int, ...], kwargs: dict[str, Any], channels_last: bool
) -> None:
    a, b = array(*x), array(*w, seed=1)
    bias = array(w[1] * kwargs.get("groups", 1))
    n = len(x) - 2
    wanted = TRANSPOSES[n](torch.tensor(a), torch.tensor(b), torch.tensor(bias), **kwargs).numpy()
    extra = kwargs.get("output_padding", 0)
    options = options_of(n, kwargs) | {"output_padding": [extra] * n}
    found = run(
        lambda x, w, c: ops.conv_transpose(x, w, c, channels_last=channels_last, **options),
        last(a) if channels_last else a,
        b,
        bias,
    )
    np.testing.assert_allclose(
        found, last(wanted) if channels_last else wanted, rtol=1e-12, atol=1e-14
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"strides": [1]}, "expected 2 strides"),
        ({"strides": [0, 1]}, "at least 1"),
        ({"padding": [-1, 0, 0, 0]}, "at least 1, paddings"),
        ({"groups": 2}, "3 channels do not fit a weight of 3 in 2 groups"),
    ],
)
def test_errors(change: dict[str, Any], message: str) -> None:
    x, w = te.placeholder((1, 3, 5, 5)), te.placeholder((4, 3, 3, 3))
    options: dict[str, Any] = {"strides": [1, 1], "padding": [0] * 4, "dilation": [1, 1]}
    with pytest.raises(ComputeError, match=message):
        ops.conv(x, w, **{**options, **change})
    with pytest.raises(ComputeError, match="the same rank"):
        ops.conv(x, te.placeholder((4, 3, 3)), **options)
