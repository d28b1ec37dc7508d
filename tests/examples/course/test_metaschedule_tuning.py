"""Tuning finds schedules of both spaces, and the tuned layer gives the same answers."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest

import burnish


@pytest.mark.tuning
def test_it_runs(program: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    program.main(["--trials", "2"])
    text = capsys.readouterr().out
    own, built_in = text.split("Time cost after tuning in our own space")
    assert "sample_perfect_tile" in own
    assert "decompose_reduction" in own
    assert "Time cost after tuning in the built-in space" in built_in
    before, after = (line.split(": ")[1] for line in text.splitlines() if " prediction: " in line)
    assert before == after
    assert text.count(" time-cost: ") == 2


@pytest.mark.tuning
@pytest.mark.parametrize("own", [True, False], ids=["own", "built-in"])
def test_a_tuned_schedule_is_one_of_the_space(program: ModuleType, own: bool) -> None:
    sch = program.tune(program.MyModule, 2, program.stochastic_schedule_mm if own else None)
    assert program.measure(sch.mod) > 0
    again = burnish.Schedule(program.MyModule)
    sch.trace.apply_to(again)
    burnish.assert_structural_equal(again.mod, sch.mod)
    if own:
        assert "sample_perfect_tile" in str(sch.trace)
        assert "decompose_reduction" in str(sch.trace)


@pytest.mark.tuning
def test_the_tuned_layer_replaces_the_one_of_the_module(program: ModuleType) -> None:
    mod = program.MyModuleMixture
    tuned = program.replace_linear0(mod, 1)
    assert tuned["linear0"].attr("global_symbol") == "linear0"
    assert tuned["linear0"].attr("is_scheduled")
    assert not mod["linear0"].attr("is_scheduled")
    assert tuned["main"] is mod["main"]
    rng = np.random.default_rng(0)
    shapes = ((1, 784), (128, 784), (128,))
    arrays = [rng.standard_normal(s).astype("float32") for s in shapes]
    z = np.full((1, 128), np.nan, "float32")
    burnish.build(burnish.IRModule.from_expr(tuned["linear0"]))["linear0"](*arrays, z)
    np.testing.assert_allclose(z, arrays[0] @ arrays[1].T + arrays[2], rtol=1e-3, atol=1e-3)
