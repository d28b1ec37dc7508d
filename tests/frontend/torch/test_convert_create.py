"""Tensors made from nothing, with static and symbolic shapes."""

from __future__ import annotations

import pytest
import torch

from burnish.support.errors import FrontendError
from burnish.tests.frontend.torch.oracle import check_all, import_function, operators_of

X = torch.randn(3, 4, generator=torch.Generator().manual_seed(2))


def test_filled_tensors() -> None:
    check_all(
        {
            "zeros": lambda x: x + torch.zeros(3, 4),
            "ones": lambda x: torch.ones(2, dtype=torch.int64),
            "full": lambda x: torch.full((2, 2), 1.5),
            "full of ints": lambda x: torch.full((2,), 7),
            "zeros_like": torch.zeros_like,
            "ones_like": lambda x: torch.ones_like(x, dtype=torch.float64),
            "full_like": lambda x: torch.full_like(x, -2),
            "new_zeros": lambda x: x.new_zeros(5),
            "new_ones": lambda x: x.new_ones(2, 1),
            "new_full": lambda x: x.new_full((1,), 3.5),
            "scalar": lambda x: x * torch.tensor(2.0),
            "fill": lambda x: torch.fill(x, 4.0),
            "masked": lambda x: x.masked_fill(torch.ones(3, 4).tril().bool(), -1.0),
        },
        X,
    )


def test_sequences_are_constants() -> None:
    check_all(
        {
            "arange": lambda x: torch.arange(4),
            "start": lambda x: x * torch.arange(1, 5),
            "step": lambda x: torch.arange(0.0, 1.0, 0.25),
            "linspace": lambda x: torch.linspace(0, 1, 5),
            "eye": lambda x: x @ torch.eye(4),
            "eye 2": lambda x: torch.eye(2, 3),
        },
        X,
    )
    assert operators_of(import_function(lambda x: x + torch.arange(4), X)) == ["astype", "add"]


def test_sequences_between_tensors() -> None:
    whole = {"dtype": torch.int64}
    check_all(
        {
            "two": lambda x: torch.linspace(x[0, 0], x[0, 1], 7),
            "from a tensor": lambda x: torch.linspace(x[0, 0], 2, 5),
            "to a tensor": lambda x: torch.linspace(-1.5, x[0, 0], 1),
            # A fraction is an integer before anything is added to it.
            "integers": lambda x: torch.linspace(4.3, x[0, 0] * 9, 50, **whole),
            "integers between fractions": lambda x: torch.linspace(x[0, 0] * 9, 7.9, 23, **whole),
            "logarithms": lambda x: torch.logspace(x[0, 0], x[0, 1], 4),
        },
        X,
    )


def test_triangles() -> None:
    check_all(
        {
            "tril": lambda x: x.tril(),
            "triu": lambda x: x.triu(),
            "tril 1": lambda x: torch.tril(x, 1),
            "triu -1": lambda x: torch.triu(x.int(), -1),
        },
        X,
    )


def test_shapes_may_be_symbolic() -> None:
    check_all(
        {
            "zeros_like": torch.zeros_like,
            "ones": lambda x: torch.ones(x.shape[0], 2),
            "full": lambda x: torch.full((x.shape[0] * 2,), 0.5),
        },
        X,
        dynamic_shapes=(({0: "batch"},),),
        also=((X[:1],),),
    )


def test_sequences_of_symbolic_length() -> None:
    check_all(
        {
            "arange": lambda x: torch.arange(x.shape[0]),
            "float": lambda x: torch.arange(x.shape[0], dtype=torch.float32),
            "steps": lambda x: torch.arange(3, 2 * x.shape[0] + 3, 2),
            "backwards": lambda x: torch.arange(x.shape[0], 0, -1),
            "tril": lambda x: x.tril(),
            "triu": lambda x: x.triu(1),
            "tril of a size": lambda x: x.tril(x.shape[0] - 2),
            "triu of a size": lambda x: x.triu(-x.shape[0] // 2),
            "causal, with keys before": lambda x: torch.ones(x.shape[0], 9).tril(9 - x.shape[0]),
            "size": lambda x: x * (x.shape[0] * 3 - 1) + x.shape[0] // 2,
        },
        X,
        dynamic_shapes=(({0: "batch"},),),
        also=((X[:1],),),
    )


def test_random_numbers_are_no_constants() -> None:
    with pytest.raises(FrontendError, match=r"aten\.rand_like\.default"):
        import_function(torch.rand_like, X)
