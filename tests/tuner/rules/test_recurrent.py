"""Recurrent layers: all sizes of rows and units, packed weights, threads, the code of a step."""

from __future__ import annotations

import numpy as np
import pytest

from burnish.support.host import native_target
from burnish.tensorir.bind_sizes import bind_sizes
from burnish.tensorir.function import PrimFunc
from burnish.tests.native import call_native
from burnish.tests.recurrent_reference import GATES, operands, recurrent
from burnish.tests.tensorir.operators.test_recurrent import function
from burnish.tests.tuner.rules.checking import HASWELL, SKYLAKE, assembly_of, scheduled


def static(cell: str, steps: int, rows: int, units: int) -> PrimFunc:
    """The function of so many steps."""
    func = function(cell, rows, units)
    return bind_sizes(func, dict.fromkeys(func.shape_vars, steps))


def check(func: PrimFunc, cell: str, steps: int, rows: int, units: int, threads: int = 1) -> None:
    given = operands(cell, steps, rows, units)
    expected = recurrent(*[x.astype("float64") for x in given], cell=cell)
    found = np.full(expected.shape, 77, np.float32)
    call_native(func, *given, found, dims=[steps], threads=threads)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("cell", GATES)
@pytest.mark.parametrize(("rows", "units"), [(1, 16), (1, 64), (2, 24), (5, 10), (7, 33), (12, 8)])
def test_rows_and_units(cell: str, rows: int, units: int) -> None:
    func = function(cell, rows, units)
    rule, analytic = scheduled(func)
    assert rule == "recurrent"
    for steps in (0, 1, 6):
        check(analytic, cell, steps, rows, units)
    for seed in range(2):
        check(scheduled(func, sampled=True, seed=seed)[1], cell, 4, rows, units)


def test_a_free_weight_is_packed_into_panels() -> None:
    func = function("lstm", 1, 64).with_attr("layout_free", [2])
    _, made = scheduled(func, target=HASWELL)
    assert [[getattr(d, "value", None) for d in b.shape] for b in made.buffers][2] == [4, 64, 64]


def test_threads_share_a_large_step_and_change_no_bit() -> None:
    func = function("lstm", 1, 256)
    results = []
    for threads in (1, 2):
        target = native_target().with_options(threads=threads)
        _, made = scheduled(func, target=target)
        assert ("T.parallel" in made.script()) == (threads == 2)
        given = operands("lstm", 5, 1, 256)
        found = np.zeros((6, 2, 1, 256), np.float32)
        call_native(made, *given, found, dims=[5], threads=threads)
        results.append(found)
    np.testing.assert_array_equal(*results)
    check(made, "lstm", 5, 1, 256, threads=2)
    small = scheduled(function("lstm", 1, 32), target=native_target().with_options(threads=2))[1]
    assert "T.parallel" not in small.script()


def test_the_code_of_a_step() -> None:
    """Sums in registers over four terms, none of them spilled; no call of a library."""
    func = function("lstm", 1, 64).with_attr("layout_free", [2])
    made = scheduled(func, target=SKYLAKE.with_options(threads=1))[1]
    assembly = assembly_of(made, SKYLAKE)
    assert "Spill" not in assembly
    assert "callq" not in assembly
    lines = [x for x in assembly.splitlines() if "vfmadd231ps" in x and "zmm" in x]
    assert len([x for x in lines if "(%r" in x]) >= 16
