from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from burnish.support.errors import DependenceError, LayoutError, ScheduleValueError
from burnish.tensorir import compute as te
from burnish.tensorir.expr import Expr, Var, const, logical_and
from burnish.tensorir.function import PrimFunc
from burnish.tensorir.intrinsics import call_intrin
from burnish.tensorir.parser import parse_func
from burnish.tensorir.schedule import Schedule
from burnish.tests.tensorir.schedule.programs import (
    assert_same,
    blur,
    body,
    chain,
    linear_relu,
    matmul,
    program,
)
from burnish.tests.tensorir.schedule.replaying import assert_replays, assert_same_natively


def convolution(n: int = 6, f: int = 3) -> PrimFunc:
    """``C[i, o] = sum_r A[i + r] * W[o, r]``."""
    a, w = te.placeholder((n + f - 1,), name="A"), te.placeholder((4, f), name="W")
    r = te.reduce_axis((0, f), "r")
    c = te.compute((n, 4), lambda i, o: te.sum(a[i + r] * w[o, r], axis=[r]), name="C")
    return te.create_prim_func([a, w, c])


def transpose(m: int | Var = 6, n: int | Var = 4) -> PrimFunc:
    a = te.placeholder((m, n), name="A")
    b = te.compute((m, n), lambda i, j: a[i, j] + 1.0, name="B")
    c = te.compute((n, m), lambda i, j: b[j, i] * 2.0, name="C")
    return te.create_prim_func([a, c])


def finish(func: PrimFunc, sch: Schedule, *sizes: int) -> None:
    assert_same(func, sch.func, *sizes)
    assert_replays(func, sch)
    assert_same_natively(func, sch.func, *sizes)


# -- reindex ---------------------------------------------------------------------------------------
def test_windows_are_written_out() -> None:
    func = convolution()
    sch = Schedule(func, seed=0)
    copy = sch.reindex("C", ("read", 0))
    assert sch.get(copy).name == "A_reindex"
    text = body(sch.func)
    assert "A_reindex = T.alloc_buffer((6, 3))" in text
    assert "A_reindex[v_i, v_r] = A[v_i + v_r]" in text
    assert "C[v_i, v_o] + A_reindex[v_i, v_r] * W[v_o, v_r]" in text
    finish(func, sch)


def test_a_written_buffer_is_copied_back() -> None:
    func = transpose()
    sch = Schedule(func, seed=0)
    sch.compute_inline("B")
    inlined = sch.func
    sch.reindex("C", ("write", 0))
    sch.reindex("C", "A")
    i, j = sch.get_loops("C")
    i0, i1 = sch.split(i, [None, 2])
    sch.reorder(j, i0, i1)
    sch.reverse_compute_at("C_reindex", j)
    sch.compute_at("A_reindex", j)
    sch.vectorize(sch.get_loops("A_reindex")[-1])
    assert_same(inlined, sch.func)
    finish(func, sch)


def test_the_sum_is_taken_in_the_copy() -> None:
    func = matmul(4, 6, 5)
    sch = Schedule(func, seed=0)
    sch.split(sch.get_loops("C")[1], [None, 4])
    copy = sch.reindex("C", "C")
    text = body(sch.func)
    assert "C_reindex = T.alloc_buffer((4, 6))" in text
    assert "C_reindex[v_i, v_j] = T.float32(0)" in text
    assert "C[v_i, v_j] = C_reindex[v_i, v_j]" in text
    sch.reverse_compute_at(copy, sch.get_loops("C")[0])
    sch.decompose_reduction("C", sch.get_loops("C")[-1])
    finish(func, sch)


def test_an_intermediate_is_copied_behind_its_producer() -> None:
    func = transpose()
    sch = Schedule(func, seed=0)
    copy = sch.reindex("C", ("read", 0))
    names = [sch.get(b).name for b in sch.get_child_blocks("root")]
    assert names == ["B", "B_reindex", "C"]
    sch.compute_at(copy, sch.get_loops("C")[0])
    sch.compute_at("B", sch.get_loops(copy)[0])
    finish(func, sch)


@pytest.mark.parametrize("size", [0, 1, 5])
def test_symbolic_sizes(size: int) -> None:
    func = transpose(Var("m"), 3)
    sch = Schedule(func, seed=0)
    sch.reindex("C", ("read", 0))
    sch.reindex("B", ("write", 0))
    finish(func, sch, size)


def test_a_guarded_load_is_copied_where_it_is_inside() -> None:
    a = te.placeholder((5,), name="A")
    zero = const(0.0, "float32")

    def padded(i: Expr) -> Expr:
        inside = logical_and(i >= 1, i < 6)
        return call_intrin("if_then_else", inside, a[i - 1], zero)

    func = te.create_prim_func([a, te.compute((7,), padded, name="B")])
    sch = Schedule(func, seed=0)
    sch.reindex("B", ("read", 0))
    assert "if_then_else(v_i - 1 >= 0 and v_i - 1 < 5, A[v_i - 1]" in body(sch.func)
    finish(func, sch)


# -- reindex_cache_write ---------------------------------------------------------------------------
def test_a_tiled_accumulator() -> None:
    func = matmul(4, 8, 3)
    sch = Schedule(func, seed=0)
    copy = sch.reindex_cache_write("C", 0, "global", lambda i, j, k: (j // 4, i, j % 4))
    text = body(sch.func)
    assert "C_global = T.alloc_buffer((2, 4, 4))" in text
    assert "C_global[v_j // 4, v_i, v_j % 4] = T.float32(0)" in text
    assert "C[v_i, v_j] = C_global[v_j // 4, v_i, v_j % 4]" in text
    i, j, k = sch.get_loops("C")
    j0, j1 = sch.split(j, [None, 4])
    sch.reorder(j0, i, k, j1)
    sch.vectorize(j1)
    sch.parallel(sch.get_loops(copy)[0])
    finish(func, sch)


def test_a_transposed_accumulator_moves_under_a_loop() -> None:
    func = matmul(4, 8, 3)
    sch = Schedule(func, seed=0)
    copy = sch.reindex_cache_write("C", 0, "local", lambda i, j, k: (j, i))
    i, j, k = sch.get_loops("C")
    j0, j1 = sch.split(j, [None, 4])
    sch.reorder(j0, i, k, j1)
    sch.reverse_compute_at(copy, j0)
    sch.decompose_reduction("C", k)
    finish(func, sch)


@settings(max_examples=12, deadline=None, derandomize=True)
@given(st.permutations([0, 1]), st.integers(1, 4), st.integers(1, 4), st.booleans())
def test_any_tiling_keeps_the_values(order: list[int], a: int, b: int, split: bool) -> None:
    func = matmul(4, 6, 3)
    sch = Schedule(func, seed=0)
    if split:
        sch.split(sch.get_loops("C")[0], [None, 3])

    def tiled(i: Expr, j: Expr, k: Expr) -> tuple[Expr, ...]:
        x = [i, j]
        first, second = x[order[0]], x[order[1]]
        return (first // a, second // b, first % a, second % b)

    sch.reindex_cache_write("C", 0, "global", tiled)
    assert_same(func, sch.func)
    assert_replays(func, sch)


# -- refusals --------------------------------------------------------------------------------------
def test_names_and_sides() -> None:
    sch = Schedule(matmul(), seed=0)
    before = sch.func
    with pytest.raises(ScheduleValueError, match=r"Expected \('read', i\), \('write', i\) or a"):
        sch.reindex("C", ("in", 0))
    with pytest.raises(ScheduleValueError, match="touches no buffer 'X'; it touches 'A', 'B', 'C'"):
        sch.reindex("C", "X")
    with pytest.raises(ScheduleValueError, match=r"has 1 write buffers .'C'.; asked for number 1"):
        sch.reindex("C", ("write", 1))
    with pytest.raises(ScheduleValueError, match="Expected a storage scope"):
        sch.reindex_cache_write("C", 0, "stack", lambda i, j, k: (i, j))
    with pytest.raises(LayoutError, match="'C' does not read exactly one element of 'B'"):
        Schedule(blur(8), seed=0).reindex("C", ("read", 0))
    assert sch.func is before


def test_maps_that_lose_or_multiply_elements() -> None:
    sch = Schedule(matmul(), seed=0)
    with pytest.raises(LayoutError, match="does not give each element that is accessed a place"):
        sch.reindex_cache_write("C", 0, "global", lambda i, j, k: (i,))
    with pytest.raises(LayoutError, match="uses the reduce axis 'v_k', over which 'C' combines"):
        sch.reindex_cache_write("C", 0, "global", lambda i, j, k: (i, j, k))


def test_an_update_and_a_second_writer() -> None:
    sch = Schedule(matmul(), seed=0)
    sch.decompose_reduction("C", sch.get_loops("C")[2])
    with pytest.raises(DependenceError, match="'C_update' updates 'C', which has its first value"):
        sch.reindex("C_update", ("write", 0))
    with pytest.raises(DependenceError, match="'C_update' writes 'C' too"):
        sch.reindex("C_init", ("write", 0))
    with pytest.raises(ScheduleValueError, match="'C_update' reads and writes 'C'; say"):
        sch.reindex("C_update", "C")


def test_users_in_the_same_loops() -> None:
    sch = Schedule(chain(), seed=0)
    sch.compute_at("B", sch.get_loops("C")[0])
    with pytest.raises(DependenceError, match="'C' reads 'B' in the same loops, before the copy"):
        sch.reindex("B", ("write", 0))
    with pytest.raises(DependenceError, match="'B' writes 'B' in the same loops; one copy before"):
        sch.reindex("C", ("read", 0))


def test_a_block_that_runs_for_a_part_only() -> None:
    sch = Schedule(linear_relu(4, 6, 3), seed=0)
    first, _ = sch.loop_partition(sch.get_loops("Z")[0], [2, None])
    assert first
    with pytest.raises(DependenceError, match="'Z_1' writes 'Z' too"):
        sch.reindex("Z", ("write", 0))
    partial = Schedule(half_written(), seed=0)
    with pytest.raises(DependenceError, match="cannot be proved that 'B' writes all that the copy"):
        partial.reindex("B", ("write", 0))


HOLES = """
@T.prim_func
def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for i, j in T.grid(3, 2):
        with T.block("B"):
            vi = T.axis.spatial(8, BINDING)
            B[vi] = A[vi]
"""
UNIT_LOOP = """
@T.prim_func
def main(A: T.Buffer((3, 2), "float32"), B: T.Buffer((3, 2), "float32")):
    for u, i, j in T.grid(1, 3, 2):
        with T.block("B"):
            vi = T.axis.spatial(3, i + u)
            vj = T.axis.spatial(2, j + u)
            B[vi, vj] = A[vi, vj]
"""


@pytest.mark.parametrize("binding", ["i * 3 + j", "i * i + j"])
def test_a_block_that_leaves_elements_out(binding: str) -> None:
    """The values of i * 3 + j are 0, 1, 3, 4, 6 and 7."""
    sch = Schedule(parse_func(HOLES.replace("BINDING", binding)), seed=0)
    with pytest.raises(DependenceError):
        sch.reindex("B", ("write", 0))


def test_a_loop_of_one_iteration_in_two_axes() -> None:
    func = parse_func(UNIT_LOOP)
    sch = Schedule(func, seed=0)
    sch.reindex("B", ("write", 0))
    assert_same(func, sch.func)


def half_written() -> PrimFunc:
    from_text = """
@T.prim_func
def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            T.where(i < 4)
            B[vi] = A[vi]
"""
    return parse_func(from_text)


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


def test_indices_that_are_loaded() -> None:
    func = parse_func("""
@T.prim_func
def main(A: T.Buffer((8,), "float32"), K: T.Buffer((4,), "int64"), B: T.Buffer((4,), "float32")):
    for i in range(4):
        with T.block("B"):
            vi = T.axis.spatial(4, i)
            B[vi] = A[K[vi]]
""")
    with pytest.raises(LayoutError, match=r"(loads the indices|does not read exactly one element)"):
        Schedule(func, seed=0).reindex("B", "A")


def test_what_an_init_reads_is_copied_too() -> None:
    x, b = te.placeholder((4, 5), name="X"), te.placeholder((4,), name="bias")
    k = te.reduce_axis((0, 5), "k")
    c = te.compute((4,), lambda i: te.sum(x[i, k], axis=[k]), name="C")
    d = te.compute((4,), lambda i: c[i] + b[i], name="D")
    func = te.create_prim_func([x, b, d])
    sch = Schedule(func, seed=0)
    sch.fuse_reduction_epilogue("C", "D")
    sch.reindex("C", "bias")
    assert "D[v_i] = bias_reindex[v_i]" in body(sch.func)
    finish(func, sch)


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


# -- extents that are known late -------------------------------------------------------------------
LET_INSIDE = """
for i in range(8):
    with T.block("rows"):
        vi = T.axis.spatial(8, i)
        T.reads(X[vi * 4:vi * 4 + vi % 3 + 2])
        T.writes(Y[vi * 4:vi * 4 + vi % 3 + 2])
        with T.LetStmt(vi % 3 + 2) as z:
            for k in range(z):
                with T.block("Y"):
                    vk = T.axis.spatial(z, k)
                    Y[vi * 4 + vk] = X[vi * 4 + vk] + T.float32(1)
"""
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
TRIANGLE = """
for i in range(8):
    for k in range(i + 1):
        with T.block("Y"):
            vi = T.axis.spatial(8, i)
            vk = T.axis.spatial(i + 1, k)
            Y[vi, vk] = X[vk] + T.float32(1)
"""
ROWS = """
@T.prim_func
def main(P: T.Buffer((9,), "int64"), X: T.Buffer((64,), "float32"), Y: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("rows"):
            vi = T.axis.spatial(8, i)
            T.reads(P[vi:vi + 2], X[0:64])
            T.writes(Y[vi])
            for k in range(P[vi + 1] - P[vi]):
                with T.block("Y"):
                    vk = T.axis.reduce(P[vi + 1] - P[vi], k)
                    with T.init():
                        Y[vi] = T.float32(0)
                    Y[vi] += X[vk]
"""


def test_a_copy_is_not_put_in_front_of_the_let_that_it_needs() -> None:
    sch = Schedule(program(LET_INSIDE, X="(32,)", Y="(32,)"), seed=0)
    before = sch.func
    refused = "that of '{}' uses 'z', which is bound further in"
    with pytest.raises(DependenceError, match=refused.format("X_global")):
        sch.reindex_cache_read("Y", 0, "global", lambda k: (k // 2, k % 2))
    with pytest.raises(DependenceError, match=refused.format("Y_global")):
        sch.reindex_cache_write("Y", 0, "global", lambda k: (k,))
    with pytest.raises(DependenceError, match=refused.format("X_reindex")):
        sch.reindex("Y", ("read", 0))
    with pytest.raises(DependenceError, match=refused.format("Y_reindex")):
        sch.reindex("Y", ("write", 0))
    assert sch.func is before
    assert len(sch.trace) == 0


def test_a_copy_in_the_scope_of_a_let_has_room_for_its_greatest_value() -> None:
    func = program(LET_OUTSIDE, X="(12,)", Y="(4, 12)")
    sch = Schedule(func, seed=0)
    sch.reindex_cache_read("Y", 0, "global", lambda k: (k // 2, k % 2))
    assert "X_global = T.alloc_buffer((6, 2))" in body(sch.func)
    assert_same(func, sch.func)
    assert_same_natively(func, sch.func)


def test_a_copy_is_not_put_around_the_loop_that_its_extents_depend_on() -> None:
    sch = Schedule(program(TRIANGLE, X="(8,)", Y="(8, 8)"), seed=0)
    before = sch.func
    with pytest.raises(DependenceError, match="uses 'i', which is bound further in"):
        sch.reindex("Y", ("read", 0))
    assert sch.func is before


def test_a_copy_over_an_axis_without_a_greatest_extent() -> None:
    sch = Schedule(parse_func(ROWS), seed=0)
    before = sch.func
    with pytest.raises(LayoutError, match="The axis 'vk' of 'Y' has no known greatest extent"):
        sch.reindex_cache_read("Y", "X", "global", lambda k: (k,))
    with pytest.raises(LayoutError, match="The axis 'vk' of 'Y' has no known greatest extent"):
        sch.reindex("Y", ("read", 0))
    assert sch.func is before


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
