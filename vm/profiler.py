"""Profiler: where the time of a program goes, call by call, as the interpreter sees it.

Profiling runs the bytecode, never the fast entry. A segment counts as one kernel; to see the
kernels inside, build the program without segments. Times are of the calls themselves: the
interpreter's own share is what remains of the total.
"""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter_ns

from ..support.errors import ArgumentError
from .interpreter import VirtualMachine
from .program import Call, VMFunction


@dataclass(frozen=True)
class ProfileRow:
    """One callee: ``kind`` is kernel, env, builtin or vm; times are seconds a run."""

    kind: str
    name: str
    calls: float
    seconds: float


@dataclass(frozen=True)
class Profile:
    """Rows in order of time, and the seconds of a whole run. ``print(profile)`` shows the table."""

    rows: tuple[ProfileRow, ...]
    total: float
    runs: int

    def __str__(self) -> str:
        width = max([len(r.name) for r in self.rows] + [len("interpreter")])
        lines = [f"{'kind':8} {'name':{width}} {'calls':>6} {'time (us)':>11} {'share':>6}"]
        leaves = [r for r in self.rows if r.kind != "vm"]
        rest = self.total - sum([r.seconds for r in leaves])
        for r in (*self.rows, ProfileRow("", "interpreter", 0, max(rest, 0.0))):
            calls = f"{r.calls:g}" if r.calls else ""
            share = f"{r.seconds / self.total:6.1%}" if self.total else ""
            lines.append(
                f"{r.kind:8} {r.name:{width}} {calls:>6} {r.seconds * 1e6:11.2f} {share:>6}"
            )
        lines.append(f"{'':8} {'total':{width}} {'':>6} {self.total * 1e6:11.2f}")
        return "\n".join(lines)


def profile(vm: VirtualMachine, name: str, *args: object, runs: int = 10) -> Profile:
    """Run a function ``runs`` times (and once to warm up) and give times by callee.

    Raises what the function raises, and ArgumentError for ``runs`` below 1.
    """
    if runs < 1:
        raise ArgumentError(f"runs is at least 1; got {runs}.")
    counts: dict[str, int] = {}
    times: dict[str, int] = {}

    def observe(function: VMFunction, call: Call, nanoseconds: int) -> None:
        counts[call.func] = counts.get(call.func, 0) + 1
        times[call.func] = times.get(call.func, 0) + nanoseconds

    vm[name]  # raises where a callee is unknown
    vm.run(name, args)
    begin = perf_counter_ns()
    for _ in range(runs):
        vm.run(name, args, observer=observe)
    total = (perf_counter_ns() - begin) * 1e-9 / runs
    rows = []
    for func in times:
        kind, callee = func.split(":", 1)
        rows.append(ProfileRow(kind, callee, counts[func] / runs, times[func] * 1e-9 / runs))
    return Profile(tuple(sorted(rows, key=lambda r: -r.seconds)), total, runs)
