from __future__ import annotations

import pytest

from burnish.support.errors import DependenceError, NotAncestorError, ScheduleValueError
from burnish.tensorir.expr import Var
from burnish.tensorir.function import PrimFunc
from burnish.tensorir.schedule import Schedule
from burnish.tensorir.te import compute as te
from burnish.tensorir.text.parser import parse_func
from burnish.tests.tensorir.schedule.programs import (
    COPY_B,
    assert_same,
    blur,
    body,
    chain,
    linear_relu,
    matmul,
    program,
)


def softmax_like(m: int = 4, n: int = 6) -> PrimFunc:
    """A row sum and the rows divided by it."""
    a = te.placeholder((m, n), name="A")
    k = te.reduce_axis((0, n), "k")
    s = te.compute((m,), lambda i: te.sum(a[i, k], axis=[k]), name="S")
    d = te.compute((m, n), lambda i, j: a[i, j] - s[i], name="D")
    return te.create_prim_func([a, d])


def test_compute_at_covers_a_window() -> None:
    func = blur(16)
    sch = Schedule(func, seed=0)
    c0, _ = sch.split(sch.get_loops("C")[0], [None, 4])
    sch.compute_at("B", c0)
    assert (
        body(sch.func)
        == """\
B = T.alloc_buffer((18,))
for i_0 in range(4):
    for ax0 in range(6):
        with T.block("B"):
            v_i = T.axis.spatial(18, i_0 * 4 + ax0)
            T.reads(A[v_i])
            T.writes(B[v_i])
            B[v_i] = A[v_i] * T.float32(2)
    for i_1 in range(4):
        with T.block("C"):
            v_i = T.axis.spatial(16, i_0 * 4 + i_1)
            T.reads(B[v_i:v_i + 3])
            T.writes(C[v_i])
            C[v_i] = B[v_i] + B[v_i + 1] + B[v_i + 2]"""
    )
    assert_same(func, sch.func)


@pytest.mark.parametrize("tile", [1, 3, 5, 16, 20])
def test_compute_at_any_tile(tile: int) -> None:
    func = blur(16)
    sch = Schedule(func, seed=0)
    c0, _ = sch.split(sch.get_loops("C")[0], [None, tile])
    sch.compute_at("B", c0)
    assert_same(func, sch.func)


def test_compute_at_unit_loops() -> None:
    func = chain(4, 4)
    for keep in (False, True):
        sch = Schedule(func, seed=0)
        sch.compute_at("B", sch.get_loops("C")[1], preserve_unit_loops=keep)
        assert ("for ax0, ax1 in T.grid(1, 1)" in body(sch.func)) is keep
        assert_same(func, sch.func)


def test_compute_at_of_a_reduction() -> None:
    func = softmax_like()
    sch = Schedule(func, seed=0)
    sch.compute_at("S", sch.get_loops("D")[0])
    assert 'for ax0 in range(6):\n        with T.block("S")' in body(sch.func)
    assert_same(func, sch.func)


def test_compute_at_with_a_symbolic_size() -> None:
    func = linear_relu(Var("m"), 4, 3)
    sch = Schedule(func, seed=0)
    i0, _ = sch.split(sch.get_loops("Z")[0], [None, 4])
    sch.compute_at("T", i0)
    sch.compute_at("Y", i0)
    for size in (0, 3, 4, 9):
        assert_same(func, sch.func, size)


def test_index_places_a_block_among_others() -> None:
    sch = Schedule(chain(4, 4), seed=0)
    i, _ = sch.get_loops("C")
    with pytest.raises(ScheduleValueError, match="index must be -1, -2 or from 0 to 0; found 3"):
        sch.compute_at("B", i, index=3)
    sch.compute_at("B", i, index=-2)


def test_outputs_do_not_move_to_consumers() -> None:
    sch = Schedule(chain(), seed=0)
    with pytest.raises(DependenceError, match="'C' writes an output of the function"):
        sch.compute_at("C", sch.get_loops("B")[0])


def test_all_consumers_must_be_under_the_loop() -> None:
    a = te.placeholder((4,), name="A")
    b = te.compute((4,), lambda i: a[i] + 1.0, name="B")
    c = te.compute((4,), lambda i: b[i] * 2.0, name="C")
    d = te.compute((4,), lambda i: b[i] * 3.0, name="D")
    sch = Schedule(te.create_prim_func([a, c, d]), seed=0)
    with pytest.raises(DependenceError, match="The consumer 'D' of 'B' is not under the loop 'i'"):
        sch.compute_at("B", sch.get_loops("C")[0])


def test_a_block_does_not_move_under_its_own_loop() -> None:
    sch = Schedule(chain(), seed=0)
    with pytest.raises(NotAncestorError, match="The loop 'i' stands around 'B' already"):
        sch.compute_at("B", sch.get_loops("B")[0])


INPLACE = """
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


def test_a_block_does_not_move_past_a_write_of_what_it_reads() -> None:
    sch = Schedule(parse_func(INPLACE, {}), seed=0)
    with pytest.raises(DependenceError, match="'A' writes a buffer that 'B' reads"):
        sch.compute_at("B", sch.get_loops("C")[0])


TWICE = """
@T.prim_func
def main(A: T.Buffer((4,), "float32"), C: T.Buffer((4,), "float32")):
    B = T.alloc_buffer((4,), "float32")
    for i in range(4):
        with T.block("first"):
            vi = T.axis.spatial(4, i)
            B[vi] = A[vi]
    for i in range(2):
        with T.block("second"):
            vi = T.axis.spatial(4, i)
            B[vi] = A[vi] + T.float32(1)
    for i in range(4):
        with T.block("C"):
            vi = T.axis.spatial(4, i)
            C[vi] = B[vi]
"""


def test_a_block_does_not_move_past_a_write_of_what_it_writes() -> None:
    func = parse_func(TWICE, {})
    sch = Schedule(func, seed=0)
    with pytest.raises(DependenceError, match="'second' writes a buffer that 'first' writes"):
        sch.compute_at("first", sch.get_loops("C")[0])
    apart = TWICE.replace("range(4)", "range(2)", 1).replace("(4, i)", "(2, i)", 1)
    parts = parse_func(apart.replace("B[vi] = A[vi]\n", "B[vi + 2] = A[vi + 2]\n"))
    sch = Schedule(parts, seed=0)
    sch.compute_at("first", sch.get_loops("C")[0])
    assert_same(parts, sch.func)


def test_a_predicate_over_axes_moves_with_its_block() -> None:
    func = matmul(3, 4, 5)
    sch = Schedule(func, seed=0)
    _, _, k = sch.get_loops("C")
    _, k1 = sch.split(k, [None, 2])
    partial = sch.rfactor(k1, 0)
    sch.compute_at(partial, sch.get_loops("C")[1])
    assert "T.where(ax1 * 2 + ax0 < 5)" in body(sch.func)
    assert_same(func, sch.func)


def test_the_loop_must_be_in_the_same_block() -> None:
    func = program(
        "B = T.alloc_buffer((8,))"
        + COPY_B
        + """
for i in range(2):
    with T.block("outer"):
        vo = T.axis.spatial(2, i)
        T.reads(B[vo * 4:vo * 4 + 4])
        T.writes(C[vo * 4:vo * 4 + 4])
        for j in range(4):
            with T.block("C"):
                vi = T.axis.spatial(8, vo * 4 + j)
                C[vi] = B[vi] * T.float32(2)
""",
        A="(8,)",
        C="(8,)",
    )
    sch = Schedule(func, seed=0)
    with pytest.raises(NotAncestorError, match="loop 'j' and the block 'B' are not in the same"):
        sch.compute_at("B", sch.get_loops("C")[0])


def test_a_predicate_over_loops_does_not_move() -> None:
    func = program(
        """
B = T.alloc_buffer((8,))
for i, j in T.grid(2, 4):
    with T.block("B"):
        vi = T.axis.spatial(8, i * 4 + j)
        T.where(i + j < 4)
        B[vi] = A[vi] + T.float32(1)
for i in range(8):
    with T.block("C"):
        vi = T.axis.spatial(8, i)
        C[vi] = B[vi] * T.float32(2)
""",
        A="(8,)",
        C="(8,)",
    )
    sch = Schedule(func, seed=0)
    with pytest.raises(DependenceError, match="predicate of 'B' cannot be said of its axes alone"):
        sch.compute_at("B", sch.get_loops("C")[0])


@pytest.mark.parametrize("shared", [False, True])
def test_what_earlier_iterations_left_is_not_computed_where_it_is_read(shared: bool) -> None:
    func = program(
        f"""
        B = T.alloc_buffer((6,))
        for t in range(2):
            for i in range(6):
                with T.block("B"):
                    vi = T.axis.spatial(6, i)
                    T.where(t == 0)
                    B[vi] = A[vi] + T.float32(1)
            for i in range(3):
                with T.block("C"):
                    vi = T.axis.spatial({"3, i" if shared else "6, t * 3 + i"})
                    {"T.where(t == 0)" if shared else ""}
                    C[vi] = B[vi]
        """,
        A="(6,)",
        C="(3,)" if shared else "(6,)",
    )
    sch = Schedule(func)
    loop = sch.get_loops("C")[1]
    if shared:
        sch.compute_at("B", loop)
        assert_same(func, sch.func)
        return
    with pytest.raises(DependenceError, match="'C' does not: it reads what earlier iterations le"):
        sch.compute_at("B", loop)


def test_a_block_does_not_leave_a_loop_that_overwrites_what_it_reads() -> None:
    sch = Schedule(
        parse_func("""
@T.prim_func
def main(A: T.Buffer((6, 6), "float32"), O: T.Buffer((6, 6), "float32")):
    S = T.alloc_buffer((6,))
    U = T.alloc_buffer((6, 6))
    for i in range(6):
        for t in range(6):
            with T.block("S"):
                vi, vt = T.axis.remap("SS", [i, t])
                S[vt] = A[vi, vt]
        for t in range(6):
            with T.block("U"):
                vi, vt = T.axis.remap("SS", [i, t])
                U[vi, vt] = S[5 - vt]
    for i, j in T.grid(6, 6):
        with T.block("O"):
            vi, vj = T.axis.remap("SS", [i, j])
            O[vi, vj] = U[vi, vj]
"""),
        seed=0,
    )
    with pytest.raises(DependenceError, match="again in later iterations of 'i'"):
        sch.compute_at("U", sch.get_loops("O")[0])


WINDOW = """
@T.prim_func
def main(A: T.Buffer((34,), "float32"), B: T.Buffer((32,), "float32")):
    for i in range(32):
        with T.block("B"):
            vi = T.axis.spatial(32, i)
            B[vi] = A[vi] + A[vi + 2]
"""


@pytest.mark.parametrize(("scope", "extent"), [("shared", 10), ("local", 3), ("global", 3)])
def test_threads_compute_what_all_of_them_need_of_shared_memory(scope: str, extent: int) -> None:
    sch = Schedule(parse_func(WINDOW), seed=0)
    outer, inner = sch.split(sch.get_loops("B")[0], [4, 8])
    sch.bind(outer, "blockIdx.x")
    sch.bind(inner, "threadIdx.x")
    sch.compute_at(sch.cache_read("B", 0, scope), inner)
    copy = sch.get_block(f"A_{scope}")
    assert str(sch.get(sch.get_loops(copy)[-1]).extent) == str(extent)
    if scope == "shared":
        _, threads = sch.split(sch.get_loops(copy)[-1], [None, 8])
        sch.bind(threads, "threadIdx.x")
    assert_same(parse_func(WINDOW), sch.func)
