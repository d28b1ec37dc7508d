"""Stage schedules replayed: the functions they give, what they compute, and how a primitive that
refuses is told."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from burnish import te
from burnish.support.errors import (
    ComputeError,
    DependenceError,
    LoopKindError,
    ScheduleError,
    ScheduleValueError,
)
from burnish.support.node import walk
from burnish.support.structural import assert_structural_equal
from burnish.tensorir.stages.loop_text import loop_text
from burnish.tensorir.stages.stage_lowering import lower_stages
from burnish.tensorir.stmt import Block
from burnish.tensorir.text.parser import parse_func
from burnish.tensorir.verify.bounds import verify_bounds
from burnish.tensorir.verify.laws import verify_func
from burnish.tensorir.verify.regions import verify_regions
from burnish.tests.strategies.stages import PROGRAMS, Program, chain, random_schedule
from burnish.tests.tensorir.interpreter import run


def check(s: te.Schedule, program: Program) -> str:
    """Lower, verify, run against the reference; the text."""
    func = lower_stages(s, program.args).func
    verify_regions(verify_bounds(verify_func(func)))
    assert_structural_equal(parse_func(func.script()), func)
    rng = np.random.default_rng(1)
    given = [
        rng.integers(-2, 3, [d.value for d in t.shape]).astype("float32") / 2
        for t in program.inputs
    ]
    found = [
        np.full([d.value for d in t.shape], np.nan if t.dtype.is_float else -9, str(t.dtype))
        for t in program.outputs
    ]
    run(func, *given, *found)
    for out, expected in zip(found, program.reference(*given), strict=True):
        np.testing.assert_allclose(out, expected, rtol=1e-4)
    return func.script()


def scheduled(program: Program) -> te.Schedule:
    return te.create_schedule([t.op for t in (*program.hidden, *program.outputs)])


TILED = """\
    for m_outer, p_outer in T.grid(2, 2):
        for m_inner_init, p_inner_init in T.grid(3, 2):
            with T.block("C_init"):
                v_m = T.axis.spatial(6, m_outer * 3 + m_inner_init)
                v_p = T.axis.spatial(4, p_outer * 2 + p_inner_init)
                T.reads()
                T.writes(C[v_m, v_p])
                C[v_m, v_p] = T.float32(0)
        for rk_outer, m_inner, rk_inner, p_inner in T.grid(2, 3, 4, 2):
            with T.block("C_update"):
                v_m = T.axis.spatial(6, m_outer * 3 + m_inner)
                v_p = T.axis.spatial(4, p_outer * 2 + p_inner)
                v_rk = T.axis.reduce(5, rk_outer * 4 + rk_inner)
                T.where(rk_outer * 4 + rk_inner < 5)
                T.reads(C[v_m, v_p], A[v_m, v_rk], B[v_rk, v_p])
                T.writes(C[v_m, v_p])
                C[v_m, v_p] = C[v_m, v_p] + A[v_m, v_rk] * B[v_rk, v_p]
"""


def test_the_default_schedule_is_one_nest_a_definition() -> None:
    program = chain()
    text = check(scheduled(program), program)
    assert "is_scheduled" not in text
    assert text.index('"C_init"') < text.index('"C_update"') < text.index('"D"')


def test_inits_stand_before_the_outermost_reduce_loop() -> None:
    program = chain()
    s = scheduled(program)
    c = program.hidden[0]
    m, p = c.op.axis
    (k,) = c.op.reduce_axis
    mo, mi = s[c].split(m, 3)
    ko, ki = s[c].split(k, 4)
    po, pi = s[c].split(p, 2)
    s[c].reorder(mo, po, ko, mi, ki, pi)
    assert TILED in check(s, program)


def test_kinds_and_pragmas_of_loops_also_hold_for_their_inits() -> None:
    program = chain()
    s = scheduled(program)
    (f,) = program.outputs
    m, n = f.op.axis
    s[f].reorder(f.op.reduce_axis[0], n)
    s[f].parallel(m)
    s[f].vectorize(n)
    s[f].unroll(f.op.reduce_axis[0])
    s[program.hidden[1]].pragma(program.hidden[1].op.axis[1], "auto_unroll_max_step", 16)
    text = check(s, program)
    assert "for m in T.parallel(6):" in text
    assert "for n_init in T.vectorized(7):" in text
    assert "for rl in T.unroll(4):" in text
    assert "for n in T.vectorized(7):" in text
    assert 'annotations={"pragma_auto_unroll_max_step": 16}' in text


def test_calls_on_different_stages_may_come_in_any_order() -> None:
    def forward(s: te.Schedule, c: te.Tensor, d: te.Tensor) -> None:
        s[c].compute_at(s[d], d.op.axis[1])
        _, inner = s[c].split(c.op.reduce_axis[0], 2)
        s[c].unroll(inner)
        s[d].parallel(d.op.axis[0])

    def backward(s: te.Schedule, c: te.Tensor, d: te.Tensor) -> None:
        s[d].parallel(d.op.axis[0])
        _, inner = s[c].split(c.op.reduce_axis[0], 2)
        s[c].unroll(inner)
        s[c].compute_at(s[d], d.op.axis[1])

    found = []
    for calls in (forward, backward):
        program = chain()
        s = scheduled(program)
        calls(s, *program.hidden)
        check(s, program)
        found.append(lower_stages(s, program.args).func)
    assert_structural_equal(*found)
    assert "for rk_outer in range(3):" in found[0].script()


def test_a_stage_keeps_its_own_loops_where_it_is_moved() -> None:
    program = chain()
    s = scheduled(program)
    c, d = program.hidden
    (f,) = program.outputs
    mo, _ = s[f].split(f.op.axis[0], 2)
    s[d].compute_at(s[f], mo)
    s[c].compute_at(s[d], d.op.axis[0])
    p_outer, _ = s[c].split(c.op.axis[1], nparts=2)
    s[c].reorder(p_outer, c.op.axis[0])
    text = check(s, program)
    assert "for m_outer in range(3):" in text
    assert text.index("m_outer in") < text.index('"C_init"') < text.index('"D"')


@pytest.mark.parametrize("name", PROGRAMS)
def test_random_schedules_compute_what_the_definitions_say(name: str) -> None:
    refused: Counter[str] = Counter()
    for seed in range(24):
        program = PROGRAMS[name]()
        s, _ = random_schedule(program, seed)
        try:
            lowered = lower_stages(s, program.args)
        except ScheduleError as error:
            refused[str(error).partition("[")[0]] += 1
            continue
        assert "produce" in loop_text(lowered)
        check(s, program)
    # Each in the name of a stage.
    assert set(refused) <= {"s"}
    assert refused.total() < 10


def symbolic() -> tuple[te.Tensor, te.Tensor, te.Tensor]:
    m = te.var("m")
    a = te.placeholder((m,), name="A")
    b = te.compute((m,), lambda i: a[i] * 2.0, name="B")
    return a, b, te.compute((m,), lambda i: b[i] + 1.0, name="C")


def test_an_argument_may_be_computed_where_it_is_read() -> None:
    a, b, c = symbolic()
    s = te.create_schedule(c.op)
    outer, _ = s[c].split(c.op.axis[0], 4)
    s[b].compute_at(s[c], outer)
    func = verify_func(lower_stages(s, [a, b, c]).func)
    assert [p.name for p in func.params] == ["A", "B", "C"]
    assert func.root.alloc_buffers == ()
    x = np.arange(7, dtype="float32")
    y, z = np.zeros(7, "float32"), np.zeros(7, "float32")
    run(func, x, y, z)
    np.testing.assert_array_equal(y, x * 2)
    np.testing.assert_array_equal(z, x * 2 + 1)


def test_an_argument_that_is_computed_in_part_is_refused() -> None:
    a = te.placeholder((8,), name="A")
    b = te.compute((8,), lambda i: a[i] * 2.0, name="B")
    c = te.compute((4,), lambda i: b[i * 2] + 1.0, name="C")
    s = te.create_schedule(c.op)
    s[b].compute_at(s[c], c.op.axis[0])
    assert lower_stages(s, [a, c]).func.params[1].name == "C"
    with pytest.raises(DependenceError) as caught:
        lower_stages(s, [a, b, c])
    assert str(caught.value).startswith(
        "s[B].compute_at(s[C], i): 'B' is an argument, and it cannot be proved that what is "
        "computed"
    )


def test_an_argument_that_is_inlined_is_a_parameter_that_nothing_writes() -> None:
    a, b, c = symbolic()
    s = te.create_schedule(c.op)
    s[b].compute_inline()
    func = verify_func(lower_stages(s, [a, b, c]).func)
    assert [p.name for p in func.params] == ["A", "B", "C"]
    assert [p.name for p in func.written] == ["C"]
    assert [n.name for n in walk(func.body) if isinstance(n, Block)] == ["root", "C"]


def test_outputs_that_are_no_arguments_stay_inside() -> None:
    program = chain()
    s = scheduled(program)
    func = verify_func(lower_stages(s, program.inputs).func)
    assert [p.name for p in func.params] == ["A", "B", "E"]
    assert [b.name for b in func.root.alloc_buffers] == ["C", "D", "F"]


def test_names_of_loops_blocks_and_buffers() -> None:
    a, b, c = symbolic()
    s = te.create_schedule(c.op)
    s[c].split(c.op.axis[0], 4)
    copy = s.cache_read(a, "local", [b])
    lowered = lower_stages(s, [a, c])
    assert sorted(lowered.loops.values()) == ["ax0", "i", "i.inner", "i.outer"]
    assert lowered.blocks == {"A_local": "A.local", "B": "B", "C": "C"}
    assert copy.name in lowered.buffers.values()


def test_unit_loops_are_left_out() -> None:
    a = te.placeholder((1, 4), name="A")
    b = te.compute((1, 4), lambda i, j: a[i, j] * 2.0, name="B")
    text = lower_stages(te.create_schedule(b.op), [a, b]).func.script()
    assert "for j in range(4):" in text
    assert "v_i = T.axis.spatial(1, 0)" in text


def test_scopes() -> None:
    program = chain()
    s = scheduled(program)
    s[program.hidden[1]].set_scope("local")
    assert 'D = T.alloc_buffer((6, 4), scope="local")' in check(s, program)
    s[program.outputs[0]].set_scope("local")
    with pytest.raises(
        ScheduleValueError, match=r"s\[F\].set_scope\('local'\): The buffer 'F' is a pa"
    ):
        lower_stages(s, program.args)


def test_bound_threads_are_checked_against_the_loop() -> None:
    program = chain()
    s = scheduled(program)
    d = program.hidden[1]
    outer, inner = s[d].split(d.op.axis[0], 3)
    s[d].bind(outer, te.thread_axis("blockIdx.x"))
    s[d].bind(inner, te.thread_axis((0, 3), "threadIdx.x"))
    text = check(s, program)
    assert 'for m_outer in T.thread_binding(2, thread="blockIdx.x"):' in text
    other = scheduled(program)
    other[d].bind(d.op.axis[0], te.thread_axis((0, 64), "threadIdx.x"))
    with pytest.raises(ScheduleValueError) as caught:
        lower_stages(other, program.args)
    assert str(caught.value) == (
        "s[D].bind(m, threadIdx.x): The thread axis threadIdx.x has 64 iterations, the loop 'm' "
        "has 6."
    )


def test_a_primitive_that_refuses_is_told_by_stage_and_call() -> None:
    program = chain()
    c, d = program.hidden
    s = scheduled(program)
    s[c].vectorize(c.op.reduce_axis[0])
    with pytest.raises(LoopKindError) as caught:
        lower_stages(s, program.args)
    assert str(caught.value).startswith(
        "s[C].vectorize(rk): The loop 'rk' is bound to the reduce axis 'v_rk' of 'C'; only loops "
        "over spatial axes may run at once."
    )
    assert isinstance(caught.value.__cause__, LoopKindError)

    s = scheduled(program)
    s[c].compute_at(s[d], d.op.axis[0])
    s[d].split(d.op.axis[0], 2)
    with pytest.raises(
        ScheduleValueError, match=r"s\[C\].compute_at\(s\[D\], m\): The axis 'm' of st"
    ):
        lower_stages(s, program.args)

    s = scheduled(program)
    s[c].compute_at(s[d], d.op.axis[0])
    s[d].compute_inline()
    with pytest.raises(ScheduleValueError, match="The stage 'D' is inlined; it has no loops"):
        lower_stages(s, program.args)


def test_an_output_cannot_be_inlined() -> None:
    a, b, c = symbolic()
    s = te.create_schedule([b.op, c.op])
    s[c].compute_inline()
    with pytest.raises(
        ScheduleError, match=r"s\[C\].compute_inline\(\): Nothing reads what 'C' wri"
    ):
        lower_stages(s, [a, b])


def test_bad_arguments() -> None:
    a, b, c = symbolic()
    s = te.create_schedule(b.op)
    with pytest.raises(
        ScheduleValueError, match="lower: The argument 'C' is not computed by this sch"
    ):
        lower_stages(s, [a, b, c])
    with pytest.raises(ComputeError, match="The placeholder 'A' is read, but it is not among"):
        lower_stages(s, [b])
