"""What the command line prints with: rich where it is installed, plain text where not."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table, aligned; the first column to the left, the others to the right."""
    if sys.stdout.isatty():
        try:
            from rich.console import Console
            from rich.table import Table
        except ImportError:
            pass
        else:
            table = Table(title=title, title_justify="left")
            for i, name in enumerate(columns):
                table.add_column(name, justify="left" if i == 0 else "right")
            for row in rows:
                table.add_row(*row)
            Console().print(table)
            return
    print("\n".join(table_lines(title, columns, rows)))


_LEAST = 16
"""What a column of a table keeps at least, where it has as much."""


def table_lines(
    title: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    width: int | None = None,
) -> list[str]:
    """The lines of a plain table. Where it is wider than ``width``, the widest of its columns are
    shortened, in the middle of what they hold."""
    lines = [title]
    widths = [max(len(r[i]) for r in (columns, *rows)) for i in range(len(columns))]
    while width is not None and sum(widths) + 2 * len(widths) > width:
        widest = max(range(len(widths)), key=widths.__getitem__)
        if widths[widest] <= max(_LEAST, len(columns[widest])):
            break
        widths[widest] -= 1
    for row in (columns, *rows):
        cells = [
            shortened(c, w).ljust(w) if i == 0 else shortened(c, w).rjust(w)
            for i, (c, w) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  " + "  ".join(cells).rstrip())
    return lines


def shortened(text: str, width: int) -> str:
    """At most ``width`` characters of a text: its beginning, and rather more of its end, by which
    names and places differ."""
    if len(text) <= width:
        return text
    end = (2 * width) // 3
    return f"{text[: width - end - 1]}\u2026{text[len(text) - end :]}"


class _Silent:
    """A progress display that shows nothing."""

    def update(self, done: int, text: str = "") -> None:
        """Say that ``done`` steps are done."""


class _Rich(_Silent):
    def __init__(self, progress: Any, task: Any) -> None:
        self._progress, self._task = progress, task

    def update(self, done: int, text: str = "") -> None:
        self._progress.update(self._task, completed=done, text=text)


@contextmanager
def progress(what: str, total: int) -> Iterator[_Silent]:
    """A live progress line on a terminal with rich; nothing elsewhere."""
    if not sys.stderr.isatty():
        yield _Silent()
        return
    try:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
        )
    except ImportError:
        yield _Silent()
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[text]}"),
    )
    with Progress(*columns, console=Console(stderr=True)) as display:
        yield _Rich(display, display.add_task(what, total=total, text=""))


def format_seconds(seconds: float) -> str:
    """A time with a unit that fits: ``5.31 us``, ``1.2 ms``."""
    for scale, unit in ((1.0, "s"), (1e3, "ms")):
        if seconds * scale >= 1:
            return f"{seconds * scale:.3g} {unit}"
    return f"{seconds * 1e6:.3g} us"
