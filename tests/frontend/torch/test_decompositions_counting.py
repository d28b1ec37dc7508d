"""Histograms, the most frequent value and places of known number, beside torch's own."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from burnish.frontend.torch.decompositions import DECOMPOSITIONS, aten
from burnish.tests.frontend.torch.oracle import check_all

X = torch.tensor([[3.0, -1.0, 3.0, 0.5], [2.0, 3.0, -1.0, 7.25]])


def check(op: Any, *args: Any, **kwargs: Any) -> None:
    found, wanted = DECOMPOSITIONS[op](*args, **kwargs), op(*args, **kwargs)
    torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize("ends", [(0, 0), (-1, 3), (2, 2)])
def test_histc(ends: tuple[float, float]) -> None:
    check(aten.histc.default, X, 5, *ends)
    check(aten.histc.default, torch.full((3,), 2.0), 4, *ends)


@pytest.mark.parametrize("density", [False, True])
def test_histograms(density: bool) -> None:
    edges, weight = torch.tensor([-1.0, 0.0, 2.5, 3.0]), torch.rand(X.shape)
    check(aten.histogram.bins_tensor, X, edges, density=density)
    check(aten.histogram.bins_tensor, X, edges, weight=weight, density=density)
    check(aten.histogram.bin_ct, X, 3, density=density)
    check(aten.histogram.bin_ct, X, 4, range=[0.0, 4.0], weight=weight, density=density)
    check(aten.histogram.bin_ct, torch.tensor(2.0), 2, density=density)


@pytest.mark.parametrize("density", [False, True])
@pytest.mark.parametrize("bins", [3, [2, 4]])
def test_histograms_of_points(bins: Any, density: bool) -> None:
    points, weight = torch.rand(9, 2), torch.rand(9)
    edges = [torch.tensor([0.1, 0.4, 0.9]), torch.tensor([0.0, 0.2, 0.25, 1.0])]
    from_edges, from_counts = (
        aten._histogramdd_from_bin_tensors.default, aten._histogramdd_from_bin_cts.default,
    )  # fmt: skip
    counts = bins if isinstance(bins, list) else [bins] * 2
    for given in ({}, {"weight": weight}):
        check(from_edges, points, edges, density=density, **given)
        check(from_counts, points, counts, density=density, **given)
        check(aten._histogramdd_bin_edges.default, points, counts, density=density, **given)
    check(from_counts, points, counts, range=[0.0, 1.0, 0.5, 1.0], density=density)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.int64, torch.bool])
def test_exclusive_or_of_bits(dtype: torch.dtype) -> None:
    x = (10 * X).to(dtype)
    for dim, keepdim in (([], False), ([1], True), ([0], False)):
        check(aten.hash_tensor.default, x, dim, keepdim=keepdim)
    check(aten.hash_tensor.default, x[0, 0])


@pytest.mark.parametrize("keepdim", [False, True])
def test_mode(keepdim: bool) -> None:
    check(aten.mode.default, X, 1, keepdim)
    check(aten.mode.default, torch.tensor([[1, 2], [2, 1], [0, 1]]), 0, keepdim)


@pytest.mark.parametrize("size", [0, 2, 20])
def test_nonzero_static(size: int) -> None:
    x = torch.tensor([[0, 3, 0], [1, 0, 2]])
    check(aten.nonzero_static.default, x, size=size)
    check(aten.nonzero_static.default, x == 5, size=size, fill_value=7)


def test_they_are_imported() -> None:
    check_all(
        {
            "histc": lambda x: torch.histc(x, 5),
            "hash": lambda x: torch.hash_tensor(x, 1),
            "histogramdd": lambda x: torch.histogramdd(x[:, :2], [2, 3]).hist,
            "mode": lambda x: torch.mode(x, 1)[0],
            "nonzero_static": lambda x: torch.nonzero_static(x, size=5),
        },
        X,
    )
