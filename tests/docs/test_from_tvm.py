"""Every row of ``docs/from_tvm.md`` and ``docs/course.md`` runs, in order, as a reader would type
it."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import burnish
from burnish.graphir import op
from burnish.graphir.text.parser import parse_module
from burnish.tests.docs.documents import ROOT, load_builder

_ROW = re.compile(r"^\| `(?P<tvm>.+)`(?P<rest>[^`|]*) \| `(?P<ours>.+)` \|$", re.MULTILINE)


def run_rows(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The names that a page's programs and rows leave."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(op, "_OPS", op.all_ops())
    builder = load_builder()
    text = (ROOT / "docs" / name).read_text(encoding="utf-8")
    program = builder.Program(text, f"document_{name.removesuffix('.md')}")
    rows = 0
    for part in builder.split(text):
        if part.kind == "python":
            program.run(part)
        for row in _ROW.finditer(part.text if part.kind == "text" else ""):
            line = text[: text.index(row[0])].count("\n")
            program.run(builder.Part("python", row["ours"] + "\n", line))
            rows += 1
    assert rows == sum(line.startswith("| `") for line in text.splitlines()) > 25
    return vars(program.module)


def test_every_row_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = run_rows("from_tvm.md", tmp_path, monkeypatch)
    np.testing.assert_allclose(found["c"].numpy(), found["x"] @ found["x"], rtol=1e-4, atol=1e-4)
    assert found["best"].trace is not None


def test_every_row_of_the_course_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = run_rows("course.md", tmp_path, monkeypatch)
    np.testing.assert_allclose(found["c"].numpy(), found["a"] @ found["a"], rtol=1e-4, atol=1e-4)


def test_call_tir_is_another_name_of_call_dps() -> None:
    text = textwrap.dedent("""
    @I.ir_module
    class Module:
        @T.prim_func
        def f(x: T.Buffer((4,), "float32"), y: T.Buffer((4,), "float32")):
            for i in range(4):
                with T.block("y"):
                    vi = T.axis.spatial(4, i)
                    y[vi] = x[vi]

        @R.function
        def main(x: R.Tensor((4,), "float32")):
            with R.dataflow():
                y = R.call_tir(cls.f, (x,), R.Tensor((4,), dtype="float32"))
                R.output(y)
            return y
    """)
    module = parse_module(text)
    assert "R.call_dps(cls.f, (x,)" in module.script()
    burnish.assert_structural_equal(module, parse_module(text.replace("call_tir", "call_dps")))
