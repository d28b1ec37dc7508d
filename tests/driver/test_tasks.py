"""Tuning at the front door: ``burnish.tune_tir``, ``burnish.compile_tir`` and the tasks of a
module."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import burnish
from burnish.driver import tasks
from burnish.driver.kernels import resolve_target
from burnish.driver.tasks import extract_tasks
from burnish.graphir.module import IRModule
from burnish.graphir.text.parser import parse_module
from burnish.support.errors import ArgumentError, TuningError
from burnish.support.structural import structural_hash
from burnish.tensorir.function import PrimFunc
from burnish.tests.tuner.programs import InlineExecutor, matmul, tiled, unbuildable, wrong
from burnish.tuner.records.database import TuningDatabase
from burnish.tuner.session import tune_task
from burnish.tuner.task import strip_attrs


@pytest.fixture
def inline(monkeypatch: pytest.MonkeyPatch) -> InlineExecutor:
    """Measure in this process."""
    executor = InlineExecutor()

    def tune(*args: Any, **kwargs: Any) -> object:
        return tune_task(*args, **kwargs, executor=executor, seconds=0.0)

    monkeypatch.setattr(tasks, "tune_task", tune)
    return executor


def tune(mod: IRModule | PrimFunc, **options: Any) -> TuningDatabase:
    settings: dict[str, Any] = {"max_trials": 2, "space": tiled, "seed": 0}
    return burnish.tune_tir(mod, **settings | options)


def check_product(func: Callable[..., None], n: int = 32) -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.uniform(-1, 1, (n, n)).astype(np.float32) for _ in range(2))
    c = np.zeros((n, n), np.float32)
    func(a, b, c)
    np.testing.assert_allclose(c, a @ b, rtol=1e-4, atol=1e-4)


def test_a_tuned_function_is_found_built_and_right() -> None:
    """The whole way, with a real worker."""
    func = matmul()
    seen: list[int] = []
    database = tune(func, max_trials=4, on_progress=lambda p: seen.append(p.done))
    assert seen == [1, 2, 3, 4]
    sch = burnish.compile_tir(database, func)
    assert isinstance(sch, burnish.Schedule)
    assert isinstance(sch.mod, IRModule)
    best = min((r for r in database.records()), key=lambda r: r.best or 9.0)
    assert structural_hash(strip_attrs(sch.mod.prim_funcs["main"])) == best.candidate
    assert "sample_perfect_tile" in str(sch.trace)
    check_product(burnish.build(sch.mod)["main"])


def test_the_built_in_space_tunes_a_matmul(inline: InlineExecutor) -> None:
    database = tune(matmul(), space=None)
    assert [r.error for r in database.records()] == ["", ""]
    check_product(burnish.build(burnish.compile_tir(database, matmul()))["main"])


def test_a_module_is_tuned_and_compiled_as_a_whole(inline: InlineExecutor) -> None:
    mod = IRModule({"product": matmul(), "other": matmul(16, names="XYZ")})
    database = tune(mod, task_name="product")
    sch = burnish.compile_tir(database, mod, name="product")
    assert list(sch.mod.functions) == ["product", "other"]
    assert sch.mod["other"] is mod["other"]
    assert sch.mod["product"].attr("is_scheduled") is True
    assert not mod["product"].attr("is_scheduled")
    check_product(burnish.build(sch.mod)["product"])
    with pytest.raises(TuningError, match="There is no record for 'other'"):
        burnish.compile_tir(database, mod, name="other")


def test_a_record_serves_functions_with_other_names(inline: InlineExecutor) -> None:
    database = tune(matmul())
    asking = matmul(names="XYZ", func_name="linear0").with_attr("global_symbol", "linear0")
    mod = IRModule({"main": matmul(16), "linear0": asking})
    sch = burnish.compile_tir(database, mod, name="linear0")
    func = sch.mod["linear0"]
    assert [p.name for p in func.params] == ["X", "Y", "Z"]
    assert func.attr("global_symbol") == "linear0"
    assert sch.mod["main"] is mod["main"]
    assert 'func_name="linear0"' in str(sch.trace)
    check_product(burnish.build(sch.mod)["linear0"])


def test_the_only_function_goes_by_any_name(inline: InlineExecutor) -> None:
    mod = IRModule({"product": matmul()})
    assert len(tune(mod)) == 2
    sch = burnish.compile_tir(tune(mod), mod)
    assert list(sch.mod.functions) == ["product"]


def test_it_is_not_clear_which_function(inline: InlineExecutor) -> None:
    mod = IRModule({"a": matmul(16), "b": matmul(8)})
    with pytest.raises(TuningError) as caught:
        tune(mod)
    assert "The module has 2 PrimFuncs (a, b) and none is called 'main'" in str(caught.value)
    with pytest.raises(TuningError, match=r"has 0 PrimFuncs \(none\)"):
        burnish.compile_tir(TuningDatabase(), IRModule())
    with pytest.raises(TuningError, match="Expected an IRModule or a PrimFunc to tune; found str"):
        tune("main")  # type: ignore[arg-type]


def test_records_in_a_folder_are_gone_on_from(inline: InlineExecutor, tmp_path: Path) -> None:
    first = tune(matmul(), work_dir=tmp_path)
    assert first.path == str(tmp_path / "records.db")
    first.close()
    second = tune(matmul(), work_dir=tmp_path)
    assert len(second) == 4
    calls = [c["candidate"] for c in inline.calls if c["job"] == "measure_candidate"]
    assert len(set(calls)) == len(calls) == 4


def test_a_folder_with_something_else_in_it(inline: InlineExecutor, tmp_path: Path) -> None:
    (tmp_path / "records.db").write_text("my notes " * 1000)
    with pytest.raises(TuningError, match="is no tuning database"):
        tune(matmul(), work_dir=tmp_path)


@pytest.mark.parametrize("space", [wrong, unbuildable])
def test_what_failed_is_never_offered(inline: InlineExecutor, space: Any) -> None:
    database = tune(matmul(), space=space)
    assert len(database) == 2
    with pytest.raises(TuningError, match="There is no record for 'main'"):
        burnish.compile_tir(database, matmul())


def test_the_nearest_records_are_named(inline: InlineExecutor) -> None:
    database = tune(matmul())
    with pytest.raises(TuningError, match=r"nearest .*\n  main\(A: float32\[32, 32\]"):
        burnish.compile_tir(database, matmul(16))
    with pytest.raises(TuningError, match="records for other targets"):
        burnish.compile_tir(database, matmul(), "native -threads=7")


def test_symbolic_functions_and_other_machines_are_refused(inline: InlineExecutor) -> None:
    symbolic = matmul(burnish.te.var("n"))
    with pytest.raises(TuningError, match="symbolic sizes"):
        tune(symbolic)
    with pytest.raises(TuningError, match="no record for 'main'"):
        burnish.compile_tir(TuningDatabase(), symbolic)
    with pytest.raises(TuningError, match="is another machine"):
        tune(matmul(), target="llvm -mcpu=neoverse-n1")
    assert inline.calls == []


# -- programs of every kind --------------------------------------------------------------------
PROGRAM = """
import burnish
from burnish import te
a, b = (te.placeholder((16, 16), name=n) for n in "AB")
k = te.reduce_axis((0, 16), "k")
c = te.compute((16, 16), lambda i, j: te.sum(a[i, k] * b[k, j], axis=[k]), name="C")
func = te.create_prim_func([a, b, c])
database = burnish.tune_tir(func, max_trials=1)
print([r.error for r in database.records()], len(burnish.compile_tir(database, func).trace) > 0)
"""


@pytest.mark.parametrize("way", ["script", "stdin"])
def test_programs_without_a_main_guard_tune(way: str, tmp_path: Path) -> None:
    file = tmp_path / "program.py"
    file.write_text(PROGRAM)
    result = subprocess.run(
        [sys.executable, str(file) if way == "script" else "-"],
        input=PROGRAM,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert (result.returncode, result.stdout) == (0, "[''] True\n"), result.stderr


# -- tasks of a model ---------------------------------------------------------------------------
MODEL = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((4, 8), "float32"), w: R.Tensor((8, 8), "float32")):
        with R.dataflow():
            a = R.matmul(x, w)
            b = R.matmul(a, w)
            c = R.exp(b)
            R.output(c)
        return c
"""


def test_tasks_are_the_distinct_kernels_weighted_by_their_calls() -> None:
    module = burnish.transform.LegalizeOps()(parse_module(MODEL))
    found = extract_tasks(module, resolve_target("native"))
    assert sorted((t.name, t.weight) for t in found) == [("exp", 1), ("matmul", 2)]
    assert {t.flop for t in found} == {32.0, 2.0 * 4 * 8 * 8}


def test_equal_kernels_under_two_names_are_one_task() -> None:
    module = burnish.transform.LegalizeOps()(parse_module(MODEL))
    module["matmul_again"] = module["matmul"].with_attr("global_symbol", "matmul_again")
    (task,) = [t for t in extract_tasks(module, resolve_target("native")) if t.name == "matmul"]
    assert task.weight == 3


def test_only_unscheduled_static_kernels_of_legalisation_are_tasks() -> None:
    module = burnish.transform.LegalizeOps()(parse_module(MODEL))
    module["matmul"] = module["matmul"].with_attr("is_scheduled", True)
    module["mine"] = matmul()
    assert [t.name for t in extract_tasks(module, resolve_target("native"))] == ["exp"]
    assert extract_tasks(symbolic(), resolve_target("native")) == []


def symbolic() -> IRModule:
    """The model of any number of rows."""
    return burnish.transform.LegalizeOps()(parse_module(MODEL.replace("(4, 8)", '("n", 8)')))


def test_named_sizes_are_tasks_at_the_sizes_that_are_given() -> None:
    found = extract_tasks(symbolic(), resolve_target("native"), [{"n": 1}, {"n": 64}, {"n": 1}])
    assert sorted((t.name, t.weight, t.sizes) for t in found) == [
        ("exp", 1, ((1,), (64,))),
        ("matmul", 2, ((1,), (64,))),
    ]
    # A kernel whose sizes are not told, or empty, is left alone.
    assert extract_tasks(symbolic(), resolve_target("native"), [{"m": 1}, {"n": 0}]) == []


DOUBLED = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n", 8), "float32"), w: R.Tensor((8, 8), "float32")):
        with R.dataflow():
            a = R.matmul(x, w)
            b = R.concat((a, x), axis=0)
            c = R.matmul(b, w)
            R.output(c)
        return c
"""


def test_a_kernels_sizes_are_those_of_its_calls() -> None:
    """One kernel, called with rows of the model and with twice as many."""
    module = burnish.transform.LegalizeOps()(parse_module(DOUBLED))
    found = {t.name: t for t in extract_tasks(module, resolve_target("native"), [{"n": 3}])}
    products = [t for name, t in found.items() if name.startswith("matmul")]
    assert sorted(s for t in products for s in t.sizes) == [(3,), (6,)]


def test_a_function_of_named_sizes_is_tuned_for_some(inline: InlineExecutor) -> None:
    func = matmul(burnish.te.var("n"))
    database = tune(func, space=None, max_trials=3, sizes=[{"n": 24}, {"n": 40}])
    assert {r.target.partition(" sizes=")[2] for r in database.records()} == {"24;40"}
    sch = burnish.compile_tir(database, func)
    best = min((r for r in database.records()), key=lambda r: r.best or 9.0)
    assert structural_hash(strip_attrs(sch.mod.prim_funcs["main"])) == best.candidate
    built = burnish.build(sch.mod)["main"]
    for n in (1, 24, 33):
        check_product(built, n)
    module = burnish.transform.ApplyDatabase(database, tasks.ONE_THREAD)(IRModule.from_expr(func))
    assert structural_hash(strip_attrs(module["main"])) == best.candidate
    tune(func, space=None, max_trials=1, sizes={"n": 8})  # one set alone


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ([{"m": 8}], "no input has a size 'm'; there are n"),
        ([{"n": 0}], "n cannot be 0; expected 1 or more"),
        ([{"n": True}], "n cannot be True"),
        ([{}], "leaves 'n' open"),
        ([8], "takes sizes by name"),
        ((), r"Say which with sizes="),
    ],
)
def test_sizes_that_are_none(inline: InlineExecutor, sizes: Any, message: str) -> None:
    with pytest.raises((ArgumentError, TuningError), match=message):
        tune(matmul(burnish.te.var("n")), sizes=sizes)
