"""What may break around a search: a builder, the disk, the database's file, the whole process.
Nothing that was measured is lost, and nothing false is recorded."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from burnish.support.errors import BuildError, TuningError
from burnish.support.target import Target
from burnish.support.worker_pool import WorkerPool
from burnish.tests.tuner.programs import InlineExecutor, is_gone, matmul, tiled
from burnish.tuner.measuring.measure import save_reference
from burnish.tuner.measuring.pipeline import Pools
from burnish.tuner.records.database import TuningDatabase
from burnish.tuner.session import TuningProgress, tune_task
from burnish.tuner.task import TuneTask

TASK = TuneTask("main", matmul(16), Target("native -threads=1"))


def tune(database: TuningDatabase, **options: Any) -> TuningProgress:
    settings: dict[str, Any] = {"max_trials": 8, "space": tiled, "seed": 0, "seconds": 0.0}
    return tune_task(TASK, database, **settings | options)


# -- workers ---------------------------------------------------------------------------------------
@pytest.fixture
def pools() -> Iterator[tuple[WorkerPool, WorkerPool]]:
    with ExitStack() as stack:
        made = WorkerPool(1, limit=60), WorkerPool(1, limit=60)
        for pool in made:
            stack.callback(pool.kill)
        yield made


def pids(pool: WorkerPool) -> list[int]:
    return [w.process.pid for w in pool._state.workers]


def test_a_builder_that_is_killed_takes_no_candidate_along(
    pools: tuple[WorkerPool, WorkerPool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Pools, "runner_builds", False)
    runner, builder = pools
    killed: list[int] = []

    def kill(progress: TuningProgress) -> None:
        # It builds, it waits, or it is just starting: all of these end well. Once only: a candidate
        # that was on its way in two workers that died is to blame.
        if not killed and progress.done >= 2 and (found := pids(builder)):
            killed.extend(found)
            with contextlib.suppress(ProcessLookupError):
                os.kill(found[0], signal.SIGKILL)

    with TuningDatabase() as db:
        progress = tune(db, executor=runner, builder=builder, trials_per_iter=8, on_progress=kill)
        assert (progress.done, progress.failed) == (8, 0)
        assert all(not r.error for r in db.records())
    assert len(killed) == 1
    assert is_gone(killed[0])


def test_a_candidate_that_kills_its_builders_is_recorded(
    pools: tuple[WorkerPool, WorkerPool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Pools, "runner_builds", False)
    runner, builder = pools
    asked: list[str] = []
    submit = builder.submit

    def faulty(fn: Any, /, *args: Any, **kwargs: Any) -> Any:
        asked.append(kwargs["candidate"])
        return submit("os:abort") if kwargs["candidate"] == asked[0] else submit(fn, **kwargs)

    monkeypatch.setattr(builder, "submit", faulty)
    with TuningDatabase() as db:
        progress = tune(db, executor=runner, builder=builder, max_trials=3)
        assert (progress.done, progress.failed) == (2, 1)
        errors = {r.candidate: r.error for r in db.records()}
    assert errors[asked[0]] == "the worker died (signal SIGABRT)"
    assert asked.count(asked[0]) == 2


# -- the disk --------------------------------------------------------------------------------------
def test_a_full_disk_ends_the_search_and_keeps_what_was_recorded(tmp_path: Path) -> None:
    path = tmp_path / "records.db"
    with TuningDatabase(path) as db:
        tune(db, max_trials=2, executor=InlineExecutor())

        def fill(_: TuningProgress) -> None:
            pages = db._connection.execute("PRAGMA page_count").fetchone()[0]
            db._connection.execute(f"PRAGMA max_page_count={pages}")

        with pytest.raises(TuningError, match=r"records\.db.* is full"):
            tune(db, max_trials=200, executor=InlineExecutor(), on_progress=fill)
        known = {r.candidate for r in db.records()}
        assert len(known) >= 3
    executor = InlineExecutor()
    with TuningDatabase(path) as db:  # there is room again
        assert {r.candidate for r in db.records()} == known
        tune(db, max_trials=2, executor=executor)
        assert len(db) == len(known) + 2
    assert not known & {str(c.get("candidate")) for c in executor.calls}


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no /dev/full")
def test_results_to_compare_with_that_cannot_be_kept_are_an_error() -> None:
    text = "def main(A: T.Buffer((4,), 'float32'), B: T.Buffer((4,), 'float32')):\n"
    text += "    for i in range(4):\n        with T.block('B'):\n"
    text += "            v = T.axis.spatial(4, i)\n            B[v] = A[v]\n"
    with pytest.raises(OSError, match="No space left"):
        save_reference(text=text, target="native -threads=1", seed=0, path="/dev/full")
    with WorkerPool(1) as pool:
        job = pool.submit(
            save_reference, text=text, target="native -threads=1", seed=0, path="/dev/full"
        )
        with pytest.raises(BuildError, match="No space left"):
            job.result()


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_a_truncated_database_is_refused_or_whole(share: float, tmp_path: Path) -> None:
    path = tmp_path / "records.db"
    with TuningDatabase(path) as db:
        tune(db, max_trials=6, executor=InlineExecutor())
        db._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * share)])
    torn = path.read_bytes()
    executor = InlineExecutor()

    def search_on() -> None:
        with TuningDatabase(path) as db:
            tune(db, executor=executor)

    with pytest.raises(TuningError, match=r"records\.db"):
        search_on()
    assert [c for c in executor.calls if c["job"] == "measure_candidate"] == []
    assert path.read_bytes() == torn


def test_a_torn_log_loses_its_end_alone(tmp_path: Path) -> None:
    path, copy = tmp_path / "records.db", tmp_path / "copy.db"
    with TuningDatabase(path) as db:
        tune(db, max_trials=6, executor=InlineExecutor())
        log = Path(f"{path}-wal").read_bytes()
        copy.write_bytes(path.read_bytes())
        # A power cut in the middle of a write.
        Path(f"{copy}-wal").write_bytes(log[: int(len(log) * 0.7)])
    with TuningDatabase(copy) as db:
        kept = len(db)
        assert 0 < kept < 6
        tune(db, max_trials=2, executor=InlineExecutor())
        assert len(db) == kept + 2


# -- the whole -------------------------------------------------------------------------------------
PROGRAM = """
import sys, time
from burnish.support.target import Target
from burnish.tests.tuner.programs import matmul, tiled
from burnish.tuner.records.database import TuningDatabase
from burnish.tuner.session import tune_task
from burnish.tuner.task import TuneTask
from burnish.support.worker_pool import WorkerPool

runner, builder = WorkerPool(1, limit=60), WorkerPool(1, limit=60)

def report(progress):
    pids = [w.process.pid for pool in (runner, builder) for w in pool._state.workers]
    print(progress.done, *pids, flush=True)
    if progress.done == 25:
        time.sleep(1000)  # it is killed before it is done, however late

task = TuneTask("main", matmul(16), Target("native -threads=1"))
with TuningDatabase(sys.argv[1]) as db:
    tune_task(task, db, max_trials=30, trials_per_iter=8, space=tiled, seed=0, seconds=0.0,
              executor=runner, builder=builder, on_progress=report)
"""


def test_a_search_that_is_killed_goes_on_where_it_was(tmp_path: Path) -> None:
    path = tmp_path / "records.db"
    search = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(path)], stdout=subprocess.PIPE, text=True
    )
    assert search.stdout is not None
    workers: set[int] = set()
    for line in search.stdout:
        done, *running = (int(x) for x in line.split())
        workers |= set(running)
        if done == 5:
            break
    search.send_signal(signal.SIGKILL)
    search.wait()
    search.stdout.close()
    assert len(workers) == 2
    assert all(is_gone(pid) for pid in workers)
    executor = InlineExecutor()
    with TuningDatabase(path) as db:
        known = {r.candidate for r in db.records()}
        assert 5 <= len(known) < 30
        assert all(not r.error for r in db.records())
        started = time.monotonic()
        tune(db, max_trials=4, executor=executor)
        assert time.monotonic() - started < 60
        assert len(db) == len(known) + 4
    assert not known & {str(c.get("candidate")) for c in executor.calls}
