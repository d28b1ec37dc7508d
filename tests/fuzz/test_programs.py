from __future__ import annotations

import signal
import subprocess

import pytest

from burnish.support.target import CPUS
from burnish.tests.fuzz import programs
from burnish.tests.fuzz.programs import TARGETS, Checked, Summary, check_program, run_chunk
from burnish.tests.strategies.operator_programs import FAMILIES, INTEGERS, draw_program
from burnish.tuner.rules.registry import RULES

SAMPLE = range(40)
RULE_NAMES = {rule.name for rule in RULES} | {"empty"}


@pytest.mark.parametrize("seed", SAMPLE)
def test_a_program_has_code_and_a_rule_on_every_target(seed: int) -> None:
    checked = check_program(seed)
    assert checked.failures == [], checked.text
    assert checked.compiled + len(checked.without_code) == len(CPUS)
    assert {cpu for cpu, _ in checked.without_code} <= {"x86-64", "x86-64-v2"}
    assert {rule for _, _, rule, _ in checked.schedules} <= RULE_NAMES
    reasons = [reason for *_, refusals in checked.schedules for _, reason in refusals]
    # The model suggests nothing that its rule does not take.
    assert [reason for reason in reasons if "takes as" in reason] == []


def test_programs_are_of_all_kinds_and_the_same_again() -> None:
    drawn = [draw_program(seed) for seed in range(200)]
    assert {p.family for p in drawn} == set(FAMILIES)
    dtypes = {dtype for p in drawn for dtype in p.dtypes}
    assert dtypes == {"float64", "float32", "float16", "bfloat16", "bool", *INTEGERS}
    sizes = {size for p in drawn for shape in p.shapes for size in shape}
    assert {0, 1, "n0", "n1"} <= sizes
    operators = " ".join([p.module.script() for p in drawn])
    assert all(f"R.{name}(" in operators for name in ("matmul", "conv", "max_pool", "permute_dims"))
    assert [str(draw_program(p.seed)) for p in drawn[:20]] == [str(p) for p in drawn[:20]]


def test_the_target_table_is_all_there() -> None:
    assert [t.cpu for t in TARGETS] == list(CPUS)


def test_a_failure_says_which_program_and_where(monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(*arguments: object, **options: object) -> None:
        raise ValueError("what\nand more")

    monkeypatch.setattr(programs, "compile_module", breaks)
    found = check_program(3, TARGETS[:2])
    assert found.failures == [(t.cpu, "ValueError: what") for t in TARGETS[:2]]
    assert "seed 3 (elementwise)" in Summary([found]).text(targets=2)


def test_wrong_results_are_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    run = programs.reference.run
    monkeypatch.setattr(programs.reference, "run", lambda *a: run(*a) + 1)
    target = next(t for t in TARGETS if programs.is_runnable(t))
    ((cpu, what),) = check_program(0, [target]).failures
    assert cpu == target.cpu
    assert "elements differ" in what


def test_the_table_groups_fallbacks_by_their_reasons() -> None:
    refusals = [("matmul", "split: The loop of k has 7 iterations.")]
    others = [("matmul", "split: The loop of other has 35 iterations.")]
    text = Summary(
        [
            Checked(1, "product", 2, 1, schedules=[("haswell", "k", "products", refusals)]),
            Checked(2, "product", 1, 0, [("x86-64", "Buffer x of add is float16.")],
                    [("znver4", "other", "products", others), ("znver4", "o", "matmul", [])]),
        ]
    ).text(targets=3)  # fmt: skip
    assert text.splitlines() == [
        "2 programs x 3 targets: 3 compiled, 1 run and compared with NumPy, 0 failures, 1 without "
        "code for the CPU",
        "families: product 2",
        "rules: products 2, matmul 1",
        "fallbacks: 2 of 1 kinds",
        "      2 matmul -> products: split: The loop of ... has N iterations.",
        "        seed 1, k, haswell: split: The loop of k has 7 iterations.",
        "kernels that may be slow: 0",
        "no code: 1 Buffer ... is float16.",
    ]


def test_a_crash_costs_one_program(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [
        subprocess.CompletedProcess([], -11, '{"begin": 0}\n{"seed": 0, "text": ""}\n{"begin": 1}'),
        subprocess.CompletedProcess([], -signal.SIGPROF, '{"begin": 2}\n', "slow"),
        subprocess.CompletedProcess([], 0, '{"begin": 3}\n{"seed": 3, "text": ""}\n', ""),
    ]
    answers[0].stderr = "bad"
    asked: list[tuple[object, ...]] = []

    def answer(*arguments: object) -> subprocess.CompletedProcess[str]:
        asked.append(arguments[2:])
        return answers[len(asked) - 1]

    monkeypatch.setattr(programs, "run_worker", answer)
    found = list(run_chunk(0, 4))
    assert asked == [(0, 4), (2, 2), (3, 1)]
    assert [c.seed for c in found] == [0, 1, 2, 3]
    assert [bool(c.failures) for c in found] == [False, True, True, False]
    assert "SIGSEGV" in found[1].failures[0][1]
