from __future__ import annotations

import pytest

from burnish.support.errors import DependenceError, LayoutError, ScheduleValueError
from burnish.tensorir.expr import Expr, Var, const, logical_and, maximum, minimum
from burnish.tensorir.function import PrimFunc
from burnish.tensorir.intrinsics import call_intrin
from burnish.tensorir.schedule import Schedule
from burnish.tensorir.te import compute as te
from burnish.tensorir.text.parser import parse_func
from burnish.tensorir.verify.laws import verify_func
from burnish.tensorir.verify.regions import verify_regions
from burnish.tests.tensorir.schedule.programs import assert_same, body, chain, linear_relu
from burnish.tests.tensorir.schedule.replaying import assert_replays, assert_same_natively


def resize(m: int | Var = 8, n: int = 12) -> PrimFunc:
    """Nearest neighbours, and a second load that repeats an index."""
    a = te.placeholder((8, 12), name="A")
    b = te.placeholder((12,), name="B")
    c = te.compute((m, n), lambda i, j: a[i % 8 // 2, j // 3] + b[j // 3 * 2 + 1], name="C")
    return te.create_prim_func([a, b, c])


def finish(func: PrimFunc, sch: Schedule, *sizes: int) -> None:
    assert_same(func, sch.func, *sizes)
    assert_replays(func, sch)
    assert_same_natively(func, sch.func, *sizes)


def test_whole_indices() -> None:
    func = resize()
    sch = Schedule(func, seed=0)
    tables = sch.cache_index("C", "global")
    assert [sch.get(b).name for b in tables] == ["index_0", "index_1", "index_2"]
    text = body(sch.func)
    assert 'index_var_0 = T.alloc_buffer((8,), "int64")' in text
    assert "index_var_2[v0] = v0 // 3 * 2 + 1" in text
    assert "A[index_var_0[v_i], index_var_1[v_j]] + B[index_var_2[v_j]]" in text
    assert [sch.get(b).name for b in sch.get_child_blocks("root")][-1] == "C"
    finish(func, sch)


def test_parts_that_occur_twice() -> None:
    func = resize()
    sch = Schedule(func, seed=0)
    (table,) = sch.cache_index("C", "local", 2)
    assert sch.get(table).name == "index_0"
    text = body(sch.func)
    assert "index_var_0[v0] = v0 // 3" in text
    assert "A[v_i % 8 // 2, index_var_0[v_j]] + B[index_var_0[v_j] * 2 + 1]" in text
    finish(func, sch)


def test_the_largest_parts_come_first() -> None:
    func = resize()
    sch = Schedule(func, seed=0)
    assert len(sch.cache_index("C", "global", 1)) == 3
    assert "index_var_0[v0] = v0 // 3 * 2 + 1" in body(sch.func)
    none = Schedule(func, seed=0)
    assert none.cache_index("C", "global", 3) == []
    assert none.func is func
    finish(func, sch)


def test_axes_together_and_sums() -> None:
    a = te.placeholder((6, 4), name="A")
    w = te.placeholder((3,), name="W")
    r = te.reduce_axis((0, 3), "r")
    c = te.compute((4, 8), lambda i, j: te.sum(a[i + r, j // 2] * w[r], axis=[r]), name="C")
    func = te.create_prim_func([a, w, c])
    sch = Schedule(func, seed=0)
    sch.cache_index("C", "global")
    text = body(sch.func)
    assert "index_var_0[v0, v1] = v0 + v1" in text
    assert "A[index_var_0[v_i, v_r], index_var_1[v_j]] * W[v_r]" in text
    i, j, k = sch.get_loops("C")
    j0, j1 = sch.split(j, [None, 4])
    sch.reorder(i, j0, k, j1)
    sch.decompose_reduction("C", k)
    sch.vectorize(j1)
    sch.parallel(i)
    finish(func, sch)


def test_tables_move_and_inline() -> None:
    func = resize()
    sch = Schedule(func, seed=0)
    first, second, third = sch.cache_index("C", "global")
    i, j = sch.get_loops("C")
    sch.compute_at(first, i)
    sch.compute_inline(third)
    sch.compute_at(second, j)
    finish(func, sch)


@pytest.mark.parametrize("size", [0, 1, 8])
def test_a_symbolic_axis(size: int) -> None:
    func = resize(Var("m"))
    sch = Schedule(func, seed=0)
    sch.cache_index("C", "global")
    assert "index_var_0 = T.alloc_buffer((m,)" in body(sch.func)
    finish(func, sch, size)


def test_a_guarded_index_is_computed_outside_of_its_guard() -> None:
    a = te.placeholder((5,), name="A")

    def padded(i: Expr) -> Expr:
        inside = logical_and(i >= 1, i < 6)
        return call_intrin("if_then_else", inside, a[i - 1], const(0.0, "float32"))

    func = te.create_prim_func([a, te.compute((7,), padded, name="B")])
    sch = Schedule(func, seed=0)
    sch.cache_index("B", "global")
    text = body(sch.func)
    assert "T.if_then_else(v_i >= 1 and v_i < 6, A[index_var_0[v_i]], T.float32(0))" in text
    finish(func, sch)


def test_an_index_that_was_loaded_is_left() -> None:
    func = parse_func("""
@T.prim_func
def main(A: T.Buffer((8,), "float32"), K: T.Buffer((4,), "int64"), B: T.Buffer((4,), "float32")):
    for i in range(4):
        with T.block("B"):
            vi = T.axis.spatial(4, i)
            B[vi] = A[K[vi // 2 * 2] * 0 + 1] + A[vi * 2]
""")
    sch = Schedule(func, seed=0)
    sch.cache_index("B", "global")
    text = body(sch.func)
    assert "A[K[index_var_0[vi]] * 0 + 1]" in text
    assert "A[index_var_1[vi]]" in text
    finish(func, sch)


# -- refusals --------------------------------------------------------------------------------------
def test_arguments() -> None:
    sch = Schedule(resize(), seed=0)
    before = sch.func
    with pytest.raises(ScheduleValueError, match="Expected a storage scope"):
        sch.cache_index("C", "stack")
    with pytest.raises(
        ScheduleValueError, match="cse_thresh must be an integer from 0 on; found -1"
    ):
        sch.cache_index("C", "global", -1)
    assert sch.func is before
    assert Schedule(chain(), seed=0).cache_index("B", "global") == []


def test_an_axis_that_begins_elsewhere() -> None:
    func = parse_func("""
@T.prim_func
def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for i in range(4):
        with T.block("B"):
            vi = T.axis.spatial((2, 6), i + 2)
            B[vi] = A[vi // 2]
""")
    with pytest.raises(LayoutError, match="The axis 'vi' of 'B' does not begin at 0"):
        Schedule(func, seed=0).cache_index("B", "global")


def test_blocks_inside_declare_the_tables() -> None:
    func = linear_relu(5, 8, 6)
    sch = Schedule(func, seed=0)
    outer = sch.blockize(sch.get_loops("Y")[1])
    assert sch.cache_index(outer, "global", 1)
    verify_regions(verify_func(sch.func))
    assert any(r.buffer.name == "index_var_0" for r in sch.get(sch.get_block("Y")).reads)
    assert_same(func, sch.func)


def test_a_table_over_an_axis_without_a_greatest_extent() -> None:
    func = parse_func("""
@T.prim_func
def main(P: T.Buffer((9,), "int64"), A: T.Buffer((64,), "float32"), B: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("rows"):
            vi = T.axis.spatial(8, i)
            T.reads(P[vi:vi + 2], A[0:64])
            T.writes(B[vi])
            for k in range(P[vi + 1] - P[vi]):
                with T.block("B"):
                    vk = T.axis.reduce(P[vi + 1] - P[vi], k)
                    with T.init():
                        B[vi] = T.float32(0)
                    B[vi] += A[vk // 2]
""")
    sch = Schedule(func, seed=0)
    with pytest.raises(LayoutError, match="The axis 'vk' of 'B' has no known greatest extent"):
        sch.cache_index("B", "global")
    assert sch.func is func


def test_a_table_is_not_put_in_front_of_the_let_that_it_needs() -> None:
    func = parse_func("""
@T.prim_func
def main(A: T.Buffer((8,), "float32"), B: T.Buffer((4, 8), "float32")):
    for i in range(4):
        with T.LetStmt(i % 3 + 2) as z:
            for k in range(z):
                with T.block("B"):
                    vi = T.axis.spatial(4, i)
                    vk = T.axis.spatial(z, k)
                    B[vi, vk] = A[vk // 2]
""")
    sch = Schedule(func, seed=0)
    with pytest.raises(DependenceError, match="that of 'index_0' uses 'z', which is bound further"):
        sch.cache_index("B", "global")
    assert sch.func is func


def look_up(rows: int = 6, count: int = 10, held: int = 10) -> PrimFunc:
    a = te.placeholder((rows, 20), name="A")
    p = te.placeholder((held,), "int64", name="P")
    c = te.compute((rows, count), lambda i, j: a[i, minimum(maximum(p[j], 0), 19)], name="C")
    return te.create_prim_func([a, p, c])


def test_places_that_the_function_only_reads() -> None:
    sch = Schedule(look_up(), seed=0)
    sch.cache_index("C", "global")
    text = body(sch.func)
    assert "T.reads(P[v0])" in text
    assert "index_var_0[v0] = T.min(T.max(P[v0], 0), 19)" in text
    assert "A[v_i, index_var_0[v_j]]" in text
    verify_func(sch.func)
    assert_replays(look_up(), sch)


def test_places_that_are_not_all_read_or_are_written_stay() -> None:
    sch = Schedule(look_up(held=12), seed=0)
    assert sch.cache_index("C", "global") == []
