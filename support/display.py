"""Showing IR text to people: in colours on a terminal, as HTML in a notebook, plain elsewhere.

Every ``show()`` ends here. Colours need pygments, of the ``cli`` extra; without it the text is the
same. Nothing here imports IPython: a process that runs in a notebook has done so.
"""

from __future__ import annotations

import html
import sys
from importlib import import_module
from typing import Any


def show_text(text: str) -> None:
    """Print a program: as HTML in a notebook, in colours on a terminal, plain elsewhere."""
    display = _notebook_display()
    if display is None:
        print(highlight(text).rstrip("\n"))
    else:
        display({"text/plain": text, "text/html": as_html(text)}, raw=True)


def highlight(text: str) -> str:
    """``text`` in colours, where standard output is a terminal and pygments is installed."""
    return _coloured(text, "TerminalFormatter") or text if sys.stdout.isatty() else text


def as_html(text: str) -> str:
    """``text`` as one HTML element, in colours where pygments is installed."""
    return _coloured(text, "HtmlFormatter", noclasses=True) or f"<pre>{html.escape(text)}</pre>"


def _coloured(text: str, formatter: str, **options: Any) -> str | None:
    try:
        pygments = import_module("pygments")
        lexers, formatters = import_module("pygments.lexers"), import_module("pygments.formatters")
    except ImportError:
        return None
    chosen = getattr(formatters, formatter)(**options)
    return str(pygments.highlight(text, lexers.PythonLexer(stripnl=False), chosen))


def _notebook_display() -> Any:
    """IPython's ``display`` where this process is the kernel of a notebook, else None."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return import_module("IPython.display").display if hasattr(shell, "kernel") else None
