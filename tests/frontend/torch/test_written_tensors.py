"""Constants that a program writes are its buffers."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.export.graph_signature import InputKind

import burnish
from burnish.frontend.torch import import_module
from burnish.frontend.torch.export import export_module
from burnish.support.errors import FrontendError

COUNT = torch.zeros(())


class OfFile(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        COUNT.add_(1)
        return x * COUNT


def test_a_tensor_of_the_file() -> None:
    COUNT.zero_()
    model = burnish.compile(OfFile(), (torch.ones(2),), dynamic_shapes=({0: "n"},))
    assert COUNT == 0
    torch.testing.assert_close(model(torch.ones(3)), torch.ones(3))
    torch.testing.assert_close(model(torch.ones(2)), torch.full((2,), 2.0))
    assert COUNT == 2


class Shares(nn.Module):
    def __init__(self, *, whole: bool) -> None:
        super().__init__()
        self.table = torch.zeros(4)
        self.part = self.table[2:] if whole else torch.zeros(2)
        self.again = self.table

    def forward(self, x: Tensor) -> Tensor:
        self.table.add_(1)
        return x + self.part + self.again[0]


def test_views_are_refused_by_their_names() -> None:
    with pytest.raises(FrontendError, match="writes table in place, and reads part, which shares"):
        import_module(Shares(whole=True), (torch.ones(2),))


def test_one_tensor_by_two_names_is_one() -> None:
    module = Shares(whole=False)
    model = burnish.compile(module, (torch.ones(2),))
    model(torch.ones(2))
    torch.testing.assert_close(model(torch.ones(2)), torch.full((2,), 3.0))
    torch.testing.assert_close(module.table, torch.full((4,), 2.0))


def test_only_what_is_written_is_a_buffer() -> None:
    program, plan = export_module(Shares(whole=False), (torch.ones(2),))
    kinds = {s.target: s.kind for s in program.graph_signature.input_specs if s.target}
    assert kinds["part"] is InputKind.CONSTANT_TENSOR
    assert [k for n, k in kinds.items() if n != "part"] == [InputKind.BUFFER]
    assert len(plan.changed) == 1


def test_states_have_the_names_of_their_module() -> None:
    imported = import_module(Shares(whole=False), (torch.ones(2),))
    assert imported.state[0] in ("table", "again")


class Adding(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        self.total = self.total + x.sum()
        return x * self.total


class Twice(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = Adding()
        self.second = self.first

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.first(x))


def test_a_written_buffer_of_two_names_is_refused() -> None:
    with pytest.raises(
        FrontendError, match="has two names, as a buffer of a module that stands in two"
    ):
        burnish.compile(Twice().eval(), (torch.ones(2, 2),))
