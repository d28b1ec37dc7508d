"""The example of every primitive does what its docstring says."""

from __future__ import annotations

import textwrap

import pytest

from burnish.support.errors import InternalError
from burnish.support.structural import assert_structural_equal
from burnish.tensorir.schedule import Schedule
from burnish.tensorir.schedule.entries import Entry, entries
from burnish.tensorir.schedule.queries import QueryMethods
from burnish.tensorir.text.parser import parse_func
from burnish.tuner.rules.registry import RULES

ENTRIES = {e.name: e for e in entries()}


@pytest.mark.parametrize("name", ENTRIES)
def test_a_primitive_is_documented(name: str) -> None:
    assert ENTRIES[name].meaning
    assert ENTRIES[name].example is not None


@pytest.mark.parametrize("name", [n for n, e in ENTRIES.items() if e.example])
def test_an_example_gives_what_it_shows(name: str) -> None:
    assert_example(ENTRIES[name])


def assert_example(entry: Entry) -> None:
    assert RULES, "apply_rule knows the rules that the tuner brings"
    assert entry.example is not None
    before, schedule, after = entry.example
    given = parse_func(textwrap.dedent(before))
    sch = Schedule(given, seed=0)
    exec(compile(schedule, f"<{entry.name}>", "exec"), {"sch": sch})
    if after is None:
        assert "assert " in schedule or "show" in schedule, "an example must say what comes of it"
        assert sch.func is given
        return
    expected = parse_func(textwrap.dedent(after))
    found = sch.func.without_attr("is_scheduled")
    print(found.script())
    assert_structural_equal(found, expected)


def test_entries_come_in_the_order_of_the_schedule_without_aliases() -> None:
    names = list(ENTRIES)
    assert names[:2] == ["get_block", "get_loops"]
    assert "fork" not in names
    assert ENTRIES["split"].signature == (
        "split(loop, factors, preserve_unit_iters=True, disable_predication=False)"
    )
    assert ENTRIES["get"].example is not None
    assert ENTRIES["get"].example[2] is None


def test_an_example_has_its_parts_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    def odd() -> None:
        """Something.

        After::

            x
        """

    odd.__name__ = "odd"
    monkeypatch.setattr(QueryMethods, "odd", odd, raising=False)
    with pytest.raises(InternalError, match=r"docstring of 'odd' has the parts \('After',\)"):
        entries()


def test_an_example_without_a_program_has_that_of_the_method_above() -> None:
    assert "Before::" not in (Schedule.vectorize.__doc__ or "")
    above, own = ENTRIES["parallel"].example, ENTRIES["vectorize"].example
    assert above is not None
    assert own is not None
    assert own[0] == above[0]


def test_the_first_example_of_a_class_has_a_program(monkeypatch: pytest.MonkeyPatch) -> None:
    class First:
        def odd(self) -> None:
            """Something.

            Schedule::

                pass
            """

    class Own(First):
        pass

    monkeypatch.setattr(f"{entries.__module__}.Schedule", Own)
    with pytest.raises(InternalError, match="Above the example of 'odd' there is no program"):
        entries()
