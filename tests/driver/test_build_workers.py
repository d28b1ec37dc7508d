"""The process's build workers: who emits what makes no difference, and nothing is left behind."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

import pytest
import torch
from torch import nn

from burnish import errors
from burnish.driver import build_workers, kernels, stages
from burnish.driver.build_workers import MOST_JOBS, BuildWorkers, build_jobs
from burnish.driver.kernels import KernelBuilds, _Cache, compile_kernels, resolve_target
from burnish.driver.report import CompileReport
from burnish.driver.sources import import_torch_module
from burnish.driver.stages import compile_module
from burnish.support.dump import Dump
from burnish.support.worker_pool import WorkerPool
from burnish.tensorir.function import PrimFunc
from burnish.tests.driver.programs import add_one
from burnish.tests.driver.test_emit import UNROLLED
from burnish.tests.tuner.programs import die

NATIVE = resolve_target("native")
NONE = Dump(None)


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test sees what others emitted."""
    monkeypatch.setattr(kernels, "_cache", _Cache(32))


@pytest.fixture(scope="module")
def pool() -> Iterator[WorkerPool]:
    with WorkerPool(1) as pool:
        yield pool


def functions(count: int = 4) -> list[tuple[str, PrimFunc]]:
    return [(f"f{n}", add_one(f"f{n}", 4 + n)) for n in range(count)]


class Waiting(KernelBuilds):
    """Builds of which this process takes none that a worker can have."""

    @staticmethod
    def _cancel(build: kernels._Build) -> bool:
        return build.future is None


def test_workers_emit_what_this_process_does(pool: WorkerPool) -> None:
    here = compile_kernels(functions(), NATIVE, CompileReport(), NONE)
    kernels._cache = _Cache(32)
    report = CompileReport()
    builds = Waiting(NATIVE, report, NONE, pool)
    there = compile_kernels(functions(), NATIVE, report, NONE, builds)
    assert report.compilations == report.distinct == 4
    assert report.worker_seconds > 0
    assert report.llvm_seconds == 0
    assert report.notes == []
    assert list(there) == list(here)
    for name, kernel in here.items():
        assert there[name].image == kernel.image
        assert there[name].kernel == kernel.kernel


def test_what_no_worker_began_is_emitted_here(pool: WorkerPool) -> None:
    """Equal functions once, and what is not asked for in the end not at all."""
    report = CompileReport()
    builds = KernelBuilds(NATIVE, report, NONE, pool)
    keys = [builds.begin(name, func) for name, func in functions(6)]
    assert builds.begin("again", add_one("again", 4)) == keys[0]
    found = builds.finish(keys[:2])
    assert list(found) == keys[:2]
    assert report.compilations == 2
    assert found[keys[0]].symbol.startswith("f0_")
    later = CompileReport()
    compile_kernels(functions(2), NATIVE, later, NONE)
    assert (later.compilations, later.distinct) == (0, 2)


def test_an_error_of_a_function_is_raised_as_it_is(pool: WorkerPool) -> None:
    builds = Waiting(NATIVE, CompileReport(), NONE, pool)
    with pytest.raises(errors.CodegenError) as here:
        compile_kernels([("f", UNROLLED)], NATIVE, CompileReport(), NONE)
    with pytest.raises(errors.CodegenError) as there:
        compile_kernels([("f", UNROLLED)], NATIVE, CompileReport(), NONE, builds)
    assert there.value.message == here.value.message


def test_a_worker_that_dies_is_an_error_that_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kernels, "run_job", die)
    with WorkerPool(1) as pool:
        builds = Waiting(NATIVE, CompileReport(), NONE, pool)
        with pytest.raises(errors.CodegenError) as found:
            compile_kernels(functions(1), NATIVE, CompileReport(), NONE, builds)
    assert "machine code of f0 failed: the worker died (signal SIGKILL)" in found.value.message
    assert "BURNISH_BUILD_JOBS=1" in found.value.message


def test_where_no_worker_starts_all_is_emitted_here_and_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.executable", "")
    report = CompileReport()
    with WorkerPool(1) as pool:
        builds = Waiting(NATIVE, report, NONE, pool)
        found = compile_kernels(functions(2), NATIVE, report, NONE, builds)
    assert len(found) == report.compilations == 2
    assert report.worker_seconds == 0
    assert "f0 was not emitted by a worker but here" in report.notes[0]
    assert "sys.executable" in report.notes[0]


# -- the pool's life ------------------------------------------------------------------------------
def processes(pool: WorkerPool) -> list[int]:
    pool.submit("posix:getpid").result()
    return [worker.process.pid for worker in pool._state.workers]


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_workers_end_when_nobody_has_held_them_for_a_while() -> None:
    own = BuildWorkers(idle_seconds=0.05)
    with own.held(1, NATIVE) as first:
        (pid,) = processes(first)
        with own.held(1, NATIVE) as second:
            assert second is first
        own.close_idle()
        time.sleep(0.1)
        assert own.is_running
        assert is_alive(pid)
    deadline = time.monotonic() + 120
    while own.is_running and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not own.is_running
    own.close_idle()  # waits for whoever closes
    assert not is_alive(pid)


def test_a_forked_child_neither_uses_nor_ends_its_parents_workers() -> None:
    own = BuildWorkers()
    with own.held(1, NATIVE) as pool:
        (pid,) = processes(pool)
        own.forget()
        assert not own.is_running
        with own.held(1, NATIVE) as mine:
            assert mine is not pool
    own.close_idle()
    assert is_alive(pid)
    pool.shutdown()
    assert not is_alive(pid)


def test_the_jobs_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build_workers, "cores", lambda: 64)
    monkeypatch.setattr(build_workers, "cpu_quota", lambda: None)
    monkeypatch.delenv("BURNISH_BUILD_JOBS", raising=False)
    assert build_jobs() == MOST_JOBS
    monkeypatch.setattr(build_workers, "cpu_quota", lambda: 1.5)
    assert build_jobs() == 2
    monkeypatch.setenv("BURNISH_BUILD_JOBS", "5")
    assert build_jobs() == 5
    monkeypatch.setenv("BURNISH_BUILD_JOBS", "0")
    with pytest.raises(errors.ConfigError, match="BURNISH_BUILD_JOBS expects a whole number"):
        build_jobs()


# -- a whole compilation --------------------------------------------------------------------------
def test_a_compilation_is_the_same_with_and_without_workers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    torch.manual_seed(0)
    layers = [nn.Sequential(nn.Linear(12, 12), nn.Tanh()) for _ in range(3)]
    module = nn.Sequential(*layers, nn.Linear(12, 5), nn.Softmax(-1)).eval()
    imported = import_torch_module(module, (torch.rand(7, 12),))
    executables = []
    own = BuildWorkers()
    monkeypatch.setattr(stages, "workers", own)
    monkeypatch.setattr(stages, "MANY_OPERATIONS", 4)
    for jobs in ("1", "2"):
        monkeypatch.setenv("BURNISH_BUILD_JOBS", jobs)
        monkeypatch.setattr(kernels, "_cache", _Cache(32))
        executables.append(compile_module(imported.module, NATIVE))
        assert own.is_running is (jobs == "2")
    own.close_idle()
    assert not own.is_running
    alone, together = executables
    assert together.program.objects == alone.program.objects
    assert together.program.kernels == alone.program.kernels
    report = together.report
    assert report.notes == []
    assert report.compilations == alone.report.compilations == report.distinct + 1
    # Three equal layers are three calls of one kernel.
    assert report.distinct == len(report.kernels) == report.calls - 2


def test_a_small_module_needs_no_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BURNISH_BUILD_JOBS", "2")
    own = BuildWorkers()
    monkeypatch.setattr(stages, "workers", own)
    imported = import_torch_module(nn.Linear(3, 2).eval(), (torch.rand(2, 3),))
    compile_module(imported.module, NATIVE)
    assert not own.is_running
