"""A module that catches what its own question for a value raises is refused."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import burnish
from burnish.support.errors import FrontendError

# pytest writes asserts of test files anew: these are compiled as they are.
SOURCE = """
def swallows(x):
    try:
        assert (x > 0).all()
    except Exception:
        x = x.clamp(min=0.05)
    return x.log()

def _positive(x):
    if not (x > 0).all():
        raise ValueError
    return x

def swallows_in_a_function(x):
    try:
        x = _positive(x)
    except (ValueError, RuntimeError):
        x = x.abs()
    return x.log()

def catches_something_else(x):
    try:
        y = x.view(7, -1)
    except RuntimeError:
        y = x.reshape(-1, 3)
    assert (y > 0).all()
    return y * 2
"""
NAMESPACE = {"torch": torch}
exec(compile(SOURCE, "swallowing.py", "exec"), NAMESPACE)
X = torch.rand(4, 3) + 0.1


class Of(nn.Module):
    def __init__(self, name: str) -> None:
        super().__init__()
        self.function = NAMESPACE[name]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.function(x)  # type: ignore[operator]
        return found


@pytest.mark.parametrize("name", ["swallows", "swallows_in_a_function"])
def test_a_look_that_is_caught_is_refused(name: str) -> None:
    init = torch.fx.experimental.symbolic_shapes.GuardOnDataDependentSymNode.__init__
    with pytest.raises(FrontendError, match=r"catches whatever is raised|does not export"):
        burnish.compile(Of(name).eval(), (X,))
    assert torch.fx.experimental.symbolic_shapes.GuardOnDataDependentSymNode.__init__ is init


def test_what_is_caught_elsewhere_is_fine() -> None:
    module = Of("catches_something_else").eval()
    assert torch.equal(burnish.compile(module, (X,))(X), module(X))
