"""Special functions beside torch's own in float64, over both signs, zeros, poles and far out; and
one of them through the importer, whose series must not become part of the trace."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from burnish.frontend.torch.decompositions import DECOMPOSITIONS, aten
from burnish.tests.frontend.torch.oracle import import_function, operators_of

GRID = torch.cat(
    [
        torch.arange(-480, 481, dtype=torch.float64) / 16,  # whole numbers are exact
        torch.tensor([1e-8, 1e-3, -5.0, 5.0, 100.0, 300.0, math.inf, math.nan]).double(),
    ]
)
UNARY = (
    "lgamma", "digamma", "erfinv", "i0", "special_i0e", "special_i1", "special_i1e",
    "special_erfcx", "special_ndtri", "special_bessel_j0", "special_bessel_j1",
    "special_bessel_y0", "special_bessel_y1", "special_spherical_bessel_j0",
    "special_modified_bessel_i0", "special_modified_bessel_i1", "special_modified_bessel_k0",
    "special_modified_bessel_k1", "special_scaled_modified_bessel_k0",
    "special_scaled_modified_bessel_k1",
)  # fmt: skip
POLYNOMIALS = [f"{shifted}chebyshev_polynomial_{k}" for shifted in ("", "shifted_") for k in "tuvw"]


def check(op: Any, *args: Any) -> None:
    found, wanted = DECOMPOSITIONS[op](*args), op(*args)
    torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-11, equal_nan=True)


@pytest.mark.parametrize("name", UNARY)
def test_a_function_of_one_number(name: str) -> None:
    op = getattr(aten, name).default
    # Where torch's own erfcx overflows it depends on the processor's exp in the last place.
    check(op, GRID[GRID.isnan() | (GRID > -26)] if name == "special_erfcx" else GRID)
    check(op, torch.linspace(0, 1, 101, dtype=torch.float64))


def test_the_airy_function() -> None:
    """Torch's has errors of some 1e-9 of its own where its pieces meet."""
    x = torch.linspace(-20, 20, 801, dtype=torch.float64)
    found = DECOMPOSITIONS[aten.special_airy_ai.default](x)
    torch.testing.assert_close(found, torch.special.airy_ai(x), rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int64, torch.bool])
def test_other_dtypes_are_rounded_once(dtype: torch.dtype) -> None:
    x = torch.tensor([0, 1, 3, 7]).to(dtype)
    found = DECOMPOSITIONS[aten.special_i0e.default](x)
    wanted = torch.special.i0e(x.double())
    assert found.dtype == torch.special.i0e(x).dtype
    assert torch.equal(found, wanted.to(found.dtype))


@pytest.mark.parametrize("s", [1.0, 0.5, 1.5, 2.0, 3.0, 7.0])
def test_zeta(s: float) -> None:
    q = torch.cat([torch.arange(-150, 400, dtype=torch.float64) / 16 + 0.03, torch.arange(-3.0, 3)])
    check(aten.special_zeta.default, torch.full_like(q, s), q)


@pytest.mark.parametrize("n", range(5))
def test_polygamma(n: int) -> None:
    """Torch's trigamma has some nine digits."""
    x = torch.arange(-75, 300, dtype=torch.float64) / 16 + 0.03
    found = DECOMPOSITIONS[aten.polygamma.default](n, x)
    torch.testing.assert_close(found, torch.polygamma(n, x), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("name", POLYNOMIALS)
def test_chebyshev_polynomials_of_all_degrees(name: str) -> None:
    x = torch.linspace(-2, 2, 41, dtype=torch.float64).unsqueeze(-1)
    n = torch.tensor([-1.0, 0.0, 1.0, 2.5, 5.0, 12.0], dtype=torch.float64)
    op = getattr(aten, f"special_{name}").default
    torch.testing.assert_close(DECOMPOSITIONS[op](x, n), op(x, n), rtol=1e-8, atol=1e-6)


def test_a_series_is_a_row_of_numbers_in_the_graph() -> None:
    imported = import_function(torch.special.i0e, torch.rand(3))
    names = set(operators_of(imported))
    assert {"abs", "where", "multiply", "subtract"} <= names
    assert not names & {"cos", "concat", "matmul"}
