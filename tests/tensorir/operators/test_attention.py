"""Attention, unscheduled, against torch in float64."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from burnish.support.errors import ComputeError
from burnish.tensorir import operators as ops
from burnish.tensorir.te.compute import placeholder

Run = Callable[..., np.ndarray]
RNG = np.random.default_rng(3)


def draw(*shape: int, dtype: str = "float32") -> np.ndarray:
    return RNG.standard_normal(shape).astype(dtype)


def expected(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, mask: np.ndarray | None = None, **options: object
) -> np.ndarray:
    operands = [torch.from_numpy(x.astype("float64")) for x in (q, k, v)]
    if mask is not None:
        mask = mask if mask.dtype == bool else mask.astype("float64")
        options["attn_mask"] = torch.from_numpy(mask)
    result: np.ndarray = F.scaled_dot_product_attention(
        *operands,
        enable_gqa=True,
        **options,  # type: ignore[arg-type]
    ).numpy()
    return result


Q, K, V = draw(2, 4, 3, 5), draw(2, 2, 7, 5), draw(2, 2, 7, 6)


def test_groups_of_heads(run: Run) -> None:
    np.testing.assert_allclose(run(ops.attention, Q, K, V), expected(Q, K, V), atol=1e-6)


def test_scale_and_causal(run: Run) -> None:
    found = run(lambda *x: ops.attention(*x, scale=0.3, causal=True), Q, K, V)
    np.testing.assert_allclose(found, expected(Q, K, V, scale=0.3, is_causal=True), atol=1e-6)


@pytest.mark.parametrize("shape", [(3, 7), (2, 1, 1, 7), (4, 3, 1), (2, 4, 3, 7)])
@pytest.mark.parametrize("dtype", ["bool", "float32"])
def test_masks(run: Run, shape: tuple[int, ...], dtype: str) -> None:
    mask = RNG.random(shape) < 0.7 if dtype == "bool" else draw(*shape)
    np.testing.assert_allclose(
        run(ops.attention, Q, K, V, mask), expected(Q, K, V, mask), atol=1e-6
    )


@pytest.mark.parametrize("dtype", ["bool", "float32"])
def test_a_row_without_keys(run: Run, dtype: str) -> None:
    mask = np.ones((3, 7), bool)
    mask[1] = False
    if dtype == "float32":
        mask = np.where(mask, np.float32(0), np.float32(-np.inf))
    found = run(ops.attention, Q, K, V, mask)
    np.testing.assert_allclose(found, expected(Q, K, V, mask), atol=1e-6)
    assert (found[:, :, 1] == 0).all()
    found = run(lambda *x: ops.attention(*x, zero_masked_rows=False), Q, K, V, mask)
    assert np.isnan(found[:, :, 1]).all()
    assert np.isfinite(found[:, :, [0, 2]]).all()


def test_no_keys_at_all(run: Run) -> None:
    found = run(ops.attention, Q, K[:, :, :0], V[:, :, :0])
    assert (found == 0).all()


def test_large_scores_do_not_overflow(run: Run) -> None:
    found = run(ops.attention, Q * 100, K * 100, V)
    np.testing.assert_allclose(found, expected(Q * 100, K * 100, V), atol=1e-4)


@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_other_dtypes(run: Run, dtype: str) -> None:
    q, k, v = (x.astype(dtype) for x in (Q, K, V))
    tolerance = 1e-3 if dtype == "float16" else 1e-14
    np.testing.assert_allclose(run(ops.attention, q, k, v), expected(q, k, v), atol=tolerance)


def test_symbolic_lengths(run: Run) -> None:
    shapes = [(2, 4, "n", 5), (2, 2, "m", 5), (2, 2, "m", 6)]
    found = run(lambda *x: ops.attention(*x, causal=True), Q, K, V, shapes=shapes)
    np.testing.assert_allclose(found, expected(Q, K, V, is_causal=True), atol=1e-6)


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        (((2, 4, 5), (2, 4, 7, 5), (2, 4, 7, 5)), "of 4 dimensions .* found 3, 4, 4"),
        (((2, 4, 3, 5), (2, 3, 7, 5), (2, 3, 7, 5)), "multiple of those of k, found 4 and 3"),
        (((2, 4, 3, 5), (2, 4, 7, 6), (2, 4, 7, 5)), "sizes of queries and keys, found 5 and 6"),
        (((2, 4, 3, 5), (2, 4, 7, 5), (2, 4, 8, 5)), "numbers of keys and values, found 7 and 8"),
        (((1, 4, 3, 5), (2, 4, 7, 5), (2, 4, 7, 5)), "batches of q and k, found 1 and 2"),
    ],
)
def test_operands_that_do_not_fit(shapes: tuple[tuple[int, ...], ...], message: str) -> None:
    operands = [placeholder(s, name=f"x{n}") for n, s in enumerate(shapes)]
    with pytest.raises(ComputeError, match=message):
        ops.attention(*operands)


def test_dtypes_that_do_not_fit() -> None:
    q, half = placeholder((1, 1, 2, 3), name="q"), placeholder((1, 1, 2, 3), "float16", name="h")
    with pytest.raises(ComputeError, match="one float dtype, found float32, float16 and float32"):
        ops.attention(q, half, q)
    with pytest.raises(ComputeError, match="a mask of bool or float32, found int32"):
        ops.attention(q, q, q, placeholder((2, 2), "int32", name="mask"))
