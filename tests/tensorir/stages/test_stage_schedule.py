"""Stage schedules: their stages, and definitions that they make anew."""

from __future__ import annotations

import numpy as np
import pytest

from burnish import te
from burnish.support.errors import NotReductionBlockError, ScheduleValueError
from burnish.tensorir.stages.stage_lowering import lower_stages
from burnish.tensorir.verify.laws import verify_func
from burnish.tests.strategies.stages import argmax, chain
from burnish.tests.tensorir.interpreter import run


def test_stages_are_in_order_of_dependency() -> None:
    program = chain()
    (f,) = program.outputs
    s = te.create_schedule(f.op)
    assert repr(s) == "StageSchedule(C, D, F)"
    d = program.hidden[1]
    assert s[d] is s[d.op] is s.stages[1]
    assert d in s
    assert [x.name for x in s.consumers(s[d])] == ["F"]
    assert s.depends_on(f.op, d.op)
    assert not s.depends_on(d.op, f.op)
    assert te.create_schedule(f)[f].op is f.op


def test_what_is_no_stage() -> None:
    program = chain()
    s = te.create_schedule(program.hidden[0].op)
    with pytest.raises(
        ScheduleValueError, match="'A' is a placeholder, which nothing computes; the"
    ):
        s[program.inputs[0]]
    with pytest.raises(
        ScheduleValueError, match="'F' is not in this schedule, whose stages are 'C'"
    ):
        s[program.outputs[0]]
    with pytest.raises(ScheduleValueError, match="Expected a tensor or its op; found str"):
        s["C"]  # type: ignore[index]
    with pytest.raises(ScheduleValueError, match="op; found a placeholder's op, None"):
        te.create_schedule(program.inputs[0].op)  # type: ignore[arg-type]
    with pytest.raises(ScheduleValueError, match="Expected at least one definition; found none"):
        te.create_schedule([])
    with pytest.raises(ScheduleValueError, match="op; found int"):
        te.create_schedule([3])  # type: ignore[list-item]


def product(n: int = 6) -> tuple[te.Tensor, te.Tensor, te.Tensor, te.Schedule]:
    a, b = te.placeholder((n, n), name="A"), te.placeholder((n, n), name="B")
    k = te.reduce_axis((0, n), "k")
    c = te.compute((n, n), lambda x, y: te.sum(a[x, k] * b[k, y], axis=k), name="C")
    return a, b, c, te.create_schedule(c.op)


def check(s: te.Schedule, a: te.Tensor, b: te.Tensor, c: te.Tensor) -> str:
    func = verify_func(lower_stages(s, [a, b, c]).func)
    x, y = np.random.default_rng(0).integers(-3, 4, (2, 6, 6)).astype("float32")
    z = np.full((6, 6), np.nan, "float32")
    run(func, x, y, z)
    np.testing.assert_array_equal(z, x @ y)
    return func.script()


def test_a_cached_write_computes_and_the_tensor_copies() -> None:
    a, b, c, s = product()
    cached = s.cache_write(c, "local")
    _, yo, _, _ = s[c].tile(*c.op.axis, 3, 2)
    s[cached].compute_at(s[c], yo)
    (k,) = s[cached].op.reduce_axis
    x, y = s[cached].op.axis
    ko, ki = s[cached].split(k, 4)
    s[cached].reorder(ko, x, ki, y)
    s[cached].vectorize(y)
    text = check(s, a, b, c)
    assert 'C_local = T.alloc_buffer((6, 6), scope="local")' in text
    assert 'with T.block("C_local_update"):' in text


def test_a_cached_read_copies_what_its_readers_need() -> None:
    a, b, c, s = product()
    ko, _ = s[c].split(c.op.reduce_axis[0], 3)
    s[c].reorder(ko, *c.op.axis)
    copy = s.cache_read(b, "local", [c])
    s[copy].compute_at(s[c], ko)
    text = check(s, a, b, c)
    assert "B_local[v_ax0, v_ax1] = B[v_ax0, v_ax1]" in text
    assert "A[v_x, v_k] * B_local[v_k, v_y]" in text
    assert text.index("B_local[v_ax0, v_ax1] =") > text.index("for k_outer in")


@pytest.mark.parametrize(("factor", "factor_axis"), [(2, 0), (4, -1), (4, 1), (9, 2)])
def test_rfactor_reduces_in_two_steps(factor: int, factor_axis: int) -> None:
    a, b, c, s = product()
    _, ki = s[c].split(c.op.reduce_axis[0], factor)
    partial = s.rfactor(c, ki, factor_axis)
    assert partial.name == "C.rf"
    (again,) = s[c].op.reduce_axis
    assert again.name == "k.inner.v"
    s[partial].compute_at(s[c], again)
    text = check(s, a, b, c)
    assert 'with T.block("C_rf_init"):' in text


def test_rfactor_of_an_argmax() -> None:
    a = te.placeholder((3, 11), name="A")
    k = te.reduce_axis((0, 11), "k")
    place, top = te.compute((3,), lambda i: argmax()((k.var, a[i, k]), axis=k), name="T")
    s = te.create_schedule(top.op)
    _, ki = s[top].split(k, 4)
    partial = s.rfactor(place, ki)
    assert [t.name for t in partial] == ["T_v0.rf", "T_v1.rf"]
    s[partial[0]].compute_at(s[place], s[place].op.axis[0])
    s[place].parallel(s[place].op.axis[0])
    func = verify_func(lower_stages(s, [a, place, top]).func)
    x = np.random.default_rng(1).integers(0, 3, (3, 11)).astype("float32")
    where, value = np.zeros(3, "int64"), np.zeros(3, "float32")
    run(func, x, where, value)
    np.testing.assert_array_equal(where, x.argmax(1))
    np.testing.assert_array_equal(value, x.max(1))


def test_rfactor_keeps_init_out_of_the_partial_results() -> None:
    a = te.placeholder((10,), name="A")
    k = te.reduce_axis((0, 10), "k")
    b = te.compute((), lambda: te.sum(a[k], axis=k, init=100.0), name="B")
    s = te.create_schedule(b.op)
    ko, _ = s[b].split(k, nparts=4)
    s.rfactor(b, ko)
    out = np.zeros((), "float32")
    run(lower_stages(s, [a, b]).func, np.ones(10, "float32"), out)
    assert out == 110


def test_errors_of_new_definitions() -> None:
    a, b, c, s = product()
    with pytest.raises(
        ScheduleValueError, match=r"s.cache_read\(C, 'local'\): 'C' does not read 'C'"
    ):
        s.cache_read(c, "local", [c])
    with pytest.raises(ScheduleValueError, match="Expected at least one reader; found none"):
        s.cache_read(a, "local", [])
    with pytest.raises(ScheduleValueError, match="Expected a storage scope, one of"):
        s.cache_write(c, "fast")
    with pytest.raises(
        NotReductionBlockError, match="The axis 'x' of 'C' is spatial; nothing is to"
    ):
        s.rfactor(c, c.op.axis[0])
    with pytest.raises(ScheduleValueError, match="factor_axis must be from -3 to 2; found 3"):
        s.rfactor(c, c.op.reduce_axis[0], 3)
    s[c].split(c.op.axis[0], 2)
    with pytest.raises(
        ScheduleValueError, match=r"was scheduled already, by s\[C\].split\(x, fact"
    ):
        s.cache_write(c, "local")
    with pytest.raises(ScheduleValueError, match="before rfactor, split reduce axes only"):
        s.rfactor(c, c.op.reduce_axis[0])
    two = te.compute((6,), lambda i: (a[i, 0], b[i, 0]), name="P")
    t = te.create_schedule(two[0].op)
    with pytest.raises(
        ScheduleValueError, match="Expected all outputs of the definition 'P': 'P_v0"
    ):
        t.cache_write(two[0], "local")
    assert [x.name for x in t.cache_write(two, "local")] == ["P_v0.local", "P_v1.local"]
