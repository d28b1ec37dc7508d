"""Fixtures of every test: golden text files; and the seeds that every test begins with.

``golden(text)`` compares with ``tests/golden/<path of the test file>/<name of the test>.txt``;
``golden(text, "part")`` with ``<name of the test>.part.txt``. ``pytest --update-golden`` rewrites
them, and the diff is then read like any other change.
"""

from __future__ import annotations

import difflib
import os
import random
import re
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

GOLDEN = Path(__file__).parent / "golden"
_UNSAFE = re.compile(r"[^0-9A-Za-z_.+-]+")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="write the golden files instead of comparing"
    )


def pytest_configure() -> None:
    """A shell starts what runs in the background with Ctrl-C ignored, and programs started from
    there inherit that: tests of Ctrl-C need it to arrive. What is kept on this machine's disk is no
    test's business. A mistake in a schedule rule fails a test; a compilation gets over it. Rules
    are tried on the CPU at hand without tile registers, which have tests of their own, emulated;
    BURNISH_TILES=1 has them tried too where the CPU has them."""
    os.environ["BURNISH_CACHE_DIR"] = str(Path(__file__).parent / "nothing-is-kept-here")
    os.environ["BURNISH_CACHE"] = "0"
    os.environ.setdefault("BURNISH_RAISE_DEFECTS", "1")
    os.environ.setdefault("BURNISH_TILES", "0")
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def seed_everything(*, with_torch: bool) -> None:
    """The generators that are nobody's own; torch's, whose first state is the system's choice."""
    random.seed(0)
    np.random.seed(0)
    if with_torch:
        import torch

        torch.manual_seed(0)


def pytest_collectstart(collector: pytest.Collector) -> None:
    """What a file draws when it is imported is the same in every run and in every worker."""
    if isinstance(collector, pytest.Module):
        text = collector.path.read_text(encoding="utf-8")
        seed_everything(with_torch="import torch" in text or "torch" in sys.modules)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """And so is what a test draws, whichever ran before it."""
    seed_everything(with_torch="torch" in sys.modules)


def golden_path(test_file: Path, test_name: str, part: str = "") -> Path:
    """Where the golden text of a test is kept."""
    folder = test_file.relative_to(Path(__file__).parent).with_suffix("")
    name = _UNSAFE.sub("-", test_name).strip("-") + (f".{part}" if part else "")
    return GOLDEN / folder / f"{name}.txt"


def compare_with_golden(path: Path, text: str, *, update: bool) -> None:
    """Fail with a readable diff unless the file holds ``text`` (up to trailing blank lines)."""
    found = text.rstrip("\n") + "\n"
    if update:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(found, encoding="utf-8")
        return
    where = path.relative_to(GOLDEN.parent) if path.is_relative_to(GOLDEN.parent) else path
    if not path.exists():
        pytest.fail(
            f"There is no golden file {where}. If the text below is right, run pytest with "
            f"--update-golden.\n{found}",
            pytrace=False,
        )
    expected = path.read_text(encoding="utf-8")
    if found != expected:
        lines = expected.splitlines(), found.splitlines()
        diff = "\n".join(difflib.unified_diff(*lines, f"{where} (expected)", "found", lineterm=""))
        pytest.fail(
            f"The text differs from its golden file; if the change is meant, run pytest with "
            f"--update-golden.\n{diff}",
            pytrace=False,
        )


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[..., None]:
    """``golden(text, part="")``: compare a text with the golden file of this test."""
    update = bool(request.config.getoption("--update-golden"))

    def check(text: str, part: str = "") -> None:
        compare_with_golden(golden_path(request.path, request.node.name, part), text, update=update)

    return check
