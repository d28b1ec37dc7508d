from __future__ import annotations

import json
from typing import Any

import pytest

from burnish.support.errors import ScheduleValueError
from burnish.support.structural import (
    assert_structural_equal,
    structural_equal,
    structural_hash,
)
from burnish.tensorir.schedule import Schedule, Trace
from burnish.tensorir.text.parser import parse_func
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


def test_values_are_lists_dicts_and_blocks() -> None:
    func = chain()
    sch = Schedule(func, seed=0)
    v = sch.sample_categorical([16, 64], [0.5, 0.5], decision=1)
    block = sch.get_block("C")
    note = {"steps": [1, [v, "x"]], "of": block, "inner": {"on": True, "most": float("inf")}}
    sch.annotate(sch.get_block("B"), "note", note)
    sch.annotate(block, "self", block)
    plain = {"steps": [1, [64, "x"]], "of": "C", "inner": {"on": True, "most": float("inf")}}
    assert sch.get(sch.get_block("B")).annotations == (("note", plain),)
    assert sch.get(block).annotations == (("self", "C"),)
    assert_structural_equal(parse_func(sch.func.script()), sch.func)
    other = Schedule(func, seed=0)
    other.annotate("B", "note", {**plain, "of": "B"})
    assert not structural_equal(other.func, sch.func)
    assert structural_hash(sch.func) != structural_hash(other.func)
    for trace in (
        sch.trace,
        Trace.from_json(json.dumps(sch.trace.as_json())),
        sch.trace.simplified(),
    ):
        again = Schedule(func, seed=0)
        trace.apply_to(again)
        assert_structural_equal(again.func, sch.func)
    names: dict[str, Any] = {}
    exec(str(sch.trace), names)
    again = Schedule(func, seed=0)
    names["apply_trace"](again)
    assert_structural_equal(again.func, sch.func)


@pytest.mark.parametrize("value", [{1: 2}, {"a": None}, [object()], {"a": [b"x"]}])
def test_values_that_have_no_text(value: object) -> None:
    sch = Schedule(chain(), seed=0)
    with pytest.raises(ScheduleValueError, match="Expected a string as key and a number"):
        sch.annotate("B", "note", value)
    assert len(sch.trace) == 0
