from __future__ import annotations

import pytest

from burnish.support.errors import DependenceError, NotCompleteBlockError
from burnish.tensorir import compute as te
from burnish.tensorir.expr import Let, Var
from burnish.tensorir.parser import parse_func
from burnish.tensorir.schedule import Schedule
from burnish.tests.tensorir.schedule.programs import (
    assert_same,
    blur,
    body,
    chain,
    linear_relu,
    matmul,
    row_sum,
)


def test_inline_into_a_consumer() -> None:
    func = chain()
    sch = Schedule(func, seed=0)
    sch.compute_inline("B")
    assert (
        body(sch.func)
        == """\
for i, j in T.grid(8, 6):
    with T.block("C"):
        v_i, v_j = T.axis.remap("SS", [i, j])
        T.reads(A[v_i, v_j])
        T.writes(C[v_i, v_j])
        C[v_i, v_j] = (A[v_i, v_j] + T.float32(1)) * T.float32(2)"""
    )
    assert_same(func, sch.func)


def test_inline_at_several_loads() -> None:
    func = blur(8)
    sch = Schedule(func, seed=0)
    sch.compute_inline("B")
    assert "T.reads(A[v_i:v_i + 3])" in body(sch.func)
    assert_same(func, sch.func)


def test_inline_into_a_reduction_and_after_scheduling() -> None:
    func = linear_relu(8, 4, 3)
    sch = Schedule(func, seed=0)
    i, j = sch.get_loops("T")
    i0, i1 = sch.split(i, [None, 3])
    sch.reorder(j, i0, i1)
    sch.compute_inline("T")
    assert "T.max(Y[v_i, v_j] + B[v_j], T.float32(0))" in body(sch.func)
    assert_same(func, sch.func)


def test_inlined_lets_bind_fresh_variables() -> None:
    a = te.placeholder((4,), name="A")
    x = Var("x", a.dtype)
    b = te.compute((4,), lambda i: Let(x, a[i] + 1.0, x * x), name="B")
    c = te.compute((4,), lambda i: b[i] + b[3 - i], name="C")
    func = te.create_prim_func([a, c])
    sch = Schedule(func, seed=0)
    sch.compute_inline("B")
    assert_same(func, sch.func)


def test_reverse_inline() -> None:
    func = chain()
    sch = Schedule(func, seed=0)
    sch.reverse_compute_inline("C")
    assert 'with T.block("B")' in body(sch.func)
    assert "C[v_i, v_j] = (A[v_i, v_j] + T.float32(1)) * T.float32(2)" in body(sch.func)
    assert_same(func, sch.func)


def test_reverse_inline_of_a_transpose() -> None:
    a = te.placeholder((4, 3), name="A")
    b = te.compute((4, 3), lambda i, j: a[i, j] + 1.0, name="B")
    c = te.compute((3, 4), lambda i, j: b[j, i] * b[j, i], name="C")
    func = te.create_prim_func([a, c])
    sch = Schedule(func, seed=0)
    sch.reverse_compute_inline("C")
    assert_same(func, sch.func)


# -- refusals ------------------------------------------------------------------------------------
def test_outputs_are_stored() -> None:
    sch = Schedule(chain(), seed=0)
    with pytest.raises(DependenceError, match="'C' writes an output of the function"):
        sch.compute_inline("C")


def test_reductions_are_not_inlined() -> None:
    sch = Schedule(linear_relu(4, 4, 4), seed=0)
    with pytest.raises(NotCompleteBlockError, match="'Y' is not: its axis 'v_k' is reduce"):
        sch.compute_inline("Y")
    with pytest.raises(NotCompleteBlockError, match="'Y' is not"):
        sch.reverse_compute_inline("T")
    sch = Schedule(row_sum(), seed=0)
    with pytest.raises(NotCompleteBlockError):
        sch.compute_inline("B")
    with pytest.raises(NotCompleteBlockError):
        Schedule(matmul(), seed=0).reverse_compute_inline("C")


def test_a_consumer_that_shifts_is_not_inlined_backwards() -> None:
    sch = Schedule(blur(8), seed=0)
    with pytest.raises(
        NotCompleteBlockError, match="'C' does not read 'B' at exactly its own axes"
    ):
        sch.reverse_compute_inline("C")


REVERSED = """
@T.prim_func
def main(A: T.Buffer((4,), "float32"), C: T.Buffer((4,), "float32")):
    B = T.alloc_buffer((4,), "float32")
    for i in range(4):
        with T.block("B"):
            vi = T.axis.spatial(4, i)
            B[3 - vi] = A[vi]
    for i in range(4):
        with T.block("C"):
            vi = T.axis.spatial(4, i)
            C[vi] = B[vi]
"""


def test_stores_at_computed_indices_are_not_inlined() -> None:
    sch = Schedule(parse_func(REVERSED, {}), seed=0)
    with pytest.raises(NotCompleteBlockError, match="'B' does not store at distinct axes"):
        sch.compute_inline("B")


PARTIAL = REVERSED.replace("B[3 - vi]", "B[vi]").replace(
    "vi = T.axis.spatial(4, i)\n            B",
    "vi = T.axis.spatial(4, i)\n            T.where(i < 2)\n            B",
)


def test_a_conditional_value_is_not_inlined() -> None:
    sch = Schedule(parse_func(PARTIAL, {}), seed=0)
    with pytest.raises(NotCompleteBlockError, match="'B' runs under a condition"):
        sch.compute_inline("B")


def test_two_consumers_have_no_reverse() -> None:
    a = te.placeholder((4,), name="A")
    b = te.compute((4,), lambda i: a[i] + 1.0, name="B")
    c = te.compute((4,), lambda i: b[i] * 2.0, name="C")
    d = te.compute((4,), lambda i: b[i] * 3.0, name="D")
    sch = Schedule(te.create_prim_func([a, c, d]), seed=0)
    with pytest.raises(DependenceError, match="'D' reads 'B' too"):
        sch.reverse_compute_inline("C")
    with pytest.raises(DependenceError, match="Expected one producer of 'B'; found none"):
        sch.reverse_compute_inline("B")


OVERWRITTEN = """
@T.prim_func
def main(A: T.Buffer((4,), "float32"), C: T.Buffer((4,), "float32")):
    B = T.alloc_buffer((4,), "float32")
    for i in range(4):
        with T.block("B"):
            vi = T.axis.spatial(4, i)
            B[vi] = A[vi]
    for i in range(4):
        with T.block("A"):
            vi = T.axis.spatial(4, i)
            A[vi] = T.float32(0)
    for i in range(4):
        with T.block("C"):
            vi = T.axis.spatial(4, i)
            C[vi] = B[vi]
"""


def test_an_overwritten_source_is_not_inlined() -> None:
    sch = Schedule(parse_func(OVERWRITTEN, {}), seed=0)
    with pytest.raises(DependenceError, match="'A' overwrites what 'B' reads"):
        sch.compute_inline("B")
