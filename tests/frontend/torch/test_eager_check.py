"""What a module is told that fails on its own inputs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import burnish
from burnish.frontend.torch.eager_check import check_eager
from burnish.support.errors import FrontendError

DOUBLE = torch.rand(2, 4, dtype=torch.float64)


@pytest.mark.parametrize(
    ("module", "x", "found"),
    [
        (nn.Linear(4, 3), torch.rand(2, 5), "(float32[2, 5]) in eager PyTorch too: RuntimeError: "),
        (nn.Conv2d(3, 4, 3), torch.rand(2, 4, 8, 8), "expected input[2, 4, 8, 8] to have 3"),
        (nn.LayerNorm(4), torch.rand(2, 5), "normalized_shape=[4]"),
        (nn.LSTM(4, 4), torch.rand(2, 3, 5), "Expected 4, got 5"),
        (nn.Embedding(4, 4), torch.rand(2), "one of the following scalar types: Long, Int"),
        (nn.Linear(4, 3), torch.ones(2, 4, dtype=torch.int32), "dtype, but got Int and Float"),
        (nn.Linear(4, 3), DOUBLE, "float64 and its weights float32: call x.float(), or module.d"),
        (nn.Linear(4, 3), DOUBLE.half(), "call x.float(), or module.half()."),
        (nn.Linear(4, 3).bfloat16(), DOUBLE, "call x.bfloat16(), or module.double()."),
        (nn.LSTM(4, 4).double(), DOUBLE.float(), "call x.double(), or module.float()."),
    ],
)
def test_a_module_that_fails_in_eager_is_told_so(
    module: nn.Module, x: torch.Tensor, found: str
) -> None:
    for compile_ in (burnish.compile, lambda m, inputs: burnish.compile(m)(*inputs)):
        with pytest.raises(FrontendError, match="fails on these inputs") as caught:
            compile_(module.eval(), (x,))
        assert found in str(caught.value)
        assert "torch.where" not in str(caught.value)
        assert "R.astype" not in str(caught.value)


def test_arrays_are_shown_as_the_module_would_have_them() -> None:
    with pytest.raises(FrontendError, match=r"(?s)\(float64\[2, 4\]\).* call x\.float\(\)"):
        burnish.compile(nn.Linear(4, 3).eval(), (np.zeros((2, 4)),))


def test_a_module_that_runs_hears_why_it_cannot_be_exported() -> None:
    class Branches(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x if x.sum() > 0 else -x

    with pytest.raises(FrontendError, match=r"Branches does not export at (?s:.*)torch\.where"):
        burnish.compile(Branches().eval(), (torch.ones(2),))


def test_a_dim_that_has_one_size_may_be_left_out() -> None:
    with pytest.raises(FrontendError, match="leave them out of dynamic_shapes"):
        burnish.compile(nn.Linear(4, 3).eval(), (torch.ones(2, 4),), dynamic_shapes=({1: "n"},))


def test_looking_changes_nothing() -> None:
    class Counts(nn.Module):
        steps: torch.Tensor

        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("steps", torch.zeros(1))

        def forward(self, x: torch.Tensor, *, more: dict[str, torch.Tensor]) -> torch.Tensor:
            self.steps += 1
            more["y"].add_(torch.rand(1))
            return x @ more["y"]

    module, y = Counts(), torch.zeros(3)
    given: dict[str, Any] = {"more": {"y": y}}
    state = torch.get_rng_state()
    with pytest.raises(FrontendError, match=r"\(float32\[2\], float32\[3\]\)"):
        check_eager(module, (torch.ones(2),), given)
    check_eager(module, (torch.ones(3),), given)
    assert module.steps == 0
    assert torch.equal(y, torch.zeros(3))
    assert torch.equal(torch.get_rng_state(), state)
