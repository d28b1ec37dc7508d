from __future__ import annotations

import pytest

from burnish.support.errors import DependenceError, NotCompleteBlockError
from burnish.tensorir.analysis.paths import find_block, realize_of
from burnish.tensorir.analysis.whole_runs import (
    is_unconditional,
    require_reads_all,
    require_unconditional,
    runs_over,
)
from burnish.tensorir.schedule import Schedule
from burnish.tests.tensorir.schedule.programs import chain, program

PART = """
for i in range(8):
    with T.block("B"):
        vi = T.axis.spatial(8, i)
        T.where(i < 6)
        B[vi] = A[vi] + T.float32(1)
"""
WHOLE = PART.replace("        T.where(i < 6)\n", "")


def test_a_predicate_of_split_leaves_nothing_out() -> None:
    sch = Schedule(chain(8, 6), seed=0)
    sch.split(sch.get_loops("B")[0], [None, 3])
    path = find_block(sch.func, "B", "test")
    assert is_unconditional(path)
    require_unconditional(sch.func, path, "test")
    part = program(PART, A="(8,)", B="(8,)")
    path = find_block(part, "B", "test")
    assert not is_unconditional(path)
    with pytest.raises(NotCompleteBlockError, match="'B' runs under a condition"):
        require_unconditional(part, path, "test")


def test_axes_that_take_every_index() -> None:
    func = program(WHOLE, A="(8,)", B="(10,)")
    path = find_block(func, "B", "test")
    block = realize_of(path).block
    axes = [block.iter_vars[0].var]
    a, b = block.reads[0].buffer, block.writes[0].buffer
    assert runs_over(path, axes, a)
    assert not runs_over(path, [None], a)
    require_reads_all(func, path, axes, a, "test")
    with pytest.raises(DependenceError, match="'B' does not read all of 'B'"):
        require_reads_all(func, path, axes, b, "test")


def test_loops_that_stop_before_the_end_of_the_axes() -> None:
    for loop, whole in (("range(8)", True), ("range(2)", False)):
        func = program(WHOLE.replace("range(8)", loop), A="(8,)", B="(8,)")
        path = find_block(func, "B", "test")
        block = realize_of(path).block
        axes = [block.iter_vars[0].var]
        assert runs_over(path, axes, block.reads[0].buffer) is whole
