from __future__ import annotations

import pytest

from burnish.support.errors import ScheduleValueError
from burnish.tensorir.schedule import Schedule
from burnish.tests.tensorir.schedule.programs import assert_same, blur, body


@pytest.mark.parametrize(
    ("decision", "expected"),
    [(-2, "C[v_i] = A["), (-1, "for i in range(18)"), (0, "for ax0 in range(3)")],
)
def test_compute_locations(decision: int, expected: str) -> None:
    func = blur(16)
    sch = Schedule(func, seed=0)
    b = sch.get_block("B")
    sch.compute_at(b, sch.sample_compute_location(b, decision=decision))
    assert expected in body(sch.func)
    assert sch.trace.decisions == {1: decision}
    assert_same(func, sch.func)
    other = Schedule(func, seed=3)
    sch.trace.apply_to(other)
    assert body(other.func) == body(sch.func)


def test_an_output_stays_where_it_is() -> None:
    sch = Schedule(blur(16), seed=0)
    with pytest.raises(
        ScheduleValueError, match=r"cannot be computed at place 0; legal are \[-1\]"
    ):
        sch.sample_compute_location("C", decision=0)
