from __future__ import annotations

import json

import pytest

from burnish.support.errors import (
    DependenceError,
    NotAncestorError,
    ScheduleValueError,
)
from burnish.tensorir.function import PrimFunc
from burnish.tensorir.intrinsics import call_intrin
from burnish.tensorir.schedule import Schedule
from burnish.tensorir.schedule.trace.trace import Trace
from burnish.tensorir.te import compute as te
from burnish.tensorir.text.parser import parse_func
from burnish.tests.tensorir.schedule.programs import (
    assert_same,
    blur,
    body,
    chain,
    linear_relu,
    program,
)


def test_tiles_of_a_producer_and_a_consumer() -> None:
    func = linear_relu(4, 8, 3)
    sch = Schedule(func, seed=0)
    sch.compute_inline("T")
    merged = []
    for block in ("Y", "Z"):
        i, j, *k = sch.get_loops(block)
        i0, i1 = sch.split(i, [None, 2])
        j0, j1 = sch.split(j, [None, 4])
        sch.reorder(i0, j0, *k, i1, j1)
        merged.append(j0)
    loop = sch.merge(*merged)
    assert sch.get(loop).var.name == "j_0_m"
    text = body(sch.func)
    assert "for i_0_m, j_0_m in T.grid(2, 2):\n    for k, i_1, j_1 in T.grid(3, 2, 4):" in text
    assert "v_j = T.axis.spatial(8, j_0_m * 4 + j_1)" in text
    assert_same(func, sch.func)
    other = Schedule(func, seed=1)
    sch.trace.apply_to(other)
    assert body(other.func) == text


def test_a_window_crosses_iterations() -> None:
    sch = Schedule(blur(16), seed=0)
    b, c = sch.get_loops("B")[0], sch.get_loops("C")[0]
    with pytest.raises(
        ScheduleValueError, match="'i' and 'i' do not provably have the same extent"
    ):
        sch.merge(b, c)
    part, _ = sch.loop_partition(b, [16, None])
    with pytest.raises(NotAncestorError, match="do not follow one another directly"):
        sch.merge(part, c)


def test_a_partial_sum_is_not_read() -> None:
    sch = Schedule(linear_relu(4, 4, 4), seed=0)
    i, j, k = sch.get_loops("Y")
    sch.reorder(k, i, j)
    with pytest.raises(DependenceError, match="One iteration of the reduce loop 'k_m' does not"):
        sch.merge(k, sch.get_loops("T")[0])


def test_other_iterations_are_not_read() -> None:
    sch = Schedule(chain(4, 4), seed=0)
    j = sch.get_loops("C")[1]
    i = sch.get_loops("C")[0]
    sch.reorder(j, i)
    with pytest.raises(DependenceError, match=r"'C' reads B\[0:4, i_m\]"):
        sch.merge(sch.get_loops("B")[0], j)


def test_shapes_of_nests() -> None:
    sch = Schedule(chain(4, 4), seed=0)
    with pytest.raises(ScheduleValueError, match="at least two loops"):
        sch.merge(sch.get_loops("B")[0])
    with pytest.raises(ScheduleValueError, match="different depths"):
        sch.merge(sch.get_loops("B")[0], sch.get_loops("C")[1])
    with pytest.raises(NotAncestorError, match="different statements of one sequence"):
        sch.merge(*sch.get_loops("B"))


# -- two products ----------------------------------------------------------------------------------
def two_products(m: int = 8, k: int = 4, p: int = 6, n: int = 5) -> PrimFunc:
    """``F = max(A @ B, 0) @ E``."""
    a, b = te.placeholder((m, k), name="A"), te.placeholder((k, p), name="B")
    e = te.placeholder((p, n), name="E")
    rk, rl = te.reduce_axis((0, k), "rk"), te.reduce_axis((0, p), "rl")
    c = te.compute((m, p), lambda i, j: te.sum(a[i, rk] * b[rk, j], axis=[rk]), name="C")
    d = te.compute((m, p), lambda i, j: call_intrin("abs", c[i, j]), name="D")
    f = te.compute((m, n), lambda i, j: te.sum(d[i, rl] * e[rl, j], axis=[rl]), name="F")
    return te.create_prim_func([a, b, e, f])


def test_the_row_loops_of_two_products_join() -> None:
    func = two_products()
    sch = Schedule(func, seed=0)
    outer = {}
    for name in ("C", "D", "F"):
        m, last, *reduced = sch.get_loops(name)
        m0, m1 = sch.split(m, [None, 4])
        sch.reorder(m0, last, *reduced, m1)
        outer[name] = m0
    rows = sch.merge(outer["C"], outer["D"])
    rows = sch.merge(rows, outer["F"])
    assert sch.get(rows).var.name == "i_0_m_m"
    assert len(sch.get_child_blocks(rows)) == 3
    assert_same(func, sch.func)
    for trace in (sch.trace, Trace.from_json(json.dumps(sch.trace.as_json()))):
        again = Schedule(func, seed=1)
        trace.apply_to(again)
        assert body(again.func) == body(sch.func)
    replayed = Schedule(func, seed=2)
    exec(sch.trace.as_python(), {"sch": replayed})
    assert body(replayed.func) == body(sch.func)


def test_three_nests_at_once() -> None:
    func = two_products()
    sch = Schedule(func, seed=0)
    rows = sch.merge(*[sch.get_loops(name)[0] for name in ("C", "D", "F")])
    assert [b.name for b in sch.get_child_blocks(rows)] == ["C", "D", "F"]
    assert_same(func, sch.func)


def test_columns_of_the_first_product_are_rows_of_the_second() -> None:
    sch = Schedule(two_products(8, 4, 5, 5), seed=0)
    columns = sch.get_loops("D")[1]
    sch.reorder(columns, sch.get_loops("D")[0])
    n = sch.get_loops("F")[1]
    sch.reorder(n, sch.get_loops("F")[0])
    with pytest.raises(DependenceError) as error:
        sch.merge(columns, n)
    assert error.value.found == (
        "In one iteration of 'j_m' the block 'F' reads D[0:8, 0:5], while 'D' writes D[0:8, j_m] "
        "in a later one. 'D' came first before, and that these are different elements of 'D' "
        "cannot be proved."
    )


# -- other iterations ------------------------------------------------------------------------------
SHIFTED = """
@T.prim_func
def main(A: T.Buffer((18, 4), "float32"), C: T.Buffer((16, 4), "float32")):
    B = T.alloc_buffer((18, 4))
    for i, j in T.grid(2, 4):
        with T.block("edge"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi * 17, vj] = A[vi * 17, vj]
    for i, j in T.grid(16, 4):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi + 1, vj] = A[vi + 1, vj] * T.float32(2)
    for i, j in T.grid(16, 4):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi + 1, vj] + B[vi + {offset}, vj]
"""


@pytest.mark.parametrize("depth", [0, 1])
def test_an_earlier_row_may_be_read(depth: int) -> None:
    func = parse_func(SHIFTED.format(offset=0))
    sch = Schedule(func, seed=0)
    sch.merge(sch.get_loops("B")[depth], sch.get_loops("C")[depth])
    assert_same(func, sch.func)


@pytest.mark.parametrize("depth", [0, 1])
def test_the_next_row_may_not_be_read(depth: int) -> None:
    sch = Schedule(parse_func(SHIFTED.format(offset=2)), seed=0)
    before = sch.func
    with pytest.raises(DependenceError, match=r"'C' reads B\[i_m \+ 1:.* while 'B' writes B\[i_m"):
        sch.merge(sch.get_loops("B")[depth], sch.get_loops("C")[depth])
    assert sch.func is before
    assert not any(i.kind == "merge" for i in sch.trace)


OVERWRITTEN = """
@T.prim_func
def main(A: T.Buffer((17, 4), "float32"), X: T.Buffer((17, 4), "float32"),
         C: T.Buffer((16, 4), "float32")):
    for i, j in T.grid(17, 4):
        with T.block("X"):
            vi, vj = T.axis.remap("SS", [i, j])
            X[vi, vj] = A[vi, vj] * T.float32(3)
    for i, j in T.grid(16, 4):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = X[vi + {read}, vj]
    for i, j in T.grid(16, 4):
        with T.block("again"):
            vi, vj = T.axis.remap("SS", [i, j])
            X[vi + {written}, vj] = A[vi, vj]
"""


def test_what_is_overwritten_must_have_been_read() -> None:
    for read, written in ((0, 0), (1, 0)):
        func = parse_func(OVERWRITTEN.format(read=read, written=written))
        sch = Schedule(func, seed=0)
        sch.merge(sch.get_loops("C")[0], sch.get_loops("again")[0])
        assert_same(func, sch.func)
    sch = Schedule(parse_func(OVERWRITTEN.format(read=0, written=1)), seed=0)
    with pytest.raises(
        DependenceError, match=r"'again' writes X\[i_m \+ 1, 0:4\], while 'C' reads X\[i_m, 0:4\]"
    ):
        sch.merge(sch.get_loops("C")[0], sch.get_loops("again")[0])


def test_what_both_write_keeps_its_last_value() -> None:
    both = OVERWRITTEN.replace("C[vi, vj] = X[vi + {read}, vj]", "X[vi, vj] = A[vi + 1, vj]")
    both = both.replace("C: T.Buffer((16, 4)", "Y: T.Buffer((16, 4)")
    sch = Schedule(parse_func(both.format(written=0)), seed=0)
    sch.merge(sch.get_loops("C")[0], sch.get_loops("again")[0])
    text = body(sch.func)
    assert text.index('T.block("C")') < text.index('T.block("again")')
    sch = Schedule(parse_func(both.format(written=1)), seed=0)
    with pytest.raises(DependenceError, match=r"'again' writes X.*, while 'C' writes X"):
        sch.merge(sch.get_loops("C")[0], sch.get_loops("again")[0])


def test_digits_of_a_fused_loop_tell_iterations_apart() -> None:
    func = chain(4, 6)
    sch = Schedule(func, seed=0)
    fused = [sch.fuse(*sch.get_loops(name)) for name in ("B", "C")]
    sch.merge(*fused)
    assert_same(func, sch.func)


def test_parts_that_are_apart() -> None:
    func = chain(12, 4)
    sch = Schedule(func, seed=0)
    sch.loop_partition(sch.get_loops("B")[0], [6, None])
    sch.loop_partition(sch.get_loops("C")[0], [6, None])
    names = [sch.get_loops(n)[0] for n in ("B_1", "C")]
    sch.merge(*names)
    assert_same(func, sch.func)


def test_other_statements_may_not_stand_between() -> None:
    func = program(
        """
for i in range(4):
    with T.block("B"):
        vi = T.axis.spatial(4, i)
        B[vi, 0] = A[vi, 0]
    for j in range(4):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = A[vi, vj]
for i, j in T.grid(4, 4):
    with T.block("D"):
        vi, vj = T.axis.remap("SS", [i, j])
        D[vi, vj] = A[vi, vj]
""",
        A="(4, 4)",
        B="(4, 4)",
        C="(4, 4)",
        D="(4, 4)",
    )
    sch = Schedule(func, seed=0)
    with pytest.raises(NotAncestorError, match="Expected loops nested directly in one another"):
        sch.merge(sch.get_loops("C")[1], sch.get_loops("D")[1])
