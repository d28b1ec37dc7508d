"""The README tells the truth: its program runs, its output is real, its claims are checked."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import burnish
from burnish.benchmarks.results import headline
from burnish.support.config import describe_flags
from burnish.tests.docs.documents import ROOT, broken_links, compare, load_builder

onnx = pytest.importorskip("onnx")

README = ROOT / "README.md"
TEXT = README.read_text(encoding="utf-8")


def compiles_an_if_of_other_shapes_once() -> bool:
    made = onnx.parser.parse_model(
        """
        <ir_version: 8, opset_import: ["" : 17]>
        g (bool c, float[2, 1] x) => (float[] y) {
            y = If (c) <
                then_branch = a () => (float[2] u) { one = Constant <value_ints = [1]> ()
                                                     u = Squeeze (x, one) },
                else_branch = b () => (float[2, 1] v) { v = Identity (x) }
            >
        }
        """
    )
    model = burnish.compile(made)
    for c in (True, False):
        model(np.array(c), np.ones((2, 1), np.float32))
    return int(model.compilations) == 1


NOT_THERE_YET = {
    "one program for all data": lambda: not compiles_an_if_of_other_shapes_once(),
}
"""What the README says is missing, and a check that it still is."""


def test_the_program_prints_and_the_regions_hold_what_they_show(
    request: pytest.FixtureRequest,
) -> None:
    compare("README.md", request)


def test_links_lead_somewhere() -> None:
    assert broken_links(README) == []


def test_the_first_screen_has_the_two_commands() -> None:
    first = TEXT.splitlines()[:30]
    assert any(line.startswith("make demo") for line in first)
    assert any(line.startswith("make test") for line in first)
    targets = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert re.search(r"(?m)^demo:", targets)
    assert re.search(r"(?m)^test:", targets)


def test_the_first_program_has_six_lines() -> None:
    first = next(p for p in load_builder().split(TEXT) if p.kind == "python")
    assert len(first.text.splitlines()) == 6


def test_the_drawing_is_that_of_the_architecture() -> None:
    assert load_builder().section("docs/architecture.md", "00-import") in TEXT


def test_the_flag_table_is_the_one_of_the_code() -> None:
    assert describe_flags().rstrip() in TEXT


def test_the_figures_are_those_of_the_data() -> None:
    assert f"<!-- from: speed() -->\n{headline()}\n<!-- end -->\n" in TEXT


@pytest.mark.parametrize("claim", NOT_THERE_YET)
def test_what_is_said_to_be_missing_is_missing(claim: str) -> None:
    assert f"- {claim}" in TEXT
    assert NOT_THERE_YET[claim](), f"{claim}: it is there now; say so in README.md"


def test_every_extra_is_in_the_table() -> None:
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    extras = project.split("[project.optional-dependencies]")[1].split("\n[")[0]
    names = re.findall(r"(?m)^(\w+) = \[", extras)
    assert len(names) > 3
    assert [n for n in names if f"| `{n}` |" not in TEXT] == []


def test_named_examples_exist() -> None:
    examples = {Path(name).name for name in re.findall(r"examples/\w+\.py", TEXT)}
    assert examples
    assert examples <= {p.name for p in (ROOT / "examples").glob("*.py")}
