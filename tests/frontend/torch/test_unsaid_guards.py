from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import burnish
from burnish.frontend.torch.dynamic_shapes import plan_export
from burnish.frontend.torch.unsaid_guards import UnsaidGuardError, check_guards, largest_of
from burnish.support.errors import BurnishError, FrontendError, ShapeMismatchError


class Branch(nn.Module):
    def __init__(self, condition: Any) -> None:
        super().__init__()
        self.condition = condition

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        x = inputs[0]
        return x + 1 if self.condition(*[t.shape[0] for t in inputs]) else x - 1


class Half(nn.Module):
    """Of a length, as torchaudio's resampling computes it."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wanted = torch.ceil(torch.as_tensor(x.shape[0] / 2)).long()
        return x[:wanted] * 2


def check(module: nn.Module, sizes: Sequence[int], shapes: Any = ({0: "16*n"},)) -> None:
    """Raise what the check of a plain export says, at these sizes."""
    inputs = tuple([torch.rand(n) for n in sizes])
    plan = plan_export(module, inputs, None, shapes)
    program = torch.export.export(module, plan.args, dynamic_shapes=plan.specification)
    check_guards(program, plan)


@pytest.mark.parametrize(
    ("condition", "said"),
    [
        (lambda n: n > 100, "7 <= L['n'] and L['n'] <= IntInfinity()"),
        (lambda n: n / 2 > 50.5, "7 <= L['n'] and L['n'] <= IntInfinity()"),
        (lambda n: n / 2 < 900.5, "0 <= L['n'] and L['n'] <= 112"),
        (lambda n: 40 < n < 600, "3 <= L['n'] and L['n'] <= 37"),
        (lambda n: n // 2 % 7 == 1, "((8*L['n']) % 7) != 1"),
        (lambda n: n / 2 == 96.0, "((16*L['n']) / 2) != 96"),
    ],
)
def test_a_branch_on_a_multiple_of_a_name_is_said(condition: Any, said: str) -> None:
    with pytest.raises(UnsaidGuardError) as raised:
        check(Branch(condition), (192,))
    assert said in str(raised.value)


def test_what_holds_for_every_size_is_no_branch() -> None:
    check(Branch(lambda n: n % 8 == 0), (192,))
    check(Branch(lambda n: n // 16 * 16 == n), (192,))
    check(Branch(lambda n: n >= 0), (192,))


def test_a_branch_on_two_sizes_is_said() -> None:
    module = Branch(lambda n, m: n > m)
    with pytest.raises(UnsaidGuardError, match=r"L\['m'\]"):
        check(module, (192, 160), ({0: "16*n"}, {0: "m"}))


def test_a_model_that_branches_on_a_multiple_is_refused_with_the_guard() -> None:
    module = Branch(lambda n: n // 2 % 7 == 1)
    with pytest.raises(FrontendError, match="does not export with n of any size"):
        burnish.compile(module, (torch.rand(16),), dynamic_shapes=({0: "16*n"},))


def test_a_model_that_holds_from_a_size_on_takes_these() -> None:
    module = Branch(lambda n: n > 100)
    model = burnish.compile(module, (torch.rand(192),), dynamic_shapes=({0: "16*n"},))
    x = torch.rand(7 * 16)
    assert torch.equal(model(x), module(x))
    with pytest.raises(BurnishError, match="112 and more"):
        model(torch.rand(6 * 16))


@pytest.mark.parametrize("dim", ["n", "16*n", "n + 3"])
def test_numbers_made_of_a_multiple_are_those_of_each_call(dim: str) -> None:
    module = Half()
    model = burnish.compile(module, (torch.rand(192),), dynamic_shapes=({0: dim},))
    for size in (16, 64, 192, 208):
        x = torch.rand(size)
        assert torch.equal(model(x), module(x))


def test_the_largest_size_of_a_guard() -> None:
    assert largest_of("math.ceil(size0 / 128) == 1") == 128
    assert largest_of("size0 < 5000") == 4999
    for text in ("size0 != 2", "size0 >= 3", "size0 % 2 == 0", "size0 < L['y'].size()[0]"):
        assert largest_of(text) is None


class GhostNorm(torch.nn.Module):
    """As many chunks as a batch has hundreds."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        chunks = x.chunk(int(np.ceil(x.shape[0] / 100)), 0)
        return torch.cat([self.norm(chunk) for chunk in chunks], 0)


def test_as_many_chunks_as_the_example_has() -> None:
    module = torch.nn.Sequential(*[GhostNorm() for _ in range(8)]).eval()
    model = burnish.compile(module, (torch.randn(3, 4),), dynamic_shapes=({0: "b"},))
    assert "dim b was exported for sizes of 0 to 100." in model.report.notes
    for n in (1, 100):
        x = torch.randn(n, 4)
        torch.testing.assert_close(model(x), module(x))
    with pytest.raises(ShapeMismatchError, match="from 0 to 100, got 101"):
        model(torch.randn(101, 4))
