"""Adaptive pooling against torch in float64: parts that divide the size and parts that do not."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from burnish import te
from burnish.support.errors import ComputeError
from burnish.tensorir import operators as ops
from burnish.tests.native import call_native
from burnish.tests.tuner.rules.checking import scheduled

Run = Callable[..., np.ndarray]


def array(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape)


def last(x: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(np.moveaxis(x, 1, -1))


@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize("mode", ["avg", "max"])
@pytest.mark.parametrize(
    ("shape", "out"),
    [
        ((1, 2, 7, 5), (1, 1)),
        ((2, 3, 6, 4), (3, 2)),
        ((1, 2, 7, 5), (3, 2)),
        ((1, 2, 6, 70), (3, 2)),
        ((1, 2, 6, 70), (1, 2)),
        ((1, 2, 6, 70), (6, 1)),
    ],
)
def test_adaptive_pool(
    run: Run, shape: tuple[int, ...], out: tuple[int, ...], mode: str, channels_last: bool
) -> None:
    x = array(*shape)
    pool = F.adaptive_avg_pool2d if mode == "avg" else F.adaptive_max_pool2d
    wanted = pool(torch.tensor(x), out).numpy()
    found = run(
        lambda t: ops.adaptive_pool(t, output_size=out, mode=mode, channels_last=channels_last),
        last(x) if channels_last else x,
    )
    np.testing.assert_allclose(found, last(wanted) if channels_last else wanted, rtol=1e-12)


def test_global_pool_of_a_symbolic_size(run: Run) -> None:
    x = array(2, 3, 5, 4)
    found = run(
        lambda t: ops.adaptive_pool(t, output_size=(1, 1), mode="avg"),
        x,
        shapes=[("n", 3, "h", "w")],
    )
    np.testing.assert_allclose(found, x.mean((2, 3), keepdims=True), rtol=1e-12)


@pytest.mark.parametrize("mode", ["avg", "max"])
def test_one_and_three_spatial_dims(run: Run, mode: str) -> None:
    for shape, out in [((2, 3, 7), (3,)), ((1, 2, 5, 4, 3), (2, 3, 1)), ((1, 1, 2), (5,))]:
        x = array(*shape)
        pool = getattr(F, f"adaptive_{mode}_pool{len(out)}d")
        found = run(lambda t, out=out: ops.adaptive_pool(t, output_size=out, mode=mode), x)
        np.testing.assert_allclose(found, pool(torch.tensor(x), out).numpy(), rtol=1e-12)


def test_special_values(run: Run) -> None:
    x = array(1, 1, 6)
    x[0, 0, 0], x[0, 0, 5] = np.nan, np.inf
    for mode in ("avg", "max"):
        found = run(lambda t, mode=mode: ops.adaptive_pool(t, output_size=(3,), mode=mode), x)
        wanted = getattr(F, f"adaptive_{mode}_pool1d")(torch.tensor(x), 3).numpy()
        np.testing.assert_allclose(found, wanted, rtol=1e-12)


def test_errors() -> None:
    x = te.placeholder((1, 3, 5, 5))
    with pytest.raises(ComputeError, match="avg or max"):
        ops.adaptive_pool(x, output_size=(1, 1), mode="sum")
    with pytest.raises(ComputeError, match="static spatial dims"):
        ops.adaptive_pool(te.placeholder((1, 1, te.var("n"))), output_size=(2,), mode="avg")


def test_large_parts_are_exact_to_a_few_roundings() -> None:
    """One sum after the other left 1.3e-5 of 250,000 elements, as PyTorch does."""
    x = array(1, 1, 1000, 1000).astype(np.float32) + np.float32(1)
    t = te.placeholder(x.shape, "float32", name="t")
    y = ops.adaptive_pool(t, output_size=(2, 2), mode="avg")
    _, func = scheduled(te.create_prim_func([t, y]))
    found = np.zeros((1, 1, 2, 2), np.float32)
    call_native(func, x, found)
    wanted = F.adaptive_avg_pool2d(torch.tensor(x).double(), 2).numpy()
    assert np.abs(found - wanted).max() <= 1e-6 * np.abs(wanted).max()
