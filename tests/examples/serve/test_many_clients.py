"""The example of a server and its clients runs as it stands, where Triton's client is installed."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "serve" / "many_clients.py"


def test_clients_of_others_get_the_answers_of_the_model() -> None:
    pytest.importorskip("starlette")
    pytest.importorskip("uvicorn")
    pytest.importorskip("tritonclient.http")
    result = subprocess.run(
        [sys.executable, str(EXAMPLE), "--clients", "3", "--requests", "20"],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert "60 requests of 3 processes" in result.stdout
    assert "ended with 0" in result.stdout
    calls = re.search(r"called (\d+) times", result.stdout)
    assert calls is not None
    assert int(calls[1]) <= 60
