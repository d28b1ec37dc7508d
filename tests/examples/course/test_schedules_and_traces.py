"""Schedules of a product: the programs and traces they give, and the search over them."""

from __future__ import annotations

import re
from types import ModuleType

import pytest

import burnish
from burnish.tensorir.expr import Var

TILED = """\
        for i, j_0 in T.grid(128, 32):
            for j_1_init in range(4):
                with T.block("C_init"):
                    vi = T.axis.spatial(128, i)
                    vj = T.axis.spatial(128, j_0 * 4 + j_1_init)
                    T.reads()
                    T.writes(C[vi, vj])
                    C[vi, vj] = T.float32(0)
            for k, j_1 in T.grid(128, 4):
                with T.block("C_update"):
                    vi = T.axis.spatial(128, i)
                    vj = T.axis.spatial(128, j_0 * 4 + j_1)
                    vk = T.axis.reduce(128, k)
                    T.reads(C[vi, vj], A[vi, vk], B[vk, vj])
                    T.writes(C[vi, vj])
                    C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""


def test_it_runs(program: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    program.main(["--trials", "3"])
    text = capsys.readouterr().out
    assert TILED in text
    assert "A factor is a Var; drawn: [" in text
    times = [float(t) for t in re.findall(r"=====Attempt \d, time-cost: (\S+) ms====", text)]
    assert len(times) == 3
    assert all(t > 0 for t in times)
    traces = re.findall(r"# import burnish\n(?:.*\n)*?(?=#|\S|\Z)", text)
    assert len(traces) >= 6
    best = text.split("The best of them:\n")[1]
    attempts = re.split(r"=====Attempt \d, time-cost: \S+ ms====\n", text)[1:]
    fastest = attempts[times.index(min(times))].split("The best of them:\n")[0]
    assert best == fastest


def test_a_trace_says_what_was_drawn(program: ModuleType) -> None:
    drawn = set()
    for seed in range(8):
        sch = program.stochastic_schedule_mm(burnish.Schedule(program.MyModule, seed=seed))
        (factors,) = sch.trace.decisions.values()
        assert f"decision={list(factors)}" in str(sch.trace)
        assert f"T.grid(128, {factors[0]})" in sch.mod.script()
        drawn.add(tuple(factors))
    assert len(drawn) > 1
    assert all(outer * inner == 128 and inner <= 16 for outer, inner in drawn)


def test_the_factor_is_an_argument(program: ModuleType) -> None:
    sch = program.schedule_mm(burnish.Schedule(program.MyModule), jfactor=16)
    assert "for i, j_0 in T.grid(128, 8):" in sch.mod.script()
    assert program.measure(sch.mod) > 0
    assert [line.strip() for line in str(sch.trace).splitlines()[2:]] == [
        'b0 = sch.get_block(name="C", func_name="main")',
        "l1, l2, l3 = sch.get_loops(block=b0)",
        "l4, l5 = sch.split(loop=l2, factors=[None, 16], preserve_unit_iters=True, "
        "disable_predication=False)",
        "sch.reorder(l1, l4, l3, l5)",
        "b6 = sch.decompose_reduction(block=b0, loop=l3)",
    ]


def test_a_wrong_program_does_not_measure(program: ModuleType) -> None:
    wrong = burnish.parse(program.MyModule.script().replace("A[vi, vk] *", "A[vi, vk] +"))
    with pytest.raises(AssertionError, match="Mismatched elements"):
        program.measure(wrong)


def test_samples_are_variables_until_a_primitive_uses_them(program: ModuleType) -> None:
    sch = burnish.Schedule(program.MyModule, seed=3)
    block = sch.get_block("C", "main")
    i, j, k = sch.get_loops(block=block)
    factors = sch.sample_perfect_tile(loop=j, n=2)
    assert all(type(f) is Var for f in factors)
    burnish.assert_structural_equal(sch.mod, program.MyModule)
    drawn = [sch.get(f) for f in factors]
    last = str(sch.trace).splitlines()[-1]
    sampling = "v4, v5 = sch.sample_perfect_tile(loop=l2, n=2, max_innermost_factor=16, "
    assert last == f"  {sampling}decision={drawn})"
    j_0, j_1 = sch.split(loop=j, factors=factors)
    sch.reorder(i, j_0, k, j_1)
    assert f"for i, j_0, k, j_1 in T.grid(128, {drawn[0]}, 128, {drawn[1]}):" in sch.mod.script()
    sch.reorder(i, j_0, k, j_1)
    assert repr(sch.decompose_reduction(block, k)) == "BlockRV('C_init')"
    assert program.measure(sch.mod) > 0


def test_a_seed_gives_the_same_schedule_again(program: ModuleType) -> None:
    first, second = (
        program.stochastic_schedule_mm(burnish.Schedule(program.MyModule, seed=7)) for _ in "ab"
    )
    assert str(first.trace) == str(second.trace)
    burnish.assert_structural_equal(first.mod, second.mod)
