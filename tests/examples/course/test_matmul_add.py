"""A product with a bias, as written, by default and tuned: the same numbers."""

from __future__ import annotations

import re
from types import ModuleType

import numpy as np
import pytest

import burnish
from burnish import te, transform


@pytest.mark.tuning
def test_it_runs(program: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    program.main(["--size", "64", "--trials", "2"])
    text = capsys.readouterr().out
    times = [float(t) for t in re.findall(r"Execution time .*: (\S+) ms", text)]
    assert len(times) == 3
    assert all(t > 0 for t in times)
    assert "def apply_trace(sch)" in text


def test_the_definition_has_the_sizes_it_is_given(program: ModuleType) -> None:
    func = te.create_prim_func(program.matmul_add(8, 12, 16))
    rng = np.random.default_rng(4)
    a, b, c = (rng.random(s, "float32") for s in ((8, 12), (12, 16), (8, 16)))
    for mod in (
        burnish.IRModule.from_expr(func),
        transform.DefaultSchedule()(burnish.IRModule.from_expr(func)),
    ):
        out = np.full((8, 16), np.nan, "float32")
        burnish.build(mod)["main"](a, b, c, out)
        np.testing.assert_allclose(out, a @ b + c, rtol=1e-5)
