"""Calls that a signal ends: who runs them, and what is waited for."""

from __future__ import annotations

import _thread
import signal
import threading

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
