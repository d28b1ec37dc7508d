"""Preparing programs: pure operators, decomposed only where a converter is missing."""

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
from burnish.frontend.torch.registry import operator_name
from burnish.frontend.torch.surroundings import quiet_torch
from burnish.support.errors import FrontendError

X = torch.rand(3, 4)


class Calls(nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function
        self.linear = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(self.linear(x))


def export(function: Any) -> tuple[nn.Module, ExportedProgram]:
    module = Calls(function).eval()
    with quiet_torch(), torch.no_grad():
        return module, torch.export.export(module, (X,), strict=False)


def names(program: ExportedProgram) -> list[str]:
    return [operator_name(n) for n in operators(program)]


def test_a_program_of_known_operators_is_itself() -> None:
    _, program = export(F.relu)
    assert prepare_program(program) is program
    assert names(program) == ["aten.linear.default", "aten.relu.default"]


def write_through_a_view(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    y.view(-1).add_(1)
    return y


def enable_gradients(x: torch.Tensor) -> torch.Tensor:
    with torch.enable_grad():
        return x * 2


@pytest.mark.parametrize(
    ("function", "absent"),
    [
        (lambda x: F.relu(x, inplace=True) + x, "aten.relu_.default"),
        (write_through_a_view, "aten.add_.Tensor"),
        (enable_gradients, "wrap_with_set_grad_enabled"),
        (lambda x: F.hardshrink(x), "aten.hardshrink.default"),
        (lambda x: torch.einsum("ij,kj->ik", x, x), "aten.einsum.default"),
        (torch.ravel, "aten.ravel.default"),
        (lambda x: torch.movedim(x, 0, 1), "aten.movedim.int"),
    ],
)
def test_what_is_impure_or_unknown_is_rewritten(function: Any, absent: str) -> None:
    module, program = export(function)
    assert absent in names(program)
    prepared = prepare_program(program)
    assert absent not in names(prepared)
    assert "aten.linear.default" in names(prepared)
    with torch.no_grad():
        torch.testing.assert_close(run_program(prepared, [X])[0], module(X))


def test_what_nobody_knows_stays() -> None:
    _, program = export(lambda x: torch.special.hermite_polynomial_h(x, x))
    assert "aten.special_hermite_polynomial_h.default" in names(prepare_program(program))


def test_arithmetic_on_sizes_is_no_operator() -> None:
    module = Calls(lambda x: x.reshape(x.shape[0] * 2, -1)).eval()
    with quiet_torch():
        program = torch.export.export(module, (X,), dynamic_shapes=({0: torch.export.Dim("b")},))
    assert names(program) == ["aten.linear.default", "aten.reshape.default"]


class Statistics(nn.Module):
    """Running statistics that a call updates whatever the module's mode is."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function
        self.register_buffer("mean", torch.zeros(3))
        self.register_buffer("variance", torch.ones(3))

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(x, self.mean, self.variance)


@pytest.mark.parametrize(
    "function",
    [
        lambda x, m, v: F.batch_norm(x, m, v, training=True, momentum=0.3),
        lambda x, m, v: F.instance_norm(x, m, v, use_input_stats=True),
    ],
)
def test_running_statistics_are_updated(function: Any) -> None:
    x = torch.rand(2, 3, 4, 4)
    ours, theirs = Statistics(function).eval(), Statistics(function).eval()
    model = burnish.compile(ours, (x,))
    for _ in range(2):
        torch.testing.assert_close(model(x), theirs(x), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(ours.mean, theirs.mean)
    torch.testing.assert_close(ours.variance, theirs.variance)


def test_what_torch_raises_while_it_traces_again_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        x = x * 1
        x.squeeze_(0)
        return torch.ops.aten.nonzero_static.default(x, size=2)

    def failing(*_: Any, **__: Any) -> Any:
        raise ValueError("not like this")

    program = export(function)[1]
    monkeypatch.setattr(ExportedProgram, "run_decompositions", failing)
    with pytest.raises(FrontendError, match="not like this"):
        prepare_program(program)
