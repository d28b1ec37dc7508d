"""Laws of every schedule, on a few random ones: results, form, text and traces are kept.

The laws are in ``tests/fuzz/check.py``; ``make fuzz-schedules`` tries many more sequences. Here the
results are also compared with those of the interpreter, which knows nothing of the compiler.
"""

from __future__ import annotations

import pytest

from burnish.tensorir.schedule.trace.rows import ROWS
from burnish.tests.fuzz.check import SIZES, Arguments, check_schedule, expected, same
from burnish.tests.fuzz.worker import random_run, steps_of
from burnish.tests.strategies.schedules import PRIMITIVES, PROGRAMS
from burnish.tests.tensorir.interpreter import run

SEEDS = range(2)
UNTRIED = {"enter_postproc": "it only marks a place in the trace"}
"""Primitives that the generator leaves out, and why."""


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_programs_mean_what_they_compute(name: str) -> None:
    func, results = expected(name)
    for dims, outputs in zip(SIZES[len(func.shape_vars)], results, strict=True):
        arguments = Arguments(func, dims)
        run(func, *arguments.arrays)
        same(arguments.outputs(), outputs, f"interpreted, {dims}")


@pytest.mark.parametrize("name", PROGRAMS)
def test_random_schedules_keep_results_traces_and_text(name: str) -> None:
    """The variant 4 * seed + 1 makes code quickly; the one of the first is as users get it."""
    for seed in SEEDS:
        check_schedule(name, random_run(name, seed).run(steps_of(name, seed)), seed)


@pytest.mark.parametrize("name", ["matmul", "symbolic_softmax", "nested_blocks", "predicated"])
def test_the_interpreter_agrees(name: str) -> None:
    func, results = expected(name)
    sch = random_run(name, 7).run(8)
    for dims, outputs in zip(SIZES[len(func.shape_vars)], results, strict=True):
        arguments = Arguments(func, dims)
        run(sch.func, *arguments.arrays)
        same(arguments.outputs(), outputs, f"interpreted, {dims}\n{sch.func.script()}")


def test_a_sequence_is_that_of_its_seed() -> None:
    first, second = [random_run("linear_relu", 11).run(12).trace for _ in range(2)]
    assert str(first) == str(second)


def test_every_primitive_is_drawn_or_left_out_for_a_reason() -> None:
    assert PRIMITIVES.keys() | UNTRIED.keys() == {
        r.name for r in ROWS.values() if r.role == "rewrite"
    }
    assert not PRIMITIVES.keys() & UNTRIED.keys()
