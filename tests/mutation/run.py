"""The command behind ``make mutants``: does a test fail where the product is wrong?

A private copy of the tree is changed, one mutant at a time, and the tests that run the changed line
(``coverage_map``) run on it until one fails: those of the file's own test first, then the others,
quick ones first. Each mutant has a process of its own, forked from one that has imported the large
libraries. A test that takes far longer than it did ends the process: such a mutant *hangs*, which
does not count as killed.

``equivalent.txt`` lists mutants that no test can kill, as they change no behaviour, each with why.
Results are appended to OUT as lines of JSON; ``--again survived`` runs those of one outcome anew.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import importlib
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from burnish.tests.mutation.coverage_map import CoverageMap
from burnish.tests.mutation.sites import Mutant, is_python, mutants

ROOT = Path(__file__).resolve().parents[2]
EQUIVALENT = Path(__file__).with_name("equivalent.txt")
ROOMS = {
    "tensorir/arith": ("tensorir/arith",),
    "tensorir/schedule": ("tensorir/schedule", "tensorir/analysis"),
    "graphir/passes": ("graphir/passes",),
    "vm": ("vm",),
    "tuner/apply": ("tuner/best_record.py", "tuner/records/database.py", "tuner/task.py"),
    "frontend": ("frontend",),
}
TESTS = (
    ("tests/tensorir/arith", "tests/fuzz/test_prove.py"),
    ("tests/tensorir/schedule", "tests/tensorir/analysis"),
    ("tests/graphir",),
    ("tests/vm",),
    ("tests/frontend",),
    tuple(
        [
            f"tests/tuner/{n}.py"
            for n in (
                "records/test_apply",
                "records/test_database",
                "test_task",
                "search/test_candidate",
            )
        ]
    ),
    tuple([f"tests/driver/test_{n}.py" for n in ("compile", "numerics", "signature", "stages")]),
    ("tests/tensorir/lowering",),
    tuple([f"tests/tensorir/stages/test_{n}.py" for n in ("stage_lowering", "stage_schedule")]),
)
"""The tests that may kill, in groups that are recorded each in a process."""
PRODUCT = ("driver", "frontend", "models", "graphir", "tuner", "tensorir", "vm", "support")
MOST_TESTS = 400
"""How many tests a mutant meets at most."""
SLACK = 10.0
LEAST_LIMIT = 8.0
"""A test may take so many times what it took, and so many seconds of the processor in any case."""
ASLEEP = 8.0
"""Times the limit that a test may take by the clock on the wall."""
CONTROL = 40
"""The tests of every so many mutants also run on the tree as it is, where they must pass."""
HEAVY = (
    *("numpy", "scipy.special", "torch", "torch.export._trace", "torch._dynamo", "mpmath"),
    *("onnx.reference", "llvmlite.binding", "networkx", "sqlite3", "xdist.plugin"),
    *("hypothesis.strategies", "hypothesis.internal.conjecture.engine"),
    *("hypothesis.internal.entropy", "hypothesis.extra.numpy", "_hypothesis_pytestplugin"),
)
"""What is imported before processes are forked: a mutant then costs half a second, not three."""
OUTCOMES = ("killed", "survived", "hangs")


# -- one run of tests ------------------------------------------------------------------------------
class Watch:
    """A pytest plugin that ends the process by a signal when a test takes too long."""

    def __init__(self, seconds: dict[str, float]) -> None:
        self.seconds = seconds

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        limit = max(LEAST_LIMIT, SLACK * self.seconds.get(item.nodeid, 0.0))
        signal.setitimer(signal.ITIMER_PROF, limit)
        signal.setitimer(signal.ITIMER_REAL, ASLEEP * limit)
        yield
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)


def outcome_of(tree: Path, tests: Sequence[str], seconds: dict[str, float], log: Path) -> str:
    """Run tests on a tree in a forked process: ``survived`` if they pass, ``hangs``, or ``killed``
    by a failure or a crash. The last lines of the log say which test it was."""
    pid = os.fork()
    if pid == 0:
        _child(tree, tests, seconds, log)
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status):
        ended = os.WTERMSIG(status) in (signal.SIGPROF, signal.SIGALRM)
        return "hangs" if ended else "killed"
    return "survived" if os.WEXITSTATUS(status) == 0 else "killed"


def _child(tree: Path, tests: Sequence[str], seconds: dict[str, float], log: Path) -> None:
    code = 3
    try:
        with log.open("w") as out:
            os.dup2(out.fileno(), 1)
            os.dup2(out.fileno(), 2)
        for name in [n for n in sys.modules if n.split(".")[0] == "burnish"]:
            del sys.modules[name]
        os.chdir(tree)
        limit = 6 << 30
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
        sys.path.insert(0, str(tree.parent))
        os.environ["PYTHONPATH"] = str(tree.parent)
        options = ["-x", "-q", "-p", "no:cacheprovider", "--tb=line"]
        # Plugins are imported already; their assertions need no rewriting.
        options += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]
        code = pytest.main([*options, *tests], [Watch(seconds)])
    finally:
        sys.stdout.flush()
        os._exit(int(code))


# -- mutants ---------------------------------------------------------------------------------------
def files_of(room: str) -> list[str]:
    """The files of a room, as paths inside the package."""
    found: list[str] = []
    for place in ROOMS[room]:
        path = ROOT / place
        files = [path] if path.is_file() else sorted(path.rglob("*.py"))
        found += [f.relative_to(ROOT).as_posix() for f in files]
    return found


def digest(tree: Path, tests: Sequence[str]) -> str:
    """A name for some tests and the product that they run."""
    text = hashlib.sha256()
    for place in (*PRODUCT, *tests):
        path = tree / place
        for file in [path] if path.is_file() else sorted(path.rglob("*.py")):
            text.update(f"{file.relative_to(tree)}\n".encode() + file.read_bytes())
    return text.hexdigest()[:16]


def all_mutants(room: str) -> Iterator[Mutant]:
    """All mutants of a room."""
    for file in files_of(room):
        yield from mutants(file, (ROOT / file).read_text(encoding="utf-8"))


def sample(room: str, count: int, seed: int) -> list[Mutant]:
    """Mutants of a room, each kind of change as often as every other, as far as there are any."""
    kinds: dict[str, list[Mutant]] = defaultdict(list)
    for m in all_mutants(room):
        kinds[m.kind].append(m)
    rng = random.Random(f"{room}/{seed}")
    for found in kinds.values():
        rng.shuffle(found)
    names = sorted(kinds)
    rng.shuffle(names)
    chosen: list[Mutant] = []
    while len(chosen) < count and any(kinds.values()):
        for name in names:
            if kinds[name] and len(chosen) < count:
                m = kinds[name].pop()
                if is_python(m.apply((ROOT / m.file).read_text(encoding="utf-8"))):
                    chosen.append(m)
    return chosen


def equivalents() -> dict[str, str]:
    """The mutants that no test can kill, and why."""
    found: dict[str, str] = {}
    key = ""
    for line in EQUIVALENT.read_text(encoding="utf-8").splitlines():
        if line.startswith("    "):
            found[key] = line.strip()
        elif line and not line.startswith("#"):
            key = line
    return found


def chosen_tests(m: Mutant, known: CoverageMap, most: float) -> list[str]:
    """The tests to run, in order, as far as ``most`` seconds go; at least one."""
    found = known.tests_of(m.file, m.line, m.last)
    chosen: list[str] = []
    seconds = 0.0
    for test in found[:MOST_TESTS]:
        seconds += known.seconds[test]
        if chosen and seconds > most:
            break
        chosen.append(test)
    return chosen


# -- the run ---------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Result:
    """What became of a mutant; ``by`` is the test that failed, ``tests`` how many were tried."""

    room: str
    key: str
    outcome: str
    by: str = ""
    tests: int = 0


class Run:
    """A private copy of the tree in a folder, the coverage map, and the results so far."""

    def __init__(self, work: Path, out: Path, most: float) -> None:
        self.tree = work / "burnish"
        self.work = work
        self.out = out
        self.most = most
        self.log = work / "log.txt"
        self.known = CoverageMap()
        self.controls = 0

    def prepare(self) -> None:
        """Copy the tree, and record the parts of the coverage map that the folder lacks or that
        were recorded of another tree."""
        shutil.rmtree(self.tree, ignore_errors=True)
        unwanted = shutil.ignore_patterns(".*", "__pycache__", "data", "build", "*.egg-info")
        shutil.copytree(ROOT, self.tree, ignore=unwanted)
        for tests in TESTS:
            said = self.work / f"coverage-{digest(self.tree, tests)}.json"
            if not said.exists():
                command = [sys.executable, "-m", "burnish.tests.mutation.coverage_map"]
                environment = {**os.environ, "PYTHONPATH": str(self.work)}
                subprocess.run(
                    [*command, str(said), str(self.tree), *tests],
                    cwd=self.tree,
                    env=environment,
                    check=False,
                )
            self.known.add(json.loads(said.read_text(encoding="utf-8")))
        for name in HEAVY:
            importlib.import_module(name)
        # The collector would touch, and so copy, every object in each of the forked processes.
        gc.collect()
        gc.freeze()
        gc.set_threshold(100_000, 50, 50)

    def one(self, room: str, m: Mutant) -> Result:
        """Try a mutant."""
        tests = chosen_tests(m, self.known, self.most)
        if not tests:
            return Result(room, m.key, "survived")
        path = self.tree / m.file
        text = path.read_text(encoding="utf-8")
        is_control = self.controls % CONTROL == 0
        self.controls += 1
        if is_control and self.outcome(tests) != "survived":
            sys.exit(f"The tests fail without a mutant too:\n{self.log.read_text()[-3000:]}")
        try:
            self._write(path, m.apply(text))
            outcome = self.outcome(tests)
        finally:
            self._write(path, text)
        by = _failed(self.log) if outcome == "killed" else ""
        return Result(room, m.key, outcome, by, len(tests))

    def outcome(self, tests: Sequence[str]) -> str:
        """What the tests say of the tree as it stands."""
        return outcome_of(self.tree, tests, self.known.seconds, self.log)

    def _write(self, path: Path, text: str) -> None:
        path.write_text(text, encoding="utf-8")
        for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
            compiled.unlink()

    def all(self, chosen: Sequence[tuple[str, Mutant]]) -> list[Result]:
        """Try mutants one after the other, and append what becomes of them to the results."""
        results: list[Result] = []
        for n, (room, m) in enumerate(chosen):
            begin = time.perf_counter()
            result = self.one(room, m)
            results.append(result)
            with self.out.open("a", encoding="utf-8") as out:
                out.write(json.dumps(result.__dict__) + "\n")
            spent = time.perf_counter() - begin
            print(f"{n + 1}/{len(chosen)} {spent:5.1f} s {result.outcome:8} {m.key}", flush=True)
        return results


def _failed(log: Path) -> str:
    """The first failed test that a log names."""
    for line in log.read_text(encoding="utf-8", errors="replace").splitlines():
        if line.startswith(("FAILED ", "ERROR ")):
            return line.split(" - ")[0].split(" ", 1)[1]
    return "the process ended"


def read_results(out: Path) -> dict[str, Result]:
    """The latest result of each mutant in a file of results."""
    if not out.exists():
        return {}
    lines = out.read_text(encoding="utf-8").splitlines()
    return {r["key"]: Result(**r) for r in map(json.loads, lines)}


def table(results: Iterable[Result], spared: dict[str, str]) -> str:
    """The summary by room as a table of Markdown."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for r in results:
        outcome = "equivalent" if r.outcome == "survived" and r.key in spared else r.outcome
        counts[r.room][outcome] += 1
        counts["all"][outcome] += 1
    head = "| room | mutants | killed | survived | hang | equivalent | killed of the others |"
    lines = [head, "|---|---:|---:|---:|---:|---:|---:|"]
    for room in (*ROOMS, "all"):
        c = counts[room]
        rest = c.total() - c["equivalent"]
        if c.total():
            cells = (c.total(), c["killed"], c["survived"], c["hangs"], c["equivalent"])
            share = f"{100 * c['killed'] / rest:.1f} %" if rest else "-"
            lines.append(f"| {room} | {' | '.join(map(str, cells))} | {share} |")
    return "\n".join(lines)


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--count", type=int, default=420)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--room", choices=[*ROOMS], action="append")
    parser.add_argument("--work", type=Path, required=True, help="folder of the copy and the map")
    parser.add_argument("--seconds", type=float, default=20.0, help="of tests for a mutant")
    parser.add_argument("--again", choices=OUTCOMES, help="run those of one outcome anew")
    parser.add_argument("--table", action="store_true", help="print the table of results only")
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    out = args.work / "results.jsonl"
    before = read_results(out)
    rooms = args.room or [*ROOMS]
    if not args.table:
        if args.again is not None:
            wanted = {k for k, r in before.items() if r.outcome == args.again} - {*equivalents()}
            chosen = [(room, m) for room in rooms for m in all_mutants(room) if m.key in wanted]
        else:
            each = -(-args.count // len(rooms))
            chosen = [(room, m) for room in rooms for m in sample(room, each, args.seed)]
            chosen = [c for c in chosen if c[1].key not in before]
        run = Run(args.work, out, args.seconds)
        run.prepare()
        run.all(chosen)
    results = read_results(out)
    spared = equivalents()
    print(table(results.values(), spared))
    for r in results.values():
        if r.outcome != "killed" and r.key not in spared:
            print(f"{r.outcome}: {r.key} ({r.tests} tests)")


if __name__ == "__main__":
    main()
