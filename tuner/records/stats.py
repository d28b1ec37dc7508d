"""What a database holds, workload by workload."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from ...support.errors import TuningError
from .database import TuningDatabase, TuningRecord, signature


@dataclass(frozen=True)
class WorkloadStats:
    """The records of a workload on a target. ``first`` is the time that was measured first,
    ``kept`` the last time anything was (``time.time``)."""

    workload: str
    target: str
    signature: str
    flop: float
    measured: int
    failed: int
    first: float | None
    best: float | None
    kept: float

    @property
    def gflops(self) -> float:
        return self.flop / self.best / 1e9 if self.best else 0.0


def database_stats(database: TuningDatabase) -> list[WorkloadStats]:
    """A row for each workload and target, in order of their first records."""
    texts = database.texts()
    groups: dict[tuple[str, str], list[TuningRecord]] = {}
    for record in database.records():
        groups.setdefault((record.workload, record.target), []).append(record)
    rows = []
    for (workload, target), records in groups.items():
        times = [r.best for r in sorted(records, key=lambda r: r.created) if r.best is not None]
        text = next((texts[r.source] for r in records if r.source in texts), None)
        rows.append(
            WorkloadStats(
                workload,
                target,
                signature(text.text) if text else "?",
                text.flop if text else 0.0,
                len(times),
                len(records) - len(times),
                times[0] if times else None,
                min(times, default=None),
                max(r.created for r in records),
            )
        )
    return rows


def failure_reasons(database: TuningDatabase, most: int = 5) -> list[tuple[str, int]]:
    """The first lines of the reasons why candidates failed, the most frequent first."""
    reasons = [r.error.splitlines()[0] for r in database.records() if r.error]
    return Counter(reasons).most_common(most)


def find_workload(database: TuningDatabase, wanted: str | None, called: str | None = None) -> str:
    """The hash of the workload that a name or the first digits of a hash stand for; the only one
    where nothing is wanted. TuningError, listing what there is, where that is not one; it calls the
    database by its path, or as ``called``."""
    known, place = database.workloads(), called or database.path
    if wanted is None:
        found = list(known)
    else:
        found = [h for h in known if h.startswith(wanted)] if len(wanted) >= 4 else []
        found = found or [h for h, name in known.items() if name == wanted]
    if len(found) == 1:
        return found[0]
    headers = {t.workload: signature(t.text).partition("(")[2] for t in database.texts().values()}
    lines = [f"{h[:12]} {known[h]}({headers[h]}" for h in found or known]
    listed = "\n  ".join(lines) or "none"
    asked = "any" if wanted is None else repr(wanted)
    if found and wanted is not None:
        raise TuningError(
            f"{place} has {len(found)} workloads for {asked}; give the first digits of the "
            f"hash of one. These are:\n  {listed}"
        )
    which = "no workload" if not found else f"{len(found)} workloads"
    raise TuningError(
        f"{place} has {which} for {asked}; give a name, or the first digits of a hash. It "
        f"has:\n  {listed}"
    )
