"""Constant masks, and the loads of their runs."""

from __future__ import annotations

import numpy as np
import pytest

from burnish.support.target import Target
from burnish.tensorir.codegen.constant_mask import constant_lanes, run_of
from burnish.tensorir.expr import (
    BOOL,
    EQ,
    GE,
    LT,
    Add,
    And,
    Broadcast,
    Expr,
    FloorDiv,
    FloorMod,
    IntImm,
    Mul,
    Not,
    Ramp,
    Var,
)
from burnish.tensorir.text.parser import parse_func
from burnish.tests.assembly import kernel_lines, operations
from burnish.tests.native import call_native

LANES = Ramp(IntImm(0), IntImm(1), 8)
BELOW_4 = LT(LANES, Broadcast(IntImm(4), 8))


def by(n: int) -> Broadcast:
    return Broadcast(IntImm(n), 8)


def at_least(n: Expr) -> Expr:
    return GE(LANES, Broadcast(n, 8))


@pytest.mark.parametrize(
    ("mask", "lanes", "run"),
    [
        (at_least(IntImm(3)), [0, 0, 0, 1, 1, 1, 1, 1], (3, 8)),
        (And(at_least(IntImm(1)), BELOW_4), [0, 1, 1, 1, 0, 0, 0, 0], (1, 4)),
        (Not(at_least(IntImm(3))), [1, 1, 1, 0, 0, 0, 0, 0], (0, 3)),
        (And(Broadcast(IntImm(0, BOOL), 8), at_least(IntImm(1))), [0] * 8, None),
        (at_least(Var("n")), None, None),
        (EQ(FloorMod(LANES, by(3)), by(1)), [0, 1, 0, 0, 1, 0, 0, 1], None),
        (LT(FloorDiv(LANES, by(3)), by(1)), [1, 1, 1, 0, 0, 0, 0, 0], (0, 3)),
        (LT(Add(Mul(LANES, by(2)), by(1)), by(6)), [1, 1, 1, 0, 0, 0, 0, 0], (0, 3)),
        (EQ(FloorMod(LANES, by(0)), by(1)), None, None),
    ],
)
def test_lanes_and_runs(mask: Expr, lanes: list[int] | None, run: tuple[int, int] | None) -> None:
    assert constant_lanes(mask) == lanes
    assert (lanes and run_of(lanes)) == run


def test_lanes_with_a_gap_are_no_run() -> None:
    assert run_of([0, 1, 0, 1]) is None


@pytest.mark.parametrize("dtype", ["float16", "int8"])
@pytest.mark.parametrize("first", range(16))
def test_every_run_of_sixteen_lanes(dtype: str, first: int) -> None:
    """The array begins and ends where the run does, and lanes that are off are zeros."""
    for end in range(first + 1, 17):
        count = end - first
        text = f"""
@T.prim_func
def f(A: T.Buffer(({count},), "{dtype}"), B: T.Buffer((16,), "{dtype}")):
    T.func_attr({{"is_scheduled": True}})
    B[T.Ramp(0, 1, 16)] = A.vload([T.Ramp({-first}, 1, 16)],
        predicate=T.Ramp(0, 1, 16) >= T.Broadcast({first}, 16) and
            T.Ramp(0, 1, 16) < T.Broadcast({end}, 16))
"""
        x, found = np.arange(1, count + 1).astype(dtype), np.full(16, 9, dtype)
        call_native(parse_func(text), x, found)
        wanted = np.zeros(16, dtype)
        wanted[first:end] = x
        np.testing.assert_array_equal(found, wanted)


def test_a_run_of_halves_is_not_loaded_one_by_one() -> None:
    func = parse_func("""
@T.prim_func
def f(A: T.Buffer((64,), "float16"), B: T.Buffer((16,), "float16")):
    T.func_attr({"is_scheduled": True})
    B[T.Ramp(0, 1, 16)] = A.vload(
        [T.Ramp(7, 1, 16)], predicate=T.Ramp(0, 1, 16) >= T.Broadcast(1, 16))
""")
    for cpu in ("haswell", "znver3"):
        found = operations(kernel_lines(func, Target(f"llvm -mcpu={cpu}")))
        assert "vpinsrw" not in found, cpu


def test_lanes_in_turn_are_loaded_together_inside_of_the_buffer_alone() -> None:
    """At the buffer's end a vector would read beyond it, and lanes are read by themselves."""
    func = parse_func("""
@T.prim_func
def f(A: T.Buffer((15,), "float32"), B: T.Buffer((16,), "float32")):
    T.func_attr({"is_scheduled": True})
    for i in range(2):
        B[T.Ramp(i * 8, 1, 8)] = A.vload(
            [T.Ramp(i * 8, 1, 8) // T.Broadcast(2, 8) * T.Broadcast(2, 8)],
            predicate=T.Ramp(0, 1, 8) % T.Broadcast(2, 8) < T.Broadcast(1, 8))
""")
    x, found = np.arange(1, 16, dtype="float32"), np.full(16, 9, "float32")
    call_native(func, x, found)
    np.testing.assert_array_equal(found, np.where(np.arange(16) % 2, 0, np.arange(1, 17)))
