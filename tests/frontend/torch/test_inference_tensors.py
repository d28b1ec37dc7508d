"""Modules that were made, or cast, under torch.inference_mode."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

import burnish
from burnish.frontend.torch.inference_tensors import without_gradients
from burnish.support.errors import FrontendError


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv1d(3, 4, 3), nn.BatchNorm1d(4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.norm(self.conv(x)))


def made() -> nn.Module:
    with torch.inference_mode():
        return Net().eval()


def cast() -> nn.Module:
    net = Net().eval()
    with torch.inference_mode():
        return net.double().float()


def loaded() -> nn.Module:
    net, other = Net().eval(), Net()
    with torch.inference_mode():
        state = {n: t.clone() for n, t in other.state_dict().items()}
        net.load_state_dict(state, assign=True)
    return net


@pytest.mark.parametrize("make", [made, cast, loaded])
@pytest.mark.parametrize("named", [False, True])
def test_they_compile(make: Callable[[], nn.Module], named: bool) -> None:
    net, x = make(), torch.randn(2, 3, 9)
    wanted = [p.requires_grad for p in net.parameters()]
    shapes = ({0: torch.export.Dim("batch")},) if named else None
    model = burnish.compile(net, (x,), dynamic_shapes=shapes)
    with torch.inference_mode():
        torch.testing.assert_close(model(x), net(x))
    assert [p.requires_grad for p in net.parameters()] == wanted


def test_parameters_want_again_what_they_wanted_after_an_error() -> None:
    net = made()

    def stopped() -> None:
        with without_gradients(net):
            assert not any(p.requires_grad for p in net.parameters())
            raise ValueError("stop")

    with pytest.raises(ValueError, match="stop"):
        stopped()
    assert all(p.requires_grad for p in net.parameters())


def test_lazy_modules_are_refused_by_name() -> None:
    with pytest.raises(FrontendError, match="uninitialized parameter"):
        burnish.compile(nn.LazyLinear(4), (torch.rand(2, 3),))
