"""The mutation run: the sample, the outcomes of real mutants in a small tree, the table."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from burnish.tests.mutation import run
from burnish.tests.mutation.coverage_map import CoverageMap
from burnish.tests.mutation.run import (
    Result,
    Run,
    chosen_tests,
    equivalents,
    outcome_of,
    sample,
    table,
)
from burnish.tests.mutation.sites import mutants

PRODUCT = """\
def count(n):
    total = 0
    while n > 0:
        total += 1
        n -= 1
    return total

def unused(n):
    return n + 1
"""
TESTS = """\
from f import count

def test_three():
    assert count(3) == 3
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    made = tmp_path / "burnish"
    made.mkdir()
    (made / "f.py").write_text(PRODUCT)
    (made / "test_f.py").write_text(TESTS)
    (made / "pytest.ini").write_text("[pytest]\npythonpath = .\n")
    return made


def outcomes(tree: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """What becomes of the mutants of the tree's file."""
    monkeypatch.setattr(run, "LEAST_LIMIT", 1.0)
    monkeypatch.setattr(os, "chdir", lambda _: None)
    runner = Run(tree.parent, tree.parent / "results.jsonl", 5.0)
    test = str(tree / "test_f.py") + "::test_three"
    lines = {str(n): [0] for n in range(2, 7)}
    runner.known.add({"lines": {"f.py": lines}, "tests": [test], "seconds": [0.01]})
    kinds = ("drop statement", "compare", "return None")
    chosen = [("vm", m) for m in mutants("f.py", PRODUCT) if m.kind in kinds]
    return {r.key.split(" ", 1)[1]: r.outcome for r in runner.all(chosen)}


def test_mutants_are_killed_hang_or_survive(
    tree: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert outcomes(tree, monkeypatch) == {
        "count compare `n > 0` -> `>=` #0": "killed",
        "count drop statement `total += 1` -> `pass` #0": "killed",
        "count drop statement `n -= 1` -> `pass` #0": "hangs",
        "count return None `return total` -> `return None` #0": "killed",
        "unused return None `return n + 1` -> `return None` #0": "survived",
    }
    assert (tree / "f.py").read_text() == PRODUCT, "the tree is as it was"


def test_an_outcome_of_tests_that_pass(tree: Path) -> None:
    assert outcome_of(tree, [str(tree / "test_f.py")], {}, tree / "log") == "survived"
    (tree / "f.py").write_text("import os\nos.abort()\n")
    assert outcome_of(tree, [str(tree / "test_f.py")], {}, tree / "log") == "killed"


def test_samples_are_the_same_for_a_seed_and_of_all_kinds() -> None:
    first, again = (sample("tuner/apply", 24, 5) for _ in range(2))
    assert [m.key for m in first] == [m.key for m in again]
    assert len({m.key for m in first}) == 24
    assert len({m.kind for m in first}) > 9
    assert [m.key for m in sample("tuner/apply", 24, 6)] != [m.key for m in first]


def test_tests_are_chosen_by_line_within_a_time() -> None:
    known = CoverageMap()
    tests = ["tests/vm/test_tensor.py::a", "tests/x.py::b", "tests/x.py::c"]
    said = {"lines": {"vm/tensor.py": {"3": [0, 1, 2], "9": [1]}}, "tests": tests}
    known.add({**said, "seconds": [4.0, 1.0, 2.0]})
    (m, *_) = mutants("vm/tensor.py", "\n\na < b\n")
    assert chosen_tests(m, known, 100.0) == tests
    assert chosen_tests(m, known, 5.5) == tests[:2], "quick ones first"
    assert chosen_tests(m, known, 1.0) == tests[:1], "one test at least"


def test_the_table_counts_the_equivalent_apart() -> None:
    results = [
        Result("vm", "a", "killed"), Result("vm", "b", "survived"), Result("vm", "c", "hangs"),
        Result("frontend", "d", "survived"), Result("frontend", "e", "killed"),
    ]  # fmt: skip
    lines = table(results, {"d": "why"}).splitlines()
    assert lines[2:] == [
        "| vm | 3 | 1 | 1 | 1 | 0 | 33.3 % |",
        "| frontend | 2 | 1 | 0 | 0 | 1 | 100.0 % |",
        "| all | 5 | 2 | 1 | 1 | 1 | 50.0 % |",
    ]


def test_every_equivalent_mutant_says_why() -> None:
    found = equivalents()
    assert all(len(why) > 10 for why in found.values())
    assert all(key.endswith(tuple(f"#{n}" for n in range(20))) for key in found)
