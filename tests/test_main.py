"""``python -m burnish`` and the ``burnish`` script are the command line."""

from __future__ import annotations

import subprocess
import sys


def test_python_m_burnish_is_the_command_line() -> None:
    result = subprocess.run(
        [sys.executable, "-m", "burnish", "--help"], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    assert "compile" in result.stdout


def test_an_unknown_command_fails() -> None:
    result = subprocess.run(
        [sys.executable, "-m", "burnish", "frobnicate"], capture_output=True, text=True, check=False
    )
    assert result.returncode != 0
    assert "frobnicate" in result.stderr
