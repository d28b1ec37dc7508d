"""Checks of a schedule: its trace makes the same program again, machine code the same numbers."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, cast

import numpy as np

from burnish.support.structural import assert_structural_equal
from burnish.tensorir.expr import IntImm
from burnish.tensorir.function import PrimFunc
from burnish.tensorir.lowering.scope import Scope
from burnish.tensorir.schedule import Schedule, Trace
from burnish.tensorir.text.parser import parse_func
from burnish.tensorir.text.printer import print_func
from burnish.tensorir.visitor import substitute
from burnish.tests.native import aligned, call_native
from burnish.tests.tensorir.interpreter import unwritten
from burnish.tests.tensorir.schedule.programs import assert_same


def assert_replays(func: PrimFunc, sch: Schedule) -> None:
    """The trace of ``sch``, through JSON and through Python text, makes its function of ``func``;
    and that function survives being printed and parsed."""
    again = Schedule(func, seed=11)
    Trace.from_json(json.dumps(sch.trace.as_json())).apply_to(again)
    assert_structural_equal(sch.func, again.func)
    assert str(again.trace) == str(sch.trace)
    namespace: dict[str, Any] = {}
    exec(str(sch.trace), namespace)
    textual = Schedule(func, seed=12)
    cast("Callable[[Schedule], None]", namespace["apply_trace"])(textual)
    assert_structural_equal(sch.func, textual.func)
    assert_structural_equal(sch.func, parse_func(print_func(sch.func)))


def assert_same_natively(before: PrimFunc, after: PrimFunc, *sizes: int) -> None:
    """Both functions give the same numbers as machine code, from small random integers, whose sums
    are exact in any order; ``sizes`` are those of the symbolic dimensions."""
    dims = dict(zip(before.shape_vars, sizes, strict=True))
    known = {v: IntImm(n) for v, n in dims.items()}
    results: list[list[np.ndarray]] = []
    for func in (before, after):
        rng = np.random.default_rng(5)
        arrays: list[np.ndarray] = []
        for b in before.buffers:
            shape = tuple([Scope().simplify(substitute(d, known)).value for d in b.shape])
            array = aligned(shape, str(b.dtype))
            array[...] = unwritten(shape, str(b.dtype))
            if b not in before.written:
                array[...] = rng.integers(-8, 9, shape)
            arrays.append(array)
        call_native(func, *arrays, dims=sizes)
        results.append(arrays)
    for x, y in zip(*results, strict=True):
        assert not np.isnan(x).any()
        np.testing.assert_array_equal(x, y)


def finish(func: PrimFunc, sch: Schedule, *sizes: int) -> None:
    """Results, trace and machine code are those of the unscheduled function."""
    assert_same(func, sch.func, *sizes)
    assert_replays(func, sch)
    assert_same_natively(func, sch.func, *sizes)
