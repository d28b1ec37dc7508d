"""The command behind ``make random-programs``: random small programs of operators, compiled for
every CPU of the target table.

Each (``tests/strategies/operator_programs.py``) is scheduled and compiled to object code for each
row of the table; where this machine can run it, its results are compared with NumPy's in float64.
Printed are the rules that scheduled the kernels, the fallbacks (a rule refused, and a later one
scheduled the kernel) grouped by the rule and its reason, the kernels that the report calls slow,
and what failed; the exit status says whether anything did. Programs go to worker processes in
chunks, as those of ``fuzz/schedules.py`` do: one that ends its process costs no other.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from burnish.driver.executable import Executable
from burnish.driver.kernels import resolve_target
from burnish.driver.report import CompileReport
from burnish.driver.runnable import check_runnable
from burnish.driver.stages import compile_module
from burnish.support.errors import CodegenError, TargetError
from burnish.support.target import CPUS, Target
from burnish.tests.fuzz.schedules import ending_of, lines_of, run_worker
from burnish.tests.fuzz.worker import arm_watchdog, watch
from burnish.tests.graphir import reference
from burnish.tests.strategies.operator_programs import ERRORS, OperatorProgram, draw_program
from burnish.tuner.schedule_log import FAR_OFF
from burnish.vm.tensor import array

CHUNK = 25
LIMIT = 120.0
"""Seconds of the processor that a program may take on all targets."""
TARGETS = tuple([resolve_target(f"llvm -mcpu={cpu} -cores=2") for cpu in CPUS])
_NUMBERS = re.compile(r"\d+")
_NAMES = re.compile(r"(?<=Buffer )\w+ of \w+")


@dataclass
class Checked:
    """What became of one program on all targets."""

    seed: int
    family: str = ""
    compiled: int = 0
    ran: int = 0
    without_code: list[tuple[str, str]] = field(default_factory=list)
    """CPUs that lack what the program needs, and what the error said."""
    schedules: list[tuple[str, str, str, list[tuple[str, str]]]] = field(default_factory=list)
    """CPU, kernel, the rule that scheduled it, and who refused before and why."""
    slow: list[tuple[str, str, str]] = field(default_factory=list)
    """CPU, rule and note of kernels that seem slow."""
    failures: list[tuple[str, str]] = field(default_factory=list)
    """CPU, and what went wrong."""
    text: str = ""


# -- one program -----------------------------------------------------------------------------------
def check_program(seed: int, targets: Sequence[Target] = TARGETS) -> Checked:
    """Compile the program of a seed for every target, and run what this machine can run."""
    program = draw_program(seed)
    checked = Checked(seed, program.family, text=str(program))
    cases = list(expected_results(program)) if any(map(is_runnable, targets)) else []
    for target in targets:
        try:
            executable = compile_module(program.module, target, segments=False)
        except CodegenError as error:
            expected = "float16" in str(program.module.script()) and not has_half(target)
            kept = checked.without_code if expected else checked.failures
            kept.append((target.cpu, _first_line(error)))
            continue
        except Exception as error:  # whatever is raised is a finding, and the others go on
            checked.failures.append((target.cpu, f"{type(error).__name__}: {_first_line(error)}"))
            continue
        checked.compiled += 1
        _note_schedules(checked, target, executable.report)
        if is_runnable(target):
            checked.ran += 1
            wrong = difference(program, executable, cases)
            if wrong:
                checked.failures.append((target.cpu, wrong))
    return checked


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n", 1)[0][:300]


def has_half(target: Target) -> bool:
    """Whether float16 can be converted: of the table's x86 CPUs those with AVX."""
    return not target.is_x86 or target.vector_bits > 128


def is_runnable(target: Target) -> bool:
    """Whether this machine has what the target asks for."""
    try:
        check_runnable(target)
    except TargetError:
        return False
    return True


def _note_schedules(checked: Checked, target: Target, report: CompileReport) -> None:
    """Which rules did it; what has no rule, or is slow without a note, is a failure."""
    for kernel in report.schedules.values():
        rule = kernel.rule or "none"
        checked.schedules.append((target.cpu, kernel.kernel, rule, list(kernel.refusals)))
        notes = [note for note in report.notes if repr(kernel.kernel) in note]
        if kernel.slowdown is not None and kernel.slowdown > FAR_OFF:
            checked.slow.append((target.cpu, rule, notes[0] if notes else ""))
        silent = kernel.slowdown is not None and kernel.slowdown > FAR_OFF and not notes
        nameless = kernel.rule is None and not notes
        if silent or nameless or not all(reason for _, reason in kernel.refusals):
            checked.failures.append((target.cpu, f"{kernel} has no note that says why"))


def expected_results(
    program: OperatorProgram,
) -> Iterator[tuple[list[np.ndarray], np.ndarray]]:
    """Inputs of a program and what NumPy makes of them, at its own sizes and, where sizes have
    names, at others."""
    wide = draw_program(program.seed, wide=True)
    for sizes in [program.sizes] + [dict.fromkeys(program.sizes, 3)] * bool(program.sizes):
        inputs = program.inputs(sizes)
        yield inputs, np.asarray(reference.run(wide.module, "main", *inputs))


def difference(
    program: OperatorProgram,
    executable: Executable,
    cases: Sequence[tuple[list[np.ndarray], np.ndarray]],
) -> str:
    """What is wrong with the results of a program; "" if nothing is."""
    for inputs, expected in cases:
        pairs = zip(inputs, program.dtypes, strict=True)
        found = executable.vm["main"](*[array(x, dtype) for x, dtype in pairs])
        wrong = _differ(found, expected, program.growth)
        if wrong:
            return f"with {[x.shape for x in inputs]}: {wrong}"
    return ""


def _differ(found: Any, expected: np.ndarray, growth: float) -> str:
    dtype = str(found.dtype)
    if tuple(found.shape) != expected.shape:
        return f"the shape is {tuple(found.shape)}, not {expected.shape}"
    if dtype not in ERRORS:
        wrong = found.numpy() != expected
    else:
        got = np.asarray(found.float32() if dtype in ("float16", "bfloat16") else found.numpy())
        most = 6e4 if dtype == "float16" else 1e30
        usual = np.isfinite(expected) & (np.abs(expected) < most)
        largest = max(growth, np.abs(expected[usual]).max(initial=1.0))
        with np.errstate(all="ignore"):
            apart = np.abs(got - expected) > ERRORS[dtype] * largest
        wrong = np.where(usual, apart | np.isnan(got), np.isnan(got) != np.isnan(expected))
    if not wrong.any():
        return ""
    at = tuple(map(int, np.argwhere(wrong)[0])) if wrong.ndim else ()
    shown = found.float32() if dtype == "bfloat16" else found.numpy()
    return f"{int(wrong.sum())} elements differ: {shown[at]} at {at}, not {expected[at]}"


# -- all of them -----------------------------------------------------------------------------------
def run_chunk(first: int, count: int) -> Iterator[Checked]:
    """The programs of a range of seeds, each checked in some process."""
    last = first + count
    while first < last:
        done = run_worker("burnish.tests.fuzz.programs", "--work", first, last - first)
        said = lines_of(done)
        for line in said:
            if "text" in line:
                yield Checked(**line)
        if done.returncode == 0:
            return
        begun = [line["begin"] for line in said if "begin" in line]
        seed = begun[-1] if begun else first
        yield Checked(seed, failures=[("", f"{ending_of(done)}\n{done.stderr[-1500:]}")])
        first = seed + 1


def work(first: int, count: int) -> None:
    """What a worker process does: a line of JSON for each program, and one before it."""
    for seed in range(first, first + count):
        print(json.dumps({"begin": seed}), flush=True)
        watch(LIMIT)
        print(json.dumps(asdict(check_program(seed))), flush=True)


@dataclass
class Summary:
    """What happened to all programs."""

    checked: list[Checked] = field(default_factory=list)

    def fallbacks(self) -> list[tuple[str, str, str, int, str]]:
        """(rule that refused, reason without its numbers, rule that scheduled, count, example)."""
        counts: Counter[tuple[str, str, str]] = Counter()
        examples: dict[tuple[str, str, str], str] = {}
        for program in self.checked:
            for cpu, kernel, rule, refusals in program.schedules:
                for refused, reason in refusals:
                    key = refused, _NUMBERS.sub("N", reason).replace(kernel, "..."), rule
                    counts[key] += 1
                    examples.setdefault(key, f"seed {program.seed}, {kernel}, {cpu}: {reason}")
        return [(*key, n, examples[key]) for key, n in counts.most_common()]

    def text(self, *, targets: int) -> str:
        """The report."""
        programs = self.checked
        failed = [(p, cpu, what) for p in programs for cpu, what in p.failures]
        lines = [
            f"{len(programs)} programs x {targets} targets: "
            f"{sum(p.compiled for p in programs)} compiled, {sum(p.ran for p in programs)} run and "
            f"compared with NumPy, {len(failed)} failures, "
            f"{sum(len(p.without_code) for p in programs)} without code for the CPU",
            "families: " + _counted(Counter(p.family for p in programs)),
            "rules: " + _counted(Counter(rule for p in programs for _, _, rule, _ in p.schedules)),
        ]
        found = self.fallbacks()
        lines.append(f"fallbacks: {sum(count for *_, count, _ in found)} of {len(found)} kinds")
        for refused, reason, rule, count, example in found:
            lines += [f"  {count:5} {refused} -> {rule}: {reason}", f"        {example}"]
        slow: dict[str, list[str]] = defaultdict(list)
        for p in programs:
            for cpu, rule, note in p.slow:
                slow[rule].append(f"seed {p.seed}, {cpu}: {note}")
        lines.append(f"kernels that may be slow: {sum(map(len, slow.values()))}")
        lines += [f"  {len(notes):5} {rule}: {notes[0]}" for rule, notes in slow.items()]
        reasons = Counter(_NAMES.sub("...", what) for p in programs for _, what in p.without_code)
        lines += [f"no code: {count} {reason}" for reason, count in reasons.most_common()]
        for program, cpu, what in failed:
            lines.append(f"FAILED {cpu}: {what}\n{program.text or f'seed {program.seed}'}")
        return "\n".join(lines)


def _counted(counts: Counter[str]) -> str:
    return ", ".join([f"{name} {count}" for name, count in counts.most_common()])


def run(seeds: range, jobs: int) -> Summary:
    """All programs, so many processes at a time."""
    summary = Summary()
    starts = range(seeds.start, seeds.stop, CHUNK)

    def chunk(first: int) -> list[Checked]:
        return list(run_chunk(first, min(CHUNK, seeds.stop - first)))

    with ThreadPoolExecutor(jobs) as pool:
        for i, checked in enumerate(pool.map(chunk, starts)):
            summary.checked += checked
            print(f"{i + 1} of {len(starts)} chunks", file=sys.stderr, flush=True)
    return summary


def main(arguments: Iterable[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0, help="the first program's seed")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--work", nargs=2, type=int, help=argparse.SUPPRESS)
    given = parser.parse_args(None if arguments is None else list(arguments))
    if given.work:
        arm_watchdog()
        work(*given.work)
        return 0
    begin = time.perf_counter()
    summary = run(range(given.seed, given.seed + given.count), given.jobs)
    print(summary.text(targets=len(TARGETS)))
    print(f"{time.perf_counter() - begin:.0f} s")
    return int(any(p.failures for p in summary.checked))


if __name__ == "__main__":
    sys.exit(main())
