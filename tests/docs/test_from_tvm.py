"""Every row of ``docs/from_tvm.md`` runs, in order, as a reader would type it."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import numpy as np
import pytest

import burnish
from burnish.graphir import op
from burnish.graphir.parser import parse_module
from burnish.tests.docs.documents import ROOT, load_builder

DOCUMENT = ROOT / "docs" / "from_tvm.md"
_ROW = re.compile(r"^\| `(?P<tvm>.+)` \| `(?P<ours>.+)` \|$", re.MULTILINE)


def test_every_row_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(op, "_OPS", op.all_ops())
    builder = load_builder()
    text = DOCUMENT.read_text(encoding="utf-8")
    program = builder.Program(text, "document_from_tvm")
    rows = 0
    for part in builder.split(text):
        if part.kind == "python":
            program.run(part)
        for row in _ROW.finditer(part.text if part.kind == "text" else ""):
            line = text[: text.index(row[0])].count("\n")
            program.run(builder.Part("python", row["ours"] + "\n", line))
            rows += 1
    assert rows == sum(line.startswith("| `") for line in text.splitlines()) > 30
    found = vars(program.module)
    np.testing.assert_allclose(found["c"].numpy(), found["x"] @ found["x"], rtol=1e-4, atol=1e-4)
    assert found["best"].trace is not None


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
