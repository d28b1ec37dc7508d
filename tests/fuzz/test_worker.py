from __future__ import annotations

import io
import json

import pytest

from burnish.support.errors import ScheduleValueError
from burnish.tensorir.schedule import Schedule
from burnish.tests.fuzz import check, worker
from burnish.tests.fuzz.worker import main, run_sequence
from burnish.tests.strategies.schedules import PRIMITIVES, Crash, RandomSchedule, Row


def said(capsys: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_a_run_says_what_it_does(capsys: pytest.CaptureFixture[str]) -> None:
    main(["run", "chain", "3", "2", "60"])
    lines = said(capsys)
    assert [next(iter(line)) for line in lines] == ["begin", "end", "begin", "end", "times"]
    assert lines[1]["failure"] is None


def test_a_trace_can_be_asked_for_and_checked(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    main(["trace", "chain", "3"])
    (line,) = said(capsys)
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps(line["trace"])))
    main(["check", "chain", "3", "60"])
    assert said(capsys) == [{"broken": None}]


def test_a_primitive_that_raises_otherwise_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: Schedule, loop: object) -> None:
        raise ZeroDivisionError("oh")

    monkeypatch.setattr(Schedule, "unroll", broken)
    monkeypatch.setitem(PRIMITIVES, "unroll", Row(200, PRIMITIVES["unroll"].draw))
    monkeypatch.setattr(worker, "steps_of", lambda name, seed: 9)
    failure = run_sequence("row_sums", 0)["failure"]
    assert failure["signature"] == "a primitive: ZeroDivisionError"
    assert failure["trace"].splitlines()[-1].startswith("  sch.unroll(")
    assert len(failure["trace"].splitlines()) == 5, failure["trace"]


def test_a_refusal_that_changes_the_schedule_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    parallel = Schedule.parallel

    def broken(self: Schedule, loop: object) -> None:
        parallel(self, loop)  # type: ignore[arg-type]
        raise ScheduleValueError("parallel", "no")

    monkeypatch.setattr(Schedule, "parallel", broken)
    func, _ = check.expected("chain")
    generator = RandomSchedule(func, 0, ["parallel"])
    with pytest.raises(Crash, match="refused changed the schedule"):
        generator.run(5)


def test_refusals_are_counted_by_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PRIMITIVES, "split", Row(1, lambda d: (d.loop(), [0])))
    func, _ = check.expected("chain")
    generator = RandomSchedule(func, 0, ["split"])
    generator.run(3)
    assert generator.refused == {("split", "ScheduleValueError"): 3}
    assert not generator.applied


def test_commands_are_known() -> None:
    with pytest.raises(SystemExit, match="unknown command"):
        main(["dance", "chain"])
