"""Branches on values of buffers: taken where they are known, refused where calls change them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import burnish
from burnish.frontend.torch.known_values import KnownValues
from burnish.support.errors import FrontendError

X = torch.linspace(-1, 1, 12).reshape(3, 4)


class Flagged(nn.Module):
    """A scale that is there once it has been initialised, and times that have to grow."""

    def __init__(self, *, is_initialised: bool) -> None:
        super().__init__()
        self.register_buffer("is_initialised", torch.tensor([is_initialised]))
        self.register_buffer("scale", torch.linspace(1, 2, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.is_initialised:
            x = x * self.scale
        times = torch.linspace(0, 1, 5)
        grows = times[1:] > times[:-1]
        assert grows.all() or (~grows).all()
        return x + (1 if self.scale.sum().item() > 5 else 2)


@pytest.mark.parametrize("is_initialised", [True, False])
def test_branches_on_buffers(is_initialised: bool) -> None:
    module = Flagged(is_initialised=is_initialised).eval()
    model = burnish.compile(module, (X,), dynamic_shapes=({0: "n"},))
    for x in (X, X[:1]):
        torch.testing.assert_close(model(x), module(x))


def add_in_place(module: Any) -> None:
    module.calls += 1


def assign(module: Any) -> None:
    module.calls = module.calls + 1


def write_a_view(module: Any) -> None:
    module.calls.view(1)[:1].fill_(3)


def write_out(module: Any) -> None:
    torch.add(module.calls, 1, out=module.calls)


def set_data(module: Any) -> None:
    module.calls.data = module.calls + 1


@pytest.mark.parametrize("write", [add_in_place, assign, write_a_view, write_out, set_data])
@pytest.mark.parametrize("is_before", [True, False])
def test_branches_on_what_calls_change_are_refused(
    write: Callable[[Any], None], is_before: bool
) -> None:
    class Counts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("calls", torch.tensor(0))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if is_before:
                write(self)
            y = x + 1 if self.calls < 2 else x
            if not is_before:
                write(self)
            return y

    with pytest.raises(FrontendError, match=r"does not export|sets \.data"):
        burnish.compile(Counts(), (X,))


@pytest.mark.parametrize(
    "function",
    [
        lambda m, x: x if x.sum() > 0 else -x,
        lambda m, x: x if (m.scale * x).sum() > 0 else -x,
        lambda m, x: x if torch.rand(3).sum() > 1 else -x,
        lambda m, x: x if (m.scale + torch.rand_like(m.scale)).sum() > 7 else -x,
    ],
)
def test_branches_on_data_and_on_chance_are_refused(function: Any) -> None:
    class Branches(Flagged):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            found: torch.Tensor = function(self, x)
            return found

    with pytest.raises(FrontendError, match="does not export"):
        burnish.compile(Branches(is_initialised=True).eval(), (X,))


class Pads(nn.Module):
    """Pads by what it computes of sizes that it keeps in buffers, so that frames are whole."""

    def __init__(self) -> None:
        super().__init__()
        self.kernel = nn.Buffer(torch.tensor(3))
        self.stride = nn.Buffer(torch.tensor(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        left = self.kernel - self.stride
        frames = torch.ceil((x.shape[-1] - self.kernel + left) / self.stride + 1).to(torch.int64)
        right = (frames - 1) * self.stride + self.kernel - left - x.shape[-1]
        y = nn.functional.pad(x, (left, right))
        assert y.shape[-1] - self.kernel >= 0
        return y[:, self.stride :].narrow(1, right, self.kernel)


def test_sizes_in_buffers_are_sizes() -> None:
    module = Pads().eval()
    model = burnish.compile(module, (X,))
    torch.testing.assert_close(model(X), module(X))
    kept = str(model.executable.stages["00-import"].script())
    assert "bind_size" not in kept


def test_a_size_that_calls_change_is_one_of_data() -> None:
    class Moves(Flagged):
        def __init__(self) -> None:
            super().__init__(is_initialised=True)
            self.at = nn.Buffer(torch.tensor(0))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = nn.functional.pad(super().forward(x), (self.at, 0)).sum(0)[-3:]
            self.at.add_(1)
            return y

    module, eager = Moves().eval(), Moves().eval()
    model = burnish.compile(module, (X,))
    for _ in range(3):
        torch.testing.assert_close(model(X), eager(X))


def test_a_number_made_of_a_size_is_not_known() -> None:
    class Scales(Flagged):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y: torch.Tensor = super().forward(x) * (self.scale.sum() + x.shape[0]).item()
            return y

    module = Scales(is_initialised=True).eval()
    model = burnish.compile(module, (X,), dynamic_shapes=({0: "n"},))
    for x in (X, X[:2]):
        torch.testing.assert_close(model(x), module(x))


def test_what_is_known() -> None:
    module = Flagged(is_initialised=True)
    known = KnownValues(module)
    assert known.call(torch.Tensor.item, (module.is_initialised,), {}) is True
    twice = known.call(torch.mul, (module.scale, 2), {})
    assert known.call(torch.Tensor.tolist, (twice,), {}) == (module.scale * 2).tolist()
    assert known.read == {"is_initialised", "scale"}
    assert not known.read & known.written
    known.call(torch.Tensor.zero_, (twice,), {})
    assert known.written == {"scale"}
