"""ModelProfile: what ``model.profile`` measured, as a table, a trace, or beside another one."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from ..support.errors import ArtifactError
from ..support.whole_file import written_whole
from .console import format_seconds, table_lines

_PLACES = 2
"""Places of a kernel that a table names."""
REST = "(the rest)"
"""The name of what no kernel takes: checks, allocation, Python."""
_COLUMNS = (
    *("kernel", "calls", "time", "share", "GFLOP/s", "GB/s", "of roofline", "rule", "from"),
)


@dataclass(frozen=True)
class KernelTime:
    """Of all calls of one kernel in a run: ``kind`` is kernel, env or builtin; ``seconds`` of all
    together. ``flop`` and ``moved`` (bytes) are those of one call, and ``least`` the seconds that
    the machine needs for them at its peaks; None where that is not known."""

    kind: str
    name: str
    calls: int
    seconds: float
    flop: float | None = None
    moved: float | None = None
    least: float | None = None
    rule: str = ""
    sources: tuple[str, ...] = ()
    """The places in the model that it computes."""

    @property
    def flops(self) -> float | None:
        """Operations a second."""
        return _rate(self.flop, self)

    @property
    def bandwidth(self) -> float | None:
        """Bytes a second, of those that have to be moved."""
        return _rate(self.moved, self)

    @property
    def of_roofline(self) -> float | None:
        """The share of the machine's peak: 1 is as fast as it can be."""
        return _rate(self.least, self)


@dataclass(frozen=True)
class CallTime:
    """One call, in nanoseconds of the clock."""

    name: str
    begin: int
    end: int


@dataclass(frozen=True)
class ModelProfile:
    """``print(profile)`` shows the table. ``rows`` are in order of time; ``total`` are the seconds
    of a call that was looked at, ``wall`` of one that was not. ``calls`` are those of one run."""

    name: str
    rows: tuple[KernelTime, ...]
    total: float
    wall: float
    runs: int
    threads: int
    cpu: str
    calls: tuple[CallTime, ...]
    begin: int
    end: int
    notes: tuple[str, ...] = ()

    @property
    def rest(self) -> float:
        """Seconds of a call that no row has."""
        return max(0.0, self.total - sum([r.seconds for r in self.rows]))

    def cells(self) -> list[list[str]]:
        """The rows of the table, the rest included."""
        rows = [*self.rows, KernelTime("", REST, 0, self.rest)]
        return [
            [
                r.name if r.kind in ("kernel", "") else f"{r.kind}:{r.name}",
                str(r.calls or ""),
                format_seconds(r.seconds),
                f"{r.seconds / self.total:.1%}",
                _shown(r.flops, 1e9),
                _shown(r.bandwidth, 1e9),
                "" if r.of_roofline is None else f"{r.of_roofline:.0%}",
                r.rule,
                _some(r.sources),
            ]
            for r in rows
        ]

    @property
    def title(self) -> str:
        """What was measured, in a line."""
        plural = "s" if self.threads != 1 else ""
        return (
            f"{self.name}: {format_seconds(self.wall)} a call, {format_seconds(self.total)} with "
            f"the clock ({self.runs} runs, {self.threads} thread{plural}, {self.cpu})"
        )

    def __str__(self) -> str:
        lines = table_lines(self.title, _COLUMNS, self.cells())
        return "\n".join([*lines, *[f"  note: {note}" for note in self.notes]])

    def _repr_html_(self) -> str:
        """The table, as notebooks show it."""
        notes = "".join([f"<p>{escape(note)}</p>" for note in self.notes])
        return html_table(self.title, _COLUMNS, self.cells()) + notes

    def to_chrome_trace(self, path: str | Path) -> Path:
        """Write one run for ``chrome://tracing`` or ui.perfetto.dev. Raises ArtifactError where the
        file cannot be written."""
        known = {r.name: r for r in self.rows}
        events = [_event(self.name, self.begin, self.end, self.begin, {"threads": self.threads})]
        for c in self.calls:
            row = known[c.name]
            facts = {"rule": row.rule, "flop": row.flop, "bytes": row.moved}
            args = {key: value for key, value in facts.items() if value}
            events.append(_event(c.name, c.begin, c.end, self.begin, args))
        text = json.dumps({"traceEvents": events, "displayTimeUnit": "ns"})
        path = Path(path)
        try:
            with written_whole(path) as file:
                file.write(text.encode())
        except OSError as error:
            raise ArtifactError(f"{path} cannot be written: {error.strerror}.") from error
        return path

    def compare(self, other: ModelProfile) -> ProfileComparison:
        """This profile beside a later one, kernel by kernel."""
        return ProfileComparison(self, other)


@dataclass(frozen=True)
class ProfileComparison:
    """Two profiles: what each kernel took before and after, the largest difference first."""

    before: ModelProfile
    after: ModelProfile

    def cells(self) -> list[list[str]]:
        """The rows of the table: kernel, before, after, difference, ratio."""
        names = [*dict.fromkeys([r.name for r in (*self.before.rows, *self.after.rows)]), REST]
        first, second = _seconds(self.before), _seconds(self.after)
        names.sort(key=lambda n: -abs(second.get(n, 0.0) - first.get(n, 0.0)))
        rows = [(n, first.get(n), second.get(n)) for n in names]
        rows.append(("a call", self.before.wall, self.after.wall))
        return [
            [
                name,
                "" if a is None else format_seconds(a),
                "" if b is None else format_seconds(b),
                _signed((b or 0.0) - (a or 0.0)),
                f"{b / a:.2f}" if a and b else "",
            ]
            for name, a, b in rows
        ]

    def __str__(self) -> str:
        return "\n".join(table_lines(self._title, self._columns, self.cells()))

    def _repr_html_(self) -> str:
        return html_table(self._title, self._columns, self.cells())

    @property
    def _title(self) -> str:
        return f"{self.before.name} before, {self.after.name} after"

    @property
    def _columns(self) -> tuple[str, ...]:
        return ("kernel", "before", "after", "difference", "after / before")


def html_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table for a notebook or a page; the first column to the left, the others to the right."""

    def row(cells: Sequence[str], tag: str) -> str:
        shown = [
            f'<{tag} style="text-align:{"left" if i == 0 else "right"}">{escape(cell)}</{tag}>'
            for i, cell in enumerate(cells)
        ]
        return f"<tr>{''.join(shown)}</tr>"

    body = "\n".join([row(cells, "td") for cells in rows])
    return f"<table><caption>{escape(title)}</caption>\n{row(columns, 'th')}\n{body}\n</table>"


def shortened(place: str) -> str:
    """A place without its folder."""
    return place.rpartition("/")[2]


def _some(places: Sequence[str]) -> str:
    """The first places, and how many more there are."""
    more = f" and {len(places) - _PLACES} more" if len(places) > _PLACES else ""
    return ", ".join([shortened(p) for p in places[:_PLACES]]) + more


def _seconds(profile: ModelProfile) -> dict[str, float]:
    return {r.name: r.seconds for r in profile.rows} | {REST: profile.rest}


def _signed(seconds: float) -> str:
    return ("-" if seconds < 0 else "+") + format_seconds(abs(seconds))


def _rate(amount: float | None, row: KernelTime) -> float | None:
    return amount * row.calls / row.seconds if amount and row.seconds else None


def _shown(rate: float | None, unit: float) -> str:
    return "" if rate is None else f"{rate / unit:.3g}"


def _event(
    name: str, begin: int, end: int, start: int, args: Mapping[str, object]
) -> dict[str, object]:
    times = {"ts": (begin - start) / 1e3, "dur": (end - begin) / 1e3}
    return {"name": name, "ph": "X", "pid": 1, "tid": 1, **times, "args": args}
