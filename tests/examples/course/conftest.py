"""Each program of the course is imported as a reader runs it: from its own folder."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

import pytest

COURSE = Path(__file__).resolve().parents[3] / "examples" / "course"


@pytest.fixture(scope="module")
def program(request: pytest.FixtureRequest) -> ModuleType:
    """The program that the test file is named after."""
    sys.path.insert(0, str(COURSE))
    try:
        return importlib.import_module(request.path.stem.removeprefix("test_"))
    finally:
        sys.path.remove(str(COURSE))
