"""The search for cliffs, without a clock: programs over the whole table of operators, drawn by
their seeds, whose schedules take no more steps than a few times those that vectors would take."""

from __future__ import annotations

from collections import Counter

import pytest
import torch

import burnish
from burnish.benchmarks.cliffs import Found, line_of, no_farther, roofline, summary
from burnish.frontend.elementwise_names import NAMES
from burnish.graphir.op import all_ops
from burnish.support.host import resolve
from burnish.support.target import Target
from burnish.tensorir import operators as op
from burnish.tensorir.te.compute import create_prim_func, placeholder
from burnish.tests.steps import is_led_by_data, steps_in_vectors, steps_of
from burnish.tests.strategies.cliff_cases import ROWS, Case, Operand, draw_case
from burnish.tuner.measuring.roofline import Peaks

FEW_STEPS = 4096
"""Steps below which a schedule is not worth vectors."""
MOST_TIMES = 10
SEEDS = range(3 * len(ROWS), 3 * len(ROWS) + len(ROWS), 4)
"""A quarter of the rows: the rest of the search is ``make cliffs``."""


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_schedules_take_few_times_the_steps_of_vectors(part: int) -> None:
    target = resolve(Target("native -threads=1"))
    slow = []
    for seed in SEEDS[part::4]:
        case = draw_case(seed)
        if case is None or case.named:
            continue
        model = burnish.compile(case.module(), case.inputs(), threads=1)
        before = model.executable.stages["30-fused"].prim_funcs
        for name, func in model.executable.stages["40-scheduled"].prim_funcs.items():
            steps, least = steps_of(func, target), steps_in_vectors(before[name], target)
            if steps > max(FEW_STEPS, MOST_TIMES * least) and not is_led_by_data(func):
                slow.append(f"{seed} {name}: {steps} steps for {least:.0f}: {case}")
    assert not slow, "\n".join(slow)


def test_a_seed_gives_one_program() -> None:
    first, second = draw_case(7), draw_case(7)
    assert first is not None
    assert first == second
    assert first.row == ROWS[7].name
    for a, b in zip(first.inputs(), first.inputs(), strict=True):
        assert torch.equal(a, b)


def test_rows_are_distinct_and_name_every_kind_of_operator() -> None:
    assert not [name for name, count in Counter(r.name for r in ROWS).items() if count > 1]
    written = " ".join(r.text for r in ROWS)
    elementwise = [n for n, o in all_ops().items() if o.is_elementwise]
    absent = {n for n in elementwise if n not in written and _torch_name(n) not in written}
    assert absent == {"reinterpret"}  # which no operator of PyTorch becomes


def _torch_name(op_name: str) -> str:
    names = {
        "add": "torch.add", "subtract": "sub", "multiply": "mul", "divide": "div",
        "negative": "neg",
        "equal": "eq", "not_equal": "ne", "less": "lt", "less_equal": "le", "greater": "lt",
        "greater_equal": "le", "power": "pow", "astype": ".to(", "clip": "clamp", "floor_mod": "%",
        "floor_divide": "//",
        "shift_left": "<<", "shift_right": "<<", "logical_or": "logical_xor",
    }  # fmt: skip
    torch_name, _ = NAMES.get(op_name, ("", ""))
    return names.get(op_name) or torch_name or op_name


def test_a_case_says_what_it_is_and_runs() -> None:
    weight = Operand((4, 3), "float32", constant=True)
    case = Case("linear", "F.linear(a, b)", (Operand((2, 3), "float32"), weight), named=True)
    assert str(case) == "F.linear(a, b)   [a: 2x3 float32, b: 4x3 float32 constant] named"
    assert case.module()(*case.inputs()).shape == (2, 4)
    assert case.dynamic_shapes == ({0: "n"},)


def test_verdicts() -> None:
    fine = Found(1, "fine", eager=2e-3, ours=1e-3, roofline=9e-4)
    slow = Found(2, "slow", eager=2e-3, ours=1e-3, roofline=9e-5)
    behind = Found(3, "behind", eager=4e-4, ours=1e-3, roofline=9e-4)
    broken = Found(4, "broken", error="over 60 s")
    assert fine.verdict == ""
    assert slow.verdict == "11 times the roofline"
    assert behind.verdict == "0.40 of eager"
    assert broken.verdict == "over 60 s"
    text = summary([fine, slow, behind, broken], worst=1)
    assert text.startswith("4 programs, 3 cliffs")
    assert line_of(behind) in text
    assert line_of(broken) in text


def test_a_result_is_held_against_float64_where_eager_is_far_from_it() -> None:
    exact = torch.tensor([100.0, 1e6, 3.0], dtype=torch.float64)
    eager = torch.tensor([float("inf"), float("inf"), 3.0], dtype=torch.float16)
    good = torch.tensor([100.0, float("inf"), 3.0], dtype=torch.float16)
    assert no_farther(good, eager, exact)
    assert not no_farther(
        torch.tensor([100.0, float("inf"), 4.0], dtype=torch.float16), eager, exact
    )
    assert not no_farther(torch.zeros(0), torch.zeros(1), torch.zeros(1, dtype=torch.float64))


def test_the_roofline_counts_what_elementary_functions_cost() -> None:
    x = placeholder((1 << 10, 1 << 10))
    peaks = Peaks(1e12, ((1 << 30, 1e15),))
    plain, costly = (create_prim_func([x, f(x)]) for f in (op.relu, op.exp))
    assert roofline(costly, peaks) > 10 * roofline(plain, peaks)
