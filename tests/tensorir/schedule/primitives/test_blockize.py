from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from burnish.support.errors import (
    BlockNotFoundError,
    DependenceError,
    NonAffineError,
    NotAncestorError,
    ScheduleError,
    ScheduleValueError,
)
from burnish.support.structural import assert_structural_equal
from burnish.tensorir.analysis.paths import block_names
from burnish.tensorir.expr import Var
from burnish.tensorir.function import PrimFunc
from burnish.tensorir.schedule import Schedule
from burnish.tensorir.schedule.primitives.blockize import blockize
from burnish.tensorir.stmt import For
from burnish.tensorir.text.parser import parse_func
from burnish.tensorir.verify.laws import verify_func
from burnish.tensorir.verify.regions import verify_regions
from burnish.tests.native import call_native
from burnish.tests.tensorir.schedule.programs import (
    assert_same,
    blur,
    body,
    chain,
    linear_relu,
    matmul,
    row_sum,
)
from burnish.tests.tensorir.schedule.replaying import assert_replays


def checked(before: PrimFunc, sch: Schedule, *sizes: int) -> str:
    """The text of a schedule's function that is well formed, computes the same and replays."""
    after = verify_regions(verify_func(sch.func))
    assert_structural_equal(parse_func(after.script()), after)
    assert_same(before, after, *sizes)
    assert_replays(before, sch)
    return body(after)


def tiled(m: int | Var = 8, n: int = 12, k: int = 6) -> tuple[PrimFunc, Schedule]:
    """A product in tiles of 4 x 4 x 2."""
    func = matmul(m, n, k)
    sch = Schedule(func, seed=0)
    i, j, r = sch.get_loops("C")
    i_0, i_1 = sch.split(i, [None, 4])
    j_0, j_1 = sch.split(j, [None, 4])
    r_0, r_1 = sch.split(r, [None, 2])
    sch.reorder(i_0, j_0, r_0, i_1, j_1, r_1)
    return func, sch


def test_a_tile_of_a_reduction() -> None:
    func, sch = tiled()
    outer = sch.blockize(sch.get_loops("C")[3])
    assert outer.name == "C_o"
    text = checked(func, sch)
    assert 'v_i_o, v_j_o, v_k_o = T.axis.remap("SSR", [i_0, j_0, k_0])' in text
    assert (
        "T.reads(A[v_i_o * 4:v_i_o * 4 + 4, v_k_o * 2:v_k_o * 2 + 2], "
        "B[v_k_o * 2:v_k_o * 2 + 2, v_j_o * 4:v_j_o * 4 + 4])" in text
    )
    assert "for i_1_init, j_1_init in T.grid(4, 4):" in text
    assert [loop.var.name for loop in sch.get_loops("C")] == ["i_1", "j_1", "k_1"]
    assert [loop.var.name for loop in sch.get_loops(outer)] == ["i_0", "j_0", "k_0"]


def test_a_tile_that_overshoots_keeps_its_predicate() -> None:
    func, sch = tiled(10, 12, 6)
    sch.blockize(sch.get_loops("C")[3])
    text = checked(func, sch)
    assert text.count("T.where(v_i_o * 4 + i_1") == 2
    assert "C[v_i_o * 4:T.min(v_i_o * 4 + 4, 10), v_j_o * 4:v_j_o * 4 + 4]" in text


def test_symbolic_rows() -> None:
    func, sch = tiled(Var("m"), 8, 4)
    sch.blockize(sch.get_loops("C")[3])
    checked(func, sch, 7)


def test_unit_axes_are_left_out_on_demand() -> None:
    func, sch = tiled()
    kept = sch.copy()
    kept.blockize(kept.get_loops("C")[5])
    assert "v_i_i = T.axis.spatial(1, 0)" in checked(func, kept)
    sch.blockize(sch.get_loops("C")[5], preserve_unit_iters=False)
    assert "v_i_i" not in checked(func, sch)


def test_everything_below_the_outermost_loop() -> None:
    func, sch = tiled()
    sch.blockize(sch.get_loops("C")[0])
    assert "v_i_o = T.axis.spatial(1, 0)" in checked(func, sch)


def test_fused_and_split_loops() -> None:
    func = chain(8, 6)
    sch = Schedule(func, seed=0)
    fused = sch.fuse(*sch.get_loops("B"))
    _, inner = sch.split(fused, [None, 3])
    sch.blockize(inner)
    text = checked(func, sch)
    assert "v_j_o = T.axis.spatial(2, i_j_fused_0 % 2)" in text


def test_schedules_go_on_around_and_inside() -> None:
    func, sch = tiled(16, 32, 8)
    outer = sch.blockize(sch.get_loops("C")[3])
    i_0, j_0, r_0 = sch.get_loops(outer)
    sch.reorder(j_0, i_0, r_0)
    init = sch.decompose_reduction(outer, r_0)
    sch.parallel(j_0)
    i_1, j_1, r_1 = sch.get_loops("C")
    sch.reorder(i_1, r_1, j_1)
    sch.vectorize(j_1)
    assert sch.get_child_blocks(init)[0].name == "C_init"
    sch.vectorize(sch.get_loops(sch.get_child_blocks(init)[0])[1])
    checked(func, sch)
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, s).astype("float32") for s in ((16, 8), (8, 32)))
    c = np.full((16, 32), np.nan, "float32")
    call_native(sch.func, a, b, c, threads=2)
    np.testing.assert_array_equal(c, a @ b)


def test_blocks_in_an_init_are_reached_after_decompose_reduction() -> None:
    func, sch = tiled()
    outer = sch.blockize(sch.get_loops("C")[3])
    with pytest.raises(BlockNotFoundError, match="no block 'C_init'"):
        sch.get_block("C_init")
    assert "C_init" in block_names(sch.func)
    init = sch.decompose_reduction(outer, sch.get_loops(outer)[0])
    assert init.name == "C_o_init"
    assert [b.name for b in sch.get_child_blocks(init)] == ["C_init"]
    checked(func, sch)


def test_a_consumer_is_computed_at_an_outer_block() -> None:
    func = linear_relu(8, 8, 6)
    sch = Schedule(func, seed=0)
    sch.compute_inline("T")
    _, j, _ = sch.get_loops("Y")
    sch.split(j, [None, 4])
    _, _, j_1, _ = sch.get_loops("Y")
    outer = sch.blockize(j_1)
    sch.reverse_compute_at("Z", sch.get_loops(outer)[1])
    checked(func, sch)


def test_several_blocks_share_an_outer_block() -> None:
    func = chain(8, 6)
    sch = Schedule(func, seed=0)
    sch.compute_at("B", sch.get_loops("C")[0])
    outer = sch.blockize([sch.get_block("B"), sch.get_block("C")])
    assert outer.name == "B_C_o"
    text = checked(func, sch)
    assert "v_i_o = T.axis.spatial(8, i)" in text
    # What is written before it is read is no input of the outer block.
    assert "T.reads(A[v_i_o, 0:6])\n" in text


def test_blocks_side_by_side_at_the_top() -> None:
    func = linear_relu(4, 4, 4)
    sch = Schedule(func, seed=0)
    sch.blockize([sch.get_block("Y"), sch.get_block("T")])
    text = checked(func, sch)
    assert 'with T.block("Y_T_o"):' in text
    assert "with T.init():" in text


def test_one_block_of_a_list_or_by_name() -> None:
    func, sch = tiled()
    other = sch.copy()
    sch.blockize("C", preserve_unit_iters=False)
    other.blockize([other.get_block("C")], preserve_unit_iters=False)
    assert_structural_equal(sch.func, other.func)
    assert 'with T.block("C_o"):' in checked(func, sch)


def test_neighbours_only() -> None:
    sch = Schedule(linear_relu(4, 4, 4), seed=0)
    with pytest.raises(NotAncestorError, match="Between the blocks 'Y', 'Z' also stands 'T'"):
        sch.blockize(["Y", "Z"])
    with pytest.raises(ScheduleValueError, match="each once; found"):
        sch.blockize(["Y", "Y"])
    with pytest.raises(ScheduleValueError, match="at least one block"):
        sch.blockize([])
    sch.blockize("Y")
    with pytest.raises(NotAncestorError, match="stand in one another"):
        sch.blockize(["Y", "Y_o"])


def test_values_may_not_pass_between_outer_instances() -> None:
    sch = Schedule(blur(16), seed=0)
    sch.compute_at("B", sch.split(sch.get_loops("C")[0], [None, 4])[0])
    with pytest.raises(NonAffineError, match="'v_i' of 'B' does not fall into whole tiles"):
        sch.blockize(["B", "C"])  # The windows overlap: a tile of B would be 6 elements every 4.
    func = parse_func("""
@T.prim_func
def main(A: T.Buffer((9,), "float32"), C: T.Buffer((8,), "float32")):
    B = T.alloc_buffer((9,))
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi]
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = T.if_then_else(vi > 0, B[vi - 1], T.float32(0))
""")
    sch = Schedule(func, seed=0)
    with pytest.raises(DependenceError, match="'C' reads elements of 'B' that another block"):
        sch.blockize(["B", "C"])


def test_a_reader_before_the_writer_is_refused() -> None:
    func = parse_func("""
@T.prim_func
def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = B[7 - vi]
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi]
""")
    with pytest.raises(DependenceError, match="'C' reads elements of 'B'"):
        Schedule(func, seed=0).blockize(["C", "B"])


def test_a_shared_outer_axis_is_spatial_or_reduce() -> None:
    func = parse_func("""
@T.prim_func
def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32"), C: T.Buffer((1,), "float32")):
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi]
        with T.block("C"):
            vi = T.axis.reduce(8, i)
            C[0] = C[0] + B[vi]
""")
    with pytest.raises(DependenceError, match="is reduce and runs with the outer loops that are"):
        Schedule(func, seed=0).blockize(["B", "C"])


def test_an_init_needs_its_own_outer_block() -> None:
    func = parse_func("""
@T.prim_func
def main(
    A: T.Buffer((4, 8), "float32"), B: T.Buffer((4,), "float32"), C: T.Buffer((4,), "float32")
):
    for i, k in T.grid(4, 8):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = T.float32(0)
            B[vi] = B[vi] + A[vi, vk]
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            C[vi] = C[vi] + A[vi, vk]
""")
    with pytest.raises(DependenceError, match="The reduction 'B' runs over outer loops"):
        Schedule(func, seed=0).blockize(["B", "C"])


def test_tiles_must_be_whole() -> None:
    func = row_sum(4, 12)
    sch = Schedule(func, seed=0)
    fused = sch.fuse(*sch.get_loops("B"))
    _, inner = sch.split(fused, [None, 8])
    before = sch.func
    with pytest.raises(NonAffineError, match=r"cannot be divided|mixes outer and inner loops"):
        sch.blockize(inner)
    assert sch.func is before
    func = parse_func("""
@T.prim_func
def main(A: T.Buffer((12,), "float32"), B: T.Buffer((12,), "float32")):
    for i, j in T.grid(3, 5):
        with T.block("B"):
            vi = T.axis.spatial(12, i * 4 + j)
            T.where(i * 4 + j < 12)
            B[vi] = A[vi]
""")
    with pytest.raises(NonAffineError, match="'vi' of 'B' does not fall into whole tiles"):
        Schedule(func, seed=0).blockize(Schedule(func, seed=0).get_loops("B")[1])


def test_terms_are_added_once() -> None:
    func = parse_func("""
@T.prim_func
def main(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4,), "float32")):
    for i, r, k in T.grid(4, 2, 8):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = T.float32(0)
            B[vi] = B[vi] + A[vi, vk]
""")
    sch = Schedule(func, seed=0)
    _, r, k = sch.get_loops("B")
    with pytest.raises(DependenceError, match="repeat instances of 'B'"):
        sch.copy().blockize(r)
    sch.blockize(k)
    assert_same(func, sch.func)


def test_only_blocks_are_blockized() -> None:
    func = parse_func("""
@T.prim_func
def main(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
    for i in range(4):
        with T.block("B"):
            vi = T.axis.spatial(4, i)
            for u in range(1):
                B[vi] = A[vi]
""")
    sch = Schedule(func, seed=0)
    inner = sch.get(sch.get_block("B")).body
    assert isinstance(inner, For)
    with pytest.raises(ScheduleValueError, match="A BufferStore stands in no block"):
        blockize(func, inner.var)


def test_what_is_said_to_be_written_is_written() -> None:
    text = """
@T.prim_func
def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8, 16), "float32")):
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[{index}] = A[vi]
"""
    for index in ("vi, vi", "0, vi * 2"):
        sch = Schedule(parse_func(text.format(index=index)), seed=0)
        with pytest.raises(DependenceError, match="'B' does not write each element of the box"):
            sch.blockize(sch.split(sch.get_loops("B")[0], [None, 4])[1])


@given(
    st.tuples(*[st.sampled_from([1, 2, 3, 4])] * 3),
    st.permutations(range(6)),
    st.integers(0, 5),
    st.booleans(),
)
@settings(max_examples=25, deadline=None, derandomize=True)
def test_any_tile_keeps_results(
    factors: tuple[int, int, int], order: list[int], at: int, keep: bool
) -> None:
    func = matmul(6, 5, 4)
    sch = Schedule(func, seed=0)
    for n, factor in enumerate(factors):
        sch.split(sch.get_loops("C")[2 * n], [None, factor])
    loops = sch.get_loops("C")
    try:
        sch.reorder(*[loops[k] for k in order])
        sch.blockize(sch.get_loops("C")[at], keep)
    except ScheduleError:
        return
    verify_regions(verify_func(sch.func))
    assert_same(func, sch.func)


def test_the_init_block_declares_the_bias_that_a_sum_begins_with() -> None:
    func = linear_relu(5, 8, 6)
    sch = Schedule(func, seed=0)
    sch.fuse_reduction_epilogue("Y", "T")
    sch.blockize(sch.get_loops("Y")[1])
    verify_regions(verify_func(sch.func))
    assert_same(func, sch.func)


def test_a_block_without_axes_names_its_loops() -> None:
    func = parse_func("""
@T.prim_func
def main(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4, 8), "float32")):
    for i, j in T.grid(4, 8):
        with T.block("B"):
            T.reads(A[i, j])
            T.writes(B[i, j])
            B[i, j] = A[i, j]
""")
    for depth in range(2):
        sch = Schedule(func, seed=0)
        sch.blockize(sch.get_loops("B")[depth])
        verify_regions(verify_func(sch.func))
        a, b = np.arange(32, dtype=np.float32).reshape(4, 8), np.zeros((4, 8), np.float32)
        call_native(sch.func, a, b)
        np.testing.assert_array_equal(a, b)
