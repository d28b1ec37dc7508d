"""Code between callers and kernels: the kernels run as they are, and what ran stands in the log."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

import burnish
from burnish.driver.executable import Executable
from burnish.support.abi import WORK_SUFFIX
from burnish.tensorir.codegen import timed_calls
from burnish.tensorir.codegen.timed_calls import LOG, emit_timed_calls
from burnish.tests.driver.programs import add_one
from burnish.vm.binding import bind_kernel
from burnish.vm.native import load_objects


@pytest.fixture
def built() -> Executable:
    return burnish.build(add_one())


def test_kernels_run_and_are_written_down(
    built: Executable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timed_calls, "LOG_RECORDS", 3)
    kernel = built.program.kernels["add_one"]
    own = load_objects(built.program.objects)
    names = (kernel.symbol, kernel.symbol + WORK_SUFFIX)
    image = emit_timed_calls({n: own.address(n) for n in names}, built.target)
    timed = load_objects([image])
    assert timed.address(kernel.symbol) != own.address(kernel.symbol)
    bound = bind_kernel(kernel, timed)
    shape = [int(text) for text in kernel.params[0].spec.shape]
    x = np.arange(np.prod(shape), dtype=kernel.params[0].spec.dtype).reshape(shape)
    for _ in range(5):
        y = np.zeros_like(x)
        bound(x, y)
        np.testing.assert_array_equal(y, x + 1)
    log = (ctypes.c_int64 * 10).from_address(timed.address(LOG))
    assert log[0] == 5
    records = np.array(log[1:]).reshape(3, 3)
    assert (records[:, 0] == 0).all()
    times = records[:, 1:].reshape(-1)
    assert (np.diff(times) >= 0).all()
    assert times[0] > 0
