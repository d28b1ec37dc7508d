from __future__ import annotations

import pytest

from burnish.support.errors import DependenceError, NotAncestorError, ScheduleValueError
from burnish.tensorir.schedule import Schedule
from burnish.tests.tensorir.schedule.programs import assert_same, blur, body, chain, linear_relu


def test_tiles_of_a_producer_and_a_consumer() -> None:
    func = linear_relu(4, 8, 3)
    sch = Schedule(func, seed=0)
    sch.compute_inline("T")
    merged = []
    for block in ("Y", "Z"):
        i, j, *k = sch.get_loops(block)
        i0, i1 = sch.split(i, [None, 2])
        j0, j1 = sch.split(j, [None, 4])
        sch.reorder(i0, j0, *k, i1, j1)
        merged.append(j0)
    loop = sch.merge(*merged)
    assert sch.get(loop).var.name == "j_0_m"
    text = body(sch.func)
    assert "for i_0_m, j_0_m in T.grid(2, 2):\n    for k, i_1, j_1 in T.grid(3, 2, 4):" in text
    assert "v_j = T.axis.spatial(8, j_0_m * 4 + j_1)" in text
    assert_same(func, sch.func)
    other = Schedule(func, seed=1)
    sch.trace.apply_to(other)
    assert body(other.func) == text


def test_a_window_crosses_iterations() -> None:
    sch = Schedule(blur(16), seed=0)
    b, c = sch.get_loops("B")[0], sch.get_loops("C")[0]
    with pytest.raises(
        ScheduleValueError, match="'i' and 'i' do not provably have the same extent"
    ):
        sch.merge(b, c)
    part, _ = sch.loop_partition(b, [16, None])
    with pytest.raises(NotAncestorError, match="do not follow one another directly"):
        sch.merge(part, c)


def test_a_partial_sum_is_not_read() -> None:
    sch = Schedule(linear_relu(4, 4, 4), seed=0)
    i, j, k = sch.get_loops("Y")
    sch.reorder(k, i, j)
    with pytest.raises(DependenceError, match="one iteration of the reduce loop 'k_m' does not"):
        sch.merge(k, sch.get_loops("T")[0])


def test_other_iterations_are_not_read() -> None:
    sch = Schedule(chain(4, 4), seed=0)
    j = sch.get_loops("C")[1]
    i = sch.get_loops("C")[0]
    sch.reorder(j, i)
    with pytest.raises(DependenceError, match="'C' reads what the other nest writes in another"):
        sch.merge(sch.get_loops("B")[0], j)


def test_shapes_of_nests() -> None:
    sch = Schedule(chain(4, 4), seed=0)
    with pytest.raises(ScheduleValueError, match="at least two loops"):
        sch.merge(sch.get_loops("B")[0])
    with pytest.raises(ScheduleValueError, match="different depths"):
        sch.merge(sch.get_loops("B")[0], sch.get_loops("C")[1])
    with pytest.raises(NotAncestorError, match="different statements of one sequence"):
        sch.merge(*sch.get_loops("B"))
