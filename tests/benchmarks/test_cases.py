"""The cases of the benchmarks: names of their own, with sizes, and inputs of those sizes."""

from __future__ import annotations

import re

import pytest
import torch

from burnish.benchmarks.cases import CASES, PRODUCTS, case_named
from burnish.benchmarks.tune_minutes import MODELS


def test_names_are_unique_and_say_sizes() -> None:
    assert [name for name, case in CASES.items() if case.name != name] == []
    assert len({name.lower() for name in CASES}) == len(CASES) > 15
    assert [name for name in CASES if not re.search(r"-\d+(x\d+)*(-\d+(x\d+)*)*$", name)] == []


def test_other_benchmarks_name_cases_that_exist() -> None:
    assert [name for name in MODELS if name not in CASES] == []


@pytest.mark.parametrize("kind", PRODUCTS)
def test_products_by_name(kind: str) -> None:
    case = case_named(f"product-{kind}-8")
    module, inputs = case.build()
    assert case.flop == 2 * 8**3
    assert module(*inputs_of(inputs)).shape == (8, 8)


def test_the_sizes_of_the_names_are_those_of_the_inputs() -> None:
    for name, shape in {
        "mlp-784x128x10-256": (256, 1, 28, 28),
        "softmax-128x1000": (128, 1000),
        "sum-1024x1024": (1024, 1024),
        "product-atb-256": (256, 256),
    }.items():
        assert case_named(name).build()[1][0].shape == shape


def inputs_of(arrays: tuple) -> list:
    return [torch.from_numpy(a) for a in arrays]
