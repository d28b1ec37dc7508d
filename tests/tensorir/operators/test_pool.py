"""Pooling against torch in float64: sizes, paddings, ceil_mode, counting, both layouts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from burnish import te
from burnish.graphir.dim import static_value, substitute_dim
from burnish.support.errors import ComputeError
from burnish.tensorir import operators as ops
from burnish.tensorir.expr import IntImm, Var
from burnish.tensorir.operators.pool import pool_extent
from burnish.tests.native import call_native
from burnish.tests.tuner.rules.checking import scheduled

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
    # Rows first: windows beside each other, overlapping, over the edge, and of three axes.
    ((1, 2, 70, 80), {"kernel_size": (3, 40), "stride": (3, 40)}),
    ((1, 2, 40, 75), {"kernel_size": (4, 33), "stride": (2, 5), "padding": (1, 16)}),
    ((1, 1, 8, 79), {"kernel_size": (3, 34), "stride": (2, 33), "ceil_mode": True}),
    ((1, 2, 3, 5), {"kernel_size": 4096, "stride": 4096, "padding": 1, "ceil_mode": True}),
    ((1, 2, 3, 5), {"kernel_size": (2, 4096), "stride": (1, 4095), "ceil_mode": True}),
    ((1, 2, 4, 5, 70), {"kernel_size": (2, 1, 35), "stride": (2, 1, 35)}),
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


def test_a_mean_of_integers_is_truncated(run: Run) -> None:
    x = np.array([[[-5, 2, 3, 4, 7, 7]]], dtype=np.int32)
    found = run(lambda t: ops.avg_pool(t, kernel=[2], strides=[2], padding=[0, 0]), x)
    np.testing.assert_array_equal(found, [[[-1, 3, 7]]])


def test_errors() -> None:
    x = te.placeholder((1, 3, 5, 5))
    with pytest.raises(ComputeError, match="a kernel of 2 sizes"):
        ops.max_pool(x, kernel=[3], strides=[1, 1], padding=[0] * 4, dilation=[1, 1])


@pytest.mark.parametrize(
    ("kernel", "stride", "pad", "dilation"),
    [(2, 2, 0, 1), (3, 2, 1, 1), (1, 3, 0, 1), (2, 5, 0, 1), (3, 3, 1, 2), (4, 1, 2, 1)],
)
def test_windows_over_the_edge_of_a_symbolic_size(
    kernel: int, stride: int, pad: int, dilation: int
) -> None:
    n = Var("n")
    count, _ = pool_extent(n, kernel, stride, pad, pad, dilation, ceil_mode=True)
    for size in range((kernel - 1) * dilation + 1, 40):
        window = (kernel, stride, pad, pad, dilation)
        wanted, _ = pool_extent(IntImm(size), *window, ceil_mode=True)
        assert static_value(substitute_dim(count, {n: IntImm(size)})) == static_value(wanted)


def test_the_mean_of_large_windows_is_exact_to_a_few_roundings() -> None:
    """One sum after the other left 5e-6 of 40,000 elements, as PyTorch does."""
    x = array(1, 2, 400, 400).astype(np.float32) + np.float32(10)
    t = te.placeholder(x.shape, "float32", name="t")
    y = ops.avg_pool(t, kernel=[200, 200], strides=[200, 200], padding=[0] * 4)
    name, func = scheduled(te.create_prim_func([t, y]))
    assert name == "reduction"
    found = np.zeros((1, 2, 2, 2), np.float32)
    call_native(func, x, found)
    wanted = F.avg_pool2d(torch.tensor(x).double(), 200).numpy()
    assert np.abs(found - wanted).max() <= 1e-6 * np.abs(wanted).max()
    # Vectors of the image's rows, no element by itself.
    assert "T.vectorized(" in func.script()
    assert "[v_i0, v_i1, v_i2 * 200 + v_k0, v_i3]" in func.script()


def test_a_window_larger_than_the_image_is_as_large_as_the_image() -> None:
    x = te.placeholder((1, 2, 3, 5), "float32", name="x")
    made = ops.avg_pool(x, kernel=[4096] * 2, strides=[4096] * 2, padding=[1] * 4, ceil_mode=True)
    assert "4096" not in te.create_prim_func([x, made]).script()
