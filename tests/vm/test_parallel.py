"""The pool's handle: installation, records, thread counts, forks and interpreter exit."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from burnish.support.abi import ABI_VERSION
from burnish.support.errors import ConfigError, UnknownFunctionError, VMError
from burnish.support.target import Target
from burnish.tensorir.codegen.thread_pool import emit_thread_pool
from burnish.vm import parallel
from burnish.vm.binding import Runtime
from burnish.vm.native import NativeLibrary, load_objects

PRELUDE = """
import ctypes, os, signal, sys, threading
from burnish.support.target import Target
from burnish.tensorir.codegen.thread_pool import emit_thread_pool
from burnish.vm import parallel
from burnish.vm.binding import Runtime
from burnish.vm.native import load_objects

BODY = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)
LAUNCH = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64
)

def ranges(address, extent):
    calls = []
    body = BODY(lambda _, begin, end, thread: calls.append((begin, end)))
    launch = LAUNCH(Runtime.from_address(address).launch)
    launch(address, ctypes.cast(body, ctypes.c_void_p), None, extent, 1)
    return sorted(calls)

EXPECTED = [(0, 4), (4, 8), (8, 12)]
parallel.install(load_objects([emit_thread_pool(Target("llvm -mcpu=x86-64"))]))
signal.alarm(100)
"""


def run(script: str) -> str:
    """Run a script in a fresh interpreter, from its standard input as a notebook's cell would."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-"],
        input=PRELUDE + textwrap.dedent(script),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


class FakeLibrary:
    """A library with some addresses."""

    def __init__(self, **addresses: int) -> None:
        self.addresses = addresses

    def address(self, symbol: str) -> int:
        if symbol not in self.addresses:
            raise UnknownFunctionError(symbol, self.addresses, "the object code")
        return self.addresses[symbol]


@pytest.fixture(scope="module")
def library() -> NativeLibrary:
    made = load_objects([emit_thread_pool(Target("llvm -mcpu=x86-64"))])
    parallel.install(made)
    return made


def test_one_thread_needs_no_pool() -> None:
    address = parallel.pool(1)
    assert address == parallel.serial_runtime()
    record = Runtime.from_address(address)
    assert (record.abi_version, record.threads, record.pool) == (ABI_VERSION, 1, None)


def test_a_library_is_brought_when_several_threads_are_first_asked_for(
    library: NativeLibrary, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parallel, "_pool", None)
    brought: list[NativeLibrary] = []

    def bring() -> NativeLibrary:
        brought.append(library)
        return library

    assert parallel.pool(1, bring) == parallel.serial_runtime()
    assert not brought
    assert parallel.pool(2, bring) == parallel.pool(2, bring)
    assert len(brought) == 1
    assert parallel._pool is not None
    parallel._pool.close()


def test_the_record(library: NativeLibrary) -> None:
    record = Runtime.from_address(parallel.pool(3))
    assert (record.abi_version, record.threads) == (ABI_VERSION, 3)
    # The process keeps the pool that was installed first, which another test may have brought.
    installed = parallel._pool
    assert installed is not None
    assert record.launch == installed.library.address("burnish_pool_launch")
    assert parallel.pool(3) == parallel.pool(3)


def test_all_records_share_one_pool(library: NativeLibrary) -> None:
    pools = {Runtime.from_address(parallel.pool(n)).pool for n in (2, 3, 64)}
    assert len(pools) == 1
    assert None not in pools


def test_the_first_library_stays(library: NativeLibrary) -> None:
    before = Runtime.from_address(parallel.pool(2)).launch
    parallel.install(load_objects([emit_thread_pool(Target("llvm -mcpu=x86-64"))]))
    assert Runtime.from_address(parallel.pool(2)).launch == before
    assert parallel.is_installed()


@pytest.mark.parametrize("threads", [0, -1, parallel.CAPACITY + 1])
def test_a_number_out_of_range(threads: int) -> None:
    with pytest.raises(VMError, match=f"Expected 1 to 1024 threads, found {threads}"):
        parallel.pool(threads)


def test_a_library_without_a_pool() -> None:
    with pytest.raises(UnknownFunctionError, match="burnish_pool_abi_version"):
        parallel.install(FakeLibrary())


def test_a_pool_of_another_version() -> None:
    version = ctypes.CFUNCTYPE(ctypes.c_int64)(lambda: ABI_VERSION + 1)
    address = ctypes.cast(version, ctypes.c_void_p).value or 0
    with pytest.raises(VMError, match=f"kernel ABI {ABI_VERSION}, found version {ABI_VERSION + 1}"):
        parallel.install(FakeLibrary(burnish_pool_abi_version=address))


def test_threads_without_a_pool() -> None:
    script = """
        parallel._pool.close()
        parallel._pool = None
        try:
            parallel.pool(2)
        except parallel.VMError as error:
            print(error)
    """
    assert "2 threads were asked for, but no loaded artifact brought a thread pool" in run(script)


def test_records_of_different_sizes_launch() -> None:
    script = """
        for threads in (2, 4, 2):
            print(len(ranges(parallel.pool(threads), 4)))
    """
    assert run(script).split() == ["2", "4", "2"]


def test_a_forked_child_has_a_pool_of_its_own() -> None:
    script = """
        address = parallel.pool(3)
        assert ranges(address, 12) == EXPECTED
        child = os.fork()
        if child == 0:
            signal.alarm(100)
            ok = ranges(address, 12) == EXPECTED and parallel.pool(3) == address
            grandchild = os.fork()
            if grandchild == 0:
                os._exit(0 if ranges(address, 12) == EXPECTED else 1)
            ok = ok and os.waitpid(grandchild, 0)[1] == 0
            # Through the interpreter's exit, which joins the child's own workers.
            sys.exit(0 if ok else 1)
        status = os.waitpid(child, 0)[1]
        print(status, ranges(address, 12) == EXPECTED)
    """
    assert run(script).strip() == "0 True"


def test_a_fork_in_the_middle_of_a_launch() -> None:
    script = """
        address = parallel.pool(3)
        # Forks find no thread on its way into Python, where CPython holds a lock of its own.
        running, release = threading.Semaphore(0), threading.Event()
        def hold(*_):
            running.release()
            release.wait(60)
        body = BODY(hold)
        launch = LAUNCH(Runtime.from_address(address).launch)
        caller = threading.Thread(
            target=lambda: launch(address, ctypes.cast(body, ctypes.c_void_p), None, 3, 1)
        )
        caller.start()
        for _ in range(3):
            running.acquire(timeout=60)
        child = os.fork()
        if child == 0:
            signal.alarm(100)
            os._exit(0 if ranges(address, 12) == EXPECTED else 1)
        status = os.waitpid(child, 0)[1]
        release.set()
        caller.join()
        print(status, ranges(address, 12) == EXPECTED)
    """
    assert run(script).strip() == "0 True"


def test_a_closed_pool_runs_serially() -> None:
    script = """
        address = parallel.pool(3)
        assert ranges(address, 12) == EXPECTED
        parallel._pool.close()
        parallel._pool.close()
        print(ranges(address, 12))
    """
    assert run(script).strip() == "[(0, 12)]"


def test_exit_right_after_a_launch() -> None:
    script = """
        for _ in range(100):
            ranges(parallel.pool(4), 4)
        print("done")
    """
    for _ in range(3):
        assert run(script).strip() == "done"


# -- how many threads
# --------------------------------------------------------------------------------
@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Eight CPUs, no quota, no flags."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    monkeypatch.setattr(parallel, "cpu_quota", lambda: None)
    monkeypatch.delenv("BURNISH_NUM_THREADS", raising=False)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    return monkeypatch


def test_default_is_the_affinity(machine: pytest.MonkeyPatch) -> None:
    assert parallel.default_threads() == 8


@pytest.mark.parametrize(("quota", "threads"), [(0.5, 1), (2.0, 2), (2.5, 3), (100.0, 8)])
def test_the_quota_is_rounded_up(machine: pytest.MonkeyPatch, quota: float, threads: int) -> None:
    machine.setattr(parallel, "cpu_quota", lambda: quota)
    assert parallel.default_threads() == threads


def test_flags_bound_the_count(machine: pytest.MonkeyPatch) -> None:
    machine.setenv("OMP_NUM_THREADS", "4,2")
    assert parallel.default_threads() == 4
    machine.setenv("BURNISH_NUM_THREADS", "3")
    assert parallel.default_threads() == 3
    machine.setenv("BURNISH_NUM_THREADS", "100")
    assert parallel.default_threads() == 4
    machine.setenv("BURNISH_NUM_THREADS", "none")
    with pytest.raises(ConfigError, match="BURNISH_NUM_THREADS"):
        parallel.default_threads()


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_quota_of_cgroup_v2(tmp_path: Path) -> None:
    mounts, membership = tmp_path / "cgroup", tmp_path / "membership"
    membership.write_text("0::/a/b\n")
    write(mounts / "a/b/cpu.max", "max 100000\n")
    assert parallel.cpu_quota(mounts, membership) is None
    write(mounts / "a/cpu.max", "250000 100000\n")
    assert parallel.cpu_quota(mounts, membership) == 2.5
    write(mounts / "a/b/cpu.max", "150000 100000\n")
    assert parallel.cpu_quota(mounts, membership) == 1.5


def test_quota_seen_from_inside_a_container(tmp_path: Path) -> None:
    mounts, membership = tmp_path / "cgroup", tmp_path / "membership"
    membership.write_text("0::/../outside\n")
    write(mounts / "cpu.max", "50000 100000\n")
    assert parallel.cpu_quota(mounts, membership) == 0.5


def test_quota_of_cgroup_v1(tmp_path: Path) -> None:
    mounts, membership = tmp_path / "cgroup", tmp_path / "membership"
    membership.write_text("4:memory:/x\n3:cpu,cpuacct:/job\n0::/\n")
    write(mounts / "cpu,cpuacct/job/cpu.cfs_quota_us", "-1\n")
    write(mounts / "cpu,cpuacct/job/cpu.cfs_period_us", "100000\n")
    assert parallel.cpu_quota(mounts, membership) is None
    write(mounts / "cpu,cpuacct/job/cpu.cfs_quota_us", "300000\n")
    assert parallel.cpu_quota(mounts, membership) == 3.0


@pytest.mark.parametrize("text", ["", "garbage", "100000", "100000 0", "0 100000"])
def test_what_is_no_quota(tmp_path: Path, text: str) -> None:
    (tmp_path / "membership").write_text("0::/\nnonsense\n")
    (tmp_path / "cpu.max").write_text(text)
    assert parallel.cpu_quota(tmp_path, tmp_path / "membership") is None


def test_no_control_groups(tmp_path: Path) -> None:
    assert parallel.cpu_quota(tmp_path, tmp_path / "missing") is None
