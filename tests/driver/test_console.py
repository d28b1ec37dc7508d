"""Plain output; on a terminal rich draws the same."""

from __future__ import annotations

import io
import sys

import pytest

from burnish.driver.console import format_seconds, print_table, progress, shortened, table_lines


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(2.5, "2.5 s"), (1.0, "1 s"), (0.0123, "12.3 ms"), (5.309e-6, "5.31 us"), (0.0, "0 us")],
)
def test_seconds_have_a_unit_that_fits(seconds: float, text: str) -> None:
    assert format_seconds(seconds) == text


def test_a_table_is_aligned(capsys: pytest.CaptureFixture[str]) -> None:
    print_table("Times", ["name", "time"], [["a", "1 ms"], ["longer", "10 ms"]])
    assert capsys.readouterr().out == ("Times\n  name     time\n  a        1 ms\n  longer  10 ms\n")


def test_a_table_fits_a_width() -> None:
    rows = [["the.name.of.a.layer.far.down.0", "3", "/a/place/that/is/long/file.py:12 in f"]] * 2
    lines = table_lines("t", ["value", "n", "from"], rows, width=48)
    assert max(map(len, lines)) == 48
    assert lines[2] == "  the.na\u2026er.far.down.0  3  /a/pla\u2026ile.py:12 in f"
    assert table_lines("t", ["value", "n", "from"], rows) == table_lines(
        "t", ["value", "n", "from"], rows, width=200
    )
    # No column is shortened to nothing, however narrow the terminal.
    narrow = table_lines("t", ["value", "n", "from"], rows, width=5)
    assert max(map(len, narrow)) == 2 + 16 + 2 + 1 + 2 + 16


def test_what_is_shortened_keeps_both_ends() -> None:
    assert shortened("layer.0", 7) == "layer.0"
    assert shortened("encoder.layer.0.attention.query", 16) == "encod\u2026tion.query"
    assert len(shortened("x" * 99, 16)) == 16


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_gets_the_same_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("rich")
    screen = Terminal()
    monkeypatch.setattr(sys, "stdout", screen)
    print_table("Times", ["name", "time"], [["a", "1 ms"]])
    for text in ("Times", "name", "1 ms"):
        assert text in screen.getvalue()


def test_without_rich_a_terminal_gets_plain_text(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stdout", screen)
    monkeypatch.setitem(sys.modules, "rich.console", None)
    print_table("Times", ["name"], [["a"]])
    assert screen.getvalue() == "Times\n  name\n  a\n"


def test_progress_is_silent_off_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with progress("tuning", 3) as display:
        display.update(1, "x")
    assert capsys.readouterr().err == ""


def test_progress_shows_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("rich")
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    with progress("tuning", 3) as display:
        display.update(2, "best 1 us")
    assert "tuning" in screen.getvalue()
    assert "2/3" in screen.getvalue()


def test_progress_without_rich(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setitem(sys.modules, "rich.progress", None)
    with progress("tuning", 3) as display:
        display.update(2)
    assert screen.getvalue() == ""
