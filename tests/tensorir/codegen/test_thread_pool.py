"""The pool's object code: who runs what, nested and concurrent launches, sleeping, float mode."""

from __future__ import annotations

import ctypes
import os
import threading
import time
from collections.abc import Iterator

import llvmlite.binding as llvm
import numpy as np
import pytest

from burnish.support.abi import ABI_VERSION
from burnish.support.errors import CodegenError
from burnish.support.target import Target
from burnish.tensorir.codegen.thread_pool import SYMBOLS, build_thread_pool, emit_thread_pool
from burnish.vm.binding import Runtime
from burnish.vm.native import NativeLibrary, load_objects

BODY = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)

# fill: out[i] += 3 i + 1.  nested: for each i, launches fill over the row out[64 i : 64 i + 64].
# halve: the smallest normal float, halved, whose bits are 0 with flush-to-zero.
BODIES = """
define void @fill(ptr %out, i64 %begin, i64 %end, i64 %thread) {
entry:
  br label %loop
loop:
  %i = phi i64 [ %begin, %entry ], [ %next, %loop ]
  %p = getelementptr i64, ptr %out, i64 %i
  %old = load i64, ptr %p
  %t = mul i64 %i, 3
  %u = add i64 %t, 1
  %new = add i64 %old, %u
  store i64 %new, ptr %p
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %end
  br i1 %more, label %loop, label %done
done:
  ret void
}
define void @nested(ptr %context, i64 %begin, i64 %end, i64 %thread) {
entry:
  %rt = load ptr, ptr %context
  %launch_at = getelementptr i8, ptr %rt, i64 16
  %launch = load ptr, ptr %launch_at
  %out_at = getelementptr i8, ptr %context, i64 8
  %out = load ptr, ptr %out_at
  br label %loop
loop:
  %i = phi i64 [ %begin, %entry ], [ %next, %loop ]
  %row = mul i64 %i, 64
  %p = getelementptr i64, ptr %out, i64 %row
  call void %launch(ptr %rt, ptr @fill, ptr %p, i64 64, i64 1)
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %end
  br i1 %more, label %loop, label %done
done:
  ret void
}
define void @halve(ptr %out, i64 %begin, i64 %end, i64 %thread) {
  %p = getelementptr i32, ptr %out, i64 %begin
  %x = load volatile float, ptr %p
  %y = fmul float %x, 0.5
  store float %y, ptr %p
  ret void
}
"""


def assemble(text: str) -> bytes:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(reloc="pic")
    image: bytes = machine.emit_object(llvm.parse_assembly(text))
    return image


class Pool:
    """A pool of its own, with records for some thread counts."""

    def __init__(self, library: NativeLibrary, capacity: int = 8) -> None:
        self.library = library
        create = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int64)(
            library.address("burnish_pool_create")
        )
        self.address = create(capacity)
        self._launch = ctypes.CFUNCTYPE(
            None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64
        )(library.address("burnish_pool_launch"))
        self._destroy = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(
            library.address("burnish_pool_destroy")
        )

    def record(self, threads: int) -> Runtime:
        return Runtime(
            ABI_VERSION, threads, self.library.address("burnish_pool_launch"), self.address
        )

    def launch(
        self, threads: int, body: object, extent: int, grain: int = 1, context: int | None = None
    ) -> None:
        address = self.library.address(body) if isinstance(body, str) else body
        if not isinstance(address, int):
            address = ctypes.cast(address, ctypes.c_void_p).value
        record = self.record(threads)
        self._launch(ctypes.addressof(record), address, context, extent, grain)

    def ranges(self, threads: int, extent: int, grain: int = 1) -> list[tuple[int, int, int]]:
        """(begin, end, thread) of each call of the body."""
        calls: list[tuple[int, int, int]] = []
        body = BODY(lambda _, begin, end, thread: calls.append((begin, end, thread)))
        self.launch(threads, body, extent, grain)
        return sorted(calls)

    def destroy(self) -> None:
        self._destroy(self.address)


@pytest.fixture(scope="module")
def library() -> NativeLibrary:
    return load_objects([emit_thread_pool(Target("llvm -mcpu=x86-64")), assemble(BODIES)])


@pytest.fixture
def pool(library: NativeLibrary) -> Iterator[Pool]:
    made = Pool(library)
    yield made
    made.destroy()


def test_symbols(library: NativeLibrary) -> None:
    assert set(SYMBOLS) <= set(library.symbols)
    version = ctypes.CFUNCTYPE(ctypes.c_int64)(library.address("burnish_pool_abi_version"))()
    assert version == ABI_VERSION


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("extent", [1, 2, 3, 7, 100_003])
def test_every_iteration_runs_once(pool: Pool, threads: int, extent: int) -> None:
    out = np.zeros(extent, np.int64)
    pool.launch(threads, "fill", extent, context=out.ctypes.data)
    np.testing.assert_array_equal(out, 3 * np.arange(extent) + 1)


def test_nothing_runs_for_an_empty_range(pool: Pool) -> None:
    assert pool.ranges(3, 0) == []
    assert pool.ranges(3, -5) == []


@pytest.mark.parametrize(
    ("threads", "extent", "grain", "expected"),
    [
        (3, 10, 1, [0, 4, 7, 10]),
        (4, 2, 1, [0, 1, 2]),
        (4, 10, 4, [0, 5, 10]),
        (4, 10, 6, [0, 10]),
        (4, 3, 100, [0, 3]),
        (2, 4, 0, [0, 2, 4]),
        (2, 1600, 1, list(range(0, 1601, 200))),
        (2, 1600, 20, [0, 400, 800, 1200, 1600]),
        (2, 130, 1, [0, 17, 34, 50, 66, 82, 98, 114, 130]),
        (100, 16, 1, list(range(0, 17, 2))),
    ],
    ids=[
        *("uneven", "few", "grain", "one-grain", "below-grain"),
        *("no-grain", "most", "some", "rest", "capacity"),
    ],
)
def test_the_chunks(pool: Pool, threads: int, extent: int, grain: int, expected: list[int]) -> None:
    """At most four a thread, several only of sixteen grains; they cover the range without a gap."""
    ranges = pool.ranges(threads, extent, grain)
    assert [r[0] for r in ranges] == expected[:-1]
    assert [r[1] for r in ranges] == expected[1:]
    assert {r[2] for r in ranges} <= set(range(threads))


def test_the_chunks_are_the_same_every_time(pool: Pool) -> None:
    first = [r[:2] for r in pool.ranges(3, 1000)]
    assert all([r[:2] for r in pool.ranges(3, 1000)] == first for _ in range(20))


def test_a_thread_takes_its_own_part_in_order(pool: Pool) -> None:
    begun = threading.Barrier(2)
    calls: list[tuple[int, int]] = []

    def note(_: object, begin: int, end: int, thread: int) -> None:
        if begin in (0, 80):
            begun.wait(60)
        calls.append((thread, begin))

    pool.launch(2, BODY(note), 160)
    for thread in range(2):
        own = [at for who, at in calls if who == thread and at // 80 == thread]
        assert own == sorted(own)
        assert own[0] == 80 * thread


def test_what_a_delayed_thread_has_left_is_taken_by_others(pool: Pool) -> None:
    """A worker that is held in its first chunk keeps that one, and the caller does the rest."""
    inside, release = threading.Event(), threading.Event()
    calls: list[tuple[int, int]] = []

    def body(_: object, begin: int, end: int, thread: int) -> None:
        if thread:
            inside.set()
            release.wait(60)
        elif begin == 0:
            inside.wait(60)
        elif len(calls) == 6:
            release.set()
        calls.append((begin, thread))

    pool.launch(2, BODY(body), 160)
    assert sorted(at for at, _ in calls) == list(range(0, 160, 20))
    assert [at for at, who in calls if who == 1] == [80]


def test_the_caller_runs_part_0_and_others_the_rest(pool: Pool) -> None:
    seen: dict[int, int] = {}
    begun = threading.Barrier(3)

    def note(_: object, begin: int, end: int, thread: int) -> None:
        begun.wait(60)
        seen[thread] = threading.get_native_id()

    pool.launch(3, BODY(note), 3)
    assert seen[0] == threading.get_native_id()
    assert len(set(seen.values())) == 3


def test_nested_launches_run_serially(pool: Pool) -> None:
    out = np.zeros(6 * 64, np.int64)
    record = pool.record(3)
    context = (ctypes.c_void_p * 2)(ctypes.addressof(record), out.ctypes.data)
    pool.launch(3, "nested", 6, context=ctypes.addressof(context))
    np.testing.assert_array_equal(out.reshape(6, 64), np.tile(3 * np.arange(64) + 1, (6, 1)))
    assert len(pool.ranges(3, 3)) == 3


def test_a_launch_without_a_pool_runs_serially(library: NativeLibrary) -> None:
    bare = Pool(library)
    bare.address = None
    assert bare.ranges(4, 100) == [(0, 100, 0)]


def test_thousands_of_launches(pool: Pool) -> None:
    extent, rounds = 64, 5000
    out = np.zeros(extent, np.int64)
    for i in range(rounds):
        pool.launch(2 + i % 2, "fill", extent, context=out.ctypes.data)
    np.testing.assert_array_equal(out, rounds * (3 * np.arange(extent) + 1))


def test_workers_wake_up_after_they_slept(pool: Pool) -> None:
    extent = 96
    out = np.zeros(extent, np.int64)
    for _ in range(20):
        pool.launch(3, "fill", extent, context=out.ctypes.data)
        time.sleep(0.002)
    np.testing.assert_array_equal(out, 20 * (3 * np.arange(extent) + 1))


def test_workers_that_have_no_part_stay_out(pool: Pool) -> None:
    assert len(pool.ranges(8, 8)) == 8
    for _ in range(200):
        assert len(pool.ranges(2, 2)) == 2
    assert len(pool.ranges(8, 8)) == 8


def test_a_slow_part_is_waited_for(pool: Pool) -> None:
    done: list[int] = []
    begun = threading.Barrier(2)

    def slow(_: object, begin: int, end: int, thread: int) -> None:
        begun.wait(60)
        if thread:
            time.sleep(0.02)
        done.append(thread)

    pool.launch(2, BODY(slow), 2)
    assert sorted(done) == [0, 1]


def test_concurrent_callers_get_right_results(pool: Pool) -> None:
    extent, rounds, callers = 1000, 300, 3
    outs = [np.zeros(extent, np.int64) for _ in range(callers)]

    def call(out: np.ndarray) -> None:
        for _ in range(rounds):
            pool.launch(2, "fill", extent, context=out.ctypes.data)

    threads = [threading.Thread(target=call, args=(out,)) for out in outs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for out in outs:
        np.testing.assert_array_equal(out, rounds * (3 * np.arange(extent) + 1))


def test_a_second_caller_runs_serially_instead_of_waiting(pool: Pool) -> None:
    running, release = threading.Event(), threading.Event()

    def hold(_: object, begin: int, end: int, thread: int) -> None:
        running.set()
        release.wait(60)

    body = BODY(hold)
    first = threading.Thread(target=lambda: pool.launch(2, body, 2))
    first.start()
    assert running.wait(60)
    try:
        assert pool.ranges(2, 10) == [(0, 10, 0)]
    finally:
        release.set()
        first.join()
    assert len(pool.ranges(2, 10)) == 2


def test_workers_do_not_flush_denormals(pool: Pool) -> None:
    out = np.full(3, np.finfo(np.float32).tiny, np.float32)
    pool.launch(3, "halve", 3, context=out.ctypes.data)
    np.testing.assert_array_equal(out, np.finfo(np.float32).tiny / 2)


def test_a_destroyed_pool_runs_serially(library: NativeLibrary) -> None:
    pool = Pool(library)
    assert len(pool.ranges(3, 9)) == 3
    pool.destroy()
    assert pool.ranges(3, 9) == [(0, 9, 0)]


def native_threads() -> set[int]:
    """The threads of this process, Python's and others."""
    return set(map(int, os.listdir("/proc/self/task")))


def test_destroying_joins_the_workers(library: NativeLibrary) -> None:
    begun = threading.Barrier(4)
    threads: set[int] = set()

    def note(*_: object) -> None:
        begun.wait(60)
        threads.add(threading.get_native_id())

    before = native_threads()
    pool = Pool(library)
    assert native_threads() <= before
    pool.launch(4, BODY(note), 4)
    workers = threads - {threading.get_native_id()}
    assert len(workers) == 3
    assert workers <= native_threads() - before
    pool.destroy()
    # One that was waited for may be listed a moment longer.
    deadline = time.monotonic() + 60
    while workers & native_threads():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_other_systems_are_refused() -> None:
    with pytest.raises(CodegenError, match=r"needs Linux on x86-64 or AArch64, found .*windows"):
        build_thread_pool("x86_64-pc-windows-msvc")
    with pytest.raises(CodegenError, match="Compile with threads=1"):
        build_thread_pool("riscv64-unknown-linux-gnu")


def test_aarch64_object() -> None:
    image = emit_thread_pool(Target("llvm -mcpu=neoverse-n1"))
    assert image[:4] == b"\x7fELF"
    assert image[18] == 0xB7
