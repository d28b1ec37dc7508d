"""Rules by name: one instruction of the trace with every decision, which replays to the same
program; what is not in a domain is refused."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from burnish.support.errors import DecisionError, ScheduleError, ScheduleValueError, TraceError
from burnish.support.host import native_target
from burnish.support.structural import structural_equal
from burnish.support.target import Target
from burnish.tensorir.function import PrimFunc
from burnish.tensorir.schedule import Schedule, Trace, apply_rule
from burnish.tensorir.schedule.apply_rule import Pick, Picked, register_rule, rule_named
from burnish.tensorir.text.parser import parse_func

CPU = "llvm -mcpu=haswell"


def rows() -> PrimFunc:
    return parse_func("""
@T.prim_func
def main(A: T.Buffer((32, 8), "float32"), B: T.Buffer((32, 8), "float32")):
    for i, j in T.grid(32, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] + T.float32(1)
""")


def tile(sch: Schedule, target: Target, pick: Pick) -> None:
    """A tile of rows; its columns are at most as many."""
    i, j = sch.get_loops("B")
    tall = pick("rows", (1, 2, 4, 8), lambda: 4)
    wide = pick("columns", tuple(range(1, tall + 1)), lambda: tall // 2)
    sch.split(i, [None, tall])
    sch.split(j, [None, wide])


def refuse(sch: Schedule, target: Target, pick: Pick) -> None:
    """Refuses after its first step."""
    loops = sch.get_loops("B")
    sch.vectorize(loops[1])
    sch.split(loops[1], [None, 2])


@pytest.fixture(autouse=True)
def _rules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apply_rule, "_rules", {})
    register_rule("tile", tile)
    register_rule("refuse", refuse)


def applied(decision: dict[str, int] | None, **options: Any) -> Schedule:
    sch = Schedule(rows(), **{"seed": 0, **options})
    sch.apply_rule("tile", CPU, decision)
    return sch


def test_the_trace_has_one_line_with_all_decisions(golden: Callable[[str], None]) -> None:
    golden(f"{applied({'columns': 3}).trace}\n{json.dumps(applied({}).trace.as_json())}\n")


def test_what_is_left_open_is_as_the_rule_suggests() -> None:
    assert decisions(applied({})) == {"rows": 4, "columns": 2}
    assert decisions(applied({"rows": 8})) == {"rows": 8, "columns": 4}


def decisions(sch: Schedule) -> dict[str, int]:
    (found,) = sch.trace.decisions.values()
    return dict(found)


def test_without_decisions_all_are_drawn_by_the_seed() -> None:
    drawn = [decisions(applied(None, seed=seed)) for seed in range(20)]
    assert drawn[3] == decisions(applied(None, seed=3))
    assert {d["rows"] for d in drawn} == {1, 2, 4, 8}
    assert all(1 <= d["columns"] <= d["rows"] for d in drawn)


@pytest.mark.parametrize("seed", range(4))
def test_a_trace_replays_also_as_json_and_without_checks(seed: int) -> None:
    sch = applied(None, seed=seed)
    trace = Trace.from_json(json.dumps(sch.trace.as_json()))
    for checks in (True, False):
        again = Schedule(rows(), enable_checks=checks)
        trace.apply_to(again)
        assert structural_equal(again.func, sch.func)
        assert again.enable_checks is checks


def test_another_decision_gives_the_other_program() -> None:
    again = Schedule(rows())
    applied({}).trace.with_decision(0, {"rows": 8, "columns": 1}).apply_to(again)
    assert structural_equal(again.func, applied({"rows": 8, "columns": 1}).func)
    assert not structural_equal(again.func, applied({}).func)


def test_what_is_done_after_a_rule_stands_behind_it() -> None:
    sch = applied({})
    sch.unroll(sch.get_loops("B")[-1])
    again = Schedule(rows())
    sch.trace.simplified().apply_to(again)
    assert structural_equal(again.func, sch.func)
    assert next(inst.kind for inst in sch.trace) == "apply_rule"


@pytest.mark.parametrize("decision", [{"rows": 3}, {"rows": 2, "columns": 3}])
def test_a_decision_outside_of_its_domain(decision: dict[str, int]) -> None:
    with pytest.raises(DecisionError) as caught:
        applied(decision)
    name, value = list(decision.items())[-1]
    domain = (1, 2, 4, 8) if name == "rows" else (1, 2)
    error = caught.value
    assert (error.rule, error.field, error.value, error.domain) == ("tile", name, value, domain)


@pytest.mark.parametrize(
    ("rule", "target", "decision", "expected"),
    [
        ("tiles", CPU, {}, r"no rule 'tiles'\. Did you mean 'tile'"),
        ("tile", CPU, {"rowz": 4}, "takes no decision 'rowz' here"),
        ("tile", CPU, [4], "decisions by name"),
        ("tile", CPU, {"rows": 1.5}, "the decision 'rows'"),
        ("tile", "llvm", {}, "whose sizes are known"),
    ],
)
def test_what_is_refused(rule: str, target: str, decision: Any, expected: str) -> None:
    sch = Schedule(rows(), seed=0)
    with pytest.raises(ScheduleValueError, match=expected):
        sch.apply_rule(rule, target, decision)
    assert len(sch.trace) == 0


def test_native_is_the_machine_at_hand() -> None:
    sch = Schedule(rows(), seed=0)
    sch.apply_rule("tile", "native -threads=1", {})
    (instruction,) = sch.trace
    said = Target(str(dict(instruction.attrs)["target"]))
    assert said.is_resolved
    assert (said.cpu, said.threads) == (native_target().cpu, 1)


def test_a_rule_that_refuses_leaves_the_schedule_as_it_was() -> None:
    sch = Schedule(rows(), seed=0)
    before = sch.func
    with pytest.raises(ScheduleError, match="Expected a serial loop"):
        sch.apply_rule("refuse", CPU)
    assert sch.func is before
    assert len(sch.trace) == 0


def test_a_function_that_is_scheduled_already() -> None:
    sch = applied({})
    with pytest.raises(ScheduleValueError, match="scheduled already"):
        sch.apply_rule("tile", CPU, {})


def test_one_of_several_functions() -> None:
    sch = Schedule(parse_func(rows().script()), seed=0)
    sch.apply_rule("tile", CPU, {}, func_name="main")
    with pytest.raises(ScheduleValueError, match="no PrimFunc 'other'"):
        sch.apply_rule("tile", CPU, {}, func_name="other")


def test_without_the_tuner_no_rule_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apply_rule, "_rules", {})
    with pytest.raises(ScheduleValueError, match=r"burnish\.tuner\.rules\.registry has all"):
        rule_named("tile")


def test_a_trace_with_a_decision_that_is_none() -> None:
    row = ["apply_rule", [], [["rule", "tile"], ["target", CPU]], [], {"rows": [1]}]
    with pytest.raises(ScheduleError, match="the decision 'rows'"):
        Trace.from_json([row]).apply_to(Schedule(rows()))
    with pytest.raises(TraceError, match="no instruction"):
        Trace.from_json([["apply_rules", *row[1:]]])


def test_a_name_has_one_answer() -> None:
    picked = Picked("tile", {"rows": 2}, lambda name, domain, decision: decision or domain[0])
    assert [picked("rows", (1, 2), lambda: 1) for _ in range(2)] == [2, 2]
    with pytest.raises(DecisionError):
        picked("rows", (4, 8), lambda: 4)


def test_a_decision_that_a_rule_tries_in_vain_is_an_error_in_the_end() -> None:
    """A rule may go on behind it, and make the program of another decision."""
    drawn: list[str] = []

    def draw(name: str, domain: Sequence[int], decision: int | None) -> int:
        drawn.append(name)
        return domain[0] if decision is None else decision

    picked = Picked("tries", {"a.rows": -1, "b.rows": 2}, draw)
    with pytest.raises(DecisionError, match="found -1"):
        picked("a.rows", [1, 2], lambda: 1)
    assert picked("b.rows", [1, 2], lambda: 1) == 2
    assert drawn == ["tries.b.rows"]
    with pytest.raises(DecisionError, match="found -1"):
        picked.require_all_known()
    assert picked("a.rows", [-1, 1], lambda: 1) == -1  # elsewhere it is inside
    picked.require_all_known()
