"""model.memory(): the plan of a model, with its floor."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

import burnish
from burnish.driver.compiled_model import CompiledModel
from burnish.driver.memory_plan import MemoryPlan
from burnish.support.errors import ArgumentError, NotCompiledError


def test_the_table() -> None:
    plan = MemoryPlan(2_000_000, 3, 10_000, 500_000, 400_000, 1000, 2000, 1, (("batch", 8),))
    assert plan.peak == 2_512_000
    assert str(plan) == (
        "memory with batch = 8\n"
        "                  bytes                               what\n"
        "  constants    2.000 MB            3, packed, once a model\n"
        "  code         0.010 MB                       once a model\n"
        "  workspace    0.500 MB        of each call at once, 1 thread\n"
        "    its floor  0.400 MB                intermediates alone\n"
        "  outputs      0.002 MB                       of each call\n"
        "  peak         2.512 MB  of these, with one call at a time\n"
        "  inputs       0.001 MB                       the caller's"
    ).replace("       of each call at once", "    of each call at once")
    assert "<table>" in plan._repr_html_()


def test_the_plan_of_the_mlp(static: CompiledModel, tmp_path: Path) -> None:
    plan = static.memory()
    assert plan.constants == static.report.constant_bytes
    assert plan.workspace == static.report.workspace_bytes
    assert (plan.inputs, plan.outputs) == (784 * 4, 10 * 4)
    # Between its two kernels there are 128 numbers.
    assert plan.floor == 128 * 4
    assert plan.workspace >= plan.floor
    assert plan.code == sum(map(len, static.executable.program.objects))
    loaded = burnish.load(static.save(tmp_path / "m.burnish").path)
    assert loaded.memory() == plan


def test_named_sizes(dynamic: CompiledModel) -> None:
    small, large = dynamic.memory(batch=1), dynamic.memory(batch=100)
    assert large.inputs == 100 * small.inputs
    assert large.workspace > small.workspace
    assert small.floor is None
    with pytest.raises(ArgumentError, match=r"depends on the named size 'batch': memory\(batch=8"):
        dynamic.memory()
    with pytest.raises(ArgumentError, match="'bach' is no named size of this model; it has batch"):
        dynamic.memory(bach=1)


def test_what_is_not_compiled_has_no_plan() -> None:
    with pytest.raises(NotCompiledError, match="memory"):
        burnish.compile(nn.ReLU()).memory()


def test_a_chain_needs_two_of_its_links() -> None:
    class Chain(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for _ in range(4):
                x = torch.softmax(x, 0)
            return x

    plan = burnish.compile(Chain().eval(), (torch.ones(64, 16),)).memory()
    assert plan.floor == 2 * 64 * 16 * 4
    assert plan.floor <= plan.workspace <= 3 * plan.floor
