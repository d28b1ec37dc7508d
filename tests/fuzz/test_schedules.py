from __future__ import annotations

import signal
import subprocess

import pytest

from burnish.tests.fuzz import schedules
from burnish.tests.fuzz.schedules import Summary, chunks, run, run_chunk, table

FAILURE = {
    "program": "chain",
    "seed": 7,
    "signature": "results: AssertionError",
    "message": "what",
    "trace": "def apply_trace(sch) -> None:\n  pass",
    "after": "",
}


def test_chunks_share_sequences_out() -> None:
    found = list(chunks(["a", "b", "c"], 7, 2))
    assert found == [("a", 2_000_000, 3), ("b", 2_000_000, 2), ("c", 2_000_000, 2)]
    many = list(chunks(["a", "b"], 1001, 0))
    assert sum(size for _, _, size in many) == 1001
    assert {(n, s + i) for n, s, size in many for i in range(size)} == {
        *[("a", i) for i in range(501)],
        *[("b", i) for i in range(500)],
    }


def test_a_few_sequences(capsys: pytest.CaptureFixture[str]) -> None:
    planned = [*chunks(["chain", "row_sums"], 4, 0), ("random_3", 0, 1)]
    summary = run(planned, 1)
    assert summary.sequences == 5
    assert not summary.failures, summary.failures
    text = table(summary, 1.0, seed=0, jobs=1)
    assert text.startswith("5 sequences over 3 functions")
    assert "| `split` |" in text


def done(code: int, out: str, err: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.CompletedProcess([], code, out, err)


def test_a_crash_costs_one_sequence(monkeypatch: pytest.MonkeyPatch) -> None:
    end = '{{"end": {0}, "applied": {{}}, "refused": [], "no_code": "", "failure": null}}'
    answers = [
        done(-11, f'{{"begin": 0}}\n{end.format(0)}\n{{"begin": 1}}\n'),
        done(1, '{"begin": 2}\n{"end"', "Timeout (0:00:30)!"),
        done(-signal.SIGPROF, '{"begin": 3}\n'),
        done(0, f'{{"begin": 4}}\n{end.format(4)}\n{{"times": {{}}}}\n'),
    ]
    asked: list[tuple[object, ...]] = []

    def answer(*arguments: object, given: str | None = None) -> subprocess.CompletedProcess[str]:
        asked.append(arguments)
        return answers[len(asked) - 1]

    monkeypatch.setattr(schedules, "_worker", answer)
    reports = run_chunk("chain", 0, 5)
    assert [a[2:4] for a in asked] == [(0, 5), (2, 3), (3, 2), (4, 1)]
    found = [r["failure"]["signature"] for r in reports if r.get("failure")]
    hangs = "hangs: no end in 30 s"
    assert found == ["crashes: SIGSEGV", hangs, hangs]


def test_the_table_counts() -> None:
    summary = Summary()
    for failure in (None, FAILURE):
        summary.add(
            {
                "end": 0,
                "applied": {"split": 2},
                "refused": [["split", "LoopKindError", 1]],
                "no_code": "Register buffer B of main is indexed by i",
                "failure": failure,
            }
        )
    text = table(summary, 2.0, seed=3, jobs=2)
    assert "2 sequences" in text
    assert "| `split` | 4 | 2 | LoopKindError 2 |" in text
    assert "| an index of a register buffer is not constant after unrolling | 2 |" in text
    assert "| results: AssertionError | chain | 7 |" in text


def test_reasons_name_no_loop_and_no_buffer() -> None:
    for loop in ("i", "j"):
        message = f"main: threads of the loop '{loop}' read what others wrote to 'B'; ..."
        assert schedules._reason(message).startswith("threads read what others wrote to memory")
    message = "main: threads exchange values through the shared memory B_shared inside of the block"
    assert schedules._reason(message).startswith("threads exchange values inside of a block")


def test_a_sequence_without_end_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedules, "LIMIT", 0.002)
    assert schedules._worker("run", "chain", 0, 1, 0.002).returncode == -signal.SIGPROF
    reports = run_chunk("chain", 0, 1)
    found = [r["failure"]["signature"] for r in reports if r.get("failure")]
    assert found == ["hangs: no end in 0 s"]
