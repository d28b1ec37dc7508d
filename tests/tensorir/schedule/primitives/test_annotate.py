from __future__ import annotations

import pytest

from burnish.support.errors import ScheduleValueError
from burnish.tensorir.schedule import Schedule
from burnish.tests.tensorir.schedule.programs import body, chain


def test_annotations() -> None:
    sch = Schedule(chain(), seed=0)
    i, _ = sch.get_loops("B")
    sch.annotate(i, "pragma_auto_unroll_max_step", 64)
    sch.annotate("C", "tiling", "SS")
    v = sch.sample_categorical([16, 64], [0.5, 0.5], decision=1)
    sch.annotate("root", "unroll", v)
    text = body(sch.func)
    assert 'annotations={"pragma_auto_unroll_max_step": 64}' in text
    assert 'T.block_attr({"tiling": "SS"})' in text
    assert sch.get(sch.get_block("root")).annotations == (("unroll", 64),)
    sch.unannotate("C", "tiling")
    assert "tiling" not in body(sch.func)
    with pytest.raises(ScheduleValueError, match="There is no annotation 'tiling'; found none"):
        sch.unannotate("C", "tiling")


@pytest.mark.parametrize(
    ("key", "writer"),
    [("rolling_buffer", "rolling_buffer"), ("lift_allocation", "lift_allocation")],
)
def test_annotations_that_results_depend_on_are_no_notes(key: str, writer: str) -> None:
    sch = Schedule(chain(), seed=0)
    message = f"results depend on it, and only the primitive {writer} writes it"
    with pytest.raises(ScheduleValueError, match=message):
        sch.annotate("C", key, True)
    if key == "lift_allocation":
        sch.compute_at("B", sch.get_loops("C")[1])
        i = sch.get_loops("C")[0]
        sch.lift_allocation("B", 0, i)
        with pytest.raises(ScheduleValueError, match=message):
            sch.unannotate(i, key)
