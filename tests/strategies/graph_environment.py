"""The environment functions that random graphs call (``graph_modules.py``)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from burnish.vm.registry import register_func, unregister_func


def negate(x: Any, out: Any) -> None:
    np.negative(x.numpy(), out=out.numpy())


def both(x: Any, y: Any, a: Any, b: Any) -> None:
    a.numpy()[...] = x.numpy()
    b.numpy()[...] = 1 - x.numpy()


@contextmanager
def environment_functions() -> Iterator[None]:
    register_func("random.negate", negate)
    register_func("random.both", both)
    try:
        yield
    finally:
        unregister_func("random.negate")
        unregister_func("random.both")
