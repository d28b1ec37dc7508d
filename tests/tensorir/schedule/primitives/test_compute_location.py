from __future__ import annotations

import pytest

from burnish.support.errors import DependenceError, NotAncestorError, ScheduleValueError
from burnish.tensorir import compute as te
from burnish.tensorir.expr import Var
from burnish.tensorir.function import PrimFunc
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
    row_sum,
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


def test_reverse_compute_at_follows_the_tile() -> None:
    func = linear_relu(8, 8, 3)
    sch = Schedule(func, seed=0)
    i, j, _ = sch.get_loops("Y")
    i0, i1 = sch.split(i, [None, 4])
    j0, j1 = sch.split(j, [None, 4])
    sch.reorder(i0, j0, i1, j1)
    sch.reverse_compute_at("T", j0)
    sch.reverse_compute_at("Z", j0)
    assert [sch.get(x).var.name for x in sch.get_loops("Z")] == ["i_0", "j_0", "ax0", "ax1"]
    assert "v_i = T.axis.spatial(8, i_0 * 4 + ax0)" in body(sch.func)
    assert_same(func, sch.func)


def test_reverse_compute_at_a_fused_loop() -> None:
    func = linear_relu(8, 8, 3)
    sch = Schedule(func, seed=0)
    sch.compute_inline("T")
    i, j, _ = sch.get_loops("Y")
    i0, i1 = sch.split(i, [2, 4])
    j0, j1 = sch.split(j, [4, 2])
    sch.reorder(i0, j0, i1, j1)
    fused = sch.fuse(i0, j0)
    sch.reverse_compute_at("Z", fused)
    sch.parallel(fused)
    assert "v_i = T.axis.spatial(8, i_0_j_0_fused // 4 * 4 + ax0)" in body(sch.func)
    assert_same(func, sch.func)


def test_reverse_compute_at_ragged_tiles() -> None:
    func = linear_relu(7, 5, 3)
    sch = Schedule(func, seed=0)
    sch.compute_inline("T")
    i, j, _ = sch.get_loops("Y")
    i0, i1 = sch.split(i, [None, 4])
    j0, j1 = sch.split(j, [None, 2])
    sch.reorder(i0, j0, i1, j1)
    sch.reverse_compute_at("Z", j0)
    assert "T.where(i_0 * 4 + ax0 < 7 and j_0 * 2 + ax1 < 5)" in body(sch.func)
    assert_same(func, sch.func)


def test_index_places_a_block_among_others() -> None:
    sch = Schedule(chain(4, 4), seed=0)
    i, _ = sch.get_loops("C")
    with pytest.raises(ScheduleValueError, match="index must be -1, -2 or from 0 to 0; found 3"):
        sch.compute_at("B", i, index=3)
    sch.compute_at("B", i, index=-2)


def test_a_producer_that_is_done_before_the_loop_need_not_stand_below_it() -> None:
    a = te.placeholder((4, 8), name="A")
    k, m = te.reduce_axis((0, 8), "k"), te.reduce_axis((0, 8), "m")
    w = te.compute((4,), lambda i: te.sum(a[i, m], axis=[m]), name="W")
    c = te.compute((4, 6), lambda i, j: te.sum(a[i, k] * 2.0, axis=[k]), name="C")
    d = te.compute((4, 6), lambda i, j: w[i] * c[i, j], name="D")
    func = te.create_prim_func([a, d])
    sch = Schedule(func, seed=0)
    with pytest.raises(DependenceError, match="The producer 'W' of 'D' is not under the loop 'j'"):
        sch.reverse_compute_at("D", sch.get_loops("C")[1])
    rows = sch.merge(sch.get_loops("W")[0], sch.get_loops("C")[0])
    sch.reverse_compute_at("D", rows)
    columns = sch.get_loops("C")[1]
    sch.reverse_compute_at("D", columns)
    assert [x.var for x in sch.get_loops("D")[:2]] == [rows.var, columns.var]
    assert_same(func, sch.func)


# -- refusals ------------------------------------------------------------------------------------
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


def test_a_partial_sum_is_not_consumed() -> None:
    sch = Schedule(linear_relu(4, 4, 4), seed=0)
    i, j, k = sch.get_loops("Y")
    sch.reorder(k, i, j)
    with pytest.raises(DependenceError, match="'k' runs over a reduce axis of the producer 'Y'"):
        sch.reverse_compute_at("T", i)


def test_a_window_is_not_consumed_before_it_is_written() -> None:
    sch = Schedule(blur(16), seed=0)
    with pytest.raises(DependenceError, match="'C' reads more of 'B' than one iteration"):
        sch.reverse_compute_at("C", sch.get_loops("B")[0])


def test_a_reduction_needs_its_whole_row() -> None:
    a = te.placeholder((4, 6), name="A")
    b = te.compute((4, 6), lambda i, j: a[i, j] * 2.0, name="B")
    k = te.reduce_axis((0, 6), "k")
    c = te.compute((4,), lambda i: te.sum(b[i, k], axis=[k]), name="C")
    func = te.create_prim_func([a, c])
    sch = Schedule(func, seed=0)
    i, j = sch.get_loops("B")
    with pytest.raises(DependenceError, match="'C' reduces over 'v_k', of which one iteration"):
        sch.reverse_compute_at("C", j)
    sch.reverse_compute_at("C", i)
    assert_same(func, sch.func)


HALF = """
@T.prim_func
def main(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    B = T.alloc_buffer((8,), "float32")
    for i in range(4):
        with T.block("B"):
            vi = T.axis.spatial(8, i * 2)
            B[vi] = A[vi]
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = B[vi]
"""


def test_every_instance_of_the_consumer_must_run() -> None:
    sch = Schedule(parse_func(HALF, {}), seed=0)
    with pytest.raises(DependenceError, match="reach every value of the axis 'vi' of 'C'"):
        sch.reverse_compute_at("C", sch.get_loops("B")[0])


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


def test_nothing_to_move_to() -> None:
    sch = Schedule(row_sum(), seed=0)
    func = te.create_prim_func(_independent())
    sch = Schedule(func, seed=0)
    with pytest.raises(DependenceError, match="'D' has no producer under the loop 'i'"):
        sch.reverse_compute_at("D", sch.get_loops("B")[0])


def _independent() -> list[te.Tensor]:
    a = te.placeholder((4,), name="A")
    b = te.compute((4,), lambda i: a[i] + 1.0, name="B")
    d = te.compute((4,), lambda i: a[i] * 3.0, name="D")
    return [a, b, d]


PARTS = """
@T.prim_func
def main(A: T.Buffer((4, 6), "float32"), C: T.Buffer((4, 6), "float32")):
    B = T.alloc_buffer((4, 6))
    for i, j in T.grid(4, 6):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] + T.float32(1)
    for i, j in T.grid(4, 2):
        with T.block("left"):
            vi = T.axis.spatial(4, i)
            vj = T.axis.spatial(6, j)
            C[vi, vj] = B[vi, vj] * T.float32(2)
    for i, j in T.grid(4, 4):
        with T.block("right"):
            vi = T.axis.spatial(4, i)
            vj = T.axis.spatial(6, j + 2)
            C[vi, vj] = B[vi, vj] * T.float32(3)
"""


def test_a_block_that_writes_a_part_of_an_output_moves_as_a_part() -> None:
    func = parse_func(PARTS)
    for name in ("left", "right"):
        sch = Schedule(func, seed=0)
        sch.reverse_compute_at(name, sch.get_loops("B")[0])
        extent = 2 if name == "left" else 4
        assert f"for ax0 in range({extent}):" in body(sch.func)
        assert_same(func, sch.func)


def test_a_block_that_leaves_elements_out_stays() -> None:
    sparse = PARTS.replace("T.grid(4, 2)", "T.grid(4, 3)")
    func = parse_func(sparse.replace("spatial(6, j)", "spatial(6, j * 2)"))
    sch = Schedule(func, seed=0)
    with pytest.raises(DependenceError, match="'left' does not run over whole ranges of its axes"):
        sch.reverse_compute_at("left", sch.get_loops("B")[0])


def test_a_predicate_over_axes_moves_with_its_block() -> None:
    func = matmul(3, 4, 5)
    sch = Schedule(func, seed=0)
    _, _, k = sch.get_loops("C")
    _, k1 = sch.split(k, [None, 2])
    partial = sch.rfactor(k1, 0)
    sch.compute_at(partial, sch.get_loops("C")[1])
    assert "T.where(ax1 * 2 + ax0 < 5)" in body(sch.func)
    assert_same(func, sch.func)


COPY_B = """
for i in range(8):
    with T.block("B"):
        vi = T.axis.spatial(8, i)
        B[vi] = A[vi] + T.float32(1)
"""


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


def test_a_consumer_does_not_move_past_a_reader_of_its_output() -> None:
    func = program(
        "B = T.alloc_buffer((8,))"
        + COPY_B
        + """
for i in range(8):
    with T.block("D"):
        vi = T.axis.spatial(8, i)
        D[vi] = C[vi]
for i in range(8):
    with T.block("C"):
        vi = T.axis.spatial(8, i)
        C[vi] = B[vi] * T.float32(2)
""",
        A="(8,)",
        C="(8,)",
        D="(8,)",
    )
    sch = Schedule(func, seed=0)
    with pytest.raises(DependenceError, match="'D' stands before 'C' and uses the same buffer"):
        sch.reverse_compute_at("C", sch.get_loops("B")[0])


def test_a_consumer_needs_a_whole_box() -> None:
    func = program(
        """
B = T.alloc_buffer((16,))
for i, j in T.grid(2, 4):
    with T.block("B"):
        vi = T.axis.spatial(8, i * 4 + j)
        B[vi * 2] = A[vi] + T.float32(1)
for i in range(16):
    with T.block("C"):
        vi = T.axis.spatial(16, i)
        C[vi] = B[vi] * T.float32(2)
""",
        A="(8,)",
        C="(16,)",
    )
    sch = Schedule(func, seed=0)
    with pytest.raises(DependenceError, match="cannot be proved that 'B' writes a whole box of"):
        sch.reverse_compute_at("C", sch.get_loops("B")[0])


def test_an_axis_has_one_range() -> None:
    func = program(
        """
B = T.alloc_buffer((8,))
D = T.alloc_buffer((8,))
for i in range(2):
    for j in range(4):
        with T.block("B"):
            vi = T.axis.spatial(8, i * 4 + j)
            B[vi] = A[vi] + T.float32(1)
    for j in range(4):
        with T.block("D"):
            vi = T.axis.spatial(8, 4 - i * 4 + j)
            D[vi] = A[vi] + T.float32(2)
for i in range(8):
    with T.block("C"):
        vi = T.axis.spatial(8, i)
        C[vi] = B[vi] * D[vi]
""",
        A="(8,)",
        C="(8,)",
    )
    sch = Schedule(func, seed=0)
    with pytest.raises(DependenceError, match="axis 'vi' of 'C' would need two different ranges"):
        sch.reverse_compute_at("C", sch.get_loops("B")[0])


def test_a_diagonal_is_not_all_combinations() -> None:
    func = program(
        """
B = T.alloc_buffer((4,))
D = T.alloc_buffer((4,))
for i in range(4):
    with T.block("B"):
        vi = T.axis.spatial(4, i)
        B[vi] = A[vi] + T.float32(1)
    with T.block("D"):
        vi = T.axis.spatial(4, i)
        D[vi] = A[vi] + T.float32(2)
for i, j in T.grid(4, 4):
    with T.block("C"):
        vi, vj = T.axis.remap("SS", [i, j])
        C[vi, vj] = B[vi] * D[vj]
""",
        A="(4,)",
        C="(4, 4)",
    )
    sch = Schedule(func, seed=0)
    with pytest.raises(DependenceError, match="The axes of 'C' would not run over all combination"):
        sch.reverse_compute_at("C", sch.get_loops("B")[0])


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


def test_there_must_be_a_place_between_producers_and_consumers() -> None:
    func = program(
        """
B = T.alloc_buffer((8,))
for i in range(8):
    with T.block("D"):
        vi = T.axis.spatial(8, i)
        D[vi] = C[vi + 8]
    with T.block("B"):
        vi = T.axis.spatial(8, i)
        B[vi] = A[vi] + D[vi]
for i in range(8):
    with T.block("C"):
        vi = T.axis.spatial(8, i)
        C[vi] = B[vi] * T.float32(2)
""",
        A="(8,)",
        C="(16,)",
        D="(8,)",
    )
    sch = Schedule(func, seed=0)
    with pytest.raises(DependenceError, match="no place under 'i' that is after the producers and"):
        sch.reverse_compute_at("C", sch.get_loops("B")[0])


@pytest.mark.parametrize("primitive", ["compute_at", "reverse_compute_at"])
def test_the_root_does_not_move(primitive: str) -> None:
    sch = Schedule(chain(), seed=0)
    with pytest.raises(ScheduleValueError, match=f"{primitive}: The block 'root' is the root of"):
        getattr(sch, primitive)("root", sch.get_loops("C")[0])


CARRIED = """
@T.prim_func
def main(A: T.Buffer((6, 4), "float32"), C: T.Buffer((6, 4), "float32")):
    B = T.alloc_buffer((6, 4), "float32")
    D = T.alloc_buffer((6, 4), "float32")
    for i in range(6):
        for j in range(4):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = T.if_then_else(0 < vi, D[vi - 1, vj], T.float32(0))
        for j in range(4):
            with T.block("D"):
                vi, vj = T.axis.remap("SS", [i, j])
                D[vi, vj] = A[vi, vj] + T.float32(1)
        for j in range(4):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B[vi, vj] + A[vi, vj]
"""


def test_what_passes_from_one_iteration_to_the_next_does_not_move() -> None:
    sch = Schedule(parse_func(CARRIED), seed=0)
    with pytest.raises(DependenceError, match="'B' does not stand after its producers under 'j'"):
        sch.reverse_compute_at("B", sch.get_loops("D")[1])
    with pytest.raises(DependenceError, match="'D' does not stand before its consumers under 'j'"):
        sch.compute_at("D", sch.get_loops("B")[1])


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


def test_a_block_does_not_leave_its_condition_behind() -> None:
    sch = Schedule(
        parse_func("""
@T.prim_func
def main(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    B = T.alloc_buffer((8,))
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi]
    for i in range(8):
        if A[0] > T.float32(0):
            with T.block("C"):
                vi = T.axis.spatial(8, i)
                C[vi] = B[vi]
"""),
        seed=0,
    )
    with pytest.raises(DependenceError, match="under a condition"):
        sch.reverse_compute_at("C", sch.get_loops("B")[0])
    sch.compute_at("B", sch.get_loops("C")[0])


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
