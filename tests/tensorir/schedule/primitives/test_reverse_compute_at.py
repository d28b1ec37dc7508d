from __future__ import annotations

import pytest

from burnish.support.errors import DependenceError
from burnish.tensorir.function import PrimFunc
from burnish.tensorir.schedule import Schedule
from burnish.tensorir.te import compute as te
from burnish.tensorir.text.parser import parse_func
from burnish.tensorir.verify.bounds import verify_bounds
from burnish.tensorir.verify.laws import verify_func
from burnish.tests.tensorir.schedule.programs import (
    COPY_B,
    assert_same,
    blur,
    body,
    linear_relu,
    program,
    row_sum,
)
from burnish.tests.tensorir.schedule.replaying import assert_replays


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


def test_a_part_of_a_buffer_that_a_block_outside_writes_moves_as_a_part() -> None:
    func = parse_func("""
@T.prim_func
def main(A: T.Buffer((4, 6), "float32"), C: T.Buffer((4, 6), "float32")):
    T0 = T.alloc_buffer((4, 6))
    for i, j in T.grid(4, 6):
        with T.block("first"):
            vi, vj = T.axis.remap("SS", [i, j])
            T0[vi, vj] = A[vi, vj]
    for i in range(4):
        with T.block("row"):
            vi = T.axis.spatial(4, i)
            T.reads(A[vi, 0:6], T0[vi, 0:6])
            T.writes(T0[vi, 0:6])
            B = T.alloc_buffer((6,))
            for j in range(6):
                with T.block("B"):
                    vj = T.axis.spatial(6, j)
                    B[vj] = A[vi, vj] + T.float32(1)
            for j in range(1):
                with T.block("part"):
                    vj = T.axis.spatial(6, j)
                    T0[vi, vj] = B[vj]
    for i, j in T.grid(4, 6):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = T0[vi, vj]
""")
    sch = Schedule(func, seed=0)
    sch.reverse_compute_at("part", sch.get_loops("B")[0])
    assert_same(func, sch.func)


def test_a_block_that_leaves_elements_out_stays() -> None:
    sparse = PARTS.replace("T.grid(4, 2)", "T.grid(4, 3)")
    func = parse_func(sparse.replace("spatial(6, j)", "spatial(6, j * 2)"))
    sch = Schedule(func, seed=0)
    with pytest.raises(DependenceError, match="'left' does not run over whole ranges of its axes"):
        sch.reverse_compute_at("left", sch.get_loops("B")[0])


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


SCRATCH = """
@T.prim_func
def main(A: T.Buffer((6, 8), "float32"), C: T.Buffer((6, 8), "float32")):
    P = T.alloc_buffer((6, 8))
    S = T.alloc_buffer((8,))
    for j, i in T.grid(8, 6):
        with T.block("P"):
            vj, vi = T.axis.remap("SS", [j, i])
            P[vi, vj] = A[vi, vj]
    for i in range(6):
        for j in range(8):
            with T.block("S"):
                vj, vi = T.axis.remap("SS", [j, i])
                S[vj] = P[vi, vj]
        for j in range(8):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = S[7 - vj]
"""


def test_a_row_that_is_read_before_it_is_written_over_stays() -> None:
    sch = Schedule(parse_func(SCRATCH), seed=0)
    with pytest.raises(DependenceError, match="'C' reads them in each"):
        sch.reverse_compute_at("S", sch.get_loops("P")[0])


def laid_out(index: str, loops: str, shape: str, tile: str = "8, 12") -> PrimFunc:
    """B of 8 x 12, or of 96, and C, which reads it at ``index``."""
    names = ["i", "j", "k"][: loops.count(",") + 1]
    axes = ", ".join(f"v{n}" for n in names)
    remap = f'{axes} = T.axis.remap("{"S" * len(names)}", [{", ".join(names)}])'
    if len(names) == 1:
        remap = f"vi = T.axis.spatial({loops}, i)"
    own = ", ".join(["vp", "vq"][: tile.count(",") + 1])
    first = f"vp = T.axis.spatial({tile}, p)"
    if "," in tile:
        first = 'vp, vq = T.axis.remap("SS", [p, q])'
    return program(
        f"""
B = T.alloc_buffer(({tile},))
for {own.replace("v", "")} in T.grid({tile}):
    with T.block("B"):
        {first}
        B[{own}] = A[{own}] + T.float32(1)
for {", ".join(names)} in T.grid({loops}):
    with T.block("C"):
        {remap}
        C[{axes}] = B[{index}] * T.float32(2)
""",
        A=f"({tile},)",
        C=shape,
    )


@pytest.mark.parametrize(
    ("index", "loops", "shape", "tile", "factor", "depth", "sizes"),
    [
        ("vi // 12, vi % 12", "96", "(96,)", "8, 12", None, 0, [12]),
        ("vi // 12, vi % 12", "96", "(96,)", "8, 12", 4, 0, [48]),
        ("vi * 12 + vj", "8, 12", "(8, 12)", "96", 12, 0, [12]),
        ("vi * 12 + vj", "8, 12", "(8, 12)", "96", 24, 0, [2, 12]),
        ("vi * 12 + vj", "8, 12", "(8, 12)", "96", 4, 0, [4]),
        ("vi * 4 + vj, vk", "2, 4, 12", "(2, 4, 12)", "8, 12", None, 0, [12]),
        ("vi % 8, vi // 8", "96", "(96,)", "8, 12", None, 1, []),
        ("vi, vj * 3 + vk", "8, 4, 3", "(8, 4, 3)", "8, 12", None, 0, [4, 3]),
        ("vi // 3, vj", "24, 12", "(24, 12)", "8, 12", None, 0, [3, 12]),
        ("vi // 3, vj // 2", "24, 24", "(24, 24)", "8, 12", None, 1, [3, 2]),
        ("vi // 3", "288", "(288,)", "96", 8, 0, [24]),
        ("vi // 3", "286", "(286,)", "96", 8, 0, [24]),
    ],
)
def test_a_consumer_of_another_layout(
    index: str,
    loops: str,
    shape: str,
    tile: str,
    factor: int | None,
    depth: int,
    sizes: list[int],
) -> None:
    func = laid_out(index, loops, shape, tile)
    sch = Schedule(func, seed=0)
    if factor is not None:
        sch.split(sch.get_loops("B")[0], [None, factor])
    sch.reverse_compute_at("C", sch.get_loops("B")[depth])
    own = sch.get_loops("C")[depth + 1 :]
    assert [sch.get(loop).extent.value for loop in own] == sizes
    verify_func(sch.func)
    verify_bounds(sch.func)
    assert_same(func, sch.func)
    assert_replays(func, sch)


def test_instances_that_are_no_ranges_of_the_axes() -> None:
    func = laid_out("vi * 12 + vj", "8, 12", "(8, 12)", "96")
    sch = Schedule(func, seed=0)
    sch.split(sch.get_loops("B")[0], [None, 16])
    with pytest.raises(DependenceError):
        sch.reverse_compute_at("C", sch.get_loops("B")[0])
