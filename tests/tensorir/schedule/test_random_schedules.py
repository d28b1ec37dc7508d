"""Laws of every schedule: random primitives keep what a function computes, their trace replays
from JSON and from its text to an equal function, and the text of that parses back."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import cache

import numpy as np
import pytest

from burnish.support.errors import CodegenError
from burnish.support.structural import assert_structural_equal
from burnish.tensorir.expr import IntImm, Var
from burnish.tensorir.function import PrimFunc
from burnish.tensorir.parser import parse_func
from burnish.tensorir.printer import print_func
from burnish.tensorir.schedule import Schedule, Trace
from burnish.tensorir.verify import verify_func
from burnish.tests.native import call_native
from burnish.tests.strategies.schedules import CORPUS, random_schedule
from burnish.tests.tensorir.interpreter import run

MARGIN = 64
"""Elements before and after an array: never results, and never to be written."""
SIZES: dict[int, tuple[tuple[int, ...], ...]] = {
    0: ((),),
    1: ((0,), (1,), (5,), (9,)),
    2: ((3, 7), (1, 1), (4, 16), (0, 3)),
}
"""Values of the symbolic dims that a function is called with, by their number."""


class Arguments:
    """Arrays for a call of ``func``: random integers as inputs, unwritten outputs, each inside a
    margin that tells reads and writes out of bounds."""

    def __init__(self, func: PrimFunc, dims: Sequence[int]) -> None:
        sizes = dict(zip(func.shape_vars, dims, strict=True))
        rng = np.random.default_rng(7)
        self.arrays: list[np.ndarray] = []
        self.raw: list[np.ndarray] = []
        self.written = [b in func.written for b in func.buffers]
        for buffer, written in zip(func.buffers, self.written, strict=True):
            shape = []
            for d in buffer.shape:
                assert isinstance(d, (IntImm, Var))
                shape.append(sizes[d] if isinstance(d, Var) else d.value)
            dtype = buffer.dtype.to_numpy()
            count = int(np.prod(shape))
            raw = np.full(count + 2 * MARGIN, self.nothing(dtype), dtype)
            inside = raw[MARGIN : MARGIN + count]
            if not written:
                inside[:] = rng.integers(-4, 5, count)
            self.raw.append(raw)
            self.arrays.append(inside.reshape(shape))

    @staticmethod
    def nothing(dtype: np.dtype) -> float:
        return np.nan if dtype.kind == "f" else np.iinfo(dtype).min

    def outputs(self) -> list[np.ndarray]:
        for raw in self.raw:
            for margin in (raw[:MARGIN], raw[-MARGIN:]):
                np.testing.assert_array_equal(margin, self.nothing(raw.dtype))
        return [a for a, written in zip(self.arrays, self.written, strict=True) if written]


def same(found: Sequence[np.ndarray], expected: Sequence[np.ndarray], what: str) -> None:
    for x, y in zip(found, expected, strict=True):
        np.testing.assert_allclose(x, y, rtol=2e-5, atol=1e-5, err_msg=what)


@cache
def expected(name: str) -> tuple[PrimFunc, list[list[np.ndarray]]]:
    """The unscheduled function and its outputs for each of the sizes."""
    func = CORPUS[name]()
    results = []
    for dims in SIZES[len(func.shape_vars)]:
        arguments, meaning = Arguments(func, dims), Arguments(func, dims)
        call_native(func, *arguments.arrays, dims=dims)
        run(func, *meaning.arrays)
        assert all(np.isfinite(a).all() for a in arguments.outputs())
        same(arguments.outputs(), meaning.outputs(), name)
        results.append(arguments.outputs())
    return func, results


def check_replay(func: PrimFunc, sch: Schedule) -> None:
    """The trace gives the same function again, from JSON and as Python."""
    from_json = Schedule(func, seed=1)
    Trace.from_json(json.dumps(sch.trace.as_json())).apply_to(from_json)
    assert_structural_equal(from_json.func, sch.func)
    assert str(from_json.trace) == str(sch.trace)
    namespace: dict[str, Callable[[Schedule], None]] = {}
    exec(str(sch.trace), namespace)  # type: ignore[arg-type]
    from_text = Schedule(func, seed=2)
    namespace["apply_trace"](from_text)
    assert_structural_equal(from_text.func, sch.func)


def check_schedule(name: str, seed: int, *, steps: int = 12, interpret: bool = True) -> bool:
    """Check one random schedule; False where it has no machine code (a register buffer whose
    indices are not constant, a vector of symbolic length)."""
    func, results = expected(name)
    sch = random_schedule(func, seed, steps)
    after = verify_func(sch.func)
    text = print_func(after)
    assert_structural_equal(parse_func(text), after)
    check_replay(func, sch)
    if interpret:
        for dims, outputs in zip(SIZES[len(func.shape_vars)], results, strict=True):
            arguments = Arguments(func, dims)
            run(after, *arguments.arrays)
            same(arguments.outputs(), outputs, f"interpreted, {dims}\n{text}")
    try:
        for dims, outputs in zip(SIZES[len(func.shape_vars)], results, strict=True):
            arguments = Arguments(func, dims)
            call_native(after, *arguments.arrays, dims=dims, threads=1 + seed % 3)
            same(arguments.outputs(), outputs, f"native, {dims}\n{text}")
    except CodegenError:
        return False
    return True


@pytest.mark.parametrize("name", CORPUS)
def test_random_schedules_keep_results_traces_and_text(name: str) -> None:
    built = [check_schedule(name, seed, interpret=seed == 0) for seed in range(3)]
    assert any(built)
