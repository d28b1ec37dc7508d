from __future__ import annotations

import json

import numpy as np
import pytest

from burnish.support.errors import (
    DependenceError,
    LoopKindError,
    NotAncestorError,
    ScheduleError,
)
from burnish.tensorir.lowering.compact_buffers import compact_buffers
from burnish.tensorir.lowering.lower_blocks import lower_blocks
from burnish.tensorir.lowering.simplify_loops import simplify_loops
from burnish.tensorir.schedule import BlockRV, LoopRV, Schedule
from burnish.tensorir.schedule.trace.trace import Trace
from burnish.tensorir.text.parser import parse_func
from burnish.tensorir.text.printer import print_func
from burnish.tests.native import call_native
from burnish.tests.tensorir.schedule.programs import assert_same, body, linear_relu, matmul


def staged(order: str, *, at: str, guard: str) -> tuple[Schedule, BlockRV]:
    """A product with its loops in an order of ``n`` (panels of columns) and ``m`` (rows), whose
    panels are copied under ``at`` in the first iteration of ``guard``."""
    sch = Schedule(matmul(12, 20, 7), seed=0)
    copy = sch.cache_read("C", 1, "global")
    sch.stage_memory(copy, _loops(sch, order)[at], _loops(sch, order)[guard])
    return sch, copy


def _loops(sch: Schedule, order: str) -> dict[str, LoopRV]:
    loops = sch.get_loops("C")
    if len(loops) == 3:
        i, j, k = loops
        m, i1 = sch.split(i, [None, 4])
        n, j1 = sch.split(j, [None, 5])
        by_name = {"m": m, "n": n}
        sch.reorder(*[by_name[c] for c in order], k, i1, j1)
        loops = sch.get_loops("C")
    return dict(zip(order, loops, strict=False))


def check(sch: Schedule) -> None:
    """Interpreted and as machine code, the schedule computes the product."""
    assert_same(matmul(12, 20, 7), sch.func)
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((12, 7), "float32"), rng.standard_normal((7, 20), "float32")
    c = np.full((12, 20), np.nan, "float32")
    call_native(sch.func, a, b, c)
    np.testing.assert_allclose(c, a @ b, rtol=1e-4, atol=1e-5)


def compacted(sch: Schedule) -> str:
    return print_func(compact_buffers(simplify_loops(lower_blocks(sch.func))))


def test_one_panel_serves_all_rows() -> None:
    sch, _ = staged("nm", at="m", guard="m")
    text = body(sch.func)
    assert 'for i_0 in T.serial(3, annotations={"lift_allocation": ["B_global"]}):' in text
    assert "T.where(i_0 == 0)" in text
    check(sch)
    lines = compacted(sch).splitlines()
    rows = next(i for i, line in enumerate(lines) if "for i_0 in" in line)
    place = next(i for i, line in enumerate(lines) if "T.allocate([7, 5]" in line)
    assert place < rows, "the panel lives around the rows, and is no larger than one"


def test_all_panels_are_filled_in_the_first_rows() -> None:
    sch, _ = staged("mn", at="n", guard="m")
    check(sch)
    text = compacted(sch)
    assert "T.allocate([7, 20]" in text
    assert text.index("T.allocate") < text.index("for i_0 in")


def test_a_place_that_is_right_already_only_gets_the_guard() -> None:
    sch = Schedule(matmul(12, 20, 7), seed=0)
    copy = sch.cache_read("C", 1, "global")
    loops = _loops(sch, "mn")
    sch.compute_at(copy, loops["n"])
    again = sch.copy()
    sch.stage_memory(copy, loops["n"], loops["m"])
    again.stage_memory(copy, loops["m"], loops["m"])
    assert body(sch.func) == body(again.func)
    check(sch)


def test_without_a_guard_it_is_the_loop_itself() -> None:
    sch = Schedule(matmul(12, 20, 7), seed=0)
    copy = sch.cache_read("C", 1, "global")
    sch.stage_memory(copy, _loops(sch, "nm")["m"])
    assert body(sch.func) == body(staged("nm", at="m", guard="m")[0].func)


def test_the_loops_outside_may_run_at_once_and_the_guard_may_not() -> None:
    sch, _ = staged("nm", at="m", guard="m")
    n, m = sch.get_loops("C")[:2]
    with pytest.raises(DependenceError):
        sch.parallel(m)
    sch.parallel(n)
    check(sch)


def test_panels_inside_the_guard_do_not_run_at_once() -> None:
    sch, _ = staged("mn", at="n", guard="m")
    with pytest.raises(DependenceError, match="reads what another block writes in a different"):
        sch.parallel(sch.get_loops("C")[1])


def test_two_guards() -> None:
    sch = Schedule(matmul(12, 20, 7), seed=0)
    copy = sch.cache_read("C", 1, "global")
    loops = _loops(sch, "mn")
    outer, inner = sch.split(loops["m"], [None, 1])
    sch.stage_memory(copy, loops["n"], inner)
    sch.stage_memory(copy, loops["n"], outer)
    assert "T.where(i_0_1 == 0 and i_0_0 == 0)" in body(sch.func)
    check(sch)


def test_a_staged_reduction() -> None:
    func = linear_relu(6, 8, 5)
    sch = Schedule(func, seed=0)
    sch.compute_inline("T")
    i, j = sch.get_loops("Z")
    unit = sch.add_unit_loop(i)
    repeated, _ = sch.split(unit, [1, None])
    sch.stage_memory("Y", j, repeated)
    assert_same(func, sch.func)


def test_traces_replay() -> None:
    sch, _ = staged("mn", at="n", guard="m")
    text = body(sch.func)
    for trace in (sch.trace, Trace.from_json(json.dumps(sch.trace.as_json()))):
        again = Schedule(matmul(12, 20, 7), seed=1)
        trace.apply_to(again)
        assert body(again.func) == text
    other = Schedule(matmul(12, 20, 7), seed=2)
    exec(sch.trace.as_python(), {"sch": other})
    assert body(other.func) == text


# -- refusals --------------------------------------------------------------------------------------
def test_a_region_that_depends_on_the_guard() -> None:
    sch = Schedule(matmul(12, 20, 7), seed=0)
    copy = sch.cache_read("C", 1, "global")
    loops = _loops(sch, "nm")
    before = sch.func
    with pytest.raises(
        DependenceError,
        match=r"In one iteration of 'j_0' the block 'B_global' computes "
        r"B_global\[0:7, j_0 \* 5:.*\], which depends on 'j_0': each iteration needs its own",
    ):
        sch.stage_memory(copy, loops["m"], loops["n"])
    assert sch.func is before


def test_a_guard_that_is_not_serial_or_not_around() -> None:
    sch = Schedule(matmul(12, 20, 7), seed=0)
    copy = sch.cache_read("C", 1, "global")
    loops = _loops(sch, "nm")
    k = sch.get_loops("C")[2]
    with pytest.raises(NotAncestorError, match="does not stand around the block 'B_global'"):
        sch.stage_memory(copy, loops["m"], k)
    sch.parallel(loops["m"])
    with pytest.raises(LoopKindError, match="first iteration comes first; 'i_0' is parallel"):
        sch.stage_memory(copy, loops["m"])


REWRITTEN = """
@T.prim_func
def main(A: T.Buffer((4,), "float32"), X: T.Buffer((4,), "float32"),
         Y: T.Buffer((3, 4), "float32")):
    P = T.alloc_buffer((4,))
    for j in range(4):
        with T.block("start"):
            vj = T.axis.spatial(4, j)
            X[vj] = A[vj]
    for i in range(3):
        for j in range(4):
            with T.block("P"):
                vj = T.axis.spatial(4, j)
                P[vj] = X[vj] * T.float32(2)
        for j in range(4):
            with T.block("Y"):
                vi, vj = T.axis.remap("SS", [i, j])
                Y[vi, vj] = P[vj]
        for j in range(4):
            with T.block("change"):
                vj = T.axis.spatial(4, j)
                X[vj] = P[vj] + T.float32(1)
"""


def test_inputs_that_change_from_iteration_to_iteration() -> None:
    sch = Schedule(parse_func(REWRITTEN), seed=0)
    i = sch.get_loops("P")[0]
    with pytest.raises(
        DependenceError, match=r"'change' writes X\[.*\] under the loop 'i', which 'P' reads"
    ):
        sch.stage_memory("P", i)
    assert not any(inst.kind == "stage_memory" for inst in sch.trace)


def test_two_writers() -> None:
    text = REWRITTEN.replace("X[vj] = P[vj] + T.float32(1)", "P[vj] = T.float32(0)")
    sch = Schedule(parse_func(text), seed=0)
    with pytest.raises(DependenceError, match="'change' writes 'P' too"):
        sch.stage_memory("P", sch.get_loops("P")[0])


def test_a_part_of_a_sum() -> None:
    sch = Schedule(matmul(4, 4, 6), seed=0)
    copy = sch.cache_write("C", 0, "global")
    i, j, k = sch.get_loops("C")
    assert copy is not None
    sch.reorder(k, i, j)
    unit = sch.add_unit_loop(i)
    with pytest.raises(
        ScheduleError, match="One iteration of 'u' computes only a part of the sums"
    ):
        sch.stage_memory("C", unit)


ROLLED = """
@T.prim_func
def main(A: T.Buffer((10,), "float32"), C: T.Buffer((3, 8), "float32")):
    B = T.alloc_buffer((10,))
    for i in range(10):
        with T.block("B"):
            vi = T.axis.spatial(10, i)
            B[vi] = A[vi] * T.float32(2)
    for o, i in T.grid(3, 8):
        with T.block("C"):
            vo, vi = T.axis.remap("SS", [o, i])
            C[vo, vi] = B[vi] + B[vi + 2]
"""


def test_a_circular_buffer_is_not_there_in_later_iterations() -> None:
    sch = Schedule(parse_func(ROLLED), seed=0)
    o, i = sch.get_loops("C")
    sch.compute_at("B", i)
    sch.rolling_buffer("B", 0)
    with pytest.raises(DependenceError, match="uses the circular buffer 'B'"):
        sch.stage_memory("B", o, o)
