"""A profile as a table, as a trace, and beside another one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from burnish.driver.model_profile import CallTime, KernelTime, ModelProfile, html_table
from burnish.support.errors import ArtifactError

ROWS = (
    KernelTime(
        "kernel", "linear", 2, 6e-6, 1.2e5, 3e4, 1.5e-6, "matmul", ("/a/net.py:3", "b.py:7", "c")
    ),
    KernelTime("env", "mine", 1, 2e-6),
)
CALLS = (
    CallTime("linear", 1000, 4000),
    CallTime("mine", 4000, 6000),
    CallTime("linear", 6000, 9000),
)


def made(*rows: KernelTime, wall: float = 9e-6) -> ModelProfile:
    return ModelProfile("net", rows or ROWS, 1e-5, wall, 7, 2, "znver4", CALLS, 0, 10_000, ("so",))


def test_the_table() -> None:
    assert str(made()) == (
        "net: 9 us a call, 10 us with the clock (7 runs, 2 threads, znver4)\n"
        "  kernel      calls  time  share  GFLOP/s  GB/s  of roofline    rule"
        "                         from\n"
        "  linear          2  6 us  60.0%       40    10          50%  matmul"
        "  net.py:3, b.py:7 and 1 more\n"
        "  env:mine        1  2 us  20.0%\n"
        "  (the rest)         2 us  20.0%\n"
        "  note: so"
    )
    html = made()._repr_html_()
    assert html.count("<tr>") == 4
    assert "<p>so</p>" in html


def test_rows_and_rest_are_the_whole() -> None:
    profile = made()
    assert sum(r.seconds for r in profile.rows) + profile.rest == pytest.approx(profile.total)


def test_a_trace(tmp_path: Path) -> None:
    path = made().to_chrome_trace(tmp_path / "t.json")
    events = json.loads(path.read_text())["traceEvents"]
    assert [(e["name"], e["ts"], e["dur"]) for e in events] == [
        ("net", 0, 10),
        ("linear", 1, 3),
        ("mine", 4, 2),
        ("linear", 6, 3),
    ]
    assert events[1]["args"] == {"rule": "matmul", "flop": 1.2e5, "bytes": 3e4}
    with pytest.raises(ArtifactError, match="cannot be written"):
        made().to_chrome_trace(tmp_path / "no" / "t.json")


def test_two_profiles() -> None:
    after = made(KernelTime("kernel", "linear", 2, 3e-6), wall=6e-6)
    assert str(made().compare(after)) == (
        "net before, net after\n"
        "  kernel      before  after  difference  after / before\n"
        "  (the rest)    2 us   7 us       +5 us            3.50\n"
        "  linear        6 us   3 us       -3 us            0.50\n"
        "  mine          2 us              -2 us\n"
        "  a call        9 us   6 us       -3 us            0.67"
    )
    assert "<table>" in made().compare(after)._repr_html_()


def test_tables_of_pages_are_escaped() -> None:
    assert '<td style="text-align:left">a&lt;b</td>' in html_table("t", ["k"], [["a<b"]])
