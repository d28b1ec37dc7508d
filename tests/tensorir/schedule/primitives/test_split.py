from __future__ import annotations

import pytest

from burnish.support.errors import LoopKindError, LoopNotFoundError, ScheduleValueError
from burnish.tensorir.expr import Var
from burnish.tensorir.schedule import Schedule
from burnish.tests.tensorir.schedule.programs import assert_same, blur, body, chain, matmul, program


def test_split_infers_a_factor() -> None:
    func = chain(8, 12)
    sch = Schedule(func, seed=0)
    i, j = sch.get_loops("B")
    j0, j1, j2 = sch.split(j, [2, None, 3])
    assert [sch.get(x).var.name for x in (i, j0, j1, j2)] == ["i", "j_0", "j_1", "j_2"]
    assert body(sch.func).splitlines()[1:5] == [
        "for i, j_0, j_1, j_2 in T.grid(8, 2, 2, 3):",
        '    with T.block("B"):',
        "        v_i = T.axis.spatial(8, i)",
        "        v_j = T.axis.spatial(12, j_0 * 6 + j_1 * 3 + j_2)",
    ]
    assert_same(func, sch.func)


def test_split_that_does_not_divide_adds_a_predicate() -> None:
    func = chain(8, 10)
    sch = Schedule(func, seed=0)
    _, j = sch.get_loops("B")
    sch.split(j, [None, 4])
    assert "T.where(j_0 * 4 + j_1 < 10)" in body(sch.func)
    assert_same(func, sch.func)


def test_split_without_predication_is_on_the_user() -> None:
    sch = Schedule(chain(8, 10), seed=0)
    sch.split(sch.get_loops("B")[1], [None, 4], disable_predication=True)
    assert "T.where" not in body(sch.func)


@pytest.mark.parametrize("size", [0, 1, 5, 8])
def test_split_of_a_symbolic_loop(size: int) -> None:
    func = chain(Var("m"), 3)
    sch = Schedule(func, seed=0)
    i0, _ = sch.split(sch.get_loops("C")[0], [None, 4])
    assert "for i_0, i_1, j in T.grid((m + 3) // 4, 4, 3):" in body(sch.func)
    assert "T.where(i_0 * 4 + i_1 < m)" in body(sch.func)
    sch.split(i0, [None, 2])
    assert_same(func, sch.func, size)


def test_splitting_twice_and_fusing_back_simplifies() -> None:
    func = matmul(16, 8, 4)
    sch = Schedule(func, seed=0)
    i, j, _ = sch.get_loops("C")
    i0, i1 = sch.split(i, [4, 4])
    i2, i3 = sch.split(i1, [2, 2])
    again = sch.fuse(i0, i2, i3)
    assert sch.get(again).var.name == "i_0_i_1_0_i_1_1_fused"
    sch.fuse(again, j)
    text = body(sch.func)
    assert "v_i = T.axis.spatial(16, i_0_i_1_0_i_1_1_fused_j_fused // 8)" in text
    assert "v_j = T.axis.spatial(8, i_0_i_1_0_i_1_1_fused_j_fused % 8)" in text
    assert_same(func, sch.func)


def test_unit_loops_stay_in_bindings_unless_asked() -> None:
    func = chain(4, 4)
    sch = Schedule(func, seed=0)
    sch.split(sch.get_loops("B")[0], [4, 1])
    assert "T.axis.spatial(4, i_0 + i_1)" in body(sch.func)
    sch.split(sch.get_loops("C")[0], [4, 1], preserve_unit_iters=False)
    assert 'v_i, v_j = T.axis.remap("SS", [i_0, j])' in body(sch.func)
    assert_same(func, sch.func)


def test_split_refusals_leave_the_schedule() -> None:
    sch = Schedule(chain(8, 12), seed=0)
    _, j = sch.get_loops("B")
    before, steps = sch.func, len(sch.trace)
    for factors, message in [
        ([None, None], "At most one factor may be None"),
        ([3, 3], r"factors \[3, 3\] is 9, less than 12, the extent of the loop 'j'; use None"),
        ([], "at least one factor"),
        ([0, None], "Factors must be positive"),
        ([2**62, 2], r"The product of the factors \[4611686018427387904, 2\] is no int64"),
    ]:
        with pytest.raises(ScheduleValueError, match=message):
            sch.split(j, factors)
    assert sch.func is before
    assert len(sch.trace) == steps


def test_a_split_loop_is_gone() -> None:
    sch = Schedule(chain(8, 12), seed=0)
    _, j = sch.get_loops("B")
    sch.split(j, [None, 4])
    with pytest.raises(LoopNotFoundError, match="The loop over 'j' is no longer in 'main'"):
        sch.split(j, [None, 4])


def test_loops_that_are_not_serial_are_not_split() -> None:
    sch = Schedule(chain(8, 12), seed=0)
    i, j = sch.get_loops("B")
    sch.parallel(i)
    with pytest.raises(LoopKindError, match=r"split: Expected a serial loop; 'i' is parallel"):
        sch.split(i, [None, 4])
    sch.annotate(j, "pragma", 1)
    with pytest.raises(LoopKindError, match="without annotations; 'j' has 'pragma'"):
        sch.fuse(j)


def test_blur_splits() -> None:
    func = blur(16)
    sch = Schedule(func, seed=0)
    sch.split(sch.get_loops("C")[0], [None, 5])
    assert_same(func, sch.func)


def test_a_split_loop_is_plain_and_begins_at_0() -> None:
    sch = Schedule(chain(), seed=0)
    i, j = sch.get_loops("B")
    sch.unroll(i)
    sch.annotate(j, "note", 1)
    with pytest.raises(LoopKindError, match="'i' is unrolled\\. Do this before"):
        sch.split(i, [2, None])
    with pytest.raises(LoopKindError, match="'j' has 'note', which would be lost"):
        sch.split(j, [2, None])
    func = program(
        """
for i in range(2, 6):
    with T.block("C"):
        vi = T.axis.spatial(8, i)
        C[vi] = A[vi]
""",
        A="(8,)",
        C="(8,)",
    )
    sch = Schedule(func, seed=0)
    with pytest.raises(LoopKindError, match="Expected a loop that begins at 0; 'i' does not"):
        sch.split(sch.get_loops("C")[0], [2, None])
