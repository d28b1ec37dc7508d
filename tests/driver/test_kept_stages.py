"""Stages without weights: what is kept, what comes back bit by bit, what the source may change."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import burnish
from burnish import errors
from burnish.driver.compile import CompiledModel
from burnish.driver.kept_stages import SMALL, KeptStages, _is_own, give_back_memory
from burnish.driver.kernels import resolve_target
from burnish.driver.sources import import_torch_module
from burnish.driver.stages import compile_module, recompile
from burnish.graphir.expr import Constant
from burnish.graphir.module import IRModule, weights
from burnish.support.aligned import aligned_empty
from burnish.support.node import Node, map_children
from burnish.support.target import Target
from burnish.tensorir.function import PrimFunc
from burnish.tuner.analytic import schedule_analytically
from burnish.vm.tensor import Tensor

NATIVE = resolve_target("native")


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
    before = {s: model.script(s) for s in ("20-legalized", "30-fused", "40-scheduled")}
    with torch.no_grad():
        for p in module.parameters():
            p.zero_()
    assert torch.equal(model(*inputs), wanted)
    assert {s: model.script(s) for s in before} == before
    memories = [p.detach().numpy() for p in module.parameters()]
    assert not any(np.may_share_memory(a, m) for a in arrays(model) for m in memories)


def test_folded_weights_are_the_sources_and_a_change_is_told(
    compiled: tuple[nn.Module, tuple[torch.Tensor, ...], CompiledModel],
) -> None:
    module, _, model = compiled
    before, folded = model.script("00-import"), model.script("10-canonical")
    with torch.no_grad():
        module.conv.weight.mul_(2.0)
    with pytest.raises(errors.BurnishError, match=r"have changed since\. Compile it again"):
        model.script("00-import")
    assert model.script("10-canonical") == folded  # the program has these
    with torch.no_grad():
        module.conv.weight.mul_(0.5)
    assert model.script("00-import") == before


def test_weights_are_held_once(
    compiled: tuple[nn.Module, tuple[torch.Tensor, ...], CompiledModel],
) -> None:
    """What is alive of large arrays is the program's, and the caller's raw convolution."""
    module, _, model = compiled
    stages = model.executable.stages
    assert isinstance(stages, KeptStages)
    own = {id(a) for a in arrays(model)}
    raw = module.conv.weight.detach().numpy()
    for name in stages:
        for func in stages.structure(name).graph_functions.values():
            for c in weights(func):
                has_memory = c.data.nbytes >= SMALL and any(c.data.strides)
                assert not has_memory or id(c.data) in own or np.shares_memory(c.data, raw)


def test_a_module_that_is_gone_leaves_no_weights_behind() -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(64, 64), nn.ReLU()).eval()
    alive = weakref.ref(module[0].weight)
    model = burnish.compile(module, (torch.rand(2, 64),))
    before = model.script("00-import")
    del module
    gc.collect()
    assert alive() is None
    assert model.script("00-import") == before


def test_recompiling_shares_what_is_laid_out_alike() -> None:
    module, inputs = net()
    imported = import_torch_module(module, inputs)
    first = compile_module(imported.module, NATIVE)
    second = recompile(first, schedule_analytically)
    assert second.program.objects == first.program.objects
    for a, b in zip(first.program.constants, second.program.constants, strict=True):
        assert a is b or np.shares_memory(a, b)
    assert {s: m.script() for s, m in first.stages.items()} == {
        s: m.script() for s, m in second.stages.items()
    }


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
    assert plain.stages["30-fused"].script() == first.stages["30-fused"].script()


SCALED = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((4, 64), "float32"), w: R.Tensor((64, 64), "float32")):
        with R.dataflow():
            y = R.linear(x, w)
            z = R.multiply(y, R.const(0.5, "float32"))
            R.output(z)
        return z
"""


def test_a_source_that_can_be_read_again_is_not_kept() -> None:
    def make(scale: float) -> IRModule:
        w = np.arange(64 * 64, dtype=np.float32).reshape(64, 64) * np.float32(scale)
        module = burnish.parse(SCALED)
        bound: IRModule = burnish.transform.BindParams("main", {"w": w})(module)
        return bound

    scales = iter((1.0, 2.0))
    module = make(1.0)
    (w,) = [c for c in weights(module.graph_functions["main"]) if c.data.size > 1]
    alive = weakref.ref(w.data)
    text = module.script()
    lib = compile_module(module, NATIVE, import_again=lambda: make(next(scales)))
    del module, w
    gc.collect()
    assert alive() is None
    assert lib.stages["00-import"].script() == text
    gc.collect()
    with pytest.raises(errors.BurnishError, match="have changed since"):
        lib.stages["00-import"]


@pytest.mark.parametrize("elements", [SMALL, 1 << 18])
def test_what_is_of_nobody_else_is_not_copied(elements: int) -> None:
    own = aligned_empty((elements,), np.dtype("float32"))
    assert _is_own(own)
    assert not _is_own(own[: elements // 2])
    assert not _is_own(np.frombuffer(bytes(own.nbytes), "float32"))


def test_small_constants_stay_where_they_are() -> None:
    kept = KeptStages(lambda stage, module: module)
    small = np.zeros((64, 64), np.float32)[: SMALL // 256 - 1]
    module = burnish.parse(SCALED.replace("(64, 64)", str(small.shape)))
    module = burnish.transform.BindParams("main", {"w": small})(module)
    kept.keep("00-import", module)
    assert kept.structure("00-import")["main"] is module["main"]
    assert kept["00-import"].script() == module.script()
    assert (list(kept), len(kept)) == (["00-import"], 1)


def test_memory_is_given_back_without_harm() -> None:
    large = np.ones(1 << 22, np.uint8)
    give_back_memory()
    assert large.all()


def test_arrays_of_the_caller_that_live_on_may_change() -> None:
    module, inputs = net()
    imported = import_torch_module(module, inputs).module
    own: list[np.ndarray] = []

    def copied(n: Node) -> Node:
        if not isinstance(n, Constant):
            return map_children(n, copied)
        own.append(np.array(n.data))
        return Constant(own[-1], n.type)

    imported["main"] = map_children(imported["main"], copied)
    executable = compile_module(imported, NATIVE)
    later = [name for name in executable.stages if name >= "20"]
    before = {name: executable.stages[name].script() for name in later}
    gc.collect()
    for array in own:
        array[...] = 7
    assert {name: executable.stages[name].script() for name in later} == before
