"""Colours and HTML, without a terminal or a notebook."""

from __future__ import annotations

import io
import re
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from burnish.support.display import as_html, highlight, show_text

PROGRAM = 'def main(A: T.Buffer((4,), "float32")):\n    A[0] = 1 < 2'


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def hide_pygments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pygments", None)


def pretend_notebook(monkeypatch: pytest.MonkeyPatch, shell: object) -> list[Any]:
    """IPython as far as it is asked here; gives the list of what is displayed."""
    shown: list[Any] = []
    ipython, display = ModuleType("IPython"), ModuleType("IPython.display")
    vars(ipython)["get_ipython"] = lambda: shell
    vars(display)["display"] = lambda data, raw: shown.append((data, raw))
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    return shown


def test_a_pipe_gets_plain_text(capsys: pytest.CaptureFixture[str]) -> None:
    assert highlight(PROGRAM) == PROGRAM
    show_text(PROGRAM)
    assert capsys.readouterr().out == PROGRAM + "\n"


def test_a_terminal_gets_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pygments")
    out = Terminal()
    monkeypatch.setattr(sys, "stdout", out)
    show_text(PROGRAM)
    assert "\x1b[" in out.getvalue()
    assert re.sub(r"\x1b\[[0-9;]*m", "", out.getvalue()) == PROGRAM + "\n"


def test_a_terminal_without_pygments_gets_plain_text(monkeypatch: pytest.MonkeyPatch) -> None:
    hide_pygments(monkeypatch)
    out = Terminal()
    monkeypatch.setattr(sys, "stdout", out)
    show_text(PROGRAM)
    assert out.getvalue() == PROGRAM + "\n"


def test_html_has_the_text_escaped(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pygments")
    coloured = as_html(PROGRAM)
    assert "<span style=" in coloured
    assert "1 < 2" not in coloured
    hide_pygments(monkeypatch)
    plain = as_html(PROGRAM)
    assert plain.startswith("<pre>def main(A: T.Buffer((4,), &quot;float32&quot;)):")
    assert plain.endswith("A[0] = 1 &lt; 2</pre>")


def test_a_notebook_gets_html_and_the_text(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = pretend_notebook(monkeypatch, SimpleNamespace(kernel=object()))
    show_text(PROGRAM)
    ((data, raw),) = shown
    assert raw is True
    assert data == {"text/plain": PROGRAM, "text/html": as_html(PROGRAM)}
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("shell", [None, SimpleNamespace()])
def test_ipython_without_a_notebook_prints(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], shell: object
) -> None:
    shown = pretend_notebook(monkeypatch, shell)
    show_text(PROGRAM)
    assert shown == []
    assert capsys.readouterr().out == PROGRAM + "\n"
