"""A tensor program, its Python loops and its expressions are one function."""

from __future__ import annotations

import re
from types import ModuleType

import numpy as np
import pytest

import burnish


def test_it_runs(program: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    program.main()
    text = capsys.readouterr().out
    errors = [float(e) for e in re.findall(r"largest error (\S+)", text)]
    assert len(errors) == 2
    assert max(errors) < 1e-4
    assert "C[vi, vj] = T.max(Y[vi, vj], T.float32(0))" in text
    assert text.endswith("The printed text is the same program.\n")


def test_the_compiled_program_computes_what_its_loops_do(program: ModuleType) -> None:
    rng = np.random.default_rng(5)
    a, b = (rng.standard_normal((32, 32)).astype("float32") for _ in range(2))
    loops, compiled, defined = (np.full((32, 32), np.nan, "float32") for _ in range(3))
    program.loops_mm_relu(a, b, loops)
    burnish.build(program.MyModule)["mm_relu"](a, b, compiled)
    burnish.build(program.mm_relu_expressions())["main"](a, b, defined)
    np.testing.assert_allclose(compiled, loops, rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(defined, compiled)
    assert (loops == 0).any()
    assert program.largest_error(loops, a, b) < 1e-4
