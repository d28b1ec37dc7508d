"""Calls that Ctrl-C ends.

Native code runs with the interpreter's lock released, but Python acts on a signal only when the
main thread is back in the interpreter. So a call that may take long is made by a helper thread,
while the main thread waits in a way that signals interrupt:

    main thread                                 helper
    start it; wait for the end                  run the kernel
    KeyboardInterrupt: set ``cancel``           ... which looks at ``cancel`` and returns
    wait for the end; raise

The main thread never leaves before the helper has left the kernel, whatever signal handlers raise
and however often: memory that the kernel writes would be gone. Calls from other threads, which get
no signals, are made directly.
"""

from __future__ import annotations

import _thread
import signal
import threading
from collections.abc import Callable

_GLANCE = 0.05
"""Seconds after which the waiting thread looks for a signal that another thread was handed."""

_LAYERS = signal.NSIG
"""Loops around the wait. An exception that comes where a loop has no ``try``, as on the way from
its ``except`` to its top, goes to the next one out. That takes a signal more each time, and no more
than this can be pending at once."""

_FAULTS = {
    signal.SIGSEGV,
    signal.SIGBUS,
    signal.SIGFPE,
    signal.SIGILL,
    signal.SIGTRAP,
    signal.SIGSYS,
}
"""What the kernel's own instructions raise: blocked, they end the process before ``faulthandler``
or another handler can tell where."""


def run_interruptibly(call: Callable[[], object], cancel: Callable[[], object]) -> None:
    """Make a call that takes long, and raise what it raises or a signal handler raises meanwhile.

    ``cancel`` asks the call to return soon; it may be asked for several times.
    """
    if threading.get_ident() != threading.main_thread().ident:
        call()
        return
    helped = _Helped(call, cancel)
    _wait(helped, _LAYERS)
    helped.report()


class _Helped:
    """A call that a helper makes. The attributes are plain, so that reading and writing them are
    no occasions for a signal handler."""

    def __init__(self, call: Callable[[], object], cancel: Callable[[], object]) -> None:
        self.call, self.cancel = call, cancel
        self.claims: dict[str, str] = {}
        self.done = _thread.allocate_lock()
        self.done.acquire()
        self.is_begun = self.is_over = False
        self.failure: BaseException | None = None
        self.raised: BaseException | None = None

    def proceed(self) -> None:
        """Begin, or after an exception have the helper end or never begin; then wait for it."""
        if self.raised is None:
            self._begin()
        elif self.claims.setdefault("owner", "main") == "main":
            self.is_over = True
        else:
            self.cancel()
        while not self.is_over and not self.done.acquire(timeout=_GLANCE):
            pass

    def report(self) -> None:
        """Raise what a handler raised, or else the call; keep neither, nor what they refer to."""
        failure, self.failure = self.failure, None
        raised, self.raised = self.raised, None
        try:
            try:
                if failure is not None:
                    raise failure
            finally:
                if raised is not None:
                    raise raised
        finally:
            del failure, raised

    def _begin(self) -> None:
        self.is_begun = True
        try:
            _thread.start_new_thread(self._help, ())
        except RuntimeError:  # no more threads are to be had
            if self.claims.setdefault("owner", "main") != "main":
                raise  # by a handler: there is a helper
            self._make()

    def _help(self) -> None:
        # Signals are for the main thread, which waits for them.
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals() - _FAULTS)
        if self.claims.setdefault("owner", "helper") == "helper":
            self._make()
            self.done.release()

    def _make(self) -> None:
        try:
            self.call()
        except BaseException as error:
            self.failure = error
        finally:
            # Before the lock is released: the main thread may take it, and be interrupted before it
            # knows that it has.
            self.is_over = True


def _wait(helped: _Helped, layers: int) -> None:
    """Return when the helper has ended, or will never begin; of exceptions the first is kept."""
    while not helped.is_over and (helped.is_begun or helped.raised is None):
        try:
            if layers and helped.raised is None:
                _wait(helped, layers - 1)
            else:
                helped.proceed()
        except BaseException as error:
            if helped.raised is None:
                helped.raised = error
