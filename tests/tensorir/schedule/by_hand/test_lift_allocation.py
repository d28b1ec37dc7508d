from __future__ import annotations

import json

import pytest

from burnish.support.errors import (
    DependenceError,
    LoopKindError,
    NotAncestorError,
    ScheduleValueError,
)
from burnish.tensorir.lowering.compact_buffers import compact_buffers
from burnish.tensorir.lowering.lower_blocks import lower_blocks
from burnish.tensorir.lowering.simplify_loops import simplify_loops
from burnish.tensorir.schedule import Schedule
from burnish.tensorir.schedule.trace.trace import Trace
from burnish.tensorir.text.parser import parse_func
from burnish.tensorir.text.printer import print_func
from burnish.tests.tensorir.schedule.programs import assert_same, body, chain


def nested() -> Schedule:
    """Rows of a producer and a consumer under one loop."""
    sch = Schedule(chain(8, 6), seed=0)
    sch.merge(*[sch.get_loops(name)[0] for name in ("B", "C")])
    return sch


def compacted(sch: Schedule) -> str:
    return print_func(compact_buffers(simplify_loops(lower_blocks(sch.func))))


def test_a_lifted_buffer_is_allocated_around_the_loop() -> None:
    sch = nested()
    text = compacted(sch)
    assert "T.allocate([1, 6]" in text
    assert text.index("for i_m") < text.index("T.allocate")
    sch.lift_allocation("B", 0, sch.get_loops("B")[0])
    text = compacted(sch)
    assert "T.allocate([8, 6]" in text
    assert text.index("T.allocate") < text.index("for i_m")
    assert_same(chain(8, 6), sch.func)


def test_to_a_loop_between() -> None:
    sch = Schedule(chain(8, 6), seed=0)
    outer = []
    for name in ("B", "C"):
        i, _ = sch.get_loops(name)
        i0, i1 = sch.split(i, [None, 4])
        outer.append(i1)
        assert i0 is not None
    inner = sch.merge(*outer)
    sch.lift_allocation("B", "B", inner)
    assert "T.allocate([4, 6]" in compacted(sch)
    sch.lift_allocation("B", 0)
    assert "T.allocate([8, 6]" in compacted(sch), "without a loop, around the outermost"
    before = sch.func
    sch.lift_allocation("B")
    assert sch.func is before
    assert_same(chain(8, 6), sch.func)


def test_traces_replay() -> None:
    sch = nested()
    sch.lift_allocation("B", 0, sch.get_loops("B")[0])
    sch.lift_allocation("B", 0)
    for trace in (sch.trace, Trace.from_json(json.dumps(sch.trace.as_json()))):
        again = Schedule(chain(8, 6), seed=1)
        trace.apply_to(again)
        assert body(again.func) == body(sch.func)
    other = Schedule(chain(8, 6), seed=2)
    exec(sch.trace.as_python(), {"sch": other})
    assert body(other.func) == body(sch.func)


def test_a_lifted_buffer_belongs_to_no_thread() -> None:
    sch = nested()
    rows = sch.get_loops("B")[0]
    sch.lift_allocation("B", 0, rows)
    sch.parallel(rows)  # each iteration has a row of its own
    assert_same(chain(8, 6), sch.func)
    other = nested()
    other.parallel(other.get_loops("B")[0])
    with pytest.raises(LoopKindError, match="of the parallel loop 'i_m' would share 'B'"):
        other.lift_allocation("B", 0, other.get_loops("B")[0])


def test_what_threads_would_share_is_not_private() -> None:
    sch = parse_scratch()
    sch.parallel(sch.get_loops("B")[0])  # each iteration has a row of scratch of its own
    sch = parse_scratch()
    rows = sch.get_loops("B")[0]
    sch.lift_allocation("B", 0, rows)
    with pytest.raises(DependenceError, match="may write the same elements through the block 'B'"):
        sch.parallel(rows)


def parse_scratch() -> Schedule:
    return Schedule(parse_func(SCRATCH), seed=0)


SCRATCH = """
@T.prim_func
def main(A: T.Buffer((8, 6), "float32"), C: T.Buffer((8, 6), "float32")):
    B = T.alloc_buffer((6,))
    for i in range(8):
        for j in range(6):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vj] = A[vi, vj] * T.float32(2)
        for j in range(6):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B[vj]
"""


def test_refusals() -> None:
    sch = nested()
    rows = sch.get_loops("B")[0]
    with pytest.raises(ScheduleValueError, match="'C' is a parameter"):
        sch.lift_allocation("C", 0, rows)
    with pytest.raises(NotAncestorError, match="does not stand around the block 'B'"):
        sch.lift_allocation("B", 0, sch.get_loops("C")[1])
    sch.set_scope("B", 0, "register")
    with pytest.raises(ScheduleValueError, match="'B' is in registers"):
        sch.lift_allocation("B", 0, rows)
