"""Which tests run which lines: one run of a room's tests under coverage, kept as JSON.

``python -m burnish.tests.mutation.coverage_map OUT PACKAGE TEST...`` runs the tests in this process
and writes ``{"lines": {file: {line: [test number]}}, "tests": [id], "seconds": [time]}``. Files are
paths inside the package. Lines that only ran while modules were imported have no tests. A test that
failed is left out, and so are those marked ``slow`` or ``tuning``.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import coverage
import pytest

FEW = 5
"""Lines that fewer tests run are tried with all tests of the file."""


@dataclass
class CoverageMap:
    """What a run said: the tests that ran each line of each file, and how long tests take."""

    lines: dict[str, dict[int, set[str]]] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)

    def add(self, said: Mapping[str, Any]) -> None:
        """Join in the JSON of one run."""
        tests = said["tests"]
        for file, lines in said["lines"].items():
            known = self.lines.setdefault(file, {})
            for line, numbers in lines.items():
                known.setdefault(int(line), set()).update(tests[n] for n in numbers)
        self.seconds.update(zip(tests, said["seconds"], strict=True))

    def tests_of(self, file: str, first: int, last: int) -> list[str]:
        """The tests to try for a change of some lines, in order: those of the file's own test that
        run the lines, the rest of the file's own test (it may run them in other processes), the
        other tests that run the lines; and where that are few, as for what runs at import, all that
        run anything of the file. Quick ones stand before slow ones."""
        lines = self.lines.get(file, {})
        ran = set[str]().union(*(t for line, t in lines.items() if first <= line <= last))
        own = {t for t in self.seconds if t.startswith(mirror(file) + "::")}
        found = ran | own
        if len(ran) < FEW:
            found = found.union(*lines.values())
        return sorted(found, key=lambda t: (t not in own, t not in ran, self.seconds[t], t))


def mirror(file: str) -> str:
    """The test file of a file: ``x/y.py`` is tested by ``tests/x/test_y.py``."""
    path = Path(file)
    return (Path("tests") / path.parent / f"test_{path.name}").as_posix()


class Recorder:
    """A pytest plugin that names the test that runs to coverage, and takes down its time."""

    def __init__(self, cov: coverage.Coverage) -> None:
        self.cov = cov
        self.seconds: dict[str, float] = defaultdict(float)
        self.failed: set[str] = set()

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self.cov.switch_context(item.nodeid)
        yield
        self.cov.switch_context("")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.seconds[report.nodeid] += report.duration
        if report.failed:
            self.failed.add(report.nodeid)

    def as_json(self, package: Path) -> dict[str, Any]:
        """See the module."""
        tests = [t for t in self.seconds if t not in self.failed]
        numbers = {t: n for n, t in enumerate(tests)}
        data = self.cov.get_data()
        lines: dict[str, dict[int, list[int]]] = {}
        for file in data.measured_files():
            place = Path(file).relative_to(package).as_posix()
            lines[place] = {
                line: [numbers[c] for c in contexts if c in numbers]
                for line, contexts in data.contexts_by_lineno(file).items()
            }
        return {"lines": lines, "tests": tests, "seconds": [self.seconds[t] for t in tests]}


def record(out: Path, package: Path, tests: Sequence[str]) -> int:
    """Run the tests of a package and write the map; the exit code of pytest."""
    cov = coverage.Coverage(
        data_file=None,
        config_file=False,
        source=[str(package)],
        omit=[str(package / folder / "*") for folder in ("tests", "benchmarks", "examples", ".*")],
    )
    recorder = Recorder(cov)
    cov.start()
    code = pytest.main(
        ["-q", "-p", "no:cacheprovider", "-m", "not slow and not tuning", *tests], [recorder]
    )
    cov.stop()
    out.write_text(json.dumps(recorder.as_json(package)), encoding="utf-8")
    return int(code)


if __name__ == "__main__":
    sys.exit(record(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:]))
