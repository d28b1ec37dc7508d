from __future__ import annotations

import numpy as np
import pytest

from burnish import te
from burnish.support.errors import (
    DependenceError,
    NotAncestorError,
    NotCompleteBlockError,
    ScheduleValueError,
)
from burnish.tensorir.function import PrimFunc
from burnish.tensorir.schedule import Schedule
from burnish.tensorir.text.parser import parse_func
from burnish.tensorir.verify.bounds import verify_bounds
from burnish.tensorir.verify.laws import verify_func
from burnish.tensorir.verify.regions import verify_regions
from burnish.tests.native import call_native
from burnish.tests.strategies.corpus import padding
from burnish.tests.tensorir.schedule.programs import assert_same, body, matmul
from burnish.tests.tensorir.schedule.replaying import assert_replays


def padded(value: str, rows: str = "10", columns: str = "12", source: str = "(8, 9)") -> PrimFunc:
    """``P = pad(A)``, then ``C = P * 2``; ``value`` is what P's block stores."""
    return parse_func(f"""
@T.prim_func
def main(a: T.handle, c: T.handle):
    n = T.int64()
    A = T.match_buffer(a, {source}, "float32")
    C = T.match_buffer(c, ({rows}, {columns}), "float32")
    P = T.alloc_buffer(({rows}, {columns}))
    for i, j in T.grid({rows}, {columns}):
        with T.block("P"):
            vi, vj = T.axis.remap("SS", [i, j])
            P[vi, vj] = {value}
    for i, j in T.grid({rows}, {columns}):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = P[vi, vj] * T.float32(2)
""")


INSIDE = "1 <= vi and vi < 9 and 2 <= vj and vj < 11"
VALUE = f"T.if_then_else({INSIDE}, A[vi - 1, vj - 2], T.float32(3))"


def checked(before: PrimFunc, sch: Schedule, *sizes: int) -> str:
    after = verify_regions(verify_bounds(verify_func(sch.func)))
    assert_same(before, after, *sizes)
    assert_replays(before, sch)
    return body(after)


def test_fill_and_copy() -> None:
    func = padded(VALUE)
    sch = Schedule(func, seed=0)
    fill = sch.decompose_padding("P", sch.get_loops("P")[0])
    assert fill.name == "P_pad_const"
    text = checked(func, sch)
    assert "for i, j in T.grid(8, 9):" in text
    assert "P[vi + 1, vj + 2] = A[vi, vj]" in text
    assert "T.where" not in text
    assert "if_then_else" not in text


def test_below_an_outer_loop_its_condition_stays() -> None:
    func = padded(VALUE)
    sch = Schedule(func, seed=0)
    sch.decompose_padding("P", sch.get_loops("P")[1])
    text = checked(func, sch)
    assert "T.where(i >= 1 and i < 9)" in text or "T.where(1 <= i and i < 9)" in text
    assert "for j in range(9):" in text


@pytest.mark.parametrize(
    "value",
    [
        f"T.if_then_else(T.likely({INSIDE}), A[vi - 1, vj - 2], T.float32(3))",
        "T.if_then_else(vi < 1 or 9 <= vi or vj < 2 or vj >= 11, T.float32(3), A[vi - 1, vj - 2])",
        "T.if_then_else(T.if_then_else(1 <= vi and vi < 9, 2 <= vj and vj < 11, False), "
        "A[vi - 1, vj - 2], T.float32(3))",
        "T.if_then_else(not (vi < 1 or 9 <= vi) and 2 <= vj and vj < 11, A[vi - 1, vj - 2], "
        "T.float32(3))",
    ],
)
def test_forms_of_a_condition(value: str) -> None:
    func = padded(value)
    sch = Schedule(func, seed=0)
    sch.decompose_padding("P", sch.get_loops("P")[0])
    assert "P[vi + 1, vj + 2] = A[vi, vj]" in checked(func, sch)


def test_what_is_no_box_stays_a_predicate() -> None:
    func = padded("T.if_then_else(vi < 8 and vi + vj < 9, A[vi, vj], T.float32(0))")
    sch = Schedule(func, seed=0)
    sch.decompose_padding("P", sch.get_loops("P")[0])
    text = checked(func, sch)
    assert "T.where(i + j < 9)" in text
    assert "T.grid(8, 12)" in text


def test_symbolic_sizes() -> None:
    func = padded("T.if_then_else(vi < n, A[vi, vj], T.float32(0))", "n + 3", "4", "(n, 4)")
    sch = Schedule(func, seed=0)
    sch.decompose_padding("P", sch.get_loops("P")[0])
    assert "T.grid(n, 4)" in body(verify_func(sch.func))
    assert_replays(func, sch)
    for size in (1, 6):
        a = np.arange(size * 4, dtype="float32").reshape(size, 4)
        c = np.full((size + 3, 4), np.nan, "float32")
        call_native(sch.func, a, c, dims=(size,))
        np.testing.assert_array_equal(c, np.pad(a, ((0, 3), (0, 0))) * 2)


def test_split_loops_and_compute_at_natively() -> None:
    func = padded(VALUE)
    sch = Schedule(func, seed=0)
    outer, _ = sch.split(sch.get_loops("C")[0], [None, 4])
    sch.compute_at("P", outer)
    sch.decompose_padding("P", sch.get_loops("P")[1])
    text = checked(func, sch)
    assert text.index("P_pad_const") < text.index('T.block("P")') < text.index('T.block("C")')
    sch.vectorize(sch.get_loops("P_pad_const")[-1])
    sch.vectorize(sch.get_loops("P")[-1])
    a = np.arange(72, dtype="float32").reshape(8, 9)
    c = np.full((10, 12), np.nan, "float32")
    call_native(sch.func, a, c)
    np.testing.assert_array_equal(c, np.pad(a, ((1, 1), (2, 1)), constant_values=3) * 2)


def test_only_padding_blocks() -> None:
    sch = Schedule(matmul(), seed=0)
    with pytest.raises(NotCompleteBlockError, match="'C' is not: its axis"):
        sch.decompose_padding("C", sch.get_loops("C")[0])
    for value, why in (
        ("A[vi % 8, vj % 9]", "to store if_then_else"),
        ("T.if_then_else(vi < 8 or vj < 2, A[vi % 8, vj % 9], T.float32(0))", "vi < 8 or"),
        ("T.if_then_else(vi < 8, A[vi % 8, vj % 9], A[0, 0])", "outside is no constant"),
        ("T.if_then_else(A[0, 0] < T.float32(0), A[0, vj % 9], T.float32(0))", "reads memory"),
    ):
        func = padded(value)
        sch = Schedule(func, seed=0)
        if "or" in value:  # A disjunction is one condition that no loop can be cut by.
            sch.decompose_padding("P", sch.get_loops("P")[0])
            assert "T.where(i < 8 or j < 2)" in checked(func, sch)
            continue
        with pytest.raises(NotCompleteBlockError, match=why):
            sch.decompose_padding("P", sch.get_loops("P")[0])


def test_always_or_never_inside() -> None:
    sch = Schedule(padded("T.if_then_else(vi < 20, A[vi % 8, 0], T.float32(0))"), seed=0)
    with pytest.raises(ScheduleValueError, match="its condition always holds"):
        sch.decompose_padding("P", sch.get_loops("P")[0])
    sch = Schedule(padded("T.if_then_else(vi >= 10, A[vi % 8, 0], T.float32(0))"), seed=0)
    before = sch.func
    with pytest.raises(ScheduleValueError, match="No value of the axis 'vi' is inside"):
        sch.decompose_padding("P", sch.get_loops("P")[0])
    assert sch.func is before


def test_the_loop_is_one_of_the_block() -> None:
    sch = Schedule(padded(VALUE), seed=0)
    with pytest.raises(NotAncestorError, match="does not stand around the block 'P'"):
        sch.decompose_padding("P", sch.get_loops("C")[0])


def test_nobody_sees_the_fill() -> None:
    func = parse_func("""
@T.prim_func
def main(A: T.Buffer((8,), "float32"), P: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = P[vi]
        with T.block("P"):
            vi = T.axis.spatial(8, i)
            P[vi] = T.if_then_else(vi < 4, A[vi], T.float32(0))
""")
    sch = Schedule(func, seed=0)
    with pytest.raises(DependenceError, match="'C' uses 'P' below the loop 'i' as well"):
        sch.decompose_padding("P", sch.get_loops("P")[0])


def test_threads_do_not_undo_each_other() -> None:
    func = parse_func("""
@T.prim_func
def main(A: T.Buffer((8,), "float32"), P: T.Buffer((8,), "float32")):
    for t in T.parallel(4):
        for i in range(8):
            with T.block("P"):
                vi = T.axis.spatial(8, i)
                P[vi] = T.if_then_else(vi < 4, A[vi], T.float32(0))
""")
    sch = Schedule(func, seed=0)
    with pytest.raises(DependenceError, match="parallel loop 't' may pad the same elements"):
        sch.decompose_padding("P", sch.get_loops("P")[1])


def test_a_circular_buffer_is_not_filled_beforehand() -> None:
    func = padding()
    sch = Schedule(func, seed=0)
    sch.compute_at("B", sch.get_loops("C")[0])
    sch.rolling_buffer("B", 0)
    with pytest.raises(DependenceError, match=r"'B' writes is circular: .* before rolling_buffer"):
        sch.decompose_padding("B", sch.get_loops("B")[0])


def test_whether_a_block_can_be_decomposed_is_asked_without_a_trace() -> None:
    a = te.placeholder((8,), name="A")
    inside = lambda i: te.if_then_else(te.all(i >= 1, i < 9), a[i - 1], 0.0)  # noqa: E731
    func = te.create_prim_func([a, te.compute((10,), inside, name="P")])
    sch = Schedule(func, seed=0)
    (i,) = sch.get_loops("P")
    steps = len(sch.trace)
    assert sch.can_decompose_padding("P", i)
    assert len(sch.trace) == steps
    sch.decompose_padding("P", i)
    assert not sch.can_decompose_padding("P", sch.get_loops("P")[0])
