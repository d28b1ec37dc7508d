"""Models compiled once for all tests of the driver: exporting a torch module takes a second.

A compiled model remembers the entry for its next call, which no test may notice. Tests that count
compilations compile their own.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import burnish
from burnish.driver.compiled_model import CompiledModel
from burnish.models import mlp
from burnish.tests.driver.programs import SmallNet, Structured


class Lambda(nn.Module):
    """A module around a function."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any) -> Any:
        return self.function(*args)


@pytest.fixture(scope="session")
def module() -> nn.Module:
    """The Fashion-MNIST MLP with random weights."""
    return mlp.build()[0]


@pytest.fixture(scope="session")
def image() -> torch.Tensor:
    """One input of the MLP."""
    return mlp.build()[1][0]


@pytest.fixture(scope="session")
def static(module: nn.Module, image: torch.Tensor) -> CompiledModel:
    """The MLP for one image."""
    model: CompiledModel = burnish.compile(module, (image,))
    return model


@pytest.fixture(scope="session")
def dynamic(module: nn.Module, image: torch.Tensor) -> CompiledModel:
    """The MLP for any number of images."""
    model: CompiledModel = burnish.compile(module, (image,), dynamic_shapes=({0: "batch"},))
    return model


@pytest.fixture(scope="session")
def small() -> tuple[CompiledModel, torch.Tensor, torch.Tensor]:
    """A compiled SmallNet, an input and its result."""
    torch.manual_seed(0)
    model, x = SmallNet().eval(), torch.randn(2, 3, 6, 6)
    compiled = burnish.compile(model, (x,))
    return compiled, x, compiled(x)


@pytest.fixture(scope="session")
def structured() -> CompiledModel:
    model: CompiledModel = burnish.compile(Structured().eval(), (torch.ones(3), torch.ones(3)))
    return model
