"""burnish.transform: each pass over a module, with this machine's services."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import torch

import burnish
from burnish import errors, transform
from burnish.driver.kernels import resolve_target
from burnish.graphir.module import IRModule
from burnish.support.passes import Pass, Pipeline
from burnish.tests.driver.programs import add_one
from burnish.tests.tuner.programs import matmul, tiled
from burnish.tuner.records.database import TuningDatabase
from burnish.tuner.records.records_io import export_records

LINEAR = """
@I.ir_module
class M:
    @R.function
    def main(
        x: R.Tensor((2, 4), "float32"),
        w: R.Tensor((3, 4), "float32"),
        b: R.Tensor((3,), "float32"),
    ):
        with R.dataflow():
            y = R.linear(x, w, b)
            z = R.relu(y)
            R.output(z)
        return z
"""


@pytest.fixture
def linear() -> IRModule:
    module: IRModule = burnish.parse(LINEAR)
    return module


@pytest.fixture(scope="module")
def weights() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {
        "w": rng.standard_normal((3, 4)).astype(np.float32),
        "b": rng.standard_normal(3).astype(np.float32),
    }


def test_bound_weights_print_parse_and_run(
    linear: IRModule, weights: dict[str, np.ndarray]
) -> None:
    text = linear.script()
    bound = transform.BindParams("main", weights)(linear)
    assert linear.script() == text
    assert [p.name for p in bound["main"].params] == ["x"]
    back = burnish.parse(bound.script(), constants=bound.constants)
    burnish.assert_structural_equal(back, bound)
    x = np.ones((2, 4), np.float32)
    wanted = np.maximum(x @ weights["w"].T + weights["b"], 0)
    for module in (bound, back):
        y = burnish.VirtualMachine(burnish.build(module))["main"](x)
        np.testing.assert_allclose(y.numpy(), wanted, rtol=1e-5)


def test_bound_weights_are_copied(linear: IRModule, weights: dict[str, np.ndarray]) -> None:
    own = {k: v.copy() for k, v in weights.items()}
    vm = burnish.VirtualMachine(burnish.build(transform.BindParams("main", own)(linear)))
    x = np.ones((2, 4), np.float32)
    before = vm["main"](x).numpy().copy()
    own["w"][...] = 0
    np.testing.assert_array_equal(vm["main"](x).numpy(), before)


def test_passes_of_other_names_are_named() -> None:
    assert not set(transform._ELSEWHERE) & set(transform.__all__)
    for name, here in transform._ELSEWHERE.items():
        with pytest.raises(AttributeError, match=rf"{name}'; here it is {re.escape(here)} "):
            getattr(transform, name)
        if "." not in here and not here.startswith("nothing: "):
            assert here in transform.__all__
    with pytest.raises(AttributeError, match=r"no attribute 'nonsense'$"):
        transform.nonsense  # noqa: B018


def test_constants_are_folded_on_this_machine() -> None:
    module = burnish.parse(
        """
@I.ir_module
class M:
    @R.function
    def main(x: R.Tensor((2,), "float32")):
        with R.dataflow():
            a = R.add(R.const([1.0, 2.0], "float32"), R.const([3.0, 4.0], "float32"))
            y = R.add(x, a)
            R.output(y)
        return y
"""
    )
    folded = transform.FoldConstant()(module)
    assert 'R.const([4.0, 6.0], "float32")' in folded.script()
    assert transform.FoldConstant(max_bytes=0)(module)["main"] is not None


def test_the_passes_fuse_a_module(linear: IRModule) -> None:
    passes = Pipeline(
        [
            *(transform.Canonicalize(), transform.CollapseLeadingDims()),
            *(transform.EliminateCommonSubexpr(), transform.LegalizeOps()),
            *(transform.AnnotatePattern(), transform.FuseOps(), transform.FusePrimFuncs()),
            transform.DeadCodeElimination(),
        ]
    )
    fused = passes(linear)
    assert list(fused.prim_funcs) == ["fused_linear_relu"]
    scheduled = transform.DefaultSchedule()(fused)
    func = scheduled["fused_linear_relu"]
    assert func.attr("is_scheduled")
    assert not fused["fused_linear_relu"].attr("is_scheduled")
    assert transform.DefaultSchedule()(scheduled)["fused_linear_relu"] is func


def test_default_schedule_schedules_what_a_user_wrote() -> None:
    module = burnish.IRModule.from_expr(add_one(n=64))
    scheduled = transform.DefaultSchedule("native -threads=1")(module)
    assert "T.vectorized" in scheduled.script()
    x, y = np.ones(64, np.float32), np.zeros(64, np.float32)
    burnish.build(scheduled)["main"](x, y)
    np.testing.assert_array_equal(y, x + 1)


def test_an_empty_database_changes_nothing() -> None:
    module = burnish.IRModule.from_expr(add_one())
    database = TuningDatabase()
    with pytest.warns(UserWarning, match="The tuning database has no records"):
        applied = transform.ApplyDatabase(database, "native -threads=1")(module)
    assert applied["add_one"] is module["add_one"]
    target = resolve_target("native -threads=1")
    assert transform.best_or_none(add_one(), target, database) is None


def test_errors_inside_a_pass_say_which(linear: IRModule) -> None:
    with pytest.raises(errors.PassError, match="In pass 'bind-params'") as caught:
        transform.BindParams("main", {"nothing": np.zeros(3)})(linear)
    assert isinstance(caught.value.__cause__, errors.BurnishError)


def test_every_name_is_a_pass() -> None:
    others = {"Instrument", "PassContext", "PrintAfter", "TimePasses", "VerifyEach", "module_pass"}
    others |= {"FusionPattern", "PassList", "pipeline"}
    for name in set(transform.__all__) - others:
        value = getattr(transform, name)
        assert isinstance(value, type)
        assert issubclass(value, Pass)


def test_a_pass_of_ones_own_stands_in_a_sequence(linear: IRModule) -> None:
    seen: list[str] = []

    @transform.module_pass(name="look")
    def look(mod: IRModule, ctx: transform.PassContext) -> IRModule:
        seen.extend([*mod.prim_funcs, str(ctx.config["word"])])
        return mod

    with transform.PassContext(config={"word": "here"}):
        transform.Sequential([transform.LegalizeOps(), look])(linear)
    assert seen == ["linear", "relu", "here"]


def test_a_database_is_applied_from_its_file(tmp_path: Path) -> None:
    func = matmul(16)
    path = tmp_path / "log.json"
    database = burnish.tune_tir(func, max_trials=1, space=tiled, strategy="random", seed=0)
    export_records(database, path)
    database.close()
    module = burnish.IRModule.from_expr(func)
    found = transform.ApplyDatabase(path, "native -threads=1")(module)["main"]
    assert found.attr("is_scheduled")
    with pytest.warns(
        UserWarning, match=r"threads=2'. The database has records for: v2 .*threads=1"
    ):
        other = transform.ApplyDatabase(str(path), "native -threads=2")(module)["main"]
    assert other is func
    sch = burnish.compile_tir(path, func, "native -threads=1")
    burnish.assert_structural_equal(sch.mod["main"], found.without_attr("record_rule"))
    with pytest.raises(errors.PassError, match=r"There is no file '.*nowhere\.db'"):
        transform.ApplyDatabase(tmp_path / "nowhere.db")(module)


def test_a_module_without_functions_is_refused() -> None:
    """Where passes= puts the pass, operators are no functions yet."""
    layer, x = torch.nn.Linear(8, 4).eval(), torch.rand(2, 8)
    with pytest.raises(errors.TuningError, match=r"burnish\.compile\(model, inputs, database="):
        burnish.compile(layer, (x,), passes=[transform.ApplyDatabase(TuningDatabase())])


def test_constants_get_the_layout_of_a_schedule_from_the_database() -> None:
    layer, x = torch.nn.Linear(64, 48).eval(), torch.rand(4, 64)
    model = burnish.compile(layer, (x,), threads=1)
    module = model.executable.stages["30-fused"]
    ((name, func),) = module.prim_funcs.items()
    # The first candidate is the analytic schedule, which packs the weight.
    with burnish.tune_tir(func, target="native -threads=1", max_trials=1, seed=0) as database:
        applied = transform.ApplyDatabase(database, "native -threads=1")(module)
    assert applied[name].attr("packed_layouts")
    assert burnish.compile(applied).report.schedules[name].origin == "matmul from records"
    found = burnish.VirtualMachine(burnish.build(applied, target="native -threads=1"))["main"](
        x.numpy()
    )
    np.testing.assert_allclose(found.numpy(), layer(x).detach().numpy(), rtol=1e-5, atol=1e-6)
