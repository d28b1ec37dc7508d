"""Which CPUs time candidates and which build them, so that neither disturbs the other.

Timing wants cores of its own, hyperthreads included. The rest builds, and proposes. Where a
candidate runs on as many threads as there are cores, nothing is left: then building and timing take
turns in one process.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from ...vm import parallel

MOST_BUILDERS = 8
_TOPOLOGY = Path("/sys/devices/system/cpu")
_STAT = Path("/proc/stat")
_LOOK_SECONDS = 0.05


@dataclass(frozen=True)
class CpuPlan:
    """CPUs of the runner and of the builders, and how many builders are worth their while."""

    runner: tuple[int, ...]
    builders: tuple[int, ...]
    count: int


def plan_cpus(threads: int) -> CpuPlan | None:
    """The plan for candidates that run on ``threads`` threads; None where they need all cores. The
    runner gets the cores that are least busy now: another search may be timing on the others."""
    allowed = os.sched_getaffinity(0)
    quota = parallel.cpu_quota()
    cores = cores_of(allowed)
    if len(cores) <= threads or (quota is not None and quota < threads + 1):
        return None
    idle = idle_shares(allowed)
    # Of cores alike the last: interrupts are served by the first.
    ranked = sorted(
        cores, key=lambda c: (round(min(idle.get(i, 1.0) for i in c), 1), c), reverse=True
    )
    runner = tuple(sorted([i for core in ranked[:threads] for i in core]))
    builders = tuple(sorted([i for core in ranked[threads:] for i in core]))
    return CpuPlan(runner, builders, min(MOST_BUILDERS, len(ranked) - threads))


def cores_of(cpus: Collection[int], topology: Path = _TOPOLOGY) -> list[tuple[int, ...]]:
    """CPUs by core: those that share one are together. Where the system does not tell, each is a
    core."""
    cores: dict[str, list[int]] = {}
    for cpu in sorted(cpus):
        try:
            core = (topology / f"cpu{cpu}/topology/thread_siblings_list").read_text().strip()
        except OSError:
            core = f"only {cpu}"
        cores.setdefault(core, []).append(cpu)
    return [tuple(c) for c in cores.values()]


def idle_shares(cpus: Collection[int], stat: Path = _STAT) -> dict[int, float]:
    """The part of the next moment that each CPU spends idle; nothing where the system does not
    tell."""
    before = _ticks(stat)
    if not before:
        return {}
    time.sleep(_LOOK_SECONDS)
    after = _ticks(stat)
    shares = {}
    for cpu in cpus:
        if cpu in before and cpu in after:
            idle, total = (b - a for a, b in zip(before[cpu], after[cpu], strict=True))
            shares[cpu] = idle / total if total > 0 else 1.0
    return shares


def _ticks(stat: Path) -> dict[int, tuple[int, int]]:
    """Idle and all ticks of each CPU since the machine started."""
    found: dict[int, tuple[int, int]] = {}
    try:
        lines = stat.read_text().splitlines()
    except OSError:
        return found
    for line in lines:
        name, *fields = line.split()
        if name.startswith("cpu") and name[3:].isdigit():
            ticks = [int(f) for f in fields[:8]]
            found[int(name[3:])] = (ticks[3] + ticks[4], sum(ticks))
    return found


def stay_on(cpus: Collection[int]) -> None:
    """Keep the calling thread on some CPUs, where it may run on any of them."""
    allowed = os.sched_getaffinity(0) & set(cpus)
    if allowed:
        os.sched_setaffinity(0, allowed)
