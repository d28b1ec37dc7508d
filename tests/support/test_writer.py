"""The indenting writer and the table of names."""

from __future__ import annotations

import keyword

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from burnish.support.writer import NameTable, Writer, identifier
from burnish.tensorir.expr import Var


def test_blocks_indent_and_empty_ones_pass() -> None:
    w = Writer()
    with w.block("def f():"):
        w.line("x = 1")
        w.line()
        with w.block("for i in x:"):
            pass
        w.line("y = [\n    2,\n]")
    assert w.text() == (
        "def f():\n    x = 1\n\n    for i in x:\n        pass\n    y = [\n        2,\n    ]\n"
    )


def test_the_depth_is_restored_after_an_error() -> None:
    w = Writer("  ")

    def fail_inside() -> None:
        with w.indented():
            assert w.column == 2
            raise KeyError

    with pytest.raises(KeyError):
        fail_inside()
    w.lines(["a", "b"])
    assert str(w) == "a\nb\n"


def test_nothing_written_is_no_text() -> None:
    assert Writer().text() == ""


@pytest.mark.parametrize(
    ("hint", "expected"),
    [
        ("x", "x"),
        ("layer-1.weight", "layer_1_weight"),
        ("2d", "v2d"),
        ("", "v"),
        ("...", "v"),
        ("_hidden", "_hidden"),
        ("naïve", "naïve"),
    ],
)
def test_identifiers(hint: str, expected: str) -> None:
    assert identifier(hint) == expected


def test_names_are_unique_and_stable() -> None:
    table = NameTable()
    x, other, third = Var("x"), Var("x"), Var("x_1")
    assert [table.name(v) for v in (x, other, third, x, other)] == ["x", "x_1", "x_1_1", "x", "x_1"]
    assert x in table
    assert Var("x") not in table


def test_reserved_names_are_not_given() -> None:
    table = NameTable(["A", "B"])
    hints = ("A", "B", "T", "for", "range", "input")
    assert [table.fresh(h) for h in hints] == ["A_1", "B_1", "T_1", "for_1", "range_1", "input"]


def test_a_binder_can_be_given_a_name_that_another_has() -> None:
    table = NameTable()
    a, b = object(), object()
    assert table.bind(a, "i") == table.bind(b, "i") == "i"
    assert table.name(a) == table.name(b) == "i"
    assert table.fresh("i") == "i_1"


@settings(max_examples=50, deadline=None, derandomize=True)
@given(st.lists(st.text(max_size=4), max_size=12))
def test_every_name_is_a_fresh_identifier(hints: list[str]) -> None:
    table = NameTable()
    names = [table.name(object(), h) for h in hints]
    assert len(set(names)) == len(names)
    assert all(n.isidentifier() and not keyword.iskeyword(n) for n in names)
