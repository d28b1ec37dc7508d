from __future__ import annotations

from burnish.tensorir.schedule import Schedule
from burnish.tests.tensorir.schedule.programs import matmul


def test_what_follows_is_left_out_on_demand() -> None:
    sch = Schedule(matmul(), seed=0)
    (i, *_) = sch.get_loops("C")
    sch.enter_postproc()
    sch.parallel(i)
    assert [inst.kind for inst in sch.trace] == [
        "get_block",
        "get_loops",
        "enter_postproc",
        "parallel",
    ]
    again = Schedule(matmul(), seed=0)
    sch.trace.apply_to(again, remove_postproc=True)
    assert again.get(again.get_loops("C")[0]).kind == "serial"
