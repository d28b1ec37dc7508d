"""Graphs of TorchDynamo as modules with weights of their own."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch._dynamo.source import ConstantSource
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv

from burnish.frontend.torch.captured import CapturedGraph, gives_new_tensors, mark, wants_gradients


def capture(module: nn.Module, *inputs: torch.Tensor, **options: Any) -> tuple[Any, list[Any]]:
    """The graph and the example inputs that a backend gets."""
    found: list[Any] = []

    def backend(gm: Any, examples: list[Any]) -> Any:
        found.extend((gm, examples, gives_new_tensors(gm) and not wants_gradients(examples)))
        return gm.forward

    torch._dynamo.reset()
    with torch.no_grad():
        torch.compile(module.eval(), backend=backend, **options)(*inputs)
    assert found[2]
    return found[0], found[1]


def test_weights_and_sizes_are_no_inputs() -> None:
    module = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
    x = torch.randn(5, 3)
    gm, examples = capture(module, x, dynamic=True)
    graph = CapturedGraph(gm, examples)
    assert sorted(graph.names) == ["0.bias", "0.weight", "1.bias", "1.weight"]
    assert sorted(graph.module.state_dict()) == sorted(graph.names)
    assert len(graph.inputs) == 1
    ((entry,),) = graph.dynamic_shapes()
    assert list(entry) == [0]
    with torch.no_grad():
        torch.testing.assert_close(graph.module(x)[0], module(x))


class Listed(nn.Module):
    """A weight that no path of modules leads to, and layers called as attributes could be."""

    def __init__(self) -> None:
        super().__init__()
        self.gm = nn.Linear(3, 3)
        self.weights = nn.ModuleDict({"names": nn.Linear(3, 3)})
        self.more = [nn.Parameter(torch.ones(3))]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.weights["names"](self.gm(x)) + self.more[0]
        return y


def test_weights_have_the_names_of_their_module() -> None:
    module = Listed()
    x = torch.randn(5, 3)
    gm, examples = capture(module, x)
    graph = CapturedGraph(gm, examples)
    assert {*module.state_dict()} < {*graph.names}
    (other,) = {*graph.names} - {*module.state_dict()}
    assert other.startswith("weight_")
    with torch.no_grad():
        torch.testing.assert_close(graph.module(x)[0], module(x))


def test_written_weights_are_told() -> None:
    module = nn.Linear(3, 4)
    gm, examples = capture(module, torch.randn(5, 3))
    graph = CapturedGraph(gm, examples)
    assert graph.changed(examples) == []
    with torch.no_grad():
        module.bias.add_(1)
    (written,) = graph.changed(examples)
    assert mark(examples[written]) == mark(module.bias)
    kept = CapturedGraph(gm, examples, [written])
    assert written in kept.inputs
    assert kept.changed(examples) == []
    assert kept.dynamic_shapes() is None


def test_weights_that_are_inference_tensors_stay_inputs() -> None:
    with torch.inference_mode():
        module = nn.Linear(3, 4)
        gm, examples = capture(module, torch.randn(5, 3))
        assert CapturedGraph(gm, examples).weights == []


class Halved(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rate = 0.5

    def forward(self, x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        return x * self.rate + scale


def test_numbers_in_tensors_are_numbers_again() -> None:
    x, scale = torch.randn(5, 3), torch.tensor(2.0, dtype=torch.float64)
    gm, examples = capture(Halved(), x, scale, dynamic=True)
    graph = CapturedGraph(gm, examples)
    assert list(graph.numbers.values()) == [0.5]
    assert len(graph.inputs) == 2, "a scalar of the user's is no number"
    torch.testing.assert_close(graph.module(x, scale)[0], x * 0.5 + 2)
    assert graph.has_numbers(examples)
    (at,) = graph.numbers
    for number, is_same in ((0.5, True), (0.25, False), (float("nan"), False)):
        given = [*examples]
        given[at] = torch.tensor(number, dtype=torch.float64)
        assert graph.has_numbers(given) is is_same


class Times(nn.Module):
    def forward(self, x: torch.Tensor, n: int) -> Any:
        return (x * n,)


def test_a_size_that_has_become_a_constant_is_no_input() -> None:
    shapes, source = ShapeEnv(), ConstantSource("n")
    symbol = shapes.create_symbol(5, source=source, dynamic_dim=DimDynamic.DYNAMIC)
    size = shapes.create_symintnode(symbol, hint=5, source=source)
    assert size == 5, "which settles it"
    x = torch.randn(2, 3)
    graph = CapturedGraph(torch.fx.symbolic_trace(Times()), [x, size])
    assert graph.numbers == {1: 5}
    assert graph.inputs == [0]
    assert graph.has_numbers([x, 5])
    assert not graph.has_numbers([x, 6])
    torch.testing.assert_close(graph.module(x)[0], x * 5)


def test_names_that_others_have_are_not_given_again() -> None:
    class Numbered(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight_1 = nn.Parameter(torch.randn(3, 3))
            self.more = [nn.Parameter(torch.ones(3)), nn.Parameter(torch.ones(3) * 2)]

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y: torch.Tensor = x @ self.weight_1 + self.more[0] * self.more[1]
            return y

    module, x = Numbered(), torch.randn(2, 3)
    gm, examples = capture(module, x)
    graph = CapturedGraph(gm, examples)
    assert len({*graph.names}) == 3
    with torch.no_grad():
        torch.testing.assert_close(graph.module(x)[0], module(x))
