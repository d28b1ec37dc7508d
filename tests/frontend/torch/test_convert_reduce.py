"""Reductions against eager torch: axes, kept dims, dtypes, and a symbolic batch."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from burnish.support.errors import FrontendError
from burnish.tests.frontend.torch.oracle import check_all, evaluate, import_function

X = torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(1))
NAMES = ("sum", "mean", "amax", "amin", "prod", "var", "std")


def test_axes_and_kept_dims() -> None:
    functions = {}
    for name in NAMES:
        reduce = getattr(torch, name)
        functions[f"{name} 1"] = lambda x, f=reduce: f(x, 1)
        functions[f"{name} -1 kept"] = lambda x, f=reduce: f(x, -1, keepdim=True)
        if name != "prod":
            functions[f"{name} (0, 2)"] = lambda x, f=reduce: f(x, (0, 2))
            functions[f"{name} (0, -1) kept"] = lambda x, f=reduce: f(x, (0, -1), keepdim=True)
        functions[f"{name} all"] = lambda x, f=reduce: f(x)
    check_all(functions, X)


def test_other_reductions() -> None:
    check_all(
        {
            "max": lambda x: x.max(),
            "min": lambda x: x.min(),
            "max values": lambda x: x.max(1).values,
            "min values kept": lambda x: x.min(dim=2, keepdim=True)[0],
            "any": lambda x: (x > 1).any(),
            "all": lambda x: (x < 3).all(1),
            "any kept": lambda x: x.any(dim=0, keepdim=True),
            "any dims": lambda x: torch.any(x > 0.5, (0, 1)),
            "is all true": lambda x: (x < 3)._is_all_true(),
            "is any true": lambda x: (x > 1)._is_any_true(),
            "amax of bools": lambda x: (x > 1).amax(2),
            "population": lambda x: x.var(1, correction=0),
            "of a scalar": lambda x: x[0, 0, 0].var(0, correction=0),
            "std population": lambda x: x.std(unbiased=False),
            "correction": lambda x: torch.var(x, dim=2, correction=2),
            "negative correction": lambda x: torch.var(x, dim=2, correction=-5),
            "broken correction": lambda x: torch.std(x, correction=1.5),
            "var_mean": lambda x: sum(torch.var_mean(x, 1)),
            "logsumexp": lambda x: torch.logsumexp(x, 1),
            "norm": lambda x: torch.linalg.vector_norm(x, dim=1),
            "norm 1": lambda x: x.norm(1, dim=2, keepdim=True),
            "norm inf": lambda x: torch.linalg.vector_norm(x, float("inf")),
            "sum of scalar": lambda x: torch.sum(x[0, 0, 0], 0),
            "mean of empty dims": lambda x: torch.mean(x, []),
        },
        X,
    )


def test_dtypes() -> None:
    check_all(
        {
            "ints": lambda x: x.int().sum(1),
            "bools": lambda x: (x > 0).sum(),
            "int8 product": lambda x: (x * 2).to(torch.int8).prod(2),
            "asked for": lambda x: x.sum(0, dtype=torch.float64),
            "mean asked for": lambda x: x.int().mean(dtype=torch.float32),
            "amax of ints": lambda x: (x * 3).long().amax(1),
            "half": lambda x: x.half().amax(),
        },
        X,
    )


def test_a_symbolic_dim_may_be_reduced() -> None:
    check_all(
        {"sum": lambda x: x.sum(0), "mean": lambda x: x.mean((0, 2)), "max": lambda x: x.amax(1)},
        X,
        dynamic_shapes=(({0: "batch"},),),
        also=((X[:1],), (torch.cat([X, X]),)),
    )


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: torch.var(x, correction=0.5), "correction=0.5 of a symbolic size"),
    ],
)
def test_what_cannot_be_imported(function, message) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(FrontendError) as caught:
        import_function(function, X, dynamic_shapes=({0: "batch"},))
    assert message in str(caught.value)


@pytest.mark.parametrize(("order", "value"), [(3, 60.0), (-2, 2000.0), (2, 300.0), (0.5, 60.0)])
def test_powers_of_halves_do_not_overflow(order: float, value: float) -> None:
    x = torch.full((2, 4), value).half()

    def norm(x: torch.Tensor) -> torch.Tensor:
        return torch.linalg.vector_norm(x, order, dim=-1)

    (found,) = evaluate(import_function(norm, x), x)
    np.testing.assert_allclose(found.astype("float64"), norm(x.double()).numpy(), rtol=1e-3)
