"""The worker pool: jobs that crash, hang, exit and raise cost themselves alone, and nothing is
left."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Executor, wait
from pathlib import Path

import pytest

from burnish.support import worker_pool
from burnish.support.errors import BuildError, MeasureTimeout, TuningError
from burnish.support.worker_pool import WorkerPool, job_name, worker_command
from burnish.tests.tuner.programs import is_gone

ROOT = Path(__file__).resolve().parents[2]
# Nothing of the compiler is imported by these jobs, so that a worker starts in no time.
ADD = "operator:add"


@pytest.fixture
def pool() -> Iterator[WorkerPool]:
    pool = WorkerPool(1, limit=30)
    yield pool
    pool.kill()


def test_a_job_is_a_function_by_name_or_itself(pool: WorkerPool) -> None:
    assert isinstance(pool, Executor)
    assert pool.submit(ADD, 1, 2).result() == 3
    assert pool.submit(shutil.which, cmd="no such program").result() is None
    assert pool.submit("os:path.join", "a", "b").result() == "a/b"


def test_one_worker_runs_many_jobs(pool: WorkerPool) -> None:
    pids = {pool.submit("os:getpid").result() for _ in range(3)}
    assert len(pids) == 1
    assert os.getpid() not in pids


def test_a_worker_leads_a_session_of_its_own(pool: WorkerPool) -> None:
    pid = pool.submit("os:getpid").result()
    assert os.getsid(pid) == pid


@pytest.mark.parametrize(
    ("job", "reason"),
    [
        (("ctypes:string_at", 0), "the worker died (signal SIGSEGV)"),
        (("os:abort",), "the worker died (signal SIGABRT)"),
        (("os:_exit", 3), "the worker died (exit code 3)"),
        (("sys:exit", 4), "the worker died (exit code 4)"),
        (("operator:truediv", 1, 0), "ZeroDivisionError: division by zero"),
        (("operator:nothing",), "The worker cannot import the job 'operator:nothing'"),
        (("burnish.support.dtype:DType", "float31"), "DTypeError: Expected a dtype, one of"),
        (("builtins:object",), "TypeError: Object of type object is not JSON serializable"),
        (("os:system", "echo too late >&2; kill -9 $PPID"), "SIGKILL): too late"),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_a_failing_job_fails_alone(pool: WorkerPool, job: tuple[object, ...], reason: str) -> None:
    jobs = [pool.submit(*x) for x in [(ADD, 1, 2), job, (ADD, 3, 4)]]  # type: ignore[arg-type]
    wait(jobs)
    assert [jobs[0].result(), jobs[2].result()] == [3, 7]
    with pytest.raises(BuildError) as caught:
        jobs[1].result()
    assert reason in str(caught.value)


def test_a_job_over_its_limit_is_killed_with_all_it_started(
    pool: WorkerPool, tmp_path: Path
) -> None:
    note = tmp_path / "pid"
    command = f"echo $$ > {note}.new; mv {note}.new {note}; sleep 1000; true"
    for limit in (1, 5, 25, 125):
        pid = pool.submit("os:getpid").result()
        slow = pool.submit_within(limit, "subprocess:getoutput", command)
        with pytest.raises(MeasureTimeout, match=f"no answer within {limit} s"):
            slow.result()
        assert is_gone(pid)
        if note.exists():  # else the machine was too slow to start something so soon
            break
    assert is_gone(int(note.read_text()))
    assert pool.submit("os:getpid").result() != pid


def test_the_limit_of_the_pool_counts_for_every_job() -> None:
    with WorkerPool(1, limit=1.5) as pool:
        with pytest.raises(MeasureTimeout):
            pool.submit("time:sleep", 1000).result()
        assert pool.submit_within(60, ADD, 1, 2).result() == 3


def test_what_a_job_prints_or_reads_does_not_disturb_the_pipes(pool: WorkerPool) -> None:
    assert pool.submit("os:system", "echo '{\"result\": 1}'").result() == 0
    assert pool.submit("builtins:print", "hello").result() is None
    assert pool.submit("sys:stdin.read").result() == ""


def test_workers_stay_on_their_cpus() -> None:
    cpu = min(os.sched_getaffinity(0))
    with WorkerPool(1, cpus=[cpu]) as pool:
        pid = pool.submit("os:getpid").result()
        assert os.sched_getaffinity(pid) == {cpu}


def test_a_worker_is_replaced_in_time() -> None:
    with WorkerPool(1, jobs_per_worker=2) as pool:
        a, b, c = [pool.submit("os:getpid").result() for _ in range(3)]
    assert a == b != c
    assert is_gone(a)
    assert is_gone(c)


def test_two_workers_run_at_the_same_time() -> None:
    with WorkerPool(2) as pool:
        pids = {f.result() for f in [pool.submit("os:getpid") for _ in range(20)]}
        both = [pool.submit("time:sleep", 0.3) for _ in range(2)]
        wait(both)
    assert len(pids) <= 2


def test_shutdown_finishes_or_cancels_what_is_queued(tmp_path: Path) -> None:
    pool = WorkerPool(1)
    jobs = [pool.submit("time:sleep", 0.3), *[pool.submit(ADD, 1, 2) for _ in range(3)]]
    pool.shutdown()
    assert [f.result() for f in jobs] == [None, 3, 3, 3]
    with pytest.raises(TuningError, match="shut down"):
        pool.submit(ADD, 1, 2)
    pool.shutdown()

    pool, end = WorkerPool(1, limit=300), tmp_path / "end"
    first = pool.submit("subprocess:getoutput", f"until [ -e {end} ]; do sleep 0.01; done")
    while not first.running():
        time.sleep(0.001)
    rest = [pool.submit(ADD, 1, 2) for _ in range(3)]
    pool.shutdown(wait=False, cancel_futures=True)
    assert all(f.cancelled() for f in rest)
    end.touch()
    pool.shutdown()
    assert first.result() == ""


def test_kill_stops_at_once() -> None:
    pool = WorkerPool(1)
    pid = pool.submit("os:getpid").result()
    running = pool.submit("time:sleep", 1000)
    waiting = pool.submit(ADD, 1, 2)
    while not running.running():
        time.sleep(0.001)
    pool.kill()
    assert is_gone(pid)
    assert waiting.cancelled()
    with pytest.raises(TuningError, match="The worker pool was killed"):
        running.result(10)
    pool.kill()
    pool.shutdown()


def test_an_error_in_a_with_block_stops_at_once() -> None:
    pids: list[int] = []

    def interrupted() -> None:
        with WorkerPool(1) as pool:
            pids.append(pool.submit("os:getpid").result())
            pool.submit("time:sleep", 1000)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert is_gone(pids[0])


def test_a_pool_that_nobody_holds_leaves_no_worker() -> None:
    pool = WorkerPool(1)
    pid = pool.submit("os:getpid").result()
    del pool
    gc.collect()
    assert is_gone(pid)


def test_a_job_that_no_worker_can_import_is_refused() -> None:
    assert job_name(shutil.which) == "shutil:which"
    with pytest.raises(TuningError, match="Put it in a module"):
        job_name(lambda: None)

    def main_function() -> None:
        pass

    main_function.__module__ = "__main__"
    with pytest.raises(TuningError, match="main_function"):
        job_name(main_function)


def test_arguments_that_json_does_not_have_are_refused(pool: WorkerPool) -> None:
    with pytest.raises(TypeError, match="not JSON serializable"):
        pool.submit(ADD, object(), 2)


def test_a_pool_has_workers() -> None:
    with pytest.raises(TuningError, match="at least 1 worker; found 0"):
        WorkerPool(0)


def test_a_worker_that_does_not_start_is_no_failure_of_the_job(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broken = [sys.executable, "-c", "raise SystemExit('no module named sense')"]
    monkeypatch.setattr(worker_pool, "worker_command", lambda _: broken)
    with WorkerPool(1) as pool:
        error = pool.submit(ADD, 1, 2).exception()
        monkeypatch.setattr(worker_pool, "worker_command", lambda _: ["/no/such/python"])
        other = pool.submit(ADD, 1, 2).exception()
    assert type(error) is type(other) is TuningError
    assert "does not start: the worker died (exit code 1): no module named sense" in str(error)
    assert "cannot be started as a worker" in str(other)


def test_a_worker_that_is_killed_while_it_starts_is_started_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    dying = [sys.executable, "-c", "import os; os.kill(os.getpid(), 9)"]
    commands = [dying, dying, worker_command(), dying, dying, dying]
    monkeypatch.setattr(worker_pool, "worker_command", lambda _: commands.pop(0))
    with WorkerPool(1, jobs_per_worker=1) as pool:
        assert pool.submit(ADD, 1, 2).result() == 3
        error = pool.submit(ADD, 1, 2).exception()
    assert type(error) is TuningError
    assert "does not start: the worker died (signal SIGKILL)" in str(error)
    assert not commands


def test_an_interpreter_that_does_not_know_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "")
    with pytest.raises(TuningError, match=r"sys\.executable is empty"):
        worker_command()


# -- where the parent's program comes from ----------------------------------
PROGRAM = """
from burnish.support.worker_pool import WorkerPool
pool = WorkerPool(1)
print(pool.submit("operator:add", 20, 22).result(), pool.submit("os:getpid").result())
"""
WAYS = {
    "script": ["{file}"],
    "command": ["-c", "{text}"],
    "stdin": ["-"],
    "exec": ["-c", "exec({text!r}, {{'__name__': '__main__'}})"],
    "isolated": ["-I", "-c", "{text}"],
}


@pytest.mark.parametrize("way", WAYS)
def test_workers_start_from_any_kind_of_program(way: str, tmp_path: Path) -> None:
    file = tmp_path / "program.py"
    file.write_text(PROGRAM)
    # A module that would break the worker if the parent's folder came first in its imports.
    (tmp_path / "json.py").write_text("raise ImportError('shadowed')")
    arguments = [a.format(file=file, text=PROGRAM) for a in WAYS[way]]
    result = subprocess.run(
        [sys.executable, "-P", *arguments],
        input=PROGRAM,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=300,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    answer, pid = result.stdout.split()
    assert answer == "42"
    assert is_gone(int(pid))


def test_an_uninstalled_checkout_starts_workers_of_itself(tmp_path: Path) -> None:
    package = tmp_path / "burnish"
    for name in ("tuner", "support"):
        (package / name).mkdir(parents=True)
        for file in (ROOT / name).glob("*.py"):
            shutil.copy(file, package / name)
    (package / "__init__.py").write_text("")
    program = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "from burnish.support.worker_pool import WorkerPool\n"
        "pool = WorkerPool(1)\n"
        "print(pool.submit('burnish.support.worker_pool:worker_command').result()[-1])\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd="/", check=False
    )
    assert result.returncode == 0, result.stderr
    assert str(package) in result.stdout


def test_a_killed_parent_leaves_no_worker() -> None:
    program = (
        "from burnish.support.worker_pool import WorkerPool\n"
        "pool = WorkerPool(1)\n"
        "print(pool.submit('os:getpid').result(), flush=True)\n"
        "pool.submit('subprocess:getoutput', 'sleep 1000').result()\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    assert is_gone(pid)
