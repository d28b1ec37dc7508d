"""What every rule owes, whatever it decides: the results of the definition or a refusal, and a
trace of one line that replays, also with another decision. What the model suggests may be said."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from burnish.support.errors import DecisionError, ScheduleError
from burnish.support.host import native_target
from burnish.support.structural import structural_equal
from burnish.support.target import Target
from burnish.tensorir import operators as op
from burnish.tensorir.function import PrimFunc
from burnish.tensorir.schedule import Schedule, Trace
from burnish.tensorir.schedule.apply_rule import Picked
from burnish.tests.native import call_native
from burnish.tests.strategies.schedules import CORPUS
from burnish.tests.tuner.rules import (
    test_attention,
    test_conv,
    test_depthwise,
    test_int8,
    test_recurrent,
    test_row_window,
    test_winograd,
)
from burnish.tests.tuner.rules.checking import Workload, rules_of
from burnish.tests.tuner.test_analytic import arrays
from burnish.tuner.rules import rule as rule_module
from burnish.tuner.rules.registry import RULES
from burnish.tuner.rules.rule import D, Decide
from burnish.tuner.search.decisions import DecidedSchedule, redraw
from burnish.tuner.tiling.tile_model import VECTORS, rows_of_tile

FUNCTIONS: dict[str, Callable[[], PrimFunc]] = {
    **{name: CORPUS[name] for name in ("chain", "softmax", "matmul", "two_matmuls")},
    **{name: CORPUS[name] for name in ("symbolic_matmul", "linear_relu", "convolution")},
    "product": lambda: Workload(op.matmul, np.matmul, (30, 40), (40, 72)).func,
    "dot": lambda: Workload(lambda x, w: op.linear(x, w), np.matmul, (3, 70), (33, 70)).func,
    "int8": lambda: test_int8.product((33, 20), (20, 40), free=False),
    "bytes": lambda: test_int8.product((70, 64), (64, 200), free=False),
    "wide": lambda: Workload(op.linear, np.matmul, ("n", 96), (80, 96)).func,
    "conv": lambda: test_conv.conv((1, 9, 13, 8), (24, 8, 3, 3), pad=1).func,
    "groups": lambda: test_conv.conv((1, 7, 9, 8), (24, 2, 3, 3), pad=1, groups=4).func,
    "depthwise": lambda: test_depthwise.depthwise((1, 9, 11, 16), (3, 3), pad=1).func,
    "copied": lambda: test_depthwise.depthwise((1, 11, 13, 16), (7, 7), pad=3).func,
    "pool": lambda: test_row_window.pool("max", (1, 4, 20, 40), kernel=3, pad=1),
    "attention": lambda: test_attention.Case(29, 45, 12, 20).func(),
    "winograd": lambda: test_winograd.winograd(1, 14, 18, 16, 32, 4).func,
    "recurrent": lambda: test_recurrent.static("gru", 3, 2, 12),
    "two_products": lambda: test_recurrent.static("gru_reset_first", 3, 2, 12),
    "transpose": lambda: Workload(lambda x: op.permute_dims(x, [1, 0]), np.matmul, (70, 45)).func,
    "row_times_matrix": lambda: Workload(op.matmul, np.matmul, (1, 512), (512, 1024)).func,
    "columns": lambda: Workload(lambda x: op.sum(x, [0]), np.matmul, (50, 90)).func,
    "table": lambda: Workload(lambda x: op.exp(x), np.matmul, (7, 90)).func,
}
TARGETS = [
    native_target(),
    *[Target(f"llvm -mcpu={cpu} -cores=2") for cpu in ("haswell", "x86-64-v2", "neoverse-n1")],
]
PAIRS = [
    (rule.name, name)
    for name, make in FUNCTIONS.items()
    for rule in RULES
    if rule.name in rules_of(make(), native_target())
]


@cache
def definition(name: str) -> PrimFunc:
    return FUNCTIONS[name]()


def test_names_are_distinct_and_every_rule_has_a_function() -> None:
    names = [rule.name for rule in RULES]
    assert len(set(names)) == len(names)
    # Those of bfloat16 and tiles need instructions, and arrays that NumPy lacks; that of integers
    # with scales needs constants: see their own tests.
    assert {rule for rule, _ in PAIRS} == set(names) - {"bfloat16", "scaled", "tiles"}


@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.cpu)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_the_model_suggests_is_in_the_domains(
    name: str, target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also what it suggests where any one decision is given."""
    monkeypatch.setattr(rule_module, "Decide", ThoroughDecide)
    refused = []
    for rule in RULES:
        try:
            Schedule(definition(name), seed=0).apply_rule(rule.name, target, {})
        except ScheduleError as error:
            refused.append(error)
    assert not [str(error) for error in refused if isinstance(error, DecisionError)]
    assert len(refused) < len(RULES)


class ThoroughDecide(Decide):
    """Decides with each member of each domain given, before it decides as it would."""

    def __call__(self, kind: type[D], roles: Any, part: str = "") -> D:
        asked: dict[str, Sequence[int]] = {}

        def remember(name: str, domain: Sequence[int], suggest: Callable[[], int], /) -> int:
            asked[name] = domain
            return suggest()

        Decide(self.target, remember)(kind, roles, part)
        for name, domain in asked.items():
            for value in domain:
                given = Picked(kind.__name__, {name: value}, lambda name, domain, value: value or 0)
                Decide(self.target, given)(kind, roles, part)
        return Decide(self.target, self.pick)(kind, roles, part)


def test_one_decision_is_enough() -> None:
    """Linear(96, 80) on 33 rows: what two vectors leave of the registers is not what three do."""
    func = Workload(op.linear, np.matmul, (33, 96), (80, 96)).func
    for vectors, target in itertools.product(VECTORS, TARGETS):
        sch = Schedule(func, seed=0)
        sch.apply_rule("matmul", target, {"vectors": vectors})
        (decisions,) = sch.trace.decisions.values()
        assert decisions["vectors"] == vectors
        heights = rows_of_tile(33, vectors, target)
        assert decisions["rows"] >= heights[-1] // 2


@pytest.mark.parametrize(("rule", "name"), PAIRS)
@settings(max_examples=2, deadline=None, derandomize=True)
@given(seed=st.integers(0, 1 << 20))
def test_any_decisions_compute_the_definition_and_replay(rule: str, name: str, seed: int) -> None:
    func, target = definition(name), native_target()
    sch = DecidedSchedule(func, seed=seed)
    try:
        sch.apply_rule(rule, target)
    except ScheduleError:
        assert sch.func is func
        return
    assert [inst.kind for inst in sch.trace] == ["apply_rule"]
    check(func, sch.func)
    trace = Trace.from_json(json.dumps(sch.trace.as_json()))
    assert structural_equal(replayed(trace, func), sch.func)
    (decisions,) = sch.trace.decisions.values()
    other = dict(decisions)
    for draw in sch.draws[:1]:
        other = {draw.domain[0].partition(".")[2]: redraw(draw, random.Random(seed))}  # type: ignore[union-attr]
    again = Schedule(func, seed=0)
    try:
        again.apply_rule(rule, target, other)
    except ScheduleError:
        with pytest.raises(ScheduleError):
            replayed(trace.with_decision(0, other), func)
        return
    assert structural_equal(replayed(trace.with_decision(0, other), func), again.func)


def check(func: PrimFunc, scheduled: PrimFunc) -> None:
    """A schedule of ``func`` gives its numbers, up to what another order of sums changes."""
    plain, tuned = arrays(func, 19), arrays(func, 19)
    dims = [19] * len(func.shape_vars)
    call_native(func, *plain, dims=dims)
    call_native(scheduled, *tuned, dims=dims)
    for a, b in zip(plain, tuned, strict=True):
        np.testing.assert_allclose(a, b, rtol=3e-4, atol=1e-3)


def replayed(trace: Trace, func: PrimFunc) -> PrimFunc:
    sch = Schedule(func, seed=7)
    trace.apply_to(sch)
    return sch.func
