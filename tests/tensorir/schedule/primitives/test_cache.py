from __future__ import annotations

import pytest

from burnish.support.errors import (
    DependenceError,
    LayoutError,
    ScheduleValueError,
)
from burnish.tensorir import compute as te
from burnish.tensorir.expr import Expr, Var, const, logical_and
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


def test_cache_read_of_an_input() -> None:
    func = matmul(4, 3, 2)
    sch = Schedule(func, seed=0)
    copy = sch.cache_read("C", 1, "global")
    assert sch.get(copy).name == "B_global"
    assert (
        body(sch.func)
        == """\
B_global = T.alloc_buffer((2, 3))
for ax0, ax1 in T.grid(2, 3):
    with T.block("B_global"):
        v0, v1 = T.axis.remap("SS", [ax0, ax1])
        T.reads(B[v0, v1])
        T.writes(B_global[v0, v1])
        B_global[v0, v1] = B[v0, v1]
for i, j, k in T.grid(4, 3, 2):
    with T.block("C"):
        v_i, v_j, v_k = T.axis.remap("SSR", [i, j, k])
        T.reads(A[v_i, v_k], B_global[v_k, v_j])
        T.writes(C[v_i, v_j])
        with T.init():
            C[v_i, v_j] = T.float32(0)
        C[v_i, v_j] = C[v_i, v_j] + A[v_i, v_k] * B_global[v_k, v_j]"""
    )
    assert_same(func, sch.func)


def test_cache_read_then_compute_at_takes_a_tile() -> None:
    func = matmul(8, 8, 8)
    sch = Schedule(func, seed=0)
    i, j, k = sch.get_loops("C")
    i0, i1 = sch.split(i, [2, 4])
    k0, k1 = sch.split(k, [2, 4])
    sch.reorder(i0, k0, i1, j, k1)
    sch.compute_at(sch.cache_read("C", 0, "local"), k0)
    assert "v0 = T.axis.spatial(8, i_0 * 4 + ax0)" in body(sch.func)
    assert "v1 = T.axis.spatial(8, k_0 * 4 + ax1)" in body(sch.func)
    assert_same(func, sch.func)


def test_cache_read_by_name_and_for_some_consumers() -> None:
    func = linear_relu(4, 4, 4)
    sch = Schedule(func, seed=0)
    sch.cache_read("T", "Y", "local", consumer_blocks=["T"])
    assert "Y_local[v_i, v_j] + B[v_j]" in body(sch.func)
    with pytest.raises(DependenceError, match="'Z' does not read 'Y'"):
        sch.cache_read("Y_local", "Y", "local", consumer_blocks=["Z"])
    assert_same(func, sch.func)


def test_cache_read_inside_shared_loops() -> None:
    func = blur(16)
    sch = Schedule(func, seed=0)
    c0, _ = sch.split(sch.get_loops("C")[0], [4, 4])
    sch.compute_at("B", c0)
    copy = sch.cache_read("C", "B", "local")
    assert [sch.get(x).var.name for x in sch.get_loops(copy)] == ["i_0", "ax0"]
    assert_same(func, sch.func)


@pytest.mark.parametrize("scope", ["global", "local"])
def test_cache_write_and_its_tile(scope: str) -> None:
    func = matmul(8, 6, 3)
    sch = Schedule(func, seed=0)
    c = sch.get_block("C")
    i, j, k = sch.get_loops(c)
    i0, i1 = sch.split(i, [None, 4])
    j0, j1 = sch.split(j, [None, 4])
    sch.reorder(i0, j0, k, i1, j1)
    copy = sch.cache_write(c, 0, scope)
    assert sch.get(copy).name == f"C_{scope}"
    sch.reverse_compute_at(copy, j0, preserve_unit_loops=True)
    sch.decompose_reduction(c, k)
    assert "T.where(j_0 * 4 + ax1 < 6)" in body(sch.func)
    assert_same(func, sch.func)


def test_cache_write_is_stored_before_the_next_user() -> None:
    func = matmul(4, 6, 5)
    sch = Schedule(func, seed=0)
    c = sch.get_block("C")
    init = sch.decompose_reduction(c, sch.get_loops(c)[1])
    copy = sch.cache_write(init, 0, "local")
    assert [sch.get(x).var.name for x in sch.get_loops(copy)] == ["i", "ax0", "ax1"]
    assert_same(func, sch.func)


def test_cache_write_of_an_intermediate() -> None:
    func = chain()
    sch = Schedule(func, seed=0)
    sch.cache_write("B", 0, "local")
    assert_same(func, sch.func)


def test_cache_write_of_a_piece_that_never_runs() -> None:
    """Its copy would overwrite what the other piece wrote."""
    func = te.placeholder((4, 3), name="A")
    sch = Schedule(te.create_prim_func([func, te.compute((4, 3), lambda i, j: func[i, j], "B")]))
    unit = sch.add_unit_loop("B")
    sch.loop_partition(unit, [1, None])
    before = sch.func
    with pytest.raises(DependenceError, match="'B_1' never runs: the loop 'u_p1' has no"):
        sch.cache_write("B_1", 0, "global")
    assert sch.func is before


def test_cache_write_with_a_symbolic_size() -> None:
    func = matmul(Var("m"), 4, 3)
    sch = Schedule(func, seed=0)
    i0, _ = sch.split(sch.get_loops("C")[0], [None, 4])
    sch.reverse_compute_at(sch.cache_write("C", 0, "local"), i0)
    for size in (0, 3, 8, 9):
        assert_same(func, sch.func, size)


def test_cache_inplace_around_the_nest() -> None:
    func = matmul(4, 4, 4)
    sch = Schedule(func, seed=0)
    c = sch.get_block("C")
    sch.decompose_reduction(c, sch.get_loops(c)[0])
    load, store = sch.cache_inplace(c, 0, "local")
    assert [sch.get(b).name for b in (load, store)] == ["C_local", "C_local_1"]
    assert_same(func, sch.func)


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


# -- refusals ------------------------------------------------------------------------------------
def test_unknown_buffers_and_scopes() -> None:
    sch = Schedule(matmul(), seed=0)
    with pytest.raises(
        ScheduleValueError, match=r"2 read buffers \('A', 'B'\); asked for number 2"
    ):
        sch.cache_read("C", 2, "global")
    with pytest.raises(ScheduleValueError, match="touches no buffer 'D'; it touches 'A', 'B', 'C'"):
        sch.cache_read("C", "D", "global")
    with pytest.raises(ScheduleValueError, match="writes no buffer 'A'; it writes 'C'"):
        sch.cache_write("C", "A", "global")
    with pytest.raises(ScheduleValueError, match="'B' only writes 'B'; name a block that reads it"):
        Schedule(chain(), seed=0).cache_read("B", "B", "global")
    with pytest.raises(ScheduleValueError, match="Expected a storage scope"):
        sch.cache_write("C", 0, "stack")


def test_a_partial_sum_is_not_written_back() -> None:
    sch = Schedule(linear_relu(4, 4, 4), seed=0)
    sch.compute_inline("T")
    i, j, k = sch.get_loops("Y")
    sch.reorder(k, i, j)
    unchecked = Schedule(sch.func, seed=0, enable_checks=False)
    unchecked.reverse_compute_at("Z", unchecked.get_loops("Y")[0])
    with pytest.raises(DependenceError, match="inside the reduce loop 'k' of 'Y'"):
        unchecked.cache_write("Y", 0, "local")


def test_an_update_is_cached_in_place_only() -> None:
    sch = Schedule(matmul(), seed=0)
    c = sch.get_block("C")
    with pytest.raises(DependenceError, match="'C' does not update 'C'"):
        sch.cache_inplace(c, 0, "local")
    sch.decompose_reduction(c, sch.get_loops(c)[2])
    with pytest.raises(DependenceError, match="use cache_inplace"):
        sch.cache_write(c, 0, "local")
    with pytest.raises(DependenceError, match="use cache_inplace"):
        sch.cache_read(c, 0, "local")


def test_in_place_copies_exclude_other_users_between_them() -> None:
    sch = Schedule(matmul(), seed=0)
    c = sch.get_block("C")
    k = sch.get_loops(c)[2]
    sch.decompose_reduction(c, k)
    with pytest.raises(DependenceError, match="'C_init' uses 'C' between the two copies"):
        sch.cache_inplace(c, 0, "local")
    sch.cache_inplace(c, 0, "local", sch.get_loops(c)[1])


def test_reindex_needs_a_map_that_tells_elements_apart() -> None:
    sch = Schedule(matmul(), seed=0)
    with pytest.raises(LayoutError, match="does not give each element that is read a place"):
        sch.reindex_cache_read("C", 1, "global", lambda i, j, k: (j,))
    with pytest.raises(LayoutError, match="the index map takes 2 indices, the buffer has 3"):
        sch.reindex_cache_read("C", 1, "global", lambda i, j: (j,))
    with pytest.raises(LayoutError, match="'C' does not read exactly one element of 'B'"):
        Schedule(blur(8), seed=0).reindex_cache_read("C", 0, "global", lambda i: (i,))


@pytest.mark.parametrize("primitive", ["cache_read", "cache_write", "cache_inplace"])
def test_the_root_has_no_copies(primitive: str) -> None:
    with pytest.raises(ScheduleValueError, match=f"{primitive}: The block 'root' is the root of"):
        getattr(Schedule(chain(), seed=0), primitive)("root", 0, "local")


def test_a_copy_stands_after_the_last_writer() -> None:
    func = program(
        """
B = T.alloc_buffer((8,))
for i in range(8):
    with T.block("B"):
        vi = T.axis.spatial(8, i)
        B[vi] = A[vi]
for i in range(8):
    with T.block("C"):
        vi = T.axis.spatial(8, i)
        C[vi] = B[vi]
for i in range(8):
    with T.block("B_again"):
        vi = T.axis.spatial(8, i)
        B[vi] = T.float32(0)
""",
        A="(8,)",
        C="(8,)",
    )
    with pytest.raises(DependenceError, match="'C' reads the buffer before its last writer; there"):
        Schedule(func, seed=0).cache_read("C", "B", "local")


def test_copies_around_an_update_hold_no_element_of_another_thread() -> None:
    text = """
for i in range(16):
    with T.block("F"):
        vi = T.axis.remap("S", [i])
        C[vi] = A[vi]
for i in T.{kind}(4):
    for j in range(4):
        with T.block("C"):
            vi = T.axis.spatial(16, {index})
            C[vi] = C[vi] + T.float32(1)
"""
    for kind, index in (("parallel", "i * 4 + j"), ("serial", "j * 4 + i")):
        func = program(text.format(kind=kind, index=index), A="(16,)", C="(16,)")
        sch = Schedule(func, seed=0)
        sch.cache_inplace("C", 0, "global", sch.get_loops("C")[0])
        assert_same(func, sch.func)
    func = program(text.format(kind="parallel", index="j * 4 + i"), A="(16,)", C="(16,)")
    sch = Schedule(func, seed=0)
    with pytest.raises(DependenceError, match="that others update at the same time"):
        sch.cache_inplace("C", 0, "global", sch.get_loops("C")[0])


LOOK_UP = """
@T.prim_func
def main(A: T.Buffer((6, 8), "float32"), C: T.Buffer((6, 8), "float32")):
    B = T.alloc_buffer((6, 8))
    J = T.alloc_buffer((6,), "int64")
    for i, j in T.grid(6, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj]
    for i in range(6):
        with T.block("J"):
            vi = T.axis.spatial(6, i)
            J[vi] = 5 - vi
        for j in range(8):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B[J[vi], vj]
"""


def test_a_producer_moves_behind_the_table_that_says_what_is_needed() -> None:
    func = parse_func(LOOK_UP)
    sch = Schedule(func, seed=0)
    i = sch.get_loops("C")[0]
    with pytest.raises(ScheduleValueError, match="index must be -1, -2 or from 1 to 1"):
        sch.compute_at("B", i, index=0)
    sch.compute_at("B", i)
    assert_same(func, sch.func)


def test_a_copy_before_its_table_is_there_takes_all() -> None:
    func = parse_func(
        """
@T.prim_func
def main(A: T.Buffer((6, 8), "float32"), C: T.Buffer((6, 8), "float32")):
    B = T.alloc_buffer((6, 8))
    J = T.alloc_buffer((6,), "int64")
    for i in range(6):
        for j in range(8):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj]
        with T.block("J"):
            vi = T.axis.spatial(6, i)
            J[vi] = T.Select(vi < 6, vi, 0)
        for j in range(8):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B[J[vi], vj]
"""
    )
    sch = Schedule(func, seed=0)
    copy = sch.cache_read("C", "B", "global")
    assert [sch.get(loop).extent.value for loop in sch.get_loops(copy)[1:]] == [6, 8]
    assert_same(func, sch.func)


UPDATE = """
for i in range(4):
    with T.LetStmt(i * 8) as z:
        for j in range(8):
            with T.block("C"):
                v = T.axis.spatial(32, z + j)
                C[v] = C[v] + A[v]
"""
WINDOWS = """
B = T.alloc_buffer((32,))
for i in range(4):
    for j in range(8):
        with T.block("B"):
            v = T.axis.spatial(32, i * 8 + j)
            B[v] = A[v] * T.float32(2)
    with T.LetStmt(i * 8) as z:
        for j in range(8):
            with T.block("C"):
                v = T.axis.spatial(32, z + j)
                C[v] = B[v] + T.float32(1)
"""


def test_a_copy_is_not_put_outside_of_the_let_that_it_needs() -> None:
    refused = "uses 'z', which is bound further in"
    sch = Schedule(program(WINDOWS, A="(32,)", C="(32,)"), seed=0)
    before = sch.func
    with pytest.raises(DependenceError, match=f"that of 'B_global' {refused}"):
        sch.cache_read("C", "B", "global")
    with pytest.raises(DependenceError, match=f"that of 'B_global' {refused}"):
        sch.pack("C", "B", None, lambda v: (v // 4, v % 4))
    assert sch.func is before
    assert len(sch.trace) == 0
    sch = Schedule(program(UPDATE, A="(32,)", C="(32,)"), seed=0)
    before = sch.func
    with pytest.raises(DependenceError, match=f"that of 'C_local_1' {refused}"):
        sch.cache_inplace("C", "C", "local")
    with pytest.raises(DependenceError, match=f"that of 'C_local_1' {refused}"):
        sch.cache_inplace("C", "C", "local", sch.get_loops("C")[0])
    assert sch.func is before
    sch = Schedule(program(WINDOWS, A="(32,)", C="(32,)"), seed=0)
    before = sch.func
    with pytest.raises(DependenceError, match=f"that of 'C_local' {refused}"):
        sch.cache_write("C", 0, "local")
    assert sch.func is before


def test_a_copy_of_all_does_not_need_the_let() -> None:
    func = program(WINDOWS, A="(32,)", C="(32,)")
    sch = Schedule(func, seed=0)
    sch.cache_read("B", "A", "global")
    assert_same(func, sch.func)
