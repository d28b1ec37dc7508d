"""A wrong argument of any method is an error of burnish, never one of Python."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

from burnish.support.errors import BurnishError, ScheduleValueError
from burnish.tensorir.expr import Var
from burnish.tensorir.schedule import Schedule
from burnish.tensorir.schedule.arguments import (
    require_floats,
    require_int,
    require_ints,
    require_list,
    require_text,
)
from burnish.tensorir.schedule.entries import entries
from burnish.tests.tensorir.schedule.programs import linear_relu

WRONG: list[Any] = [None, -1, 2.5, "nothing", [1], {"a": 1}]
TAKE_SCHEDULES = ("become",)
METHODS = [e.name for e in entries() if e.name not in TAKE_SCHEDULES]


def right_arguments(sch: Schedule) -> dict[str, Any]:
    """A fair argument for each parameter that has no default."""
    loop = sch.get_loops("Y")[0]
    return {
        "block": "T", "loop": loop, "block_or_loop": "T", "scope_block": "root", "rv": loop,
        "loops_": loop, "ordered_loops": loop, "factors": [None, 2], "n": 2, "name": "Y",
        "read_buffer_index": 0, "write_buffer_index": 0, "buffer_index": 0, "buffer": ("write", 0),
        "storage_scope": "local", "dtype": "float64", "index_map": lambda *axes: axes,
        "padding": [1, 1],
        "candidates": [1, 2], "probs": [0.5, 0.5], "thread_axis": "blockIdx.x", "ann_key": "key",
        "func_name": "main",
    }  # fmt: skip


def parameters(method: str) -> list[inspect.Parameter]:
    found = inspect.signature(getattr(Schedule, method)).parameters.values()
    return [p for p in found if p.name != "self"]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("wrong", WRONG, ids=repr)
def test_a_wrong_argument_is_named(method: str, wrong: Any) -> None:
    for chosen in parameters(method):
        sch = Schedule(linear_relu(4, 4, 4), seed=0)
        right = right_arguments(sch)
        positional: list[Any] = []
        named: dict[str, Any] = {}
        for p in parameters(method):
            value = wrong if p.name == chosen.name else right.get(p.name, 0)
            if p.kind is p.VAR_POSITIONAL:
                positional.append(value)
            elif p.name == chosen.name or p.default is p.empty:
                named[p.name] = value
        before = sch.func
        try:
            getattr(sch, method)(*positional, **named)
        except BurnishError:
            assert sch.func is before, "a primitive that raises leaves the schedule as it was"


def test_ints() -> None:
    assert require_int(np.int32(4), "n", "p") == 4
    assert require_ints((1, np.int64(2)), "factors", "p") == [1, 2]
    for wrong in (True, 2.0, "2", Var("n")):
        with pytest.raises(ScheduleValueError, match="p: Expected an int as n; found "):
            require_int(wrong, "n", "p")
    with pytest.raises(ScheduleValueError, match=r"Expected an int as each of factors; found 0\.5"):
        require_ints([1, 0.5], "factors", "p")


def test_numbers_text_and_lists() -> None:
    assert require_floats([1, np.float32(0.5)], "probs", "p") == [1.0, 0.5]
    with pytest.raises(ScheduleValueError, match="Expected a number as each of probs; found 'x'"):
        require_floats(["x"], "probs", "p")
    assert require_text("a", "name", "p") == "a"
    with pytest.raises(
        ScheduleValueError, match="Expected a str as name; found something of type object"
    ):
        require_text(object(), "name", "p")
    assert require_list((1, "a"), "items", "p") == (1, "a")
    with pytest.raises(ScheduleValueError, match="Expected a list as items; found None"):
        require_list(None, "items", "p")
