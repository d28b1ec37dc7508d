"""Programs without their writes: the values of eager, with views of what is written in between."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.export import ExportedProgram

from burnish.frontend.torch.check_sizes import run_program
from burnish.frontend.torch.decompose import all_operators, operators
from burnish.frontend.torch.export import export_module
from burnish.frontend.torch.functionalize import functionalized, is_write
from burnish.frontend.torch.surroundings import quiet_torch

X = torch.linspace(-2, 2, 24).reshape(4, 6)


class Calls(nn.Module):
    """A function of a tensor that is its own."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(x * 2)


def export(module: nn.Module, x: torch.Tensor = X, **options: Any) -> ExportedProgram:
    with quiet_torch(), torch.no_grad():
        return torch.export.export(module, (x,), strict=False, **options)


def check(program: ExportedProgram, module: nn.Module, *inputs: torch.Tensor) -> None:
    """What is left has no writes and gives what the module does."""
    made = functionalized(program)
    assert made is not None
    assert any(is_write(n) for n in operators(program))
    assert not any(is_write(n) for n in operators(made))
    for x in inputs:
        with torch.no_grad():
            torch.testing.assert_close(run_program(made, [x.clone()])[0], module(x.clone()))


def add_to_a_view_of_a_view(y: torch.Tensor) -> torch.Tensor:
    y[1:][:, 2].add_(1)
    return y


def read_a_view_made_before(y: torch.Tensor) -> torch.Tensor:
    row = y[1]
    y.mul_(3)
    return row + y[0]


def write_twice_and_read_between(y: torch.Tensor) -> torch.Tensor:
    left = y[:, :2]
    left.relu_()
    total = y.sum()
    left.sub_(total)
    return y * left.sum()


def write_a_transposed_part(y: torch.Tensor) -> torch.Tensor:
    y.t()[:2].zero_()
    y.transpose(0, 1)[2].fill_(7)
    return y


def write_parts_of_a_reshaped_one(y: torch.Tensor) -> torch.Tensor:
    y.view(2, 12)[0, ::3] = y.reshape(-1)[12:16]
    return y.unsqueeze(0)


def copy_from_itself(y: torch.Tensor) -> torch.Tensor:
    y[0] = y[1]
    y[1].copy_(y[2].to(torch.float64))
    return y


def write_pieces(y: torch.Tensor) -> torch.Tensor:
    kept = y.clone()
    a, b = kept.chunk(2, 1)
    kept.add_(1)
    return a * b


def keep_the_dtype(y: torch.Tensor) -> torch.Tensor:
    half = y.to(torch.float16)
    half.add_(y)
    return half.mul_(torch.tensor(3.0, dtype=torch.float64))


def write_the_diagonal(y: torch.Tensor) -> torch.Tensor:
    y.diagonal().fill_(0)
    return y


def write_powers(y: torch.Tensor) -> torch.Tensor:
    z = y.abs().add_(1)
    z.pow_(-0.5)
    z.pow_(y)
    return z.floor_divide_(torch.tensor(0.3)).ldexp_(torch.tensor(2))


def drop_nothing(y: torch.Tensor) -> torch.Tensor:
    z = F.dropout(y, 0.5, training=False)
    F.relu(z, inplace=True)
    return F.dropout(y, 0.5, training=False, inplace=True) - 1


@pytest.mark.parametrize(
    "function",
    [
        add_to_a_view_of_a_view, read_a_view_made_before, write_twice_and_read_between,
        write_parts_of_a_reshaped_one, copy_from_itself, write_pieces,
        keep_the_dtype, write_the_diagonal, write_powers, drop_nothing,
    ],
)  # fmt: skip
def test_writes_are_seen_through_every_view(function: Any) -> None:
    module = Calls(function)
    check(export(module), module, X, X.flip(0))


def test_inputs_keep_names_that_python_has() -> None:
    class Named(nn.Module):
        def forward(self, input: torch.Tensor) -> torch.Tensor:
            return F.relu(input * 2, inplace=True)

    made = functionalized(export(Named()))
    assert made is not None
    assert [n.name for n in made.graph.nodes if n.op == "placeholder"] == ["input"]


def test_sizes_may_have_names() -> None:
    def function(y: torch.Tensor) -> torch.Tensor:
        first, rest = y[:, 0], y[:, 1:]
        rest.add_(first.unsqueeze(1))
        return F.relu(y, inplace=True)

    module = Calls(function)
    program = export(module, dynamic_shapes=({0: torch.export.Dim("rows")},))
    check(program, module, X, torch.rand(9, 6))


_VIEWS = (
    lambda y: y[1:], lambda y: y[:, ::2], lambda y: y[..., 0], lambda y: y.transpose(0, -1),
    lambda y: y.unsqueeze(1), lambda y: y.reshape(-1), lambda y: y[:2], lambda y: y,
)  # fmt: skip
_WRITES = (
    lambda y: y.add_(1), lambda y: y.mul_(2.5), lambda y: y.relu_(), lambda y: y.fill_(3),
    lambda y: y.copy_(y.flip(0)), lambda y: y.clamp_(-1, 1), lambda y: y.masked_fill_(y > 1, 0.5),
)  # fmt: skip


def random_program(seed: int) -> Any:
    """Views of views, writes into any of them, and the sum of what all of them hold at the end."""

    def function(y: torch.Tensor) -> torch.Tensor:
        draw = random.Random(seed)
        held = [y]
        for _ in range(10):
            source = draw.choice(held)
            if source.ndim and source.shape[0] > 2 and draw.random() < 0.5:
                held.append(draw.choice(_VIEWS)(source))
            else:
                draw.choice(_WRITES)(source)
        total = y.sum()
        for i, tensor in enumerate(held):
            total = total * 0.9 + tensor.sum() * (i + 1)
        return y + total

    return function


@pytest.mark.parametrize("seed", range(16))
def test_random_views_and_writes(seed: int) -> None:
    module = Calls(random_program(seed))
    check(export(module), module, X, X.flip(1))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.relu_(),
        lambda x: (x * 1).as_strided((2, 2), (1, 1)).add_(1),
        lambda x: (x * 1).squeeze_(0),
    ],
)
def test_other_writes_are_left_to_torch(function: Any) -> None:
    class Bare(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            result: torch.Tensor = function(x)
            return result + 1

    assert functionalized(export(Bare())) is None


def test_writes_in_held_graphs_leave_the_program_as_it_was() -> None:
    def scaled(y: torch.Tensor) -> torch.Tensor:
        z = y * 2
        z[0].add_(1)
        return z

    def function(y: torch.Tensor) -> torch.Tensor:
        z = y * 1
        z[1] = 3
        chosen: torch.Tensor = torch.cond(z.sum() > 0, scaled, lambda y: y.relu(), (z,))
        return chosen

    program = export(Calls(function))
    made = functionalized(program)
    assert made is not None
    assert any(map(is_write, all_operators(program)))
    assert not any(map(is_write, all_operators(made)))
    for x in (X, -X.abs()):
        with torch.no_grad():
            torch.testing.assert_close(made.module()(x), function(x * 2))


def test_writes_of_what_a_held_graph_is_given_are_left_to_torch() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        y = x * 1
        row = y[0]
        row.add_(1)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y.mul_(2)
        return row

    program = export(Calls(function))
    assert any("autocast" in str(n.target) for n in program.graph.nodes)
    assert functionalized(program) is None


class KeepsItsBuffer(nn.Module):
    """As transformers' CTRL does: the cast of a buffer, mostly itself, is put into its place."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("scale", torch.linspace(1, 2, 6), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x * 2
        self.scale = self.scale.to(x.dtype)
        x *= self.scale
        return x


def test_a_copy_of_a_buffer_into_itself_is_no_write() -> None:
    program = export_module(KeepsItsBuffer(), (X,))[0]
    assert [str(n.target) for n in program.graph.nodes if is_write(n)] == [
        "aten.mul_.Tensor", "aten.copy_.default"
    ]  # fmt: skip
    check(program, KeepsItsBuffer(), X)
