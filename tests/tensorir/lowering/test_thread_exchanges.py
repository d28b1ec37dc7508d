"""Threads that exchange values, beside a simulation in which they wait for each other."""

from __future__ import annotations

import numpy as np
import pytest

from burnish.tensorir.lowering.split_threads import split_threads
from burnish.tensorir.verify.laws import verify_func
from burnish.tests.native import call_native
from burnish.tests.strategies.thread_programs import ROWS, ThreadProgram


@pytest.mark.parametrize("seed", range(40))
def test_random_programs(seed: int) -> None:
    program = ThreadProgram(seed)
    rng = np.random.default_rng(seed)
    a = rng.integers(-4, 5, (ROWS, program.n)).astype("float32")
    b = rng.integers(-4, 5, (ROWS, program.n)).astype("float32")
    expected = b.copy()
    program.simulate(a, expected)
    verify_func(split_threads(program.func))
    call_native(program.func, a, b)
    np.testing.assert_array_equal(b, expected, program.text)
