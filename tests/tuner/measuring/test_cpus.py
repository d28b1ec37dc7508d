"""Who gets which CPUs: cores are never shared, and the runner's are the idle ones."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from burnish.tuner.measuring import cpus
from burnish.tuner.measuring.cpus import CpuPlan, cores_of, idle_shares, plan_cpus, stay_on


def topology(folder: Path, siblings: dict[int, str]) -> Path:
    for cpu, text in siblings.items():
        place = folder / f"cpu{cpu}/topology"
        place.mkdir(parents=True)
        (place / "thread_siblings_list").write_text(text + "\n")
    return folder


def test_cpus_that_share_a_core_are_together(tmp_path: Path) -> None:
    place = topology(tmp_path, {0: "0,2", 1: "1,3", 2: "0,2", 3: "1,3"})
    assert cores_of([0, 1, 2, 3], place) == [(0, 2), (1, 3)]
    assert cores_of([1, 2], place) == [(1,), (2,)]
    assert cores_of([0, 1], tmp_path / "nothing") == [(0,), (1,)]


def plan(
    monkeypatch: pytest.MonkeyPatch,
    cores: list[tuple[int, ...]],
    threads: int,
    idle: dict[int, float] | None = None,
    quota: float | None = None,
) -> CpuPlan | None:
    monkeypatch.setattr(cpus, "cores_of", lambda _: cores)
    monkeypatch.setattr(cpus, "idle_shares", lambda _: idle or {})
    monkeypatch.setattr(cpus.parallel, "cpu_quota", lambda: quota)
    return plan_cpus(threads)


def test_the_runner_has_cores_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    cores: list[tuple[int, ...]] = [(0, 4), (1, 5), (2, 6), (3, 7)]
    assert plan(monkeypatch, cores, 1) == CpuPlan((3, 7), (0, 1, 2, 4, 5, 6), 3)
    assert plan(monkeypatch, cores, 3) == CpuPlan((1, 2, 3, 5, 6, 7), (0, 4), 1)
    assert plan(monkeypatch, [(0,), (1,)], 1) == CpuPlan((1,), (0,), 1)


def test_a_busy_core_does_not_time(monkeypatch: pytest.MonkeyPatch) -> None:
    idle = {0: 1.0, 1: 0.2}
    assert plan(monkeypatch, [(0,), (1,)], 1, idle) == CpuPlan((0,), (1,), 1)


def test_where_all_cores_are_needed_there_is_no_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    assert plan(monkeypatch, [(0,), (1,)], 2) is None
    assert plan(monkeypatch, [(0, 1)], 1) is None
    assert plan(monkeypatch, [(0,), (1,)], 1, quota=1.5) is None


def test_idle_shares_come_from_the_ticks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stat = tmp_path / "stat"
    stat.write_text("cpu  1 1 1 1 1 0 0 0\ncpu0 10 0 10 80 0 0 0 0 0 0\ncpu1 0 0 0 9 1 0 0 0\n")

    def later(_: float) -> None:
        stat.write_text("cpu0 14 0 12 82 0 0 0 0 0 0\ncpu1 0 0 0 9 1 0 0 0\n")

    monkeypatch.setattr(cpus.time, "sleep", later)
    assert idle_shares([0, 1, 7], stat) == {0: 0.25, 1: 1.0}
    assert idle_shares([0], tmp_path / "none") == {}


def test_a_thread_stays_where_it_may_run() -> None:
    cpu = min(os.sched_getaffinity(0))
    before = os.sched_getaffinity(0)
    found: list[set[int]] = []

    def run() -> None:
        stay_on([cpu, 100_000])
        found.append(os.sched_getaffinity(0))
        stay_on([100_000])
        found.append(os.sched_getaffinity(0))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert found == [{cpu}, {cpu}]
    assert os.sched_getaffinity(0) == before
