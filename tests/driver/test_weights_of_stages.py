"""The weights of stages: what is kept, what comes back bit by bit, what the source may change."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import burnish
from burnish import errors
from burnish.driver.compiled_model import CompiledModel
from burnish.driver.kernels import resolve_target
from burnish.driver.sources import import_torch_module
from burnish.driver.stages import compile_module, give_back_memory, recompile
from burnish.frontend.torch.registry import SHARED
from burnish.graphir.module import constants_of
from burnish.graphir.weights import Derived, Packed, Weight
from burnish.support.target import Target
from burnish.tensorir.function import PrimFunc
from burnish.tuner.analytic import schedule_analytically
from burnish.vm.tensor import Tensor

NATIVE = resolve_target("native")
FROM_LEGALIZED = ("20-legalized", "30-fused", "40-scheduled", "45-packed")


class Net(nn.Module):
    """A convolution whose batch norm is folded, an embedding that no kernel repacks, a linear
    layer of an odd width, which is padded."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(16, 32, 3, bias=False)
        self.norm = nn.BatchNorm2d(32)
        self.table = nn.Embedding(100, 32)
        self.last = nn.Linear(32, 75)

    def forward(self, x: Any, i: Any) -> Any:
        y = torch.relu(self.norm(self.conv(x))).mean((2, 3))
        return self.last(y + self.table(i))


def net() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    torch.manual_seed(0)
    made = Net().eval()
    made.norm.running_mean = torch.rand(32)
    made.norm.running_var = torch.rand(32) + 0.5
    return made, (torch.rand(1, 16, 9, 9), torch.tensor([7]))


@pytest.fixture
def compiled() -> tuple[nn.Module, tuple[torch.Tensor, ...], CompiledModel]:
    module, inputs = net()
    return module, inputs, burnish.compile(module, inputs)


def arrays(model: CompiledModel) -> list[np.ndarray]:
    held = model.executable.program.constants
    return [c.data if isinstance(c, Tensor) else np.asarray(c) for c in held]


def every_weight(model: CompiledModel) -> list[Weight]:
    """Whatever the stages name, and whatever that is made of."""
    tables = [stage.weights for stage in model.executable.stages.values()]
    stack = [table.weight(name) for table in tables for name in table]
    found: dict[int, Weight] = {}
    while stack:
        weight = stack.pop()
        found[id(weight)] = weight
        match weight.origin:
            case Derived(_, inputs):
                stack += inputs
            case Packed(packed, _):
                stack.append(packed)
    return list(found.values())


def assert_same(found: Mapping[str, np.ndarray], expected: Mapping[str, np.ndarray]) -> None:
    assert list(found) == list(expected)
    for name in expected:
        np.testing.assert_array_equal(found[name], expected[name], strict=True)


def test_every_stage_comes_back_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BURNISH_DUMP", str(tmp_path))
    module, inputs = net()
    model = burnish.compile(module, inputs)
    monkeypatch.delenv("BURNISH_DUMP")
    stages = list(model.executable.stages)
    assert stages == [
        *("00-import", "10-canonical", "20-legalized", "30-fused", "40-scheduled", "45-packed")
    ]
    for stage in stages:
        (file,) = tmp_path.rglob(f"{stage}.py")
        assert model.script(stage) == file.read_text()
        whole = model.executable.stages[stage]
        back = burnish.parse(whole.script(), constants=whole.constants)
        burnish.assert_structural_equal(back, whole)


def test_nothing_of_the_caller_is_in_the_program(
    compiled: tuple[nn.Module, tuple[torch.Tensor, ...], CompiledModel],
) -> None:
    module, inputs, model = compiled
    wanted = model(*inputs)
    before = {s: model.executable.stages[s].constants for s in FROM_LEGALIZED}
    with torch.no_grad():
        for p in module.parameters():
            p.zero_()
    assert torch.equal(model(*inputs), wanted)
    for stage, constants in before.items():
        assert_same(model.executable.stages[stage].constants, constants)
    memories = [p.detach().numpy() for p in module.parameters()]
    assert not any(np.may_share_memory(a, m) for a in arrays(model) for m in memories)


def test_folded_weights_are_the_sources_and_a_change_is_told(
    compiled: tuple[nn.Module, tuple[torch.Tensor, ...], CompiledModel],
) -> None:
    module, _, model = compiled
    first, second = (model.executable.stages[s] for s in ("00-import", "10-canonical"))
    text, before, folded = first.script(), first.constants, second.constants
    assert list(before) == [
        "conv.weight", "norm.weight.scale", "norm.bias.shift", "table.weight", "last.weight",
        "last.bias",
    ]  # fmt: skip
    kept = np.array(before["conv.weight"])
    with torch.no_grad():
        module.conv.weight.mul_(2.0)
    with pytest.raises(errors.BurnishError, match=r"have changed since\. Compile it again"):
        _ = first.constants
    assert first.script() == text
    assert_same(second.constants, folded)  # the program has these
    with torch.no_grad():
        module.conv.weight.mul_(0.5)
    assert np.array_equal(first.constants["conv.weight"], kept)


def test_weights_are_held_once(
    compiled: tuple[nn.Module, tuple[torch.Tensor, ...], CompiledModel],
) -> None:
    """What is alive of large arrays is the program's, and the caller's raw convolution."""
    _, _, model = compiled
    own = {id(a) for a in arrays(model)}
    held = [a for w in every_weight(model) if (a := w._held) is not None]
    assert len(held) > 3
    assert all(id(array) in own or array.nbytes < SHARED for array in held)
    for stage in model.executable.stages.values():
        for constant in constants_of(stage.graph_functions["main"]):
            assert constant.bits is None or len(constant.bits) < 256


def test_a_module_that_is_gone_leaves_no_weights_behind() -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(64, 64), nn.ReLU()).eval()
    alive = weakref.ref(module[0].weight)
    model = burnish.compile(module, (torch.rand(2, 64),))
    before = {n: np.array(a) for n, a in model.executable.stages["00-import"].constants.items()}
    del module
    gc.collect()
    assert alive() is None
    assert_same(model.executable.stages["00-import"].constants, before)


def test_recompiling_shares_what_is_laid_out_alike() -> None:
    module, inputs = net()
    imported = import_torch_module(module, inputs)
    first = compile_module(imported.module, NATIVE)
    second = recompile(first, schedule_analytically)
    assert second.program.objects == first.program.objects
    for a, b in zip(first.program.constants, second.program.constants, strict=True):
        assert a is b or np.shares_memory(a, b)
    assert list(first.stages) == list(second.stages)
    for a, b in zip(first.stages.values(), second.stages.values(), strict=True):
        assert a.script() == b.script()
        assert_same(a.constants, b.constants)


def test_recompiling_unpacks_what_another_schedule_wants() -> None:
    def leave(func: PrimFunc, target: Target) -> PrimFunc:
        return func.with_attr("is_scheduled", True)

    module, inputs = net()
    imported = import_torch_module(module, inputs)
    first = compile_module(imported.module, NATIVE)
    plain = recompile(first, leave)
    again = recompile(plain, schedule_analytically)
    given = [x.numpy() for x in inputs]
    outputs = [burnish.VirtualMachine(e)["main"](*given).numpy() for e in (first, plain, again)]
    np.testing.assert_allclose(outputs[1], outputs[0], rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(outputs[2], outputs[0])
    assert_same(plain.stages["30-fused"].constants, first.stages["30-fused"].constants)
    (packed,) = [
        a for n, a in first.stages["45-packed"].constants.items() if "last" in n and a.ndim > 1
    ]
    alive = weakref.ref(packed)
    del first, again, packed, imported
    gc.collect()
    assert alive() is None  # ``plain`` has its own, and what the others had is gone


def test_memory_is_given_back_without_harm() -> None:
    large = np.ones(1 << 22, np.uint8)
    give_back_memory()
    assert large.all()


def test_two_models_of_one_module_share_its_weights() -> None:
    module, inputs = net()
    imported = import_torch_module(module, inputs).module
    first, second = compile_module(imported, NATIVE), compile_module(imported, NATIVE)
    for name in ("last.weight.packed", "table.weight"):
        assert first.module.constants[name] is second.module.constants[name]


def test_a_stage_compiles_once_more() -> None:
    module, inputs = net()
    model = burnish.compile(module, inputs)
    again = burnish.compile(model.executable.stages["10-canonical"])
    assert torch.equal(again(*inputs), model(*inputs))
