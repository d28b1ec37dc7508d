"""Calls that a signal ends: who runs them, and what is waited for."""

from __future__ import annotations

import _thread
import contextlib
import gc
import signal
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from functools import partial
from types import FrameType

import pytest

from burnish.vm.interrupts import run_interruptibly


class Kernel:
    """Runs until it is cancelled, or until it has been asked to ``end``."""

    def __init__(self, *, ends: bool = False) -> None:
        self.thread: int | None = None
        self.begun, self.cancelled = threading.Event(), threading.Event()
        self.is_running = False
        if ends:
            self.cancelled.set()

    def call(self) -> None:
        self.thread = threading.get_ident()
        self.is_running = True
        self.begun.set()
        self.cancelled.wait(30)
        self.is_running = False


def never() -> None:
    pytest.fail("nobody interrupted")


def test_a_call_runs_beside_the_main_thread() -> None:
    kernel = Kernel(ends=True)
    run_interruptibly(kernel.call, never)
    assert kernel.thread not in (None, threading.main_thread().ident)


def test_another_thread_calls_directly() -> None:
    kernel = Kernel(ends=True)
    other = threading.Thread(target=run_interruptibly, args=(kernel.call, never))
    other.start()
    other.join()
    assert kernel.thread == other.ident


def test_without_another_thread_the_main_one_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(_thread, "start_new_thread", refuse)
    kernel = Kernel(ends=True)
    run_interruptibly(kernel.call, never)
    assert kernel.thread == threading.main_thread().ident


@pytest.mark.parametrize("signals", [1, 3])
def test_what_a_handler_raises_comes_when_the_call_has_ended(signals: int) -> None:
    kernel = Kernel()
    asked: list[bool] = []

    def cancel() -> None:
        asked.append(kernel.is_running)
        if len(asked) == signals:
            kernel.cancelled.set()
        else:
            signal.raise_signal(signal.SIGINT)

    def send() -> None:
        kernel.begun.wait(30)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    sender = threading.Thread(target=send)
    sender.start()
    with pytest.raises(KeyboardInterrupt):
        run_interruptibly(kernel.call, cancel)
    assert not kernel.is_running
    assert asked == [True] * signals
    sender.join()


def test_an_interrupt_before_the_call_begins_keeps_it_from_beginning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    held: list[object] = []

    def later(work: object, _: object) -> None:
        held.append(work)
        raise KeyboardInterrupt

    monkeypatch.setattr(_thread, "start_new_thread", later)
    kernel = Kernel(ends=True)
    with pytest.raises(KeyboardInterrupt):
        run_interruptibly(kernel.call, never)
    (work,) = held
    assert callable(work)
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    work()
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    assert kernel.thread is None


def test_a_handler_that_raises_nothing_changes_nothing() -> None:
    kernel = Kernel()
    seen: list[int] = []

    def handle(number: int, _: object) -> None:
        seen.append(number)
        kernel.cancelled.set()

    def send() -> None:
        kernel.begun.wait(30)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, handle)
    try:
        sender = threading.Thread(target=send)
        sender.start()
        run_interruptibly(kernel.call, never)
        sender.join()
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert seen == [signal.SIGUSR1]
    assert not kernel.is_running


class Stop(BaseException):
    """What a signal handler raises that is no KeyboardInterrupt."""


def test_an_interrupt_just_as_the_call_ends_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    allocate, taken = _thread.allocate_lock, []

    class Lock:
        """Given to the main thread, which is interrupted before it knows."""

        def __init__(self) -> None:
            self.lock = allocate()
            self.release = self.lock.release

        def acquire(self, timeout: float = -1) -> bool:
            if len(taken) > 1:
                pytest.fail("waits for a lock that it has")
            if self.lock.acquire(timeout=timeout):
                taken.append(timeout)
                if len(taken) > 1:
                    raise KeyboardInterrupt
                return True
            return False

    monkeypatch.setattr(_thread, "allocate_lock", Lock)
    with pytest.raises(KeyboardInterrupt):
        run_interruptibly(lambda: None, lambda: None)
    assert len(taken) == 2


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, RuntimeError, Stop])
@pytest.mark.parametrize("times", [1, 3])
def test_whatever_handlers_raise_the_call_has_ended(
    kind: type[BaseException], times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel, start = Kernel(), _thread.start_new_thread
    asked: list[bool] = []

    def started(work: Callable[[], object], args: tuple[()]) -> None:
        start(work, args)
        kernel.begun.wait(30)
        raise kind("first")

    def cancel() -> None:
        asked.append(kernel.is_running)
        if len(asked) > times:
            kernel.cancelled.set()
        else:
            raise kind("later")

    monkeypatch.setattr(_thread, "start_new_thread", started)
    with pytest.raises(kind, match="first"):
        run_interruptibly(kernel.call, cancel)
    assert not kernel.is_running
    assert asked == [True] * (times + 1)


class Burst:
    """A call in which the handlers of many signals, pending at once, raise one after the other."""

    def __init__(self) -> None:
        self.numbers = range(signal.SIGRTMIN, signal.SIGRTMAX)
        self.is_begun = self.is_cancelled = self.has_ended = False

    def handle(self, _: int, frame: FrameType | None) -> None:
        while frame and frame.f_code is not run_interruptibly.__code__:
            frame = frame.f_back
        if frame and not self.has_ended:
            raise Stop

    def send(self, count: int) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, self.numbers)
        for number in self.numbers[:count]:
            signal.raise_signal(number)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, self.numbers)

    def call(self) -> None:
        self.is_begun = True
        limit = time.monotonic() + 5
        while not self.is_cancelled and time.monotonic() < limit:
            time.sleep(0.001)
        self.has_ended = True


@pytest.fixture
def burst() -> Iterator[Burst]:
    made = Burst()
    before = [signal.signal(n, made.handle) for n in made.numbers]
    yield made
    for number, handler in zip(made.numbers, before, strict=True):
        signal.signal(number, handler)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5])
def test_signals_one_upon_another_do_not_leave_the_call_behind(
    count: int, burst: Burst, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = _thread.start_new_thread
    asked: list[bool] = []

    def started(work: Callable[[], object], args: tuple[()]) -> None:
        start(work, args)
        while not burst.is_begun:
            time.sleep(0.001)
        burst.send(count)

    def cancel() -> None:
        asked.append(True)
        if len(asked) == 1:
            burst.send(count)
        burst.is_cancelled = True

    monkeypatch.setattr(_thread, "start_new_thread", started)
    with pytest.raises(Stop):
        run_interruptibly(burst.call, cancel)
    assert burst.has_ended


def test_what_the_call_raises_comes_to_the_caller() -> None:
    def call() -> None:
        raise ValueError("in the helper")

    with pytest.raises(ValueError, match="in the helper"):
        run_interruptibly(call, never)


def test_what_the_call_raises_is_the_context_of_an_interrupt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun, cancelled, start = threading.Event(), threading.Event(), _thread.start_new_thread

    def call() -> None:
        begun.set()
        cancelled.wait(30)
        raise ValueError("in the helper")

    def started(work: Callable[[], object], args: tuple[()]) -> None:
        start(work, args)
        begun.wait(30)
        raise KeyboardInterrupt

    monkeypatch.setattr(_thread, "start_new_thread", started)
    with pytest.raises(KeyboardInterrupt) as caught:
        run_interruptibly(call, cancelled.set)
    assert isinstance(caught.value.__context__, ValueError)


def test_an_exception_keeps_nothing_alive_that_the_call_used() -> None:
    class Memory:
        pass

    def fail(used: Memory) -> None:
        raise ValueError(type(used).__name__)

    def run() -> weakref.ref[Memory]:
        memory = Memory()
        with contextlib.suppress(ValueError):
            run_interruptibly(partial(fail, memory), never)
        return weakref.ref(memory)

    gc.disable()
    try:
        assert run()() is None
    finally:
        gc.enable()


def test_the_helper_leaves_other_signals_alone_but_takes_its_own_faults() -> None:
    masks: list[set[int]] = []
    run_interruptibly(lambda: masks.append(signal.pthread_sigmask(signal.SIG_BLOCK, [])), never)
    (blocked,) = masks
    assert {signal.SIGINT, signal.SIGTERM, signal.SIGALRM, signal.SIGUSR1} <= blocked
    assert not blocked & {signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL}


def test_at_the_limit_of_recursion_the_call_never_begins() -> None:
    """Or it begins and ends: the first level on the way up that has room makes it, once."""
    made: list[int] = []

    def descend() -> None:
        descend_or_run()

    def descend_or_run() -> None:
        try:
            descend()
        except RecursionError:
            run_interruptibly(lambda: made.append(1), never)

    with contextlib.suppress(RecursionError):
        descend_or_run()
    assert made == [1]
