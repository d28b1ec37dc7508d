"""What is written down about schedules."""

from __future__ import annotations

import pytest

from burnish.support.errors import ScheduleValueError
from burnish.support.host import native_target
from burnish.tensorir.schedule import Schedule
from burnish.tests.strategies.schedules import CORPUS
from burnish.tests.tuner.rules.checking import refuse
from burnish.tuner.analytic import apply_rules, schedule_analytically
from burnish.tuner.rules.elementwise import ElementwiseRule
from burnish.tuner.rules.matmul import MatmulRule
from burnish.tuner.rules.products import ProductsRule
from burnish.tuner.schedule_log import LONGEST, KernelSchedule, reason_of, recorded, write_down


def test_the_rule_and_what_refused_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MatmulRule, "apply", refuse)
    monkeypatch.setattr(ProductsRule, "apply", refuse)
    with recorded() as log:
        schedule_analytically(CORPUS["matmul"](), native_target())
    (found,) = log
    assert found.rule == "reduction"
    assert found.refusals == tuple(
        [(rule, "unroll: The loop is too long.") for rule in ("matmul", "products")]
    )
    assert str(found).startswith("main: reduction; matmul refused (unroll: The loop is too long.);")


def test_a_rule_with_a_mistake_gives_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """In production; in tests it is raised."""

    def fail(*args: object) -> None:
        raise AssertionError("a tile of no rows")

    monkeypatch.setattr(MatmulRule, "apply", fail)
    with pytest.raises(AssertionError, match="a tile of no rows"):
        schedule_analytically(CORPUS["matmul"](), native_target())
    monkeypatch.setenv("BURNISH_RAISE_DEFECTS", "0")
    with recorded() as log:
        schedule_analytically(CORPUS["matmul"](), native_target())
    assert log[0].rule == "products"
    (refusal,) = log[0].refusals
    assert refusal[0] == "matmul"
    assert "a defect of the compiler, AssertionError at test_schedule_log.py:" in refusal[1]


def test_no_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ElementwiseRule, "apply", refuse)
    with recorded() as log:
        schedule_analytically(CORPUS["chain"](), native_target())
    assert log[0].rule is None
    assert str(log[0]).startswith("main: no rule; elementwise refused")
    assert str(log[0]).endswith(
        "; all others refused (for functions of other kinds than one with the blocks "
        "'B' (axes SS), 'C' (axes SS), 'D' (axes SS))"
    )


def test_searches_estimate_nothing() -> None:
    with recorded() as log:
        apply_rules(Schedule(CORPUS["matmul"](), seed=0), native_target(), sampled=True)
    assert [(s.rule, s.slowdown) for s in log] == [("matmul", None)]


def test_nobody_need_collect() -> None:
    write_down(KernelSchedule("f", "matmul"))
    with recorded() as outer:
        with recorded() as inner:
            write_down(KernelSchedule("f", "matmul"))
        assert (len(outer), len(inner)) == (0, 1)


def test_reasons_are_short() -> None:
    assert len(reason_of(ScheduleValueError("split", "x" * 1000))) == LONGEST
