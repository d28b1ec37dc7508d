"""Python's collector of cycles while a compilation runs.

A compilation makes objects by the million that live to its end, in a process that has those of a
model and its libraries already. Every quarter more of them the collector looks through all: on
DenseNet-201 that was a fifth of the compile. ``rare_collections`` lets it look through the young
ones as before, a few times less often, and through all hardly ever; cycles that stay (LLVM's IR as
llvmlite holds it) are found while they are young.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

YOUNG, MIDDLE, OLD = 5000, 20, 100
"""Objects more than before, collections of the young, collections of the middle-aged."""


class _Inside:
    """How many compilations run, and the thresholds that were there before the first."""

    lock = threading.Lock()
    count = 0
    before = (0, 0, 0)


@contextmanager
def rare_collections() -> Iterator[None]:
    """Collect rarely inside; as a decorator, in the function. Thresholds hold for the process, so
    the first to enter sets them, and the last to leave puts back those that it found, unless
    somebody has set others meanwhile. A collector that is off, or collects less often already,
    stays as it is."""
    mine = (YOUNG, MIDDLE, OLD)
    with _Inside.lock:
        _Inside.count += 1
        if _Inside.count == 1:
            _Inside.before = gc.get_threshold()
            if gc.isenabled() and 0 < _Inside.before[0] < YOUNG:
                gc.set_threshold(*mine)
    try:
        yield
    finally:
        with _Inside.lock:
            _Inside.count -= 1
            if _Inside.count == 0 and gc.get_threshold() == mine:
                gc.set_threshold(*_Inside.before)
