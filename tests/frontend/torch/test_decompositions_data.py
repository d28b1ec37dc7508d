"""Results whose sizes only the data tell: one compilation for all of them, equal to eager."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import burnish
from burnish.support.errors import BurnishError

GENERATOR = torch.Generator().manual_seed(0)
SOME = torch.randn(3, 4, generator=GENERATOR)
FLOATS = (SOME, torch.zeros(3, 4), torch.ones(3, 4), -SOME)
INTEGERS = tuple(torch.tensor(x) for x in ([3, 1, 3, 2, 1], [1] * 5, [5, 4, 3, 2, 1], [0] * 5))
Function = Callable[..., Any]


class Module(nn.Module):
    def __init__(self, function: Function) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self.function(*inputs)


def flat(result: Any) -> list[torch.Tensor]:
    return list(result) if isinstance(result, (tuple, list)) else [result]


def check(function: Function, inputs: tuple[torch.Tensor, ...], dims: Any = None) -> Any:
    """One compilation, right on each input; gives the model."""
    module = Module(function).eval()
    model = burnish.compile(module, (inputs[0],), dynamic_shapes=dims)
    for x in inputs:
        for found, expected in zip(flat(model(x)), flat(module(x)), strict=True):
            assert found.dtype == expected.dtype
            torch.testing.assert_close(found, expected)
    assert model.compilations == 1
    return model


def experts(x: torch.Tensor) -> torch.Tensor:
    """A routed layer: rows are picked, worked on, and added where they came from."""
    chosen = x.sum(1) > 0
    return torch.zeros(3, 4).index_add(0, torch.where(chosen)[0], x[chosen] @ torch.ones(4, 4))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.nonzero(x > 0),
        lambda x: torch.nonzero(x),
        lambda x: torch.argwhere(x),
        lambda x: torch.where(x > 0),
        lambda x: x[x > 0] * 2,
        lambda x: (x[x > 0] * 2).sum(),
        lambda x: x[x.sum(1) > 0],
        lambda x: x[:, x.sum(0) > 0],
        lambda x: torch.masked_select(x, x > 0).exp(),
        lambda x: torch.masked_select(x, x[:1] > 0),
        lambda x: torch.nonzero(torch.masked_select(x, x > 0) > 0.5),
        lambda x: torch.softmax(x[x[:, 0] > 0], -1).relu() @ torch.ones(4, 2),
        lambda x: (x[x > 0], x[x > 0] + x[x > 0]),
        experts,
    ],
)
def test_masks_and_places(function: Function) -> None:
    check(function, FLOATS)


@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
def test_of_one_element_one_may_be_selected(shape: tuple[int, ...]) -> None:
    one = torch.ones(shape)
    check(lambda x: torch.masked_select(x, x > 0) * 2, (one, -one))


@pytest.mark.parametrize(
    "function",
    [
        torch.unique,
        lambda x: torch.unique(x, return_inverse=True, return_counts=True),
        lambda x: torch.unique_consecutive(x, return_inverse=True, return_counts=True),
        torch.bincount,
        lambda x: torch.bincount(x, minlength=4),
        lambda x: torch.bincount(x, weights=x.float()),
        torch.repeat_interleave,
        lambda x: torch.arange(5.0).repeat_interleave(x),
        lambda x: torch.zeros(x.max().item()) + 1,
        lambda x: torch.arange(x.sum().item()) * 2,
    ],
)
def test_counts_and_distinct_values(function: Function) -> None:
    check(function, INTEGERS)


def test_sizes_of_data_beside_named_ones() -> None:
    inputs = (SOME, torch.randn(7, 4, generator=GENERATOR), SOME[:0], SOME[:1])
    model = check(lambda x: x[x[:, 0] > 0].relu() @ torch.ones(4, 2), inputs, ({0: "rows"},))
    assert any("read out of data" in note for note in model.report.notes)


def test_numbers_behind_as_many_as_a_named_size_says() -> None:
    inputs = (INTEGERS[0], torch.tensor([3, 0, 1]), torch.tensor([2]), torch.tensor([0, 0]))
    check(
        lambda x: (x.repeat_interleave(x), torch.ones(x[-1].item()), x.nonzero()),
        inputs,
        ({0: "count"},),
    )


def test_sizes_of_floats_say_what_to_do() -> None:
    with pytest.raises(BurnishError, match=r"x\.long\(\)\.item\(\)"):
        burnish.compile(Module(lambda x: torch.zeros(int(x.sum()))), (torch.ones(3),))


def test_the_size_is_checked_where_it_is_bound() -> None:
    model = burnish.compile(Module(lambda x: torch.zeros(x.sum().item())), (torch.tensor([1, 2]),))
    assert model(torch.tensor([2, 3])).shape == (5,)
    with pytest.raises(BurnishError, match="from 0 up"):
        model(torch.tensor([-2, 1]))


def test_such_models_are_saved_profiled_and_tuned(tmp_path: Path) -> None:
    module = Module(lambda x: torch.softmax(x[x[:, 0] > 0], -1))
    model = burnish.compile(module, (SOME,))
    model.save(tmp_path / "m.burnish")
    for again in (burnish.load(tmp_path / "m.burnish"), copy.deepcopy(model)):
        for x in FLOATS:
            torch.testing.assert_close(again(x), module(x))
    assert model.verify(SOME)
    assert "kernel" in str(model.profile(SOME, seconds=0.01, roofline=False))
    assert "u0 = 3" in str(model.memory(u0=3))
    with pytest.raises(BurnishError, match="named sizes"):
        model.export_library(tmp_path / "lib")


def test_sizes_that_must_be_equal_are_compared_when_the_model_runs() -> None:
    module = Module(lambda x: x[x > 0] + x[x > 0.5])
    same = torch.where(SOME > 0, SOME + 1, SOME)
    model = burnish.compile(module, (same,))
    torch.testing.assert_close(model(same), module(same))
    with pytest.raises(BurnishError, match=r"with Eq\("):
        model(torch.full_like(SOME, 0.25))
