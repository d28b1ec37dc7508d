from __future__ import annotations

import pytest

from burnish.support.errors import ScheduleValueError
from burnish.tensorir.schedule import Schedule
from burnish.tests.tensorir.schedule.programs import assert_same, body, chain


def test_add_unit_loop() -> None:
    func = chain(4, 4)
    sch = Schedule(func, seed=0)
    u = sch.add_unit_loop(sch.get_loops("B")[1])
    sch.add_unit_loop("C")
    assert sch.get(u).var.name == "u"
    assert "for i, u, j in T.grid(4, 1, 4):" in body(sch.func)
    assert_same(func, sch.func)


def test_no_loop_goes_around_the_root() -> None:
    with pytest.raises(ScheduleValueError, match="add_unit_loop: The block 'root' is the root of"):
        Schedule(chain(), seed=0).add_unit_loop("root")
