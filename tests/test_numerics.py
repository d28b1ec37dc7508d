"""The table of sums in docs/math.md: it has every case, none above twice PyTorch's error, and one
length of each case is measured again."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

import burnish
from burnish.benchmarks.cases import _Function
from burnish.benchmarks.numerics import Case, Errors, cases, measure, stored, table

CASES = cases()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.key)
def test_an_error_is_at_most_twice_that_of_pytorch(case: Case) -> None:
    assert measure(case, case.quick).ratio <= case.most


@pytest.mark.parametrize("length", [10, 65, 100, 2048, 5000])
@pytest.mark.parametrize("name", ["layer_norm", "group_norm", "instance_norm"])
def test_a_mean_far_above_the_deviation_costs_no_digits_whatever_the_data(
    name: str, length: int
) -> None:
    functions = {
        "layer_norm": lambda x: functional.layer_norm(x, x.shape[1:]),
        "group_norm": lambda x: functional.group_norm(x.unsqueeze(1), 1),
        "instance_norm": lambda x: functional.instance_norm(x.unsqueeze(0)),
    }
    function = functions[name]
    model = burnish.compile(_Function(function), (torch.randn(8, length),))
    for seed in range(30):
        torch.manual_seed(seed)
        for mean in (1e4, 1e6):
            x = torch.randn(8, length) + mean
            exact = function(x.double())
            ours, theirs = ((y.double() - exact).abs().max() for y in (model(x), function(x)))
            assert ours <= 2 * theirs + 1e-6, (seed, mean)


def test_the_document_has_every_case() -> None:
    assert list(stored()) == [case.key for case in CASES]


def test_no_stored_ratio_is_above_the_bound() -> None:
    ratios = stored()
    assert [case.key for case in CASES if ratios[case.key] > case.most] == []


def test_a_correctly_rounded_result_is_no_measure() -> None:
    assert Errors(1e-7, 1e-9, 6e-8).ratio == pytest.approx(1e-7 / 6e-8)
    assert Errors(1e-7, 2e-7, 6e-8).ratio == pytest.approx(0.5)


def test_a_row_shows_every_length() -> None:
    found = {"sum": {10: Errors(1e-7, 1e-7, 6e-8), 10_000_000: Errors(3e-7, 1e-7, 6e-8)}}
    assert table(found).splitlines()[2] == (
        "| sum | 10: 1.0e-07 / 1.0e-07; 1e7: 3.0e-07 / 1.0e-07 | 3.00 |"
    )
    assert table(found).endswith("\n\nAbove 2: sum.")
