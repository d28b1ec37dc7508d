"""Pooling against torch in float64: sizes, paddings, ceil_mode, counting, both layouts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from burnish import te
from burnish.support.errors import ComputeError
from burnish.tensorir import operators as ops

Run = Callable[..., np.ndarray]


def array(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape)


def last(x: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(np.moveaxis(x, 1, -1))


def each(value: int | tuple[int, ...], n: int) -> list[int]:
    return list(value) if isinstance(value, tuple) else [value] * n


CASES: list[tuple[tuple[int, ...], dict[str, Any]]] = [
    ((2, 3, 9), {"kernel_size": 3}),
    ((1, 3, 8, 7), {"kernel_size": 3, "stride": 2, "padding": 1}),
    ((1, 2, 7, 7), {"kernel_size": (2, 3), "stride": (2, 1), "ceil_mode": True}),
    ((1, 2, 8, 8), {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True}),
    ((1, 2, 5, 6, 4), {"kernel_size": 2, "stride": 2}),
]


@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize(
    ("shape", "kwargs"), [*CASES, ((1, 2, 9, 9), {"kernel_size": 3, "dilation": 2})]
)
def test_max_pool(
    run: Run, shape: tuple[int, ...], kwargs: dict[str, Any], channels_last: bool
) -> None:
    x = array(*shape)
    x.flat[3] = np.nan
    x.flat[20] = -np.inf
    n = len(shape) - 2
    pool = (F.max_pool1d, F.max_pool2d, F.max_pool3d)[n - 1]
    wanted = pool(torch.tensor(x), **kwargs).numpy()
    found = run(
        lambda t: ops.max_pool(
            t,
            kernel=each(kwargs["kernel_size"], n),
            strides=each(kwargs.get("stride", kwargs["kernel_size"]), n),
            padding=[p for p in each(kwargs.get("padding", 0), n) for _ in "ab"],
            dilation=each(kwargs.get("dilation", 1), n),
            ceil_mode=kwargs.get("ceil_mode", False),
            channels_last=channels_last,
        ),
        last(x) if channels_last else x,
    )
    np.testing.assert_array_equal(found, last(wanted) if channels_last else wanted)


@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize("counted", [False, True])
@pytest.mark.parametrize(("shape", "kwargs"), CASES)
def test_avg_pool(
    run: Run, shape: tuple[int, ...], kwargs: dict[str, Any], counted: bool, channels_last: bool
) -> None:
    x = array(*shape)
    n = len(shape) - 2
    pool = (F.avg_pool1d, F.avg_pool2d, F.avg_pool3d)[n - 1]
    wanted = pool(torch.tensor(x), **kwargs, count_include_pad=counted).numpy()
    found = run(
        lambda t: ops.avg_pool(
            t,
            kernel=each(kwargs["kernel_size"], n),
            strides=each(kwargs.get("stride", kwargs["kernel_size"]), n),
            padding=[p for p in each(kwargs.get("padding", 0), n) for _ in "ab"],
            ceil_mode=kwargs.get("ceil_mode", False),
            count_include_pad=counted,
            channels_last=channels_last,
        ),
        last(x) if channels_last else x,
    )
    np.testing.assert_allclose(found, last(wanted) if channels_last else wanted, rtol=1e-12)


def test_avg_pool_with_a_divisor(run: Run) -> None:
    x = array(1, 2, 4, 4)
    wanted = F.avg_pool2d(torch.tensor(x), 2, divisor_override=3).numpy()
    found = run(
        lambda t: ops.avg_pool(t, kernel=[2, 2], strides=[2, 2], padding=[0] * 4, divisor=3), x
    )
    np.testing.assert_allclose(found, wanted, rtol=1e-12)


def test_integers_have_a_maximum(run: Run) -> None:
    x = np.arange(-12, 0, dtype=np.int32).reshape(1, 1, 12)
    found = run(lambda t: ops.max_pool(t, kernel=[3], strides=[3], padding=[1, 0], dilation=[1]), x)
    np.testing.assert_array_equal(found, [[[-11, -8, -5, -2]]])


def test_errors() -> None:
    x = te.placeholder((1, 3, 5, 5))
    with pytest.raises(ComputeError, match="a kernel of 2 sizes"):
        ops.max_pool(x, kernel=[3], strides=[1, 1], padding=[0] * 4, dilation=[1, 1])
    with pytest.raises(ComputeError, match="expected floats, found int32"):
        ops.avg_pool(te.placeholder((1, 1, 4), "int32"), kernel=[2], strides=[2], padding=[0, 0])
    with pytest.raises(ComputeError, match="ceil_mode needs static"):
        ops.max_pool(
            te.placeholder((1, 1, te.var("n"))),
            kernel=[2], strides=[2], padding=[0, 0], dilation=[1], ceil_mode=True,
        )  # fmt: skip
