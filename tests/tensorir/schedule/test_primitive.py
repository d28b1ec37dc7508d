from __future__ import annotations

from typing import Any

import pytest

from burnish.support.errors import InternalError, ScheduleValueError
from burnish.tensorir.schedule import LoopRV, Schedule
from burnish.tensorir.schedule.primitive import ATTR, BLOCK, LOOP, LOOPS, primitive
from burnish.tensorir.schedule.state import ScheduleState
from burnish.tensorir.schedule.trace.rows import ROWS
from burnish.tests.tensorir.schedule.programs import matmul


class Toy(ScheduleState):
    def twice(self, loop: LoopRV, block: Any, note: Any = 1, decision: Any = None) -> list[Any]:
        """Gives the arguments as they arrive."""
        self._note(decision=7)
        return [loop, block]


def test_a_row_resolves_and_records(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("burnish.tensorir.schedule.primitive.ROWS", {})
    twice = primitive(LOOPS, loop=LOOP, block=BLOCK, note=ATTR)(Toy.twice)
    sch = Schedule(matmul(), seed=0)
    (loop, *_) = sch.get_loops("C")
    same, handle = twice(sch, loop, "C", note=(1, 2))
    assert same is loop
    assert handle.name == "C"
    with pytest.raises(ScheduleValueError, match="twice: Expected a loop"):
        twice(sch, "C", "C")
    with pytest.raises(TypeError, match=r"twice\(\) missing 1 required positional argument"):
        twice(sch, loop)
    (inst,) = [i for i in sch._instructions or () if getattr(i, "kind", "") == "twice"]
    assert inst.inputs == (("loop", loop), ("block", handle))
    assert inst.attrs == (("note", [1, 2]),)
    assert (inst.decision, inst.outputs) == (7, (loop, handle))


def test_a_row_that_is_not_its_methods_is_a_defect() -> None:
    with pytest.raises(InternalError, match=r"row of 'twice' has the arguments \['loop'\]"):
        primitive(LOOPS, loop=LOOP)(Toy.twice)
    assert "twice" not in ROWS
