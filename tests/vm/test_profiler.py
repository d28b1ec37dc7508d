from __future__ import annotations

import numpy as np
import pytest

from burnish.support.errors import ArgumentError, UnknownFunctionError
from burnish.vm.interpreter import VirtualMachine
from burnish.vm.profiler import Profile, ProfileRow, profile
from burnish.vm.program import Program


@pytest.fixture
def result(add_program: Program) -> Profile:
    x = np.zeros((2, 4), np.float32)
    return profile(VirtualMachine(add_program), "main", x, x, runs=4)


def test_rows_by_callee(result: Profile) -> None:
    assert {(r.kind, r.name, r.calls) for r in result.rows} == {
        ("kernel", "add", 1),
        ("builtin", "match_shape", 1),
        ("builtin", "alloc_tensor", 1),
    }
    assert result.runs == 4
    assert 0 < sum(r.seconds for r in result.rows) < result.total
    assert [r.seconds for r in result.rows] == sorted([r.seconds for r in result.rows])[::-1]


def test_the_table() -> None:
    rows = (ProfileRow("kernel", "linear0", 2, 6e-6), ProfileRow("env", "env.relu", 1, 2e-6))
    assert str(Profile(rows, 1e-5, 10)) == (
        "kind     name         calls   time (us)  share\n"
        "kernel   linear0          2        6.00  60.0%\n"
        "env      env.relu         1        2.00  20.0%\n"
        "         interpreter               2.00  20.0%\n"
        "         total                    10.00"
    )


def test_errors(add_program: Program) -> None:
    with pytest.raises(UnknownFunctionError):
        profile(VirtualMachine(add_program), "mian")
    with pytest.raises(ArgumentError, match="runs is at least 1"):
        profile(VirtualMachine(add_program), "main", runs=0)
