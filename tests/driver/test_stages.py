"""The corridor: stages, counts, dumps, errors, and the two ways to run a program."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import burnish
from burnish import errors
from burnish.driver import kernels
from burnish.driver.compiled_model import CompiledModel
from burnish.driver.kernels import _Cache, resolve_target
from burnish.driver.sources import import_torch_module
from burnish.driver.stages import (
    STAGES,
    checked,
    compile_module,
    original_errors,
    workspace_bytes,
)
from burnish.graphir.module import IRModule
from burnish.support.passes import Pass
from burnish.support.target import Target
from burnish.tensorir.function import PrimFunc
from burnish.tests.driver.programs import add_one, mixed
from burnish.tuner.analytic import apply_rules
from burnish.vm.program import Call, Imm, Program, Ret, TensorSpec, VMFunction

NATIVE = resolve_target("native")


# -- counts ---------------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", ["static", "dynamic"])
def test_the_mlp_is_two_kernels_and_one_segment(kind: str, request: pytest.FixtureRequest) -> None:
    model: CompiledModel = request.getfixturevalue(kind)
    assert model.report.kernels == ["fused_linear_relu", "linear_1"]
    assert model.report.segments == 1
    assert len(model.module.prim_funcs) == 2
    calls = model.executable.program.functions["main"].instructions
    assert sum(isinstance(c, Call) and c.func.startswith("kernel:") for c in calls) == 1


def test_weights_are_packed_at_compile_time(static: CompiledModel) -> None:
    """The program holds each weight once, and no kernel transforms one."""
    weights = 784 * 128 + 128 + 128 * 16 + 10  # ten columns are padded to one vector of 16 or less
    assert static.report.constant_bytes <= weights * 4
    assert static.report.copies == 0


def test_what_was_emitted_before_is_not_emitted_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "_cache", _Cache(8))  # without what other tests emitted

    def compile_it() -> CompiledModel:
        torch.manual_seed(3)  # as long as the weights differ, the kernels need not
        module = nn.Sequential(nn.Linear(5, 7), nn.ReLU(), nn.Linear(7, 3)).eval()
        model: CompiledModel = burnish.compile(module, (torch.rand(11, 5),))
        return model

    first, second = compile_it(), compile_it()
    assert first.report.compilations == 3  # two kernels and the segment
    assert second.report.compilations == 0
    x = torch.rand(11, 5)
    assert torch.equal(first(x), second(x))


def test_identical_layers_share_one_kernel() -> None:
    torch.manual_seed(0)
    module = nn.Sequential(*[nn.Linear(6, 6) for _ in range(3)]).eval()
    model = burnish.compile(module, (torch.rand(2, 6),))
    assert len({k.symbol for k in model.executable.program.kernels.values()}) == 2
    assert model.report.compilations <= 2  # one kernel and the segment
    x = torch.rand(2, 6)
    with torch.no_grad():
        torch.testing.assert_close(model(x), module(x), rtol=1e-5, atol=1e-5)


def test_every_stage_is_kept_and_timed(static: CompiledModel) -> None:
    ir = [s for s in STAGES if s[:2] not in ("50", "60", "70")]
    assert list(static.executable.stages) == ir
    assert set(ir) | {"70-bytecode"} <= set(static.report.stages)
    assert 0 < static.report.seconds < 600  # seconds, whatever the machine has to do


# -- two ways to run ------------------------------------------------------------------------------
@pytest.mark.parametrize("batch", [None, 0, 1, 37])
def test_segments_and_the_interpreter_give_the_same_bits(
    module: nn.Module, static: CompiledModel, dynamic: CompiledModel, batch: int | None
) -> None:
    dims = None if batch is None else ({0: "batch"},)
    imported = import_torch_module(module, (torch.rand(1, 1, 28, 28),), None, dims)
    plain = compile_module(imported.module, NATIVE, segments=False)
    assert plain.report.segments == 0
    x = np.random.default_rng(0).random((1 if batch is None else batch, 1, 28, 28), np.float32)
    found = burnish.VirtualMachine(plain)["main"](x).numpy()
    np.testing.assert_array_equal((static if batch is None else dynamic)(x), found)


# -- choices --------------------------------------------------------------------------------------
def test_only_legalized_functions_are_given_to_the_scheduler() -> None:
    asked: list[str] = []

    def leave(func: PrimFunc, target: Target) -> PrimFunc:
        asked.append(func.name)
        return func.with_attr("is_scheduled", True)

    built = compile_module(mixed(), NATIVE, schedule=leave)
    assert asked == ["fused_relu_add"]
    assert "T.vectorized" not in built.stages["40-scheduled"].script()


# -- flags ----------------------------------------------------------------------------------------
def test_every_stage_is_dumped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BURNISH_DUMP", str(tmp_path))
    module = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)).eval()
    for folder in ("model", "model-2"):  # the second time too, where all is known already
        burnish.compile(module, (torch.rand(2, 3),))
        files = {
            p.relative_to(tmp_path / folder).as_posix() for p in tmp_path.rglob(f"{folder}/**/*.*")
        }
        assert {f"{s}.py" for s in STAGES[:6]} | {"70-bytecode.txt", "index.txt"} <= files
        for kernel in ("fused_linear_relu", "linear_1"):
            assert f"50-lowered/{kernel}.py" in files
            assert {f"60-llvm/{kernel}.ll", f"60-llvm/{kernel}.s"} <= files
        assert "60-llvm/main_segment0.ll" in files
        assert (tmp_path / folder / "60-llvm/linear_1.s").read_text().strip()
    index = (tmp_path / "model" / "index.txt").read_text().splitlines()
    assert index[0].split() == ["stage", "seconds", "bytes"]
    assert index[1].split()[0] == "00-import.py"
    text = (tmp_path / "model" / "30-fused.py").read_text()
    assert "fused_linear_relu" in text


def test_a_library_is_dumped_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BURNISH_DUMP", str(tmp_path))
    burnish.build(add_one())
    assert (tmp_path / "lib" / "50-lowered" / "add_one.py").exists()
    assert (tmp_path / "lib" / "60-llvm" / "add_one.ll").read_text().count("define")


def test_a_failure_is_dumped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BURNISH_DUMP", str(tmp_path))

    def refuse(func: PrimFunc, target: Target) -> PrimFunc:
        raise errors.ScheduleError("split", "no")

    with pytest.raises(errors.ScheduleError):
        compile_module(mixed(), NATIVE, schedule=refuse)
    assert (tmp_path / "model" / "error.txt").read_text().startswith("ScheduleError: split: no")
    assert (tmp_path / "model" / "30-fused.py").exists()


def test_the_module_can_be_printed_after_a_pass(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("BURNISH_PRINT_AFTER", "fuse-prim-funcs")
    burnish.build(mixed())
    printed = capsys.readouterr().err
    assert printed.count("# -- after") == 1
    assert "fused_relu_add" in printed


@pytest.mark.parametrize(
    ("asked", "heads"),
    [
        ("30-fused", ["# -- stage 30-fused"]),
        ("fused,bytecode", ["# -- stage 30-fused", "# -- stage 70-bytecode"]),
    ],
)
def test_stages_can_be_printed(
    asked: str,
    heads: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("BURNISH_PRINT_AFTER", asked)
    built = burnish.build(mixed())
    printed = capsys.readouterr().err
    assert [line for line in printed.splitlines() if line.startswith("# --")] == heads
    assert f"{heads[0]}\n{built.stages['30-fused'].script().rstrip()}\n" in printed


# -- errors ---------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Fails(Pass):
    error: errors.BurnishError = field(default_factory=lambda: errors.BurnishError("x"))

    def run(self, module: IRModule) -> IRModule:
        raise self.error


def test_a_pass_error_is_replaced_by_its_cause() -> None:
    error = errors.TypeInferenceError("add", "the shapes do not fit.")
    with pytest.raises(errors.TypeInferenceError) as caught, original_errors():
        checked(checked(Fails(error)))(IRModule())
    assert caught.value is error
    assert caught.value.stage == "fails"
    assert caught.value.__notes__ == ["in pass 'fails'"]
    # A pass that is called directly wraps the error, and keeps it.
    with pytest.raises(errors.PassError) as wrapped:
        Fails(error)(IRModule())
    assert wrapped.value.__cause__ is error


def test_what_is_no_error_of_burnish_goes_through() -> None:
    def refuse(func: PrimFunc, target: Target) -> PrimFunc:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError) as caught:
        compile_module(mixed(), NATIVE, schedule=refuse)
    assert caught.value.__notes__[0] == "in pass 'schedule-legalized'"


# -- the report's numbers -------------------------------------------------------------------------
def program(shape: str) -> Program:
    body = (
        Call(0, "builtin:alloc_storage", (Imm(shape),)),
        Call(1, "builtin:alloc_storage", (Imm("64"),)),
        Ret(Imm(0)),
    )
    return Program({"main": VMFunction("main", (), 2, body, TensorSpec((), "int64"))})


@pytest.mark.parametrize(("size", "found"), [("128", 192), ("n * 4", None)])
def test_workspace_is_counted_where_it_is_known(size: str, found: int | None) -> None:
    assert workspace_bytes(program(size), 1) == found


def test_the_mlp_keeps_its_intermediate_in_the_workspace(
    static: CompiledModel, dynamic: CompiledModel
) -> None:
    assert static.report.workspace_bytes == 128 * 4
    assert dynamic.report.workspace_bytes is None


# -- text -----------------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", ["static", "dynamic"])
@pytest.mark.parametrize("stage", [s for s in STAGES if s[:2] < "50"])
def test_every_stage_parses_back(kind: str, stage: str, request: pytest.FixtureRequest) -> None:
    model: CompiledModel = request.getfixturevalue(kind)
    module = model.executable.stages[stage]
    back = burnish.parse(module.script(), constants=module.constants)
    burnish.assert_structural_equal(back, module)
    assert back.script() == module.script()


def test_a_stage_that_was_parsed_back_compiles_to_the_same_answers(
    static: CompiledModel, image: torch.Tensor
) -> None:
    for stage in ("00-import", "30-fused"):
        module = static.executable.stages[stage]
        back = burnish.parse(module.script(), constants=module.constants)
        y = burnish.compile(back)(image.numpy())
        np.testing.assert_array_equal(y, static(image.numpy()))


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("kind", ["static", "dynamic"])
def test_any_schedule_of_the_space_parses_back(
    kind: str, seed: int, request: pytest.FixtureRequest
) -> None:
    """Registers, vectorized and unrolled loops, predicates, layout maps: as tuning makes them."""
    model: CompiledModel = request.getfixturevalue(kind)
    for name, func in model.executable.stages["30-fused"].prim_funcs.items():
        sch = burnish.Schedule(func, seed=seed)
        apply_rules(sch, NATIVE, sampled=True)
        text = sch.mod.script()
        assert 'scope="register"' in text
        back = burnish.parse(text)
        burnish.assert_structural_equal(back[name], sch.func)
        assert back.script() == text


@pytest.mark.parametrize("loop", ["T.parallel", "T.vectorized", "T.unroll"])
def test_loop_kinds_survive_printing(loop: str) -> None:
    func = add_one(loop=loop)
    burnish.assert_structural_equal(burnish.parse(func.script())["add_one"], func)
