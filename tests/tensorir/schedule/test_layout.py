from __future__ import annotations

import pytest

from burnish.support.errors import LayoutError, ScheduleValueError
from burnish.tensorir.function import PrimFunc
from burnish.tensorir.schedule import Schedule
from burnish.tests.tensorir.schedule.programs import assert_same, body, chain, linear_relu, matmul


def test_an_intermediate_is_transposed() -> None:
    func = chain(4, 6)
    sch = Schedule(func, seed=0)
    sch.transform_layout("B", ("write", 0), lambda i, j: (j, i))
    assert (
        body(sch.func)
        == """\
B = T.alloc_buffer((6, 4))
for i, j in T.grid(4, 6):
    with T.block("B"):
        v_i, v_j = T.axis.remap("SS", [i, j])
        T.reads(A[v_i, v_j])
        T.writes(B[v_j, v_i])
        B[v_j, v_i] = A[v_i, v_j] + T.float32(1)
for i, j in T.grid(4, 6):
    with T.block("C"):
        v_i, v_j = T.axis.remap("SS", [i, j])
        T.reads(B[v_j, v_i])
        T.writes(C[v_i, v_j])
        C[v_i, v_j] = B[v_j, v_i] * T.float32(2)"""
    )
    assert_same(func, sch.func)


def test_padding_is_written_by_the_copy() -> None:
    func = matmul(4, 6, 3)
    sch = Schedule(func, seed=0)
    sch.cache_read("C", 1, "global")
    sch.transform_layout("C", "B_global", lambda k, j: (j // 4, k, j % 4), pad_value=0)
    text = body(sch.func)
    assert "B_global = T.alloc_buffer((2, 3, 4))" in text
    assert "T.if_then_else(v0 * 4 + v2 < 6, B[v1, v0 * 4 + v2], T.float32(0))" in text
    assert_same(func, sch.func)


def test_padding_must_be_asked_for() -> None:
    sch = Schedule(matmul(4, 6, 3), seed=0)
    sch.cache_read("C", 1, "global")
    before = sch.func
    with pytest.raises(LayoutError, match=r"it leaves elements unused\. Give pad_value"):
        sch.transform_layout("C", ("read", 1), lambda k, j: (j // 4, k, j % 4))
    assert sch.func is before


def test_maps_must_be_injective() -> None:
    sch = Schedule(chain(4, 6), seed=0)
    with pytest.raises(LayoutError, match="two elements would share a place"):
        sch.transform_layout("B", "B", lambda i, j: (i,))
    with pytest.raises(LayoutError, match="the index map takes 1 indices, the buffer has 2"):
        sch.transform_layout("B", "B", lambda i: (i,))


def test_a_writer_that_cannot_pad() -> None:
    sch = Schedule(linear_relu(4, 6, 3), seed=0)
    with pytest.raises(LayoutError, match="Copy with cache_read or cache_write first"):
        sch.transform_layout("Y", ("write", 0), lambda i, j: (i, j // 4, j % 4), pad_value=0.0)


def weight_is_free(func: PrimFunc) -> PrimFunc:
    return func.with_attr("layout_free", [1])


def test_a_parameter_keeps_its_layout_unless_marked() -> None:
    sch = Schedule(matmul(4, 8, 3), seed=0)
    with pytest.raises(
        LayoutError, match=r"'B' is parameter 1, whose layout belongs to the caller"
    ):
        sch.transform_layout("C", ("read", 1), lambda k, j: (j // 4, k, j % 4))


def test_a_marked_parameter_changes_the_signature_and_is_recorded() -> None:
    sch = Schedule(weight_is_free(matmul(4, 8, 3)), seed=0)
    sch.transform_layout("C", ("read", 1), lambda k, j: (j // 4, k, j % 4))
    weight = sch.func.buffers[1]
    assert [getattr(d, "value", None) for d in weight.shape] == [2, 3, 4]
    assert sch.func.attr("layout_maps") == [[1, "lambda k, j: (j // 4, k, j % 4)", None]]
    sch.transform_layout("C", ("read", 1), lambda p, k, q: (k, p, q))
    assert [m[1] for m in sch.func.attr("layout_maps")] == [
        "lambda k, j: (j // 4, k, j % 4)",
        "lambda p, k, q: (k, p, q)",
    ]


def test_a_padded_parameter_records_its_pad_value() -> None:
    sch = Schedule(weight_is_free(matmul(4, 6, 3)), seed=0)
    sch.transform_layout("C", ("read", 1), lambda k, j: (j // 4, k, j % 4), pad_value=0.0)
    assert sch.func.attr("layout_maps") == [[1, "lambda k, j: (j // 4, k, j % 4)", 0.0]]


def test_which_buffer() -> None:
    sch = Schedule(chain(), seed=0)
    with pytest.raises(
        LayoutError, match=r"Expected \('read', i\), \('write', i\) or a buffer's name"
    ):
        sch.transform_layout("B", ("output", 0), lambda i, j: (j, i))
    with pytest.raises(ScheduleValueError, match="touches no buffer 'Q'"):
        sch.transform_layout("B", "Q", lambda i, j: (j, i))
