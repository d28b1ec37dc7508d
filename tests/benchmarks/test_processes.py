"""Contenders in processes: turns, and those that fail, die or hang, which are shown and not
dropped."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from burnish.benchmarks import processes
from burnish.benchmarks.processes import Way, Worker, measure_workers

GOOD = """
import json, sys
print(json.dumps({"ways": {"plain": {"prepare_seconds": 0.5}, "bound": {"error": "no binding"}}}))
sys.stdout.flush()
for line in sys.stdin:
    print(json.dumps({"seconds": json.loads(line)["calls"] * 1e-3}), flush=True)
"""
DIES_AT_ONCE = "raise SystemExit('out of memory')"
DIES_LATER = """
import json, sys
print(json.dumps({"ways": {"plain": {"prepare_seconds": 0.5}}}), flush=True)
for count, line in enumerate(sys.stdin):
    assert count < 5, "the fifth call"
    print(json.dumps({"seconds": json.loads(line)["calls"] * 1e-3}), flush=True)
"""
HANGS = "import time; time.sleep(60)"


@pytest.fixture
def run() -> Iterator:
    started: list[Worker] = []

    def measured(**programs: str) -> dict[str, Way]:
        workers = {c: Worker([sys.executable, "-c", text], 1) for c, text in programs.items()}
        started.extend(workers.values())
        return {way.title: way for way in measure_workers(workers, rounds=4, seconds=0.01)}

    yield measured
    for worker in started:
        worker.close()


def test_every_way_is_timed_in_turns(run) -> None:
    ways = run(burnish=GOOD, peer=GOOD)
    assert list(ways) == ["burnish", "burnish bound", "peer", "peer bound"]
    assert ways["peer"].times == pytest.approx([1e-3] * 4)
    assert (ways["peer"].calls, ways["peer"].prepare_seconds) == (10, 0.5)


def test_a_way_that_fails_says_why(run) -> None:
    way = run(peer=GOOD)["peer bound"]
    assert (way.error, way.times) == ("no binding", [])


def test_a_worker_that_dies_says_why_and_the_others_go_on(run) -> None:
    ways = run(burnish=GOOD, dead=DIES_AT_ONCE, later=DIES_LATER)
    assert ways["dead"].error == "the process died with 1: out of memory"
    assert ways["later"].error == "the process died with 1: AssertionError: the fifth call"
    assert ways["later"].times == []
    assert len(ways["burnish"].times) == 4


def test_a_worker_that_hangs_has_failed(run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "PREPARE_LIMIT", 0.2)
    ways = run(hangs=HANGS, burnish=GOOD)
    assert ways["hangs"].error == "no answer within 0 s"


def test_a_real_worker_of_a_contender_that_does_not_exist() -> None:
    worker = Worker(processes.worker_command("softmax-128x1000", "tvm", 1), 1)
    try:
        ways = measure_workers({"tvm": worker}, rounds=1, seconds=0.01)
    finally:
        worker.close()
    assert [w.error for w in ways] == ["KeyError: 'tvm'"]
