"""What a tuning run was worth: tasks, what each minute bought, the whole model, plots."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from ..support.errors import TuningError
from ..support.keywords import hinted
from ..tuner.records.database import TuningDatabase
from ..tuner.task_scheduler import Moment
from .console import format_seconds, table_lines
from .svg_plot import plot
from .tune import TuneResult
from .tune_display import COLUMNS, format_clock, task_row

_MOST_ROWS = 12


def report_text(result: TuneResult) -> str:
    """The report as text."""
    trials = sum([s.trials for s in result.tasks])
    failed = sum([s.failed for s in result.tasks])
    how = ", interrupted" if result.interrupted else ""
    lines = [f"{trials} measured in {format_clock(result.seconds)}{how}; {failed} failed", ""]
    lines += table_lines("Tasks", COLUMNS, [task_row(s) for s in result.tasks])
    bought = what_time_bought(result)
    if bought:
        columns = ["until", "measured", "kernels, a call", "gain"]
        lines += ["", *table_lines("What the time bought", columns, bought)]
    lines += ["", "Inside the model:"]
    if result.before is not None and result.after is not None:
        for name, timing in (("before", result.before), ("after", result.after)):
            lines.append(
                f"  {name:7}minimum {format_seconds(timing.minimum)}, "
                f"median {format_seconds(timing.median)} a call"
            )
    lines.append(f"  {result.verdict}")
    return "\n".join(lines)


def what_time_bought(result: TuneResult) -> list[list[str]]:
    """A row for each stretch of time (a minute, or a twelfth of the run) in which the kernels' time
    together fell: its end, measurements, that time, and the gain since the row before."""
    known = [(m, m.latency) for m in result.timeline if m.latency is not None]
    if not known:
        return []
    step = 60.0 if result.seconds > 120 else max(result.seconds / _MOST_ROWS, 1e-9)
    last = known[0][1]
    rows = [_row(known[0][0], last, "-")]
    for moment, latency in _last_of_each(known[1:], step):
        if latency < last:
            rows.append(_row(moment, latency, f"{last / latency:.2f}x"))
            last = latency
    return rows


def _row(moment: Moment, latency: float, gain: str) -> list[str]:
    return [format_clock(moment.seconds), str(moment.trials), format_seconds(latency), gain]


def _last_of_each(
    moments: Sequence[tuple[Moment, float]], step: float
) -> Iterator[tuple[Moment, float]]:
    """The last moment of each stretch of time that has one."""
    for i, (moment, latency) in enumerate(moments):
        is_last = i + 1 == len(moments)
        if is_last or moments[i + 1][0].seconds // step != moment.seconds // step:
            yield moment, latency


@hinted
def save_report(
    result: TuneResult, folder: str | Path, database: TuningDatabase | None = None
) -> list[Path]:
    """Write the report and its plots into a folder, which is made; the files.

    ``report.txt``, ``time_over_trials.svg``, ``model_over_time.svg`` and, where records of
    ``database`` keep what the cost model predicted, ``predicted_measured.svg``. Raises TuningError
    where they cannot be written.
    """
    texts = {"report.txt": report_text(result) + "\n", **plots(result)}
    if database is not None:
        texts |= prediction_plot(result, database)
    place = Path(folder)
    try:
        place.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            (place / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise TuningError(f"The report cannot be written into {folder}: {error}.") from error
    return [place / name for name in texts]


def plots(result: TuneResult) -> dict[str, str]:
    """The plots of a run by file name."""
    over_trials = {
        s.task.name: [*s.curve, (s.trials, s.curve[-1][1])] for s in result.tasks if s.curve
    }
    over_time = [(m.seconds, m.latency * 1e6) for m in result.timeline if m.latency is not None]
    return {
        "time_over_trials.svg": plot(
            {name: [(n, t * 1e6) for n, t in curve] for name, curve in over_trials.items()},
            title="Best time of each task",
            x_label="measurements",
            y_label="us a call",
            log_y=True,
        ),
        "model_over_time.svg": plot(
            {"all kernels": over_time},
            title="Time of all kernels together",
            x_label="seconds of tuning",
            y_label="us a call",
        ),
    }


def prediction_plot(result: TuneResult, database: TuningDatabase) -> dict[str, str]:
    """Predicted scores against measured speed; empty where nothing was predicted."""
    series: dict[str, list[tuple[float, float]]] = {}
    for state in result.tasks:
        records = database.records(state.task.workload, state.task.target_key)
        best = min([r.best for r in records if r.best is not None], default=0.0)
        points = [
            (r.predicted, best / r.best)
            for r in records
            if r.predicted is not None and r.best is not None
        ]
        if points:
            series[state.task.name] = points
    if not series:
        return {}
    text = plot(
        series,
        title="Predicted and measured",
        x_label="predicted score",
        y_label="measured speed, best = 1",
        kind="points",
    )
    return {"predicted_measured.svg": text}
