"""What is known of kernels before they run."""

from __future__ import annotations

import inspect
import json
from dataclasses import asdict

import torch

import burnish
from burnish.driver.compiled_model import CompiledModel
from burnish.driver.kernel_facts import KernelFacts, kernel_facts


def test_work_and_rules_of_the_mlp(static: CompiledModel, dynamic: CompiledModel) -> None:
    by_name = {f.name: f for f in kernel_facts(static.executable, {}).values()}
    first = by_name["fused_linear_relu"]
    # Multiply-adds, bias and relu; the image, the weights, the bias and the result.
    assert first.flop == 2 * 784 * 128 + 2 * 128
    assert first.moved == 4 * (784 + 784 * 128 + 128 + 128)
    assert (first.rule, first.bits) == ("matmul", 32)
    assert set(by_name) == set(static.report.kernels)
    named = {f.name: f for f in kernel_facts(dynamic.executable, {}).values()}
    assert named["linear_1"] == KernelFacts("linear_1", "matmul", None, None, 32)


def test_what_a_saved_model_keeps_is_what_it_had() -> None:
    facts = KernelFacts("linear", "int8", 2.0, None, 32, ("net.py:1",), ("uint8", "int8"))
    assert KernelFacts.from_json(json.loads(json.dumps(asdict(facts)))) == facts
    held = asdict(facts)
    del held["operands"]
    assert KernelFacts.from_json(held).operands == ()


class Net(torch.nn.Module):
    """Two kernels, of two and of three lines."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Linear(8, 16), torch.nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.first(x)
        y = torch.relu(y)
        z = self.second(y)
        z = torch.sin(z)
        return torch.tanh(z)


def test_kernels_know_the_lines_that_they_compute() -> None:
    lines, first = inspect.getsourcelines(Net.forward)
    named = {line.split("(")[0].strip(): first + i for i, line in enumerate(lines)}
    model = burnish.compile(Net().eval(), (torch.rand(2, 8),))
    found = {f.name: f.sources for f in model._current.facts.values()}
    relu, second = found["fused_linear_relu"], next(v for k, v in found.items() if "tanh" in k)
    assert relu == (
        f"{__file__}:{named['y = self.first']}",
        f"{__file__}:{named['y = torch.relu']}",
    )
    assert second[-1] == f"{__file__}:{named['return torch.tanh']}"
    assert f"{__file__}:{named['z = self.second']}" in second


def test_of_modules_that_are_torchs_the_submodule_is_the_place() -> None:
    module = torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.Tanh()).eval()
    model = burnish.compile(module, (torch.rand(2, 8),))
    (facts,) = model._current.facts.values()
    assert facts.sources == ("0 (Linear)", "1 (Tanh)")
