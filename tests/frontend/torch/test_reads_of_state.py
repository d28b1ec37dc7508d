"""Whether code reads what it sets in every call."""

from __future__ import annotations

from typing import Any

import pytest

from burnish.frontend.torch.reads_of_state import codes_run, is_read


class Thing:
    def __init__(self) -> None:
        self.n = 0
        self.mean = 0.0
        self.log: list[Any] = []
        self.stats = {"number of calls": 0}


def adds(m: Thing) -> None:
    m.n += 1
    m.n = m.n + 1
    m.log.append(3)


def prints(m: Thing) -> None:
    print("calls", m.n)


def derives(m: Thing) -> None:
    m.mean = m.n / 2


def branches(m: Thing) -> int:
    return 1 if m.n > 100 else 0


def measures(m: Thing) -> int:
    log = m.log
    return len(log)


def through_a_local(m: Thing) -> int:
    n = m.n
    m.n = n + 1
    return 1 if n > 100 else 0


def by_text(m: Thing) -> int:
    return int(getattr(m, "n")) if getattr(m, "n") > 100 else 0  # noqa: B009


def by_a_key(m: Thing) -> int:
    m.stats["number of calls"] += 1
    return 1 if m.stats["number of calls"] > 100 else 0


@pytest.mark.parametrize(
    ("function", "name", "expected"),
    [
        (adds, "n", False), (adds, "o.log[3]", False), (prints, "n", False), (derives, "n", False),
        (branches, "part.n", True), (measures, "log[0]", True), (branches, "log", False),
        (through_a_local, "n", True), (by_text, "n", True),
        (by_a_key, "stats['number of calls']", True),
    ],
)  # fmt: skip
def test_reads(function: Any, name: str, expected: bool) -> None:
    with codes_run(found := set()):
        function(Thing())
    assert is_read(name, found) is expected
