"""Decomposing calls by themselves: every call, one trace a kind, names of sizes and constants."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.export import ExportedProgram

import burnish
from burnish.frontend.torch.check_sizes import run_program
from burnish.frontend.torch.decompose import operators, prepare_program
from burnish.frontend.torch.decompose_calls import decompose_calls
from burnish.frontend.torch.surroundings import quiet_torch

aten = torch.ops.aten
X = torch.linspace(-2, 2, 24).reshape(4, 6)


class Calls(nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(x)


def export(module: nn.Module, **options: Any) -> ExportedProgram:
    with quiet_torch(), torch.no_grad():
        return torch.export.export(module, (X,), strict=False, **options)


def with_decomposed(program: ExportedProgram, *targets: Any) -> tuple[Any, list[int]]:
    """The program with all calls of operators decomposed, and how many were traced each time."""
    table = dict(torch.export.default_decompositions().items())
    traced: list[int] = []

    def decompose(calls: ExportedProgram) -> ExportedProgram:
        traced.append(len(operators(calls)))
        with quiet_torch(), torch.no_grad():
            return calls.run_decompositions({t: table.get(t, t.decompose) for t in targets})

    nodes = [n for n in operators(program) if n.target in targets]
    return decompose_calls(program, nodes, decompose), traced


def test_equal_calls_are_traced_once() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        for _ in range(3):
            x = F.hardshrink(x) + 0.3
        return x + F.hardshrink(x, 1.0) + F.hardshrink(x.t()).t()

    module = Calls(function)
    program = export(module)
    made, traced = with_decomposed(program, aten.hardshrink.default)
    assert traced == [3], "three kinds of calls"
    assert all(n.target is not aten.hardshrink.default for n in operators(made))
    torch.testing.assert_close(run_program(made, [X])[0], module(X))
    assert any(n.target is aten.hardshrink.default for n in operators(program)), "is unchanged"


def test_inputs_keep_names_that_python_has() -> None:
    program = export(nn.Hardshrink())
    made, _ = with_decomposed(program, aten.hardshrink.default)
    assert [n.name for n in made.graph.nodes if n.op == "placeholder"] == ["input"]


def test_one_tensor_twice_is_another_kind_than_two() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.einsum("ij,ij->i", x, x) + torch.einsum("ij,ij->i", x, x + 1)

    module = Calls(function)
    made, traced = with_decomposed(export(module), aten.einsum.default)
    assert traced == [2]
    torch.testing.assert_close(run_program(made, [X])[0], module(X))


def test_several_results_are_those_that_are_used() -> None:
    def function(x: torch.Tensor) -> Any:
        _, left, right = torch.tensor_split(x, (1, 3), 1)
        first, *_ = torch.tensor_split(x, (1, 3), 1)
        return left.sum() + right.sum(), first

    module = Calls(function)
    made, _ = with_decomposed(export(module), aten.tensor_split.indices)
    found = run_program(made, [X])
    for ours, theirs in zip(found, module(X), strict=True):
        torch.testing.assert_close(ours, theirs)


def test_sizes_come_from_the_call_itself() -> None:
    def function(x: torch.Tensor) -> Any:
        y = torch.cat([x, x])
        return torch.einsum("ij,kj->ik", x, x), torch.einsum("ij,kj->ik", y, x), y.unsqueeze(-1)

    module = Calls(function)
    program = export(module, dynamic_shapes=({0: torch.export.Dim("rows")},))
    made, _ = with_decomposed(program, aten.einsum.default)
    assert made is not None
    for rows in (4, 7):
        x = torch.rand(rows, 6)
        for ours, theirs in zip(run_program(made, [x]), module(x), strict=True):
            torch.testing.assert_close(ours, theirs)


def test_a_call_of_sizes_does_not_stand_for_itself() -> None:
    module = Calls(lambda x: x.narrow_copy(0, 0, x.shape[0] - 1))
    program = export(module, dynamic_shapes=({0: torch.export.Dim("rows", min=3)},))
    made, traced = with_decomposed(program, aten.narrow_copy.default)
    assert made is None
    assert traced == []


def test_constants_of_a_decomposition_are_the_programs() -> None:
    """Their rows stand in the signature, in front of those of the program."""
    module = Calls(lambda x: F.hardshrink(x) + F.hardshrink(x * 2))
    program = export(module)

    def decompose(calls: ExportedProgram) -> ExportedProgram:
        inner = Calls(lambda x: x * torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]))
        assert len(operators(calls)) == 1
        with quiet_torch(), torch.no_grad():
            return export(inner).run_decompositions({})

    nodes = [n for n in operators(program) if n.target is aten.hardshrink.default]
    made = decompose_calls(program, nodes, decompose)
    assert made is not None
    assert len(made.constants) == 1
    scale = torch.arange(1.0, 7.0)
    torch.testing.assert_close(run_program(made, [X])[0], X * scale + X * 2 * scale)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.einsum("ij,kj->ik", x, x).swapaxes(0, 1),
        lambda x: torch.addcmul(x, x, x) + torch.logit(x, 0.1),
        lambda x: torch.repeat_interleave(x, 2, 1).reshape_as(torch.cat([x, x], 1)),
    ],
)
def test_prepared_programs_compute_what_the_module_does(function: Any) -> None:
    module = Calls(function)
    prepared = prepare_program(export(module))
    torch.testing.assert_close(run_program(prepared, [X])[0], module(X))


def test_a_result_that_is_a_list_is_taken_apart() -> None:
    class Boxes(nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
            counts, edges = torch.histogramdd(x, [2, 3])
            return counts, *edges

    x = torch.rand(7, 2)
    torch.testing.assert_close(burnish.compile(Boxes(), (x,))(x), Boxes()(x))


def test_sizes_among_the_results_stay_numbers() -> None:
    class Spread(nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, int]:
            return x.var(0, correction=0), x.shape[0]

    x = torch.rand(3, 4)
    model = burnish.compile(Spread(), (x,), dynamic_shapes=({0: "b"},))
    found = model(x[:2])
    assert type(found[1]) is int
    torch.testing.assert_close(found, Spread()(x[:2]))
