"""The live view of a search: a table on a terminal with rich, plain lines elsewhere, on stderr.

It only looks: a search runs the same whether it is shown or not.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ..tuner.task_scheduler import TaskScheduler, TaskState
from .console import format_seconds

COLUMNS = (
    "task", "FLOP", "calls", "trials", "failed", "best", "GFLOP/s", "roofline", "gain", "state",
)  # fmt: skip


def task_row(state: TaskState) -> list[str]:
    """A task's line of the table."""
    share, gain = state.of_roofline, None
    if state.first is not None and state.best is not None:
        gain = state.first / state.best
    return [
        state.task.name,
        f"{state.task.flop:.4g}",
        str(state.task.weight),
        str(state.trials),
        str(state.failed),
        format_seconds(state.best) if state.best is not None else "-",
        f"{state.gflops:.1f}",
        f"{100 * share:.0f} %" if share is not None else "-",
        f"{gain:.2f}x" if gain is not None else "-",
        state.status,
    ]


def summary(scheduler: TaskScheduler) -> str:
    """Where the search is, in one line: measurements, time, what the kernels take together, the
    end."""
    budget = f" of {scheduler.trials}" if scheduler.trials is not None else ""
    parts = [f"{scheduler.done}{budget} measured in {format_clock(scheduler.seconds)}"]
    if scheduler.latency is not None:
        parts.append(f"kernels {format_seconds(scheduler.latency)} a call")
    if scheduler.eta is not None:
        parts.append(f"{format_clock(scheduler.eta)} left")
    return ", ".join(parts)


def format_clock(seconds: float) -> str:
    """``0:07``, ``12:34``, ``1:02:03``."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


@contextmanager
def tune_display(verbose: int = 1) -> Iterator[Callable[[TaskScheduler], None]]:
    """What to call after each measurement. ``verbose=1`` shows a live table on a terminal with
    rich, a line a round elsewhere; 2 a line a measurement."""
    live = _live() if verbose == 1 and sys.stderr.isatty() else None
    if live is None:
        yield _Lines(every=verbose >= 2).show
        return
    with live:
        yield lambda scheduler: live.update(_table(scheduler), refresh=True)


class _Lines:
    """Plain text: a line where a round ended or, with ``every``, where anything was measured."""

    def __init__(self, *, every: bool) -> None:
        self._every = every
        self._rounds: dict[int, int] = {}

    def show(self, scheduler: TaskScheduler) -> None:
        state = scheduler.current
        if state is None:
            return
        is_end = self._rounds.get(id(state), 0) != state.rounds
        self._rounds[id(state)] = state.rounds
        if is_end or self._every:
            print(f"{_describe(state)} | {summary(scheduler)}", file=sys.stderr, flush=True)


def _describe(state: TaskState) -> str:
    row: Sequence[str] = task_row(state)
    share = f", {row[7]} of the roofline" if row[7] != "-" else ""
    status = f", {state.status}" if state.status != "tuning" else ""
    return f"{row[0]}: {row[3]} trials, best {row[5]}, {row[6]} GFLOP/s{share}{status}"


def _live() -> Any:
    """rich's live view on stderr; None where rich is not installed."""
    try:
        from rich.console import Console
        from rich.live import Live
    except ImportError:
        return None
    return Live(console=Console(stderr=True), auto_refresh=False)


def _table(scheduler: TaskScheduler) -> Any:
    from rich.table import Table

    table = Table(title="tuning", title_justify="left", caption=summary(scheduler))
    for i, name in enumerate(COLUMNS):
        table.add_column(name, justify="left" if i in (0, len(COLUMNS) - 1) else "right")
    for state in scheduler.states:
        is_current = state is scheduler.current
        table.add_row(*task_row(state), style="bold" if is_current else None)
    return table
