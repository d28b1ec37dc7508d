"""Calls that Ctrl-C ends.

Native code runs with the interpreter's lock released, but Python acts on a signal only when the
main thread is back in the interpreter. So a call that may take long is made by a helper thread,
while the main thread waits in a way that signals interrupt:

    main thread                                 helper
    start it; wait for the end                  run the kernel
    KeyboardInterrupt: set ``cancel``           ... which looks at ``cancel`` and returns
    wait for the end; raise

The main thread never leaves before the helper has left the kernel: memory that the kernel writes
would be gone. Calls from other threads, which get no signals, are made directly.
"""

from __future__ import annotations

import _thread
import signal
import threading
from collections.abc import Callable

_GLANCE = 0.05
"""Seconds after which the waiting thread looks for a signal that another thread was handed."""


def run_interruptibly(call: Callable[[], object], cancel: Callable[[], object]) -> None:
    """Make a call that takes long, and raise what a signal handler raises meanwhile.

    ``cancel`` asks the call to return soon; it may be asked for several times.
    """
    if threading.get_ident() != threading.main_thread().ident:
        call()
        return
    claims: dict[str, str] = {}
    done = _thread.allocate_lock()
    done.acquire()

    def work() -> None:
        # Signals are for the main thread, which waits for them.
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        if claims.setdefault("owner", "helper") != "helper":
            return
        try:
            call()
        finally:
            done.release()

    try:
        try:
            _thread.start_new_thread(work, ())
        except RuntimeError:  # no more threads are to be had
            claims["owner"] = "main"
            call()
            return
        while not done.acquire(timeout=_GLANCE):
            pass
    except BaseException:
        _settle(claims, done, cancel)
        raise


def _settle(claims: dict[str, str], done: _thread.LockType, cancel: Callable[[], object]) -> None:
    """Have the helper end, or never begin; further interrupts change nothing."""
    while True:
        try:
            if claims.setdefault("owner", "main") == "main":
                return
            cancel()
            while not done.acquire(timeout=_GLANCE):
                pass
            return
        except KeyboardInterrupt:
            continue
