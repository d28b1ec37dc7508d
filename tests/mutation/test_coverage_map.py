"""Which tests run which lines, of a package of one file."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from burnish.tests.mutation.coverage_map import CoverageMap, mirror

PRODUCT = """\
def sign(x):
    if x < 0:
        return -1
    return 1
"""
TESTS = """\
import pytest
from f import sign

def test_negative():
    assert sign(-5) == -1

def test_positive():
    assert sign(5) == 1

def test_wrong():
    assert sign(0) == 0

@pytest.mark.slow
def test_slow():
    sign(1)
"""


def test_a_recorded_map(tmp_path: Path) -> None:
    (tmp_path / "f.py").write_text(PRODUCT)
    (tmp_path / "pytest.ini").write_text("[pytest]\npythonpath = .\nmarkers = slow: s\n")
    (tmp_path / "checks").mkdir()
    (tmp_path / "checks" / "test_f.py").write_text(TESTS)
    out = tmp_path / "map.json"
    command = [sys.executable, "-m", "burnish.tests.mutation.coverage_map", out, tmp_path, "checks"]
    done = subprocess.run(list(map(str, command)), cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode == 1, done.stdout
    known = CoverageMap()
    known.add(json.loads(out.read_text()))
    negative, positive = (f"checks/test_f.py::test_{n}" for n in ("negative", "positive"))
    assert {n: tests for n, tests in known.lines["f.py"].items() if tests} == {
        2: {negative, positive},
        3: {negative},
        4: {positive},
    }
    assert known.tests_of("f.py", 3, 3)[0] == negative
    assert set(known.tests_of("f.py", 1, 1)) == {negative, positive}, "it ran at import"
    assert known.tests_of("g.py", 1, 9) == []


def test_the_files_own_test_comes_first_and_quick_ones_before_slow() -> None:
    known = CoverageMap()
    own = ["tests/a/test_b.py::x", "tests/a/test_b.py::else"]
    others = [f"tests/z.py::{name}" for name in "edcba"]
    lines = {"7": [0, 2, 3, 4, 5, 6], "9": [3]}
    known.add(
        {"lines": {"a/b.py": lines}, "tests": [*own, *others], "seconds": [9, 1, 3, 4, 5, 6, 7]}
    )
    assert known.tests_of("a/b.py", 7, 8) == [*own, *others]
    rest = [t for t in others if t != "tests/z.py::d"]
    assert known.tests_of("a/b.py", 9, 9)[2:] == ["tests/z.py::d", *rest]
    known.add({"lines": {"a/b.py": {"7": [0]}}, "tests": ["tests/q.py::y"], "seconds": [0]})
    assert "tests/q.py::y" in known.tests_of("a/b.py", 7, 7)
    assert mirror("a/b.py") == "tests/a/test_b.py"
