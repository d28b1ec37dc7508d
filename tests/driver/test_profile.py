"""model.profile: every kernel of a call, as it runs; nothing of the model changes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import burnish
from burnish.driver import profile as profiling
from burnish.driver.compiled_model import CompiledModel
from burnish.driver.profile import split_objects
from burnish.support.errors import ArgumentError, ShapeMismatchError
from burnish.tests.driver.programs import mixed
from burnish.vm.registry import unregister_func


def test_the_kernels_of_a_call(static: CompiledModel, image: torch.Tensor) -> None:
    found = static.profile(image, seconds=0.01, roofline=False)
    assert {(r.name, r.calls, r.rule) for r in found.rows} == {
        ("fused_linear_relu", 1, "matmul"),
        ("linear_1", 1, "matmul"),
    }
    assert [c.name for c in found.calls] == ["fused_linear_relu", "linear_1"]
    times = [found.begin, *[t for c in found.calls for t in (c.begin, c.end)], found.end]
    assert times == sorted(times)
    assert found.runs >= 3
    assert all(r.flops and r.bandwidth and r.of_roofline is None for r in found.rows)


def test_a_row_has_the_median_of_its_calls(
    static: CompiledModel, image: torch.Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of three runs whose times are known, of which the second is the middle one."""
    spent = [(4000, 1000), (5000, 2000), (9000, 6000)]
    take = profiling._runs

    def known(*args: Any) -> Any:
        runs, walls = take(*args)
        made = []
        for run, (first, second) in zip(runs, spent, strict=False):
            a, b = run.calls
            calls = [replace(a, begin=10, end=10 + first), replace(b, begin=20_000, end=20_000)]
            calls[1] = replace(calls[1], end=20_000 + second)
            made.append(replace(run, begin=0, end=20_100 + second, calls=calls))
        return made, walls

    monkeypatch.setattr(profiling, "_runs", known)
    found = static.profile(image, seconds=0.01, roofline=False)
    assert found.runs == 3
    assert found.total == found.end * 1e-9 == pytest.approx(22.1e-6)
    assert [(r.name, r.seconds) for r in found.rows] == [
        ("fused_linear_relu", pytest.approx(5e-6)),
        ("linear_1", pytest.approx(2e-6)),
    ]


def test_a_loaded_model_says_as_much(
    static: CompiledModel, image: torch.Tensor, tmp_path: Path
) -> None:
    loaded = burnish.load(static.save(tmp_path / "m.burnish").path)
    expected = loaded(image)
    found = loaded.profile(image.numpy(), seconds=0.01, roofline=False)
    rows = {r.name: r for r in found.rows}
    assert set(rows) == {"fused_linear_relu", "linear_1"}
    assert rows["linear_1"].rule == "matmul"
    assert rows["linear_1"].flop
    assert torch.equal(loaded(image), expected)


def test_the_roofline_is_that_of_the_machine(
    static: CompiledModel, image: torch.Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    from burnish.tuner.measuring import roofline

    peaks = roofline.Peaks(1e12, ((1 << 40, 1e12),))
    monkeypatch.setattr(roofline, "measure_peaks", lambda target: peaks)
    found = static.profile(image, seconds=0.01)
    row = next(r for r in found.rows if r.name == "fused_linear_relu")
    assert row.moved is not None
    assert row.least == row.moved / 1e12


@pytest.fixture
def double() -> Iterator[None]:
    @burnish.register_func("env.driver.double", override=True)
    def _(x: Any, out: Any) -> None:
        np.multiply(x, 2, out=np.asarray(out))

    yield
    unregister_func("env.driver.double")


@pytest.mark.usefixtures("double")
def test_functions_of_the_environment_are_rows() -> None:
    model = burnish.compile(mixed())
    params = model.executable.program.functions["main"].params
    inputs = [np.ones([int(t) for t in p.spec.shape], p.spec.dtype) for p in params]
    found = model.profile(*inputs, seconds=0.01, roofline=False)
    assert {"kernel", "env", "builtin"} == {r.kind for r in found.rows}
    assert [
        c.name for c in found.calls if not c.name.startswith(("alloc", "match", "tensor_"))
    ] == [*("add_one", "env.driver.double", "add_one", "fused_relu_add")]


def test_tensors_that_calls_write_stay_as_they_are() -> None:
    class Adds(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("total", torch.zeros(3))

        def forward(self, x: torch.Tensor) -> Any:
            self.total += x
            return self.total * 2

    module = Adds().eval()
    model = burnish.compile(module, (torch.ones(3),))
    model.profile(torch.ones(3), seconds=0.01, roofline=False)
    assert torch.equal(module.total, torch.zeros(3))
    assert torch.equal(model(torch.ones(3)), torch.full((3,), 2.0))


def test_a_log_that_is_full_is_told(
    static: CompiledModel, image: torch.Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    from burnish.tensorir.codegen import timed_calls

    for module in (timed_calls, profiling):
        monkeypatch.setattr(module, "LOG_RECORDS", 1)
    found = static.profile(image, seconds=0.01, roofline=False)
    assert [r.name for r in found.rows] == ["fused_linear_relu"]
    assert found.notes == ("1 calls a run are not timed: there are too many of them.",)


def test_segments_are_told_from_kernels(static: CompiledModel) -> None:
    kernels, callers = split_objects(static.executable.program.objects)
    assert (len(kernels), len(callers)) == (2, 1)


def test_errors(static: CompiledModel, image: torch.Tensor) -> None:
    with pytest.raises(ArgumentError, match="seconds is positive"):
        static.profile(image, seconds=0)
    with pytest.raises(ShapeMismatchError):
        static.profile(image[:, :, :3], seconds=0.01)
