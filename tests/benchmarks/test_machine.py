"""What a call costs, whichever thread does its work."""

from __future__ import annotations

import threading
import time

from burnish.benchmarks.machine import cpu_seconds

SECONDS = 0.02


def busy() -> None:
    """Uses the processor for so long."""
    end = time.thread_time() + SECONDS
    while time.thread_time() < end:
        pass


def in_a_helper(work: threading.Thread) -> None:
    work.start()
    work.join()


def test_what_a_helper_does_counts_for_the_call() -> None:
    """As it does where a call takes long, which a helper makes (``vm/interrupts.py``)."""
    assert cpu_seconds(busy) >= SECONDS
    assert cpu_seconds(in_a_helper, threading.Thread(target=busy)) >= SECONDS
