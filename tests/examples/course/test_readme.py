"""The list of the course's programs is complete, and each program can be run as a script."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

COURSE = Path(__file__).resolve().parents[3] / "examples" / "course"
PROGRAMS = sorted(p.name for p in COURSE.glob("*.py"))


def test_every_program_is_listed_once() -> None:
    text = (COURSE / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| \[(\w+\.py)\]\((\w+\.py)\) \| .+ \|$", text, re.MULTILINE)
    assert sorted(name for name, _ in rows) == PROGRAMS
    assert all(name == target for name, target in rows)


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_program_is_a_script_with_a_test(name: str) -> None:
    text = (COURSE / name).read_text(encoding="utf-8")
    assert f"python examples/course/{name}" in text
    assert 'if __name__ == "__main__":' in text
    assert (Path(__file__).parent / f"test_{name}").exists()
