from __future__ import annotations

import ctypes
import gc
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from burnish.support.abi import UNBOUNDED_WORK
from burnish.support.errors import (
    ArgumentError,
    ArityError,
    DTypeMismatchError,
    ShapeMismatchError,
    UnknownFunctionError,
    VMError,
)
from burnish.vm import binding
from burnish.vm.binding import BoundKernel, Runtime, bind_kernel, serial_runtime
from burnish.vm.native import load_objects
from burnish.vm.program import Kernel, Param, TensorSpec
from burnish.vm.storage import WorkspacePool
from burnish.vm.tensor import array, empty


@pytest.fixture
def add(add_kernel: Kernel, add_object: bytes) -> BoundKernel:
    return bind_kernel(add_kernel, load_objects([add_object]))


def rows(m: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).random((m, 4), dtype=np.float32)


def test_writes_its_output_for_any_kind_of_array(add: BoundKernel) -> None:
    a, b = rows(5), rows(5, 1)
    c = np.empty((5, 4), np.float32)
    add(a, b, c)
    assert np.array_equal(c, a + b)
    t = empty((5, 4))
    add(array(a), b, t)
    assert np.array_equal(t.numpy(), a + b)
    torch = pytest.importorskip("torch")
    out = torch.empty(5, 4)
    add(torch.from_numpy(a), b, out)
    assert np.array_equal(out.numpy(), a + b)


@pytest.mark.parametrize("m", [0, 1, 1000])
def test_workspace_follows_the_dims(add: BoundKernel, m: int) -> None:
    c = np.empty((m, 4), np.float32)
    add(rows(m), rows(m), c)
    assert np.array_equal(c, rows(m) * 2)
    assert add.workspace_bytes([m]) == 16 * m


@pytest.mark.parametrize("m", [1, 7])
def test_a_call_borrows_all_of_its_workspace(add_kernel: Kernel, add_object: bytes, m: int) -> None:
    pool = WorkspacePool()
    bound = bind_kernel(add_kernel, load_objects([add_object]), pool=pool)
    bound(rows(m), rows(m), np.empty((m, 4), np.float32))
    assert pool.free_bytes == 16 * m
    bound(rows(2 * m), rows(2 * m), np.empty((2 * m, 4), np.float32))
    assert pool.free_bytes == 32 * m


def test_a_kernel_of_two_dims(add_kernel: Kernel, add_object: bytes) -> None:
    a, b, c = (Param(p.name, TensorSpec(("m", "n"), "float32")) for p in add_kernel.params)
    kernel = replace(add_kernel, params=(a, b, c), dims=("m", "n"))
    bound = bind_kernel(kernel, load_objects([add_object]))
    out = np.empty((3, 4), np.float32)
    bound(rows(3), rows(3), out)
    assert np.array_equal(out, rows(3) * 2)


def test_threads_multiply_their_part_of_the_workspace(
    add_kernel: Kernel, add_object: bytes
) -> None:
    runtime = Runtime(1, 3, None, None)
    kernel = replace(add_kernel, thread_bytes="m * 100")
    bound = bind_kernel(kernel, load_objects([add_object]), runtime=ctypes.addressof(runtime))
    assert bound.workspace_bytes([2]) == 32 + 3 * 200
    assert Runtime.from_address(serial_runtime()).threads == 1


def test_a_strided_input_is_copied(add: BoundKernel) -> None:
    a = np.asfortranarray(rows(3))
    c = np.empty((3, 4), np.float32)
    add(a, a, c)
    assert np.array_equal(c, a + a)


def test_outputs_must_be_writable_memory_of_their_own(add: BoundKernel) -> None:
    a, c = rows(3), np.empty((3, 4), np.float32)
    with pytest.raises(ArgumentError, match="add, argument 'c': an output must be C-contiguous"):
        add(a, a, np.empty((4, 3), np.float32).T)
    frozen = c.copy()
    frozen.flags.writeable = False
    with pytest.raises(ArgumentError, match="argument 'c': the output is read-only"):
        add(a, a, frozen)
    with pytest.raises(ArgumentError, match="'c': the output overlaps the memory of 'a'"):
        add(a, c, a)
    whole = np.zeros((6, 4), np.float32)
    with pytest.raises(ArgumentError, match="overlaps the memory of 'b'"):
        add(a, whole[1:4], whole[3:])
    add(whole[:3], a, whole[3:])
    assert np.array_equal(whole[3:], a)


def test_an_inplace_kernel_may_overlap(add_kernel: Kernel, add_object: bytes) -> None:
    bound = bind_kernel(replace(add_kernel, inplace=True), load_objects([add_object]))
    a = rows(2)
    bound(a, a, a)
    assert np.array_equal(a, rows(2) * 2)


def test_checks_before_any_work(add: BoundKernel) -> None:
    c = np.zeros((3, 4), np.float32)
    with pytest.raises(ArityError, match=r"add takes 3 arguments .*; got 2"):
        add(rows(3), c)
    with pytest.raises(DTypeMismatchError, match="b: expected dtype float32, got float64"):
        add(rows(3), rows(3).astype(np.float64), c)
    with pytest.raises(ShapeMismatchError, match=r"'c': expected shape \(m, 4\) with m = 2"):
        add(rows(2), rows(2), c)
    assert not c.any()


def test_a_kernel_without_its_symbol(add_kernel: Kernel, add_object: bytes) -> None:
    with pytest.raises(UnknownFunctionError, match=r"'sub'"):
        bind_kernel(replace(add_kernel, symbol="sub"), load_objects([add_object]))


def test_dims_only_in_arithmetic(add_kernel: Kernel, add_object: bytes) -> None:
    flat = TensorSpec(("m * 4",), "float32")
    kernel = replace(add_kernel, params=tuple([Param(n, flat) for n in "abc"]))
    bound = bind_kernel(kernel, load_objects([add_object]))
    a, c = array(rows(2).ravel()), empty((8,))
    for call in (lambda: bound.run([a, a, c], [2]), lambda: bound(a, a, c)):
        c.numpy()[...] = 0
        call()
        assert np.array_equal(c.numpy(), rows(2).ravel() * 2)
    with pytest.raises(ShapeMismatchError, match=r"expected shape \(m \* 4,\) with m = 1"):
        bound(empty((6,)), a, c)


def test_a_dim_that_shapes_do_not_give(add_kernel: Kernel, add_object: bytes) -> None:
    fixed = TensorSpec(("2", "4"), "float32")
    kernel = replace(add_kernel, params=tuple([Param(n, fixed) for n in "abc"]))
    bound = bind_kernel(kernel, load_objects([add_object]))
    a, c = array(rows(2)), empty((2, 4))
    bound.run([a, a, c], [2])
    assert np.array_equal(c.numpy(), rows(2) * 2)
    with pytest.raises(VMError, match="do not give the dimension m"):
        bound(a, a, c)


def test_prepared_calls_keep_what_they_need(add_kernel: Kernel, add_object: bytes) -> None:
    c = np.zeros((3, 4), np.float32)
    call = bind_kernel(add_kernel, load_objects([add_object])).prepare(rows(3), rows(3), c)
    gc.collect()
    call()
    call()
    assert np.array_equal(c, rows(3) * 2)


def test_concurrent_calls(add_kernel: Kernel, add_object: bytes) -> None:
    pool = WorkspacePool()
    add = bind_kernel(add_kernel, load_objects([add_object]), pool=pool)
    wrong: list[int] = []

    def work(seed: int) -> None:
        a, c = rows(64, seed), np.empty((64, 4), np.float32)
        for _ in range(200):
            add(a, a, c)
            if not np.array_equal(c, a + a):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert wrong == []
    assert 1024 <= pool.free_bytes <= 4 * 1024


# -- calls that may take long ----------------------------------------------------------------------
@pytest.fixture
def long_calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows by one with each call that Ctrl-C could end."""
    made: list[int] = []
    run = binding.run_interruptibly

    def watch(call: Callable[[], object], cancel: Callable[[], object]) -> None:
        made.append(len(made))
        run(call, cancel)

    monkeypatch.setattr(binding, "run_interruptibly", watch)
    return made


def check_long_calls(bound: BoundKernel, long_calls: list[int], *counts: tuple[int, int]) -> None:
    """Calls of so many rows give sums, and so many of all have been long by then."""
    for m, count in counts:
        a, c = rows(m), np.empty((m, 4), np.float32)
        bound(a, a, c)
        assert np.array_equal(c, a + a)
        assert len(long_calls) == count


def test_a_kernel_says_for_which_sizes_a_call_may_take_long(
    add_kernel: Kernel,
    add_object: bytes,
    add_work_object: bytes,
    long_calls: list[int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its work is a hundred million a row."""
    monkeypatch.setattr(binding, "_QUICK", 0.0)
    bound = bind_kernel(add_kernel, load_objects([add_object, add_work_object]))
    check_long_calls(bound, long_calls, (2, 0), (4, 1), (2, 1))
    call = bound.prepare(rows(4), rows(4), np.empty((4, 4), np.float32))
    call()
    assert len(long_calls) == 2


def test_what_was_fast_enough_needs_no_helper(
    add_kernel: Kernel,
    add_object: bytes,
    add_work_object: bytes,
    long_calls: list[int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Rows of a second each, as the clock has it: up to the fourth there is no hurry."""
    ticks = iter(range(0, 1000, 4))
    monkeypatch.setattr(binding.time, "perf_counter", lambda: next(ticks))
    monkeypatch.setattr(binding, "_QUICK", 4.5)
    bound = bind_kernel(add_kernel, load_objects([add_object, add_work_object]))
    counts = ((4, 1), (4, 1), (3, 1), (5, 2), (5, 2), (6, 3), (2, 3))
    check_long_calls(bound, long_calls, *counts)


def test_what_may_run_for_ever_is_always_helped(
    add_kernel: Kernel, add_object: bytes, add_work_object: bytes, long_calls: list[int]
) -> None:
    bound = bind_kernel(add_kernel, load_objects([add_object, add_work_object]))
    bound._work = lambda dims: UNBOUNDED_WORK  # type: ignore[assignment]
    for count in (1, 2, 3):
        bound(rows(4), rows(4), np.empty((4, 4), np.float32))
        assert len(long_calls) == count


def test_a_long_call_has_a_runtime_record_of_its_own(
    add_kernel: Kernel, add_object: bytes, add_work_object: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To cancel it cancels no other."""
    seen: list[int] = []
    monkeypatch.setattr(binding, "run_interruptibly", lambda call, cancel: (cancel(), call()))
    runtime = Runtime(2, 1, None, None, 0)
    library = load_objects([add_object, add_work_object])
    bound = bind_kernel(add_kernel, library, runtime=ctypes.addressof(runtime))

    def entry(*handed: Any) -> None:
        seen.append(ctypes.cast(handed[-1], ctypes.POINTER(Runtime)).contents.cancel)

    bound._entry = entry  # type: ignore[assignment]
    bound(rows(4), rows(4), np.empty((4, 4), np.float32))
    assert (seen, runtime.cancel) == ([1], 0)
