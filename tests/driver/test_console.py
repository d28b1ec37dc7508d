"""Plain output; on a terminal rich draws the same."""

from __future__ import annotations

import io
import sys

import pytest

from burnish.driver.console import format_seconds, print_table, progress


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(2.5, "2.5 s"), (1.0, "1 s"), (0.0123, "12.3 ms"), (5.309e-6, "5.31 us"), (0.0, "0 us")],
)
def test_seconds_have_a_unit_that_fits(seconds: float, text: str) -> None:
    assert format_seconds(seconds) == text


def test_a_table_is_aligned(capsys: pytest.CaptureFixture[str]) -> None:
    print_table("Times", ["name", "time"], [["a", "1 ms"], ["longer", "10 ms"]])
    assert capsys.readouterr().out == ("Times\n  name     time\n  a        1 ms\n  longer  10 ms\n")


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
