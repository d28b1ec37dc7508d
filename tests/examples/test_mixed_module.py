"""The example that mixes a tensor program with environment functions runs as it stands."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from burnish import array, empty

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "mixed_module.py"
OPTIONS = ("--trials", "3", "--images", "30")


@pytest.mark.tuning
def test_the_predictions_are_the_same_before_and_after_tuning() -> None:
    result = subprocess.run(
        [sys.executable, str(EXAMPLE), *OPTIONS], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    assert "The predictions are the same" in result.stdout
    before, after = re.findall(r"(\d+) of 30 correct", result.stdout)
    assert before == after
    assert int(before) > 20
    assert "def apply_trace(sch)" in result.stdout


def test_its_environment_functions_write_in_place() -> None:
    example = runpy.run_path(str(EXAMPLE), run_name="mixed_module")
    x, w, b = (
        array([[1.0, -2.0]], "float32"),
        array([[3.0, 4.0]], "float32"),
        array([5.0], "float32"),
    )
    out = empty((1, 1))
    example["torch_linear"](x, w, b, out)
    np.testing.assert_array_equal(out.numpy(), [[0.0]])
    out = empty((1, 2))
    example["torch_relu"](x, out)
    np.testing.assert_array_equal(out.numpy(), [[1.0, 0.0]])
