from __future__ import annotations

from burnish.tensorir.schedule import Schedule
from burnish.tensorir.schedule.trace.rows import ROWS, ArgumentKind, Row


def test_what_an_instruction_holds_of_its_arguments() -> None:
    kinds = {
        "loops": ArgumentKind(is_named=False),
        "guard": ArgumentKind(may_miss=True),
        "factors": ArgumentKind(),
        "flag": ArgumentKind(is_input=False),
    }
    row = Row("some", "Group", "rewrite", kinds, gives_list=False)
    given = {"loops": ("l0", "l1"), "guard": None, "factors": (2, None), "flag": True}
    inputs, attrs = row.recorded(given)
    assert inputs == [("", "l0"), ("", "l1"), ("factors", [2, None])]
    assert attrs == [("flag", True)]
    assert row.recorded({**given, "guard": "l2"})[0][2] == ("guard", "l2")


def test_every_row_is_a_method_of_a_schedule() -> None:
    assert [name for name in ROWS if not callable(getattr(Schedule, name, None))] == []
    assert {name for name, row in ROWS.items() if row.role == "sampling"} == {
        "sample_perfect_tile",
        "sample_partitioned_tile",
        "sample_categorical",
        "sample_compute_location",
    }
    assert ROWS["split"].gives_list
    assert not ROWS["fuse"].gives_list
