from __future__ import annotations

import pytest

from burnish.support.errors import LayoutError
from burnish.tensorir.expr import Expr, const, logical_and
from burnish.tensorir.function import PrimFunc
from burnish.tensorir.intrinsics import call_intrin
from burnish.tensorir.schedule import Schedule
from burnish.tensorir.te import compute as te
from burnish.tensorir.text.parser import parse_func
from burnish.tests.tensorir.schedule.programs import ROWS, assert_same, blur, body, matmul, program
from burnish.tests.tensorir.schedule.replaying import assert_same_natively, finish


def test_reindex_cache_read() -> None:
    func = matmul(4, 8, 3)
    sch = Schedule(func, seed=0)
    sch.reindex_cache_read("C", 1, "global", lambda i, j, k: (j // 4, k, j % 4))
    text = body(sch.func)
    assert "B_global = T.alloc_buffer((2, 3, 4))" in text
    assert "B_global[v_j // 4, v_k, v_j % 4] = B[v_k, v_j]" in text
    assert_same(func, sch.func)


def test_reindex_guards_what_the_block_guards() -> None:
    a = te.placeholder((5,), name="A")
    zero = const(0.0, "float32")

    def padded(i: Expr) -> Expr:
        inside = logical_and(i >= 1, i < 6)
        return call_intrin("if_then_else", inside, a[i - 1], zero)

    func = te.create_prim_func([a, te.compute((7,), padded, name="B")])
    sch = Schedule(func, seed=0)
    sch.reindex_cache_read("B", 0, "global", lambda i: (i,))
    guarded = "T.if_then_else(v_i - 1 >= 0 and v_i - 1 < 5, A[v_i - 1], T.float32(0))"
    assert f"A_global[v_i] = {guarded}" in body(sch.func)
    assert_same(func, sch.func)


def test_reindex_needs_a_map_that_tells_elements_apart() -> None:
    sch = Schedule(matmul(), seed=0)
    with pytest.raises(LayoutError, match="does not give each element that is read a place"):
        sch.reindex_cache_read("C", 1, "global", lambda i, j, k: (j,))
    with pytest.raises(LayoutError, match="the index map takes 2 indices, the buffer has 3"):
        sch.reindex_cache_read("C", 1, "global", lambda i, j: (j,))
    with pytest.raises(LayoutError, match="'C' does not read exactly one element of 'B'"):
        Schedule(blur(8), seed=0).reindex_cache_read("C", 0, "global", lambda i: (i,))


def gram(n: int = 6) -> PrimFunc:
    """``C[i, j] = sum_k A[i, k] * A[k, j]``."""
    a, k = te.placeholder((n, n), name="A"), te.reduce_axis((0, n), "k")
    c = te.compute((n, n), lambda i, j: te.sum(a[i, k] * a[k, j], axis=[k]), name="C")
    return te.create_prim_func([a, c])


def test_of_several_elements_that_is_copied_which_the_map_determines() -> None:
    func = gram()
    sch = Schedule(func, seed=0)
    sch.reindex_cache_read("C", "A", "global", lambda i, j, k: (j // 2, k, j % 2))
    text = body(sch.func)
    assert "A_global[v_j // 2, v_k, v_j % 2] = A[v_k, v_j]" in text
    assert "C[v_i, v_j] + A[v_i, v_k] * A_global[v_j // 2, v_k, v_j % 2]" in text
    # What the block still reads of A is one element now, and is copied like any.
    assert "T.reads(A[v_i, v_k], A_global[v_j // 2, v_k, v_j % 2])" in text
    sch.reindex_cache_read("C", "A", "global", lambda i, j, k: (i, k))
    finish(func, sch)


def test_maps_that_determine_several_elements_or_none() -> None:
    for index_map in (lambda i, j, k: (i, j, k), lambda i, j, k: (i, j)):
        with pytest.raises(LayoutError, match="'C' does not read exactly one element of 'A'"):
            Schedule(gram(), seed=0).reindex_cache_read("C", "A", "global", index_map)


def test_an_init_has_no_reduce_axis_to_index_a_copy_by() -> None:
    func = parse_func(
        """
@T.prim_func
def main(A: T.Buffer((5, 6), "float32"), B: T.Buffer((5,), "float32"),
         C: T.Buffer((5,), "float32")):
    for i, k in T.grid(5, 6):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = B[vi]
            C[vi] = C[vi] + A[vi, vk]
"""
    )
    sch = Schedule(func, seed=0)
    with pytest.raises(LayoutError, match="an init has no value of the reduce axis 'vk'"):
        sch.reindex_cache_read("C", "B", "global", lambda i, k: (i, k))
    sch.reindex_cache_read("C", "B", "global", lambda i, k: (i,))
    assert_same(func, sch.func)


PADDED = """
P = T.alloc_buffer((9,))
for c in range(2):
    with T.block("tiles"):
        vt = T.axis.spatial(2, c)
        T.reads(X[T.max(vt * 5 - 1, 0):T.min(vt * 5 + 4, 7)])
        T.writes(P[vt * 5:T.min(vt * 5 + 5, 9)])
        for h in range(T.min(vt * 5 + 5, 9) - vt * 5):
            with T.block("P"):
                vh = T.axis.spatial(T.min(vt * 5 + 5, 9) - vt * 5, h)
                P[vt * 5 + vh] = T.if_then_else(1 <= vt * 5 + vh and vt * 5 + vh < 8, X[vt * 5 + vh - 1], T.float32(0))
for i in range(9):
    with T.block("Y"):
        vi = T.axis.spatial(9, i)
        Y[vi] = P[vi] * T.float32(2)
"""  # noqa: E501


def test_a_copy_has_room_for_the_largest_of_several_extents() -> None:
    func = program(PADDED, X="(7,)", Y="(9,)")
    sch = Schedule(func)
    sch.reindex_cache_read("P", 0, "global", lambda h: (h // 2, h % 2))
    assert "X_global = T.alloc_buffer((5, 2))" in sch.mod["main"].script()
    assert_same(func, sch.mod["main"])
    assert_same_natively(func, sch.mod["main"])


LET_OUTSIDE = """
for i in range(4):
    with T.LetStmt(i + 8) as z:
        with T.block("rows"):
            vi = T.axis.spatial(4, i)
            T.reads(X[0:z])
            T.writes(Y[vi, 0:12])
            for k in range(z):
                with T.block("Y"):
                    vk = T.axis.spatial(z, k)
                    Y[vi, vk] = X[vk] + T.float32(1)
            for k in range(12 - z):
                with T.block("rest"):
                    vk = T.axis.spatial(12 - z, k)
                    Y[vi, z + vk] = T.float32(0)
"""


def test_a_copy_in_the_scope_of_a_let_has_room_for_its_greatest_value() -> None:
    func = program(LET_OUTSIDE, X="(12,)", Y="(4, 12)")
    sch = Schedule(func, seed=0)
    sch.reindex_cache_read("Y", 0, "global", lambda k: (k // 2, k % 2))
    assert "X_global = T.alloc_buffer((6, 2))" in body(sch.func)
    assert_same(func, sch.func)
    assert_same_natively(func, sch.func)


def test_an_extent_that_is_loaded_is_no_size_of_a_copy() -> None:
    func = parse_func(ROWS.replace("P[vi + 1] - P[vi]", "T.min(P[0], 8)"))
    with pytest.raises(LayoutError, match="leave out what is beyond with"):
        Schedule(func, seed=0).reindex_cache_read("Y", "X", "global", lambda k: (k,))


def test_a_copy_over_a_domain_with_a_condition() -> None:
    rows = ROWS.replace("reduce(P[vi + 1] - P[vi], k)", "reduce(64, k)")
    where = "k < P[vi + 1] - P[vi]"
    rows = rows.replace("range(P[vi + 1] - P[vi])", "range(64)").replace(
        "                    with T.init",
        f"                    T.where({where})\n                    with T.init",
    )
    sch = Schedule(parse_func(rows), seed=0)
    sch.reindex_cache_read("Y", "X", "global", lambda k: (k // 8, k % 8))
    assert "X_global = T.alloc_buffer((8, 8))" in body(sch.func)
