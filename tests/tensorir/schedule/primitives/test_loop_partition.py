from __future__ import annotations

import numpy as np
import pytest

from burnish.support.errors import DependenceError, LoopKindError, ScheduleValueError
from burnish.support.structural import assert_structural_equal
from burnish.tensorir.expr import Var
from burnish.tensorir.schedule import Schedule
from burnish.tensorir.text.parser import parse_func
from burnish.tensorir.verify.laws import verify_func
from burnish.tests.native import call_native
from burnish.tests.tensorir.schedule.programs import assert_same, blur, body, chain, matmul


def test_parts_in_order() -> None:
    func = chain(8, 6)
    sch = Schedule(func, seed=0)
    parts = sch.loop_partition(sch.get_loops("C")[0], [2, 5, None])
    assert [sch.get(p).var.name for p in parts] == ["i_p0", "i_p1", "i_p2"]
    lines = body(sch.func).splitlines()
    assert [x for x in lines if x.startswith("for")][1:] == [
        "for i_p0, j in T.grid(2, 6):",
        "for i_p1, j in T.grid(5, 6):",
        "for i_p2, j in T.grid(1, 6):",
    ]
    assert "        v_i = T.axis.spatial(8, i_p1 + 2)" in lines
    assert sch.get(sch.get_block("C_2")).name == "C_2"
    assert_same(func, sch.func)


@pytest.mark.parametrize("size", [0, 3, 4, 9])
def test_a_symbolic_loop(size: int) -> None:
    func = matmul(Var("m"), 4, 3)
    sch = Schedule(func, seed=0)
    m = sch.get_shape_var("m")
    main, _ = sch.loop_partition(sch.get_loops("C")[0], [m // 4 * 4, None])
    sch.split(main, [None, 4])
    assert "for i_p0_0, i_p0_1, j, k in T.grid(m // 4, 4, 4, 3):" in body(sch.func)
    assert "T.where" not in body(sch.func)
    assert "for i_p1, j, k in T.grid(m % 4, 4, 3):" in body(sch.func)
    assert_same(func, sch.func, size)


LEFT = """
@T.prim_func
def main(x: T.Buffer(("n", 4), "float32"), y: T.Buffer(("SIZE", 4), "float32")):
    for i, j in T.grid(SIZE, 4):
        with T.block("y"):
            vi, vj = T.axis.remap("SS", [i, j])
            y[vi, vj] = x[vi, vj] + T.float32(1)
"""


@pytest.mark.parametrize("size", ["n - 2", "(n - 3) // 2 + 1", "(n - 10) // 5 + 1", "n // 3 - 1"])
@pytest.mark.parametrize("width", [4, 6, 12])
def test_a_size_of_a_parameter_is_not_negative(size: str, width: int) -> None:
    """What windows without padding leave: of ``n`` alone that could not be proved."""
    func = parse_func(LEFT.replace("SIZE", size))
    sch = Schedule(func, seed=0)
    loop = sch.get_loops("y")[0]
    extent = sch.get(loop).extent
    rest = extent - extent // width * width
    half = rest // (width // 2) * (width // 2)
    parts = sch.loop_partition(loop, [extent // width * width, half, None])
    assert len(parts) == 3
    verify_func(sch.func)
    for n in (10, 11, 13, 40, 41, 57):
        x = np.arange(4.0 * n, dtype="float32").reshape(n, 4)
        count = eval(size, {"n": n})
        y = np.full((count, 4), np.nan, "float32")
        call_native(sch.func, x, y, dims=[n])
        np.testing.assert_array_equal(y, x[:count] + 1)


def test_an_extent_that_no_parameter_has_may_be_negative() -> None:
    func = parse_func(LEFT.replace('T.Buffer(("SIZE"', 'T.Buffer(("n"').replace("SIZE", "n - 2"))
    sch = Schedule(func, seed=0)
    loop = sch.get_loops("y")[0]
    extent = sch.get(loop).extent
    with pytest.raises(ScheduleValueError, match="It cannot be proved that part 0"):
        sch.loop_partition(loop, [extent // 4 * 4, None])


def test_predicates_that_a_part_proves_are_gone() -> None:
    func = chain(8, 30)
    sch = Schedule(func, seed=0)
    outer, _ = sch.split(sch.get_loops("C")[1], [None, 8])
    assert "T.where(j_0 * 8 + j_1 < 30)" in body(sch.func)
    sch.loop_partition(outer, [3, None])
    assert body(sch.func).count("T.where") == 1
    assert "T.where(j_0_p1 * 8 + j_1 + 24 < 30)" in body(sch.func)
    assert_same(func, sch.func)


def test_each_part_gets_its_own_intermediate() -> None:
    func = chain(8, 6)
    sch = Schedule(func, seed=0)
    sch.loop_partition(sch.get_loops("B")[0], [6, None])
    assert "B_1 = T.alloc_buffer" not in body(sch.func)
    sch.loop_partition(sch.get_loops("C")[0], [6, None])
    assert "B_1 = T.alloc_buffer((8, 6))" in body(sch.func)
    sch.reverse_compute_at("C_1", sch.get_loops("B_1")[0])
    assert_same(func, sch.func)


def test_overlapping_users_share_a_buffer() -> None:
    func = blur(8)
    sch = Schedule(func, seed=0)
    sch.loop_partition(sch.get_loops("C")[0], [4, None])
    sch.loop_partition(sch.get_loops("B")[0], [4, None])
    assert "B_1 = T.alloc_buffer" not in body(sch.func)
    assert_same(func, sch.func)


def test_a_reduce_loop() -> None:
    func = matmul(3, 3, 7)
    sch = Schedule(func, seed=0)
    sch.loop_partition(sch.get_loops("C")[2], [4, 3])
    assert sch.get(sch.get_block("C")).init is not None
    later = sch.get(sch.get_block("C_1"))
    assert later.init is None, "a later part goes on with what the first began"
    assert [r.buffer.name for r in later.reads] == ["C", "A", "B"]
    assert_same(func, sch.func)


def test_a_reduce_loop_whose_first_part_may_be_empty() -> None:
    func = matmul(3, 3, Var("n"))
    sch = Schedule(func, seed=0)
    c = sch.get_block("C")
    k = sch.get_loops(c)[2]
    n = sch.get_shape_var("n")
    with pytest.raises(DependenceError, match="which part comes first depends on the sizes"):
        sch.loop_partition(k, [n // 4 * 4, None])
    sch.decompose_reduction(c, k)
    sch.loop_partition(k, [n // 4 * 4, None])
    for size in (1, 4, 6):
        assert_same(func, sch.func, size)


@pytest.mark.parametrize(
    ("factors", "extents"),
    [
        ([None, 3, 2], [3, 3, 2]),
        ([3, None, 2], [3, 3, 2]),
        ([3, 2], [3, 2, 3]),
        ([5], [5, 3]),
        ([8], [8]),
    ],
)
def test_what_the_others_leave(factors: list[int | None], extents: list[int]) -> None:
    func = chain(8, 6)
    sch = Schedule(func, seed=0)
    parts = sch.loop_partition(sch.get_loops("B")[0], factors)
    assert [sch.get(part).extent.value for part in parts] == extents
    assert_same(func, sch.func)
    again = Schedule(func, seed=0)
    sch.trace.apply_to(again)
    assert_structural_equal(again.func, sch.func)


def test_refusals() -> None:
    sch = Schedule(chain(8, 6), seed=0)
    i, j = sch.get_loops("B")
    for factors, message in [
        ([None, 2, None], "of which one may be None"),
        ([], "of which one may be None"),
        ([None, 9], "It cannot be proved that part 0"),
        ([9, None], "It cannot be proved that part 0"),
        ([4, 5], "It cannot be proved that part 1"),
    ]:
        with pytest.raises(ScheduleValueError, match=message):
            sch.loop_partition(i, factors)
    sch.vectorize(j)
    with pytest.raises(LoopKindError, match="'j' is vectorized"):
        sch.loop_partition(j, [2, None])


VIEWS = """
@T.prim_func
def main(A: T.Buffer((8, 6), "float32"), C: T.Buffer((8, 6), "float32")):
    for i in range(4):
        with T.block("tile"):
            vi = T.axis.spatial(4, i)
            T.reads(A[vi * 2:vi * 2 + 2, 0:6])
            T.writes(C[vi * 2:vi * 2 + 2, 0:6])
            V = T.match_buffer(A[vi * 2:vi * 2 + 2, 0:6], (2, 6), strides=("s0", "s1"))
            for x, y in T.grid(2, 6):
                with T.block("C"):
                    vx, vy = T.axis.remap("SS", [x, y])
                    C[vi * 2 + vx, vy] = V[vx, vy] + T.float32(1)
"""


def test_each_part_binds_the_strides_of_its_own_views() -> None:
    func = parse_func(VIEWS)
    sch = Schedule(func, seed=0)
    sch.loop_partition(sch.get_loops("tile")[0], [1, None])
    verify_func(sch.func)
    assert_same(func, sch.func)


def test_each_part_has_views_of_its_own_without_strides_too() -> None:
    func = parse_func(VIEWS.replace(', strides=("s0", "s1")', ""))
    sch = Schedule(func, seed=0)
    sch.loop_partition(sch.get_loops("tile")[0], [1, None])
    verify_func(sch.func)
    assert_same(func, sch.func)
