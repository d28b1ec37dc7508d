from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from burnish.support.errors import TraceError
from burnish.support.structural import assert_structural_equal
from burnish.tensorir.expr import Var
from burnish.tensorir.schedule import Schedule, Trace, index_map_text, parse_index_map
from burnish.tests.tensorir.schedule.programs import assert_same, body, chain, linear_relu, matmul


def stochastic(sch: Schedule) -> None:
    block = sch.get_block("C", "main")
    i, j, k = sch.get_loops(block=block)
    j_0, j_1 = sch.split(loop=j, factors=sch.sample_perfect_tile(loop=j, n=2))
    sch.reorder(i, j_0, k, j_1)
    sch.decompose_reduction(block, k)


TEXT = """\
# import burnish
def apply_trace(sch) -> None:
  b0 = sch.get_block(name="C", func_name="main")
  l1, l2, l3 = sch.get_loops(block=b0)
  v4, v5 = sch.sample_perfect_tile(loop=l2, n=2, max_innermost_factor=16, decision=[32, 4])
  l6, l7 = sch.split(loop=l2, factors=[v4, v5], preserve_unit_iters=True, disable_predication=False)
  sch.reorder(l1, l6, l3, l7)
  b8 = sch.decompose_reduction(block=b0, loop=l3)"""


def traced() -> Schedule:
    sch = Schedule(matmul(128, 128, 128), seed=0)
    Trace.from_json(_json_of_text()).apply_to(sch)
    return sch


def _json_of_text() -> list[object]:
    sch = Schedule(matmul(128, 128, 128), seed=0)
    namespace: dict[str, object] = {}
    exec(TEXT, namespace)
    namespace["apply_trace"](sch)  # type: ignore[operator]
    return sch.trace.as_json()


def test_text_is_python_that_gives_the_same_text() -> None:
    assert str(traced().trace) == TEXT


def test_an_empty_trace_is_python_too() -> None:
    assert str(Trace()).endswith("  pass")


def test_show_prints(capsys: pytest.CaptureFixture[str]) -> None:
    traced().trace.show()
    assert capsys.readouterr().out == TEXT + "\n"


def test_json_round_trip() -> None:
    trace = traced().trace
    data = json.dumps(trace.as_json())
    assert str(Trace.from_json(data)) == TEXT
    assert Trace.from_json(data).as_json() == json.loads(data)


@pytest.mark.parametrize(
    "data",
    [
        "nonsense",
        "[[1, 2]]",
        '[["system", [], [], [], null]]',
        '[["fuse", [["", {"rv": "l1"}]], [], [], 0]]',
    ],
)
def test_what_is_no_trace_is_refused(data: str) -> None:
    with pytest.raises(TraceError, match="This is not a trace in JSON"):
        Trace.from_json(data)


@settings(max_examples=15, deadline=None, derandomize=True)
@given(st.integers(0, 2**20))
def test_replay_gives_the_same_program(seed: int) -> None:
    func = matmul(4, 12, 3)
    sch = Schedule(func, seed=seed)
    stochastic(sch)
    again = Schedule(func, seed=seed + 1)
    Trace.from_json(sch.trace.as_json()).apply_to(again)
    assert_structural_equal(sch.func, again.func)
    assert str(again.trace) == str(sch.trace)
    assert_same(func, again.func)


def test_one_seed_one_trace() -> None:
    traces = set()
    for _ in range(2):
        sch = Schedule(matmul(64, 64, 64), seed=5)
        stochastic(sch)
        traces.add(str(sch.trace))
    assert len(traces) == 1


def test_decisions_can_be_given_changed_and_dropped() -> None:
    func = matmul(8, 8, 8)
    sch = Schedule(func, seed=1)
    stochastic(sch)
    ((index, _),) = sch.trace.decisions.items()
    other = Schedule(func, seed=2)
    sch.trace.apply_to(other, decisions={index: [2, 4]})
    assert other.trace.decisions == {index: [2, 4]}
    changed = sch.trace.with_decision(index, [4, 2])
    assert changed.decisions == {index: [4, 2]}
    assert changed.with_decision(changed.instructions[index], None).decisions == {index: None}
    fresh = Schedule(func, seed=3)
    changed.with_decision(index, None).apply_to(fresh)
    assert fresh.trace.decisions[index] is not None
    with pytest.raises(TraceError, match="Instruction 0 is 'get_block', which takes no decision"):
        changed.with_decision(0, 1)


def test_simplified_drops_what_nothing_uses() -> None:
    sch = Schedule(matmul(8, 8, 8), seed=1)
    c = sch.get_block("C")
    i, j, _ = sch.get_loops(c)
    sch.sample_perfect_tile(i, 2)
    sch.get_loops(c)
    sch.get_consumers(c)
    sch.parallel(i)
    sch.enter_postproc()
    sch.unroll(j)
    kinds = [inst.kind for inst in sch.trace.simplified()]
    assert kinds == ["get_block", "get_loops", "parallel", "enter_postproc", "unroll"]
    kinds = [inst.kind for inst in sch.trace.simplified(remove_postproc=True)]
    assert kinds == ["get_block", "get_loops", "parallel"]


def test_remove_postproc_on_replay() -> None:
    func = chain()
    sch = Schedule(func, seed=1)
    i, j = sch.get_loops("B")
    sch.parallel(i)
    sch.enter_postproc()
    sch.vectorize(j)
    other = Schedule(func, seed=1)
    sch.trace.apply_to(other, remove_postproc=True)
    assert "vectorized" not in body(other.func)


def test_arithmetic_over_sampled_values_and_dims() -> None:
    func = chain(Var("m"), 16)
    sch = Schedule(func, seed=0)
    i, j = sch.get_loops("B")
    v = sch.sample_categorical([2, 4], [1.0, 1.0], decision=1)
    sch.split(j, [None, v * 2])
    m = sch.get_shape_var("m")
    sch.loop_partition(i, [m // (v * 2) * (v * 2), None])
    text = str(sch.trace)
    assert "sch.split(loop=l2, factors=[None, v3 * 2]" in text
    dim = 'sch.get_shape_var("m")'
    assert f"sch.loop_partition(loop=l1, factors=[{dim} // (v3 * 2) * (v3 * 2), None])" in text
    other = Schedule(func, seed=9)
    Trace.from_json(sch.trace.as_json()).apply_to(other)
    assert str(other.trace) == text
    assert_structural_equal(sch.func, other.func)
    changed = Schedule(func, seed=9)
    sch.trace.apply_to(changed, decisions={i: 0 for i in sch.trace.decisions})
    assert "m // 4" in body(changed.func)


def test_a_trace_of_one_function_replays_on_another_name() -> None:
    sch = Schedule(matmul(8, 8, 8), seed=1)
    stochastic(sch)
    func = matmul(8, 8, 8).with_attr("global_symbol", "linear0")
    other = Schedule(func, seed=1)
    sch.trace.apply_to(other)
    assert 'func_name="linear0"' in str(other.trace)


def test_a_trace_of_another_program_says_so() -> None:
    sch = Schedule(chain(), seed=1)
    sch.get_loops("C")
    with pytest.raises(
        TraceError, match="expects 2 results of instruction 1; this program gives 3"
    ):
        sch.trace.apply_to(Schedule(matmul(), seed=1))


def test_index_maps_are_text() -> None:
    sch = Schedule(linear_relu(4, 8, 4), seed=0)
    sch.cache_read("Y", 1, "global")
    sch.transform_layout("Y", ("read", 1), lambda n, k: (n // 4, k, n % 4))
    text = str(sch.trace)
    assert 'buffer=["read", 1], index_map=lambda n, k: (n // 4, k, n % 4), pad_value=None' in text
    namespace: dict[str, object] = {}
    exec(text, namespace)
    other = Schedule(linear_relu(4, 8, 4), seed=0)
    namespace["apply_trace"](other)  # type: ignore[operator]
    assert_structural_equal(sch.func, other.func)
    line = "lambda i, j: (j,)"
    assert index_map_text(parse_index_map(line)) == line
    with pytest.raises(ValueError, match="is not a lambda that gives a tuple"):
        parse_index_map("lambda i: i")
