"""model.profile: where the time of a call goes, kernel by kernel.

The program runs as it always does, segments included. Only, between a segment and its kernels
stands code that reads the clock (``tensorir.codegen.timed_calls``): the kernels' objects are linked
as they are, and the segments' anew, against that code. Functions of the environment and builtins
are timed by the interpreter.

Calls with the clock and without take turns. A row is the sum, over the calls of its kernel, of each
call's median; what no row has is the rest: checks, allocation, Python. Rows and rest add up to the
median of the calls with the clock, and ``wall`` is that of those without.
"""

from __future__ import annotations

import ctypes
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter, perf_counter_ns
from typing import Any

import numpy as np

from ..support.abi import WORK_SUFFIX
from ..support.errors import ArgumentError
from ..support.target import Target
from ..tensorir.codegen.timed_calls import LOG, LOG_RECORDS, emit_timed_calls
from ..vm.elf import elf_symbols
from ..vm.interpreter import VirtualMachine
from ..vm.native import NativeLibrary, load_objects
from ..vm.program import Call, Program, VMFunction
from ..vm.tensor import Tensor
from .kernel_facts import KernelFacts
from .model_profile import CallTime, KernelTime, ModelProfile
from .threads import runtime

MOST_RUNS = 2000
LEAST_RUNS = 3


def profile_program(
    program: Program,
    target: Target,
    facts: dict[str, KernelFacts],
    tensors: Sequence[Tensor],
    *,
    threads: int,
    seconds: float,
    roofline: bool,
    name: str,
) -> ModelProfile:
    """The profile of ``main`` on these inputs, from about ``seconds`` of calls.

    Raises ArgumentError for ``seconds`` that are not positive, and what a call raises.
    """
    if not seconds > 0:
        raise ArgumentError(f"seconds is positive; got {seconds}.")
    plain = VirtualMachine(program, runtime=runtime(threads))["main"]
    timed = _TimedProgram(program, target, threads)
    runs, walls = _runs(plain, timed, tensors, seconds)
    # Where control flow makes the calls of some runs others, those of most are looked at.
    shapes = [tuple([c.name for c in run.calls]) for run in runs]
    usual = max(set(shapes), key=shapes.count)
    runs = [run for run, shape in zip(runs, shapes, strict=True) if shape == usual]
    durations = np.array([[c.end - c.begin for c in run.calls] for run in runs], float)
    medians = np.median(durations, axis=0) * 1e-9 if usual else []
    total = statistics.median([run.end - run.begin for run in runs]) * 1e-9
    middle = min(runs, key=lambda run: abs((run.end - run.begin) * 1e-9 - total))
    limits, notes = _limits(facts, target, threads) if roofline else ({}, [])
    if runs[0].dropped:
        notes.append(f"{runs[0].dropped} calls a run are not timed: there are too many of them.")
    times: dict[str, list[float]] = {}
    for called, spent in zip(usual, medians, strict=True):
        times.setdefault(called, []).append(float(spent))
    rows = [_row(called, spent, facts, limits) for called, spent in times.items()]
    named = [CallTime(_name(c.name, facts), c.begin, c.end) for c in middle.calls]
    return ModelProfile(
        name=name,
        rows=tuple(sorted(rows, key=lambda r: -r.seconds)),
        total=total,
        wall=statistics.median(walls),
        runs=len(runs),
        threads=threads,
        cpu=target.cpu,
        calls=tuple(named),
        begin=middle.begin,
        end=middle.end,
        notes=tuple(notes),
    )


def _row(
    called: str, spent: list[float], facts: dict[str, KernelFacts], limits: dict[str, float]
) -> KernelTime:
    """``called`` is ``kind:symbol`` of a kernel or ``kind:name``."""
    kind, _, symbol = called.partition(":")
    known = facts.get(symbol) if kind == "kernel" else None
    return KernelTime(
        kind=kind,
        name=_name(called, facts),
        calls=len(spent),
        seconds=sum(spent),
        flop=known.flop if known else None,
        moved=known.moved if known else None,
        least=limits.get(symbol),
        rule=known.rule if known else "",
        sources=known.sources if known else (),
    )


def _name(called: str, facts: dict[str, KernelFacts]) -> str:
    kind, _, symbol = called.partition(":")
    return facts[symbol].name if kind == "kernel" and symbol in facts else symbol


def _limits(
    facts: dict[str, KernelFacts], target: Target, threads: int
) -> tuple[dict[str, float], list[str]]:
    """The least seconds of a call of each kernel, by the machine's measured peaks; and notes."""
    try:
        from ..tuner.measuring.roofline import measure_peaks, rate_of
    except ImportError as error:
        return {}, [f"no share of the roofline: {error.name} is not installed."]
    peaks = measure_peaks(target.with_options(threads=threads))
    found = {}
    for symbol, f in facts.items():
        if f.flop is not None and f.moved is not None:
            arithmetic = f.flop / (peaks.flops * rate_of(f.bits, f.operands, target))
            found[symbol] = max(arithmetic, f.moved / peaks.bandwidth(f.moved))
    return found, []


@dataclass(frozen=True)
class _Run:
    """One call with the clock: its calls by ``kind:symbol``, in nanoseconds."""

    begin: int
    end: int
    calls: list[CallTime]
    dropped: int


def _runs(
    plain: Callable[..., Any], timed: _TimedProgram, tensors: Sequence[Tensor], seconds: float
) -> tuple[list[_Run], list[float]]:
    """Calls with the clock, and the seconds of those without, in turns."""
    plain(*tensors)
    timed.run(tensors)
    runs: list[_Run] = []
    walls: list[float] = []
    start = perf_counter()
    while len(runs) < LEAST_RUNS or (perf_counter() - start < seconds and len(runs) < MOST_RUNS):
        begin = perf_counter()
        plain(*tensors)
        walls.append(perf_counter() - begin)
        runs.append(timed.run(tensors))
    return runs, walls


class _TimedProgram:
    """A program whose kernels write down when they run."""

    def __init__(self, program: Program, target: Target, threads: int) -> None:
        kernels, callers = split_objects(program.objects)
        self._kernels = load_objects(kernels, program.symbols)
        symbols = [s for s in self._kernels.symbols if not s.endswith(WORK_SUFFIX)]
        works = [s for s in self._kernels.symbols if s.endswith(WORK_SUFFIX)]
        self._symbols = symbols
        addresses = {s: self._kernels.address(s) for s in (*symbols, *works)}
        library = load_objects([*callers, emit_timed_calls(addresses, target)])
        self._log = _log_of(library)
        self._vm = VirtualMachine(program, runtime=runtime(threads), library=library)
        self._vm["main"]  # raises where a callee is unknown
        slow = self._vm.run
        self._fast = self._vm.fast_entry("main", lambda *args: slow("main", args))

    def run(self, tensors: Sequence[Tensor]) -> _Run:
        others: list[CallTime] = []

        def observe(function: VMFunction, call: Call, nanoseconds: int) -> None:
            if not call.func.startswith(("kernel:", "vm:")):
                end = perf_counter_ns()
                others.append(CallTime(call.func, end - nanoseconds, end))

        self._log[0] = 0
        begin = perf_counter_ns()
        if self._fast is None:
            self._vm.run("main", tensors, observer=observe)
        else:
            self._vm["main"](*tensors)
        end = perf_counter_ns()
        count = int(self._log[0])
        kept = min(count, LOG_RECORDS)
        calls = [
            CallTime(f"kernel:{self._symbols[number]}", first, last)
            for number, first, last in self._log[1 : 1 + 3 * kept].reshape(-1, 3).tolist()
        ]
        calls = sorted([*calls, *others], key=lambda c: c.begin)
        return _Run(begin, end, calls, count - kept)


def split_objects(images: Sequence[bytes]) -> tuple[list[bytes], list[bytes]]:
    """(kernels, those that call kernels): the second have symbols that the others define."""
    symbols = [dict(elf_symbols(image, "an object")) for image in images]
    defined = {name for known in symbols for name, is_defined in known.items() if is_defined}
    calls = [any(not has and name in defined for name, has in s.items()) for s in symbols]
    pairs = list(zip(images, calls, strict=True))
    return [i for i, c in pairs if not c], [i for i, c in pairs if c]


def _log_of(library: NativeLibrary) -> np.ndarray:
    size = 1 + 3 * LOG_RECORDS
    memory = (ctypes.c_int64 * size).from_address(library.address(LOG))
    return np.frombuffer(memoryview(memory).cast("B"), np.int64)
