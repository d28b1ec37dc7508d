"""The golden fixture: names, updating, and the message of a difference."""

from __future__ import annotations

import importlib.util
import textwrap
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]
CONFTEST = Path(__file__).parent / "conftest.py"


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    """A small project whose tests folder has this conftest."""
    pytester.makeconftest(CONFTEST.read_text(encoding="utf-8"))
    pytester.makepyfile(
        test_text=textwrap.dedent("""
            import pytest

            @pytest.mark.parametrize("n", [1, 2])
            def test_print(golden, n):
                golden(f"a\\nb {n}\\n")
                golden("second", "part")
        """)
    )
    return pytester


def test_missing_golden_fails_and_shows_the_text(project: pytest.Pytester) -> None:
    result = project.runpytest("-p", "no:cacheprovider")
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(["*There is no golden file golden/test_text/test_print-1.txt*"])


def test_update_writes_and_a_second_run_passes(project: pytest.Pytester) -> None:
    project.runpytest("--update-golden").assert_outcomes(passed=2)
    folder = project.path / "golden" / "test_text"
    assert sorted(p.name for p in folder.iterdir()) == [
        "test_print-1.part.txt",
        "test_print-1.txt",
        "test_print-2.part.txt",
        "test_print-2.txt",
    ]
    assert (folder / "test_print-2.txt").read_text() == "a\nb 2\n"
    project.runpytest().assert_outcomes(passed=2)


def test_a_difference_is_shown_as_a_diff(project: pytest.Pytester) -> None:
    project.runpytest("--update-golden")
    (project.path / "golden" / "test_text" / "test_print-1.txt").write_text("a\nold\n")
    result = project.runpytest()
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*--update-golden*", "*(expected)", "*-old", "*+b 1"])


def test_conftest_of_the_repository_mirrors_the_tree() -> None:
    spec = importlib.util.spec_from_file_location("golden_conftest", CONFTEST)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    path = module.golden_path(CONFTEST.parent / "vm" / "test_x.py", "test_a[1-b/c]")
    assert path.relative_to(CONFTEST.parent).as_posix() == "golden/vm/test_x/test_a-1-b-c.txt"


def test_what_a_file_draws_is_the_same_in_every_run(pytester: pytest.Pytester) -> None:
    """At its import, and in a test whichever was run before: NumPy's, Python's and torch's."""
    pytester.makeconftest(CONFTEST.read_text(encoding="utf-8"))
    text = textwrap.dedent("""
        import random

        import numpy as np
        import torch

        def draw():
            return [random.random(), np.random.rand(), torch.rand(()).item()]

        DRAWN = draw()

        def test_the_first():
            assert draw() == DRAWN

        def test_the_second():
            assert draw() == DRAWN
    """)
    pytester.makepyfile(test_a=text, test_b=text)
    pytester.runpytest("-p", "no:randomly").assert_outcomes(passed=4)
