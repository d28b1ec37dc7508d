from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from burnish.support.errors import BlockNotFoundError, ScheduleValueError, TraceError
from burnish.support.structural import assert_structural_equal
from burnish.tensorir.analysis.affine import Bounds
from burnish.tensorir.arith import IndexMap
from burnish.tensorir.expr import Expr, Var, const, minimum
from burnish.tensorir.function import PrimFunc
from burnish.tensorir.schedule import (
    BlockHandle,
    Instruction,
    LoopHandle,
    Schedule,
    Trace,
    index_map_text,
    parse_index_map,
)
from burnish.tensorir.te import compute as te
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


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([["get_lops", [], [], [], None]], "there is no instruction 'get_lops'"),
        (
            [["sample_categorical", [], [["candidates", {"expr": "print(1)"}]], ["v0"], 0]],
            r"unknown expression 'print\(1\)'",
        ),
    ],
)
def test_what_is_no_instruction_is_refused(rows: list[object], message: str) -> None:
    with pytest.raises(TraceError, match=f"This is not a trace in JSON: .*{message}"):
        Trace.from_json(rows)


def test_instructions_run_on_a_schedule() -> None:
    with pytest.raises(TraceError, match=r"Expected a Schedule to run .*; found PrimFunc"):
        Trace().apply_to(matmul())  # type: ignore[arg-type]


def replayed(sch: Schedule, func: PrimFunc) -> None:
    """The trace gives the schedule's function again, from JSON and as Python."""
    from_json = Schedule(func, seed=5)
    Trace.from_json(json.dumps(sch.trace.as_json())).apply_to(from_json)
    assert_structural_equal(from_json.func, sch.func)
    namespace: dict[str, Any] = {}
    exec(str(sch.trace), namespace)
    from_text = Schedule(func, seed=6)
    namespace["apply_trace"](from_text)
    assert_structural_equal(from_text.func, sch.func)


def test_sampled_values_in_index_maps_and_annotations() -> None:
    func = linear_relu(4, 8, 4)
    sch = Schedule(func, seed=0)
    v = sch.sample_categorical([2, 4], [0.5, 0.5], decision=1)
    sch.cache_read("Y", 1, "global")
    sch.transform_layout("Y", ("read", 1), lambda n, k: (n // v, k, n % v))
    sch.annotate(sch.get_loops("Y")[0], "note", [v, v * 2 + 1])
    text = str(sch.trace)
    assert "index_map=lambda n, k: (n // v0, k, n % v0)" in text
    assert "ann_val=[v0, v0 * 2 + 1]" in text
    assert '"note": [4, 9]' in body(sch.func)
    assert "W_global = T.alloc_buffer((2, 4, 4))" in body(sch.func)
    replayed(sch, func)
    assert_same(func, sch.func)
    assert any(inst.kind == "sample_categorical" for inst in sch.trace.simplified())
    other = Schedule(func, seed=0)
    (sampling,) = [inst for inst in sch.trace if inst.is_sampling]
    sch.trace.apply_to(other, decisions={sampling: 0})
    assert "W_global = T.alloc_buffer((4, 4, 2))" in body(other.func)


def test_least_and_greatest_of_values_are_python() -> None:
    func = chain(Var("m"), 16)
    sch = Schedule(func, seed=0)
    v = sch.sample_categorical([2, 4], [0.5, 0.5], decision=1)
    i, j = sch.get_loops("B")
    sch.split(j, [None, minimum(v * 4, 8)])
    sch.loop_partition(i, [minimum(sch.get_shape_var("m"), v), None])
    assert "factors=[None, te.min(v0 * 4, 8)]" in str(sch.trace)
    replayed(sch, func)


def test_an_infinite_pad_value_is_python() -> None:
    func = chain(6, 4)
    sch = Schedule(func, seed=0)
    sch.transform_layout("B", ("write", 0), lambda i, j: (i // 4, j, i % 4), float("-inf"))
    assert 'pad_value=float("-inf")' in str(sch.trace)
    replayed(sch, func)


def test_names_in_an_index_map_do_not_hide_variables() -> None:
    func = chain(6, 4)
    sch = Schedule(func, seed=0)
    v = sch.sample_categorical([2, 4], [0.5, 0.5], decision=0)
    inputs = (Var("v0"), Var("class"))
    index_map = IndexMap(inputs, (inputs[0] // v, inputs[1], inputs[0] % v))
    sch.transform_layout("B", ("write", 0), index_map)
    assert "lambda v0_, i1: (v0_ // v0, i1, v0_ % v0)" in str(sch.trace)
    replayed(sch, func)


def test_several_decisions_at_once() -> None:
    func = matmul(8, 8, 8)
    sch = Schedule(func, seed=1)
    stochastic(sch)
    ((index, _),) = sch.trace.decisions.items()
    trace = sch.trace.with_decisions({sch.trace.instructions[index]: [2, 4]})
    assert trace.decisions == {index: [2, 4]}
    for decisions, message in [
        ({99: 0}, "There is no instruction 99; the trace has 6"),
        ({0: 0}, r"Instruction 0 is 'get_block', .* do: 2 \(sample_perfect_tile\)"),
        ({Instruction("split"): 0}, "This 'split' is not of this trace"),
        ({"rows": 3}, r"by instruction, or by its number .* \{0: \{'rows': 4\}\} .*; found 'rows'"),
    ]:
        with pytest.raises(TraceError, match=message):
            sch.trace.with_decisions(decisions)  # type: ignore[arg-type]
        with pytest.raises(TraceError, match=message):
            sch.trace.apply_to(Schedule(func, seed=1), decisions)


def test_a_decision_outside_of_the_space_names_its_instruction() -> None:
    func = matmul(8, 8, 8)
    sch = Schedule(func, seed=1)
    stochastic(sch)
    with pytest.raises(ScheduleValueError, match="2 factors with the product 8") as caught:
        sch.trace.apply_to(Schedule(func, seed=1), decisions={2: [3, 3]})
    (note,) = [n for n in caught.value.__notes__ if "instruction" in n]
    assert note.startswith("This is instruction 2 of the trace: v4, v5 = sch.sample_perfect_tile(")


def test_a_trace_of_another_function_names_its_instruction() -> None:
    sch = Schedule(matmul(8, 8, 8), seed=1)
    stochastic(sch)
    with pytest.raises(BlockNotFoundError, match="no block 'C' in 'main'") as caught:
        sch.trace.apply_to(Schedule(row_of_ones(), seed=1))
    assert 'sch.get_block(name="C"' in caught.value.__notes__[-1]


def row_of_ones() -> PrimFunc:
    return te.create_prim_func([te.compute((4,), lambda i: const(1.0, "float32"), name="one")])


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ({"kind": "split"}, "expected a list of instructions; found {'kind': 'split'}"),
        (["split"], "instruction 0 is not .kind, inputs, attrs, outputs, decision.: 'split'"),
        ([["splt", [], [], [], None]], r"there is no instruction 'splt'\. Did you mean 'split'"),
        (
            [["split", [["loop", {"rv": "l7"}]], [], [], None]],
            r"instruction 0 \(split\): no instruction before gives 'l7'",
        ),
        (
            [["split", [["loop", {"loop": "l7"}]], [], [], None]],
            "there is no value of the kind 'loop'",
        ),
        ([["get_block", [], [], [7], None]], r"instruction 0 \(get_block\) calls a result 7"),
    ],
)
def test_corrupt_json_says_where(rows: Any, message: str) -> None:
    with pytest.raises(TraceError, match=f"This is not a trace in JSON: .*{message}"):
        Trace.from_json(rows)


def test_arguments_of_another_version_are_a_trace_error() -> None:
    rows = [["get_block", [], [["nam", "C"], ["func_name", "main"]], ["b0"], None]]
    with pytest.raises(TraceError, match=r"not those of get_block: missing .* 'name'\."):
        Trace.from_json(rows).apply_to(Schedule(matmul(), seed=0))


def test_what_no_instruction_gives_is_not_written() -> None:
    (loop, *_) = Schedule(matmul(), seed=0).get_loops("C")
    trace = Trace((Instruction("parallel", (("loop", loop),)),))
    with pytest.raises(TraceError, match="No instruction of the trace gives LoopRV"):
        trace.as_json()


def test_a_replay_without_checks_proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replays of traces that are known to be legal skip the proofs: only what the rewrites
    compute is left."""
    func = matmul(8, 8, 8)
    sch = Schedule(func, seed=1)
    i, j, k = sch.get_loops("C")
    sch.reorder(k, i, j)
    sch.reorder(i, j, k)
    sch.cache_write("C", 0, "global")
    sch.reverse_compute_at("C_global", i)
    sch.parallel(i)
    asked: list[Expr] = []
    prove = Bounds.proves_le

    def counted(self: Bounds, a: Expr, b: Expr) -> bool:
        asked.append(a)
        return prove(self, a, b)

    monkeypatch.setattr(Bounds, "proves_le", counted)
    counts = []
    for checks in (True, False):
        asked.clear()
        again = Schedule(func, seed=1, enable_checks=checks)
        sch.trace.apply_to(again)
        assert_structural_equal(again.func, sch.func)
        counts.append(len(asked))
    assert counts[1] < counts[0]


def test_a_trace_is_written_by_hand() -> None:
    func = chain()
    block, i, j = BlockHandle(), LoopHandle(), LoopHandle()
    named = (("name", "B"), ("func_name", "main"))
    trace = Trace((Instruction("get_block", attrs=named, outputs=(block,)),))
    trace = Trace((*trace, Instruction("get_loops", (("block", block),), outputs=(i, j))))
    trace = Trace((*trace, Instruction("vectorize", (("loop", j),))))
    sch = Schedule(func, seed=0)
    trace.apply_to(sch)
    by_calls = Schedule(func, seed=0)
    by_calls.vectorize(by_calls.get_loops(by_calls.get_block("B"))[1])
    assert_structural_equal(sch.func, by_calls.func)
    assert trace.as_python() == sch.trace.as_python()
    assert Trace(trace.instructions[:-1]).simplified().as_json() == []
