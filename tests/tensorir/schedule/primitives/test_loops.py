from __future__ import annotations

import pytest

from burnish.support.errors import (
    DependenceError,
    LoopKindError,
    LoopNotFoundError,
    NonAffineError,
    NotAncestorError,
    ScheduleValueError,
)
from burnish.support.target import Target
from burnish.tensorir.expr import Var
from burnish.tensorir.lowering import lower_func
from burnish.tensorir.parser import parse_func
from burnish.tensorir.schedule import Schedule
from burnish.tensorir.schedule.primitives import loops
from burnish.tests.tensorir.schedule.programs import (
    assert_same,
    blur,
    body,
    chain,
    matmul,
    program,
)
from burnish.tests.tensorir.schedule.replaying import assert_same_natively


def test_split_infers_a_factor() -> None:
    func = chain(8, 12)
    sch = Schedule(func, seed=0)
    i, j = sch.get_loops("B")
    j0, j1, j2 = sch.split(j, [2, None, 3])
    assert [sch.get(x).var.name for x in (i, j0, j1, j2)] == ["i", "j_0", "j_1", "j_2"]
    assert body(sch.func).splitlines()[1:5] == [
        "for i, j_0, j_1, j_2 in T.grid(8, 2, 2, 3):",
        '    with T.block("B"):',
        "        v_i = T.axis.spatial(8, i)",
        "        v_j = T.axis.spatial(12, j_0 * 6 + j_1 * 3 + j_2)",
    ]
    assert_same(func, sch.func)


def test_split_that_does_not_divide_adds_a_predicate() -> None:
    func = chain(8, 10)
    sch = Schedule(func, seed=0)
    _, j = sch.get_loops("B")
    sch.split(j, [None, 4])
    assert "T.where(j_0 * 4 + j_1 < 10)" in body(sch.func)
    assert_same(func, sch.func)


def test_split_without_predication_is_on_the_user() -> None:
    sch = Schedule(chain(8, 10), seed=0)
    sch.split(sch.get_loops("B")[1], [None, 4], disable_predication=True)
    assert "T.where" not in body(sch.func)


@pytest.mark.parametrize("size", [0, 1, 5, 8])
def test_split_of_a_symbolic_loop(size: int) -> None:
    func = chain(Var("m"), 3)
    sch = Schedule(func, seed=0)
    i0, _ = sch.split(sch.get_loops("C")[0], [None, 4])
    assert "for i_0, i_1, j in T.grid((m + 3) // 4, 4, 3):" in body(sch.func)
    assert "T.where(i_0 * 4 + i_1 < m)" in body(sch.func)
    sch.split(i0, [None, 2])
    assert_same(func, sch.func, size)


def test_splitting_twice_and_fusing_back_simplifies() -> None:
    func = matmul(16, 8, 4)
    sch = Schedule(func, seed=0)
    i, j, _ = sch.get_loops("C")
    i0, i1 = sch.split(i, [4, 4])
    i2, i3 = sch.split(i1, [2, 2])
    again = sch.fuse(i0, i2, i3)
    assert sch.get(again).var.name == "i_0_i_1_0_i_1_1_fused"
    sch.fuse(again, j)
    text = body(sch.func)
    assert "v_i = T.axis.spatial(16, i_0_i_1_0_i_1_1_fused_j_fused // 8)" in text
    assert "v_j = T.axis.spatial(8, i_0_i_1_0_i_1_1_fused_j_fused % 8)" in text
    assert_same(func, sch.func)


def test_unit_loops_stay_in_bindings_unless_asked() -> None:
    func = chain(4, 4)
    sch = Schedule(func, seed=0)
    sch.split(sch.get_loops("B")[0], [4, 1])
    assert "T.axis.spatial(4, i_0 + i_1)" in body(sch.func)
    sch.split(sch.get_loops("C")[0], [4, 1], preserve_unit_iters=False)
    assert 'v_i, v_j = T.axis.remap("SS", [i_0, j])' in body(sch.func)
    assert_same(func, sch.func)


def test_fuse_of_one_loop_renames_it() -> None:
    sch = Schedule(chain(4, 4), seed=0)
    fused = sch.fuse(sch.get_loops("B")[1])
    assert sch.get(fused).var.name == "j_fused"


def test_fuse_drops_unit_loops_as_their_value_is_known() -> None:
    func = matmul(16, 8, 2)
    sch = Schedule(func, seed=0)
    i, j, _ = sch.get_loops("C")
    i0, i1 = sch.split(i, [4, 4])
    j0, _ = sch.split(j, [1, 8])
    sch.reorder(i0, j0, i1)
    sch.fuse(i0, j0, i1)
    assert '= T.axis.remap("SSR", [i_0_j_0_i_1_fused, j_1, k])' in body(sch.func)
    assert_same(func, sch.func)


def test_reorder_keeps_the_places_of_other_loops() -> None:
    func = matmul(4, 3, 2)
    sch = Schedule(func, seed=0)
    i, _, k = sch.get_loops("C")
    sch.reorder(k, i)
    assert "for k, j, i in T.grid(2, 3, 4):" in body(sch.func)
    assert_same(func, sch.func)


def test_reorder_to_the_same_order_changes_nothing() -> None:
    sch = Schedule(matmul(), seed=0)
    before = sch.func
    sch.reorder(*sch.get_loops("C"))
    assert sch.func is before


def test_add_unit_loop() -> None:
    func = chain(4, 4)
    sch = Schedule(func, seed=0)
    u = sch.add_unit_loop(sch.get_loops("B")[1])
    sch.add_unit_loop("C")
    assert sch.get(u).var.name == "u"
    assert "for i, u, j in T.grid(4, 1, 4):" in body(sch.func)
    assert_same(func, sch.func)


# -- refusals ------------------------------------------------------------------------------------
def test_split_refusals_leave_the_schedule() -> None:
    sch = Schedule(chain(8, 12), seed=0)
    _, j = sch.get_loops("B")
    before, steps = sch.func, len(sch.trace)
    for factors, message in [
        ([None, None], "At most one factor may be None"),
        ([3, 3], r"factors \[3, 3\] is 9, less than 12, the extent of the loop 'j'; use None"),
        ([], "at least one factor"),
        ([0, None], "Factors must be positive"),
    ]:
        with pytest.raises(ScheduleValueError, match=message):
            sch.split(j, factors)
    assert sch.func is before
    assert len(sch.trace) == steps


def test_a_split_loop_is_gone() -> None:
    sch = Schedule(chain(8, 12), seed=0)
    _, j = sch.get_loops("B")
    sch.split(j, [None, 4])
    with pytest.raises(LoopNotFoundError, match="The loop over 'j' is no longer in 'main'"):
        sch.split(j, [None, 4])


def test_loops_that_are_not_serial_are_not_split() -> None:
    sch = Schedule(chain(8, 12), seed=0)
    i, j = sch.get_loops("B")
    sch.parallel(i)
    with pytest.raises(LoopKindError, match=r"split: Expected a serial loop; 'i' is parallel"):
        sch.split(i, [None, 4])
    sch.annotate(j, "pragma", 1)
    with pytest.raises(LoopKindError, match="without annotations; 'j' has 'pragma'"):
        sch.fuse(j)


def test_fuse_needs_direct_nesting() -> None:
    sch = Schedule(matmul(), seed=0)
    i, _, k = sch.get_loops("C")
    with pytest.raises(NotAncestorError, match="'k' is not the only statement directly below 'i'"):
        sch.fuse(i, k)


def test_reorder_refusals() -> None:
    sch = Schedule(chain(8, 12), seed=0)
    i, j = sch.get_loops("B")
    other = sch.get_loops("C")[0]
    with pytest.raises(NotAncestorError, match="are not on one chain"):
        sch.reorder(j, other)
    with pytest.raises(ScheduleValueError, match="The loop 'i' is named twice"):
        sch.reorder(i, i)


def test_reorder_through_a_branch_is_refused() -> None:
    sch = Schedule(chain(8, 12), seed=0)
    sch.compute_at("B", sch.get_loops("C")[0])
    i, j = sch.get_loops("C")
    with pytest.raises(NotAncestorError, match="stands a branch of several statements"):
        sch.reorder(j, i)


OPAQUE = """
@T.prim_func
def main(A: T.Buffer((4, 4), "float32"), B: T.Buffer((4, 4), "float32")):
    for i, j in T.grid(4, 4):
        with T.block("B"):
            {axes}
            B[vi, vj] = A[vi, vj]
"""


def test_reorder_needs_affine_bindings_of_its_own() -> None:
    text = OPAQUE.format(
        axes="vi = T.axis.spatial(4, i * j % 4)\n            vj = T.axis.spatial(4, j)"
    )
    sch = Schedule(parse_func(text, {}), seed=0)
    with pytest.raises(NonAffineError, match="'B' are not an affine map of its loops"):
        sch.reorder(*reversed(sch.get_loops("B")))


def test_reorder_needs_spatial_or_reduce_axes() -> None:
    text = OPAQUE.format(axes="vi = T.axis.opaque(4, i)\n            vj = T.axis.spatial(4, j)")
    sch = Schedule(parse_func(text, {}), seed=0)
    with pytest.raises(NonAffineError, match="the axis 'vi' of 'B' is opaque"):
        sch.reorder(*reversed(sch.get_loops("B")))


def test_reorder_over_two_blocks_in_one_iteration() -> None:
    func = chain(8, 12)
    sch = Schedule(func, seed=0)
    sch.compute_at("B", sch.get_loops("C")[1])
    i, j = sch.get_loops("C")
    sch.reorder(j, i)
    assert_same(func, sch.func)


WINDOW = """
@T.prim_func
def main(A: T.Buffer((4, 5), "float32"), B: T.Buffer((4, 5), "float32"),
         C: T.Buffer((4, 5), "float32")):
    for i, j in T.grid(4, 5):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj]
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, T.max(vj - 1, 0)]
"""


def test_reorder_refuses_a_dependence_between_iterations() -> None:
    sch = Schedule(parse_func(WINDOW, {}), seed=0)
    i, j = sch.get_loops("C")
    with pytest.raises(DependenceError, match="'C' reads what another block below these loops"):
        sch.reorder(j, i)


def test_blur_splits() -> None:
    func = blur(16)
    sch = Schedule(func, seed=0)
    sch.split(sch.get_loops("C")[0], [None, 5])
    assert_same(func, sch.func)


def test_a_loop_that_repeats_a_reduction_stays_outside_of_its_reduce_loops() -> None:
    func = parse_func("""
@T.prim_func
def main(A: T.Buffer((3, 4), "float32"), S: T.Buffer((3,), "float32")):
    for i, again, k in T.grid(3, 2, 4):
        with T.block("S"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                S[vi] = T.float32(0)
            S[vi] = S[vi] + A[vi, vk]
""")
    sch = Schedule(func, seed=0)
    i, again, k = sch.get_loops("S")
    with pytest.raises(DependenceError, match="terms would be added more than once"):
        sch.reorder(k, again)
    sch.reorder(again, i)
    assert_same(func, sch.func)


def test_loops_over_spatial_and_reduce_axes_at_once_keep_their_order() -> None:
    func = matmul(2, 3, 4)
    sch = Schedule(func, seed=0)
    i, j, k = sch.get_loops("C")
    f0, f1 = sch.split(sch.fuse(j, k), [None, 2])
    with pytest.raises(DependenceError, match="its init would no longer come first"):
        sch.reorder(f1, f0)
    sch.reorder(f0, i)
    assert_same(func, sch.func)


TRIANGLE = """
for i in range(8):
    for j in range(i + 1):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = A[vi, vj]
"""


def test_loops_that_depend_on_each_other_keep_their_order() -> None:
    sch = Schedule(program(TRIANGLE, A="(8, 8)", C="(8, 8)"), seed=0)
    i, j = sch.get_loops("C")
    with pytest.raises(DependenceError, match="extent of 'j' depends on a loop it would be fused"):
        sch.fuse(i, j)
    with pytest.raises(DependenceError, match="range of 'j' depends on a loop that would move ins"):
        sch.reorder(j, i)


def test_a_block_without_axes_keeps_its_order() -> None:
    func = program(
        """
for i, j in T.grid(2, 2):
    with T.block("C"):
        C[0] = A[0]
""",
        A="(1,)",
        C="(1,)",
    )
    sch = Schedule(func, seed=0)
    i, j = sch.get_loops("C")
    with pytest.raises(NonAffineError, match="The block 'C' has no axes, so nothing is known of"):
        sch.reorder(j, i)


def test_there_must_be_a_loop_to_fuse() -> None:
    with pytest.raises(ScheduleValueError, match="fuse: Expected at least one loop; found none"):
        loops.fuse(chain(), [])
    with pytest.raises(ScheduleValueError, match="fuse: Expected at least one loop; found none"):
        Schedule(chain(), seed=0).fuse()


def test_no_loop_goes_around_the_root() -> None:
    with pytest.raises(ScheduleValueError, match="add_unit_loop: The block 'root' is the root of"):
        Schedule(chain(), seed=0).add_unit_loop("root")


def test_a_split_loop_is_plain_and_begins_at_0() -> None:
    sch = Schedule(chain(), seed=0)
    i, j = sch.get_loops("B")
    sch.unroll(i)
    sch.annotate(j, "note", 1)
    with pytest.raises(LoopKindError, match="'i' is unrolled\\. Do this before"):
        sch.split(i, [2, None])
    with pytest.raises(LoopKindError, match="'j' has 'note', which would be lost"):
        sch.split(j, [2, None])
    func = program(
        """
for i in range(2, 6):
    with T.block("C"):
        vi = T.axis.spatial(8, i)
        C[vi] = A[vi]
""",
        A="(8,)",
        C="(8,)",
    )
    sch = Schedule(func, seed=0)
    with pytest.raises(LoopKindError, match="Expected a loop that begins at 0; 'i' does not"):
        sch.split(sch.get_loops("C")[0], [2, None])


def test_instances_that_write_one_element_keep_their_order() -> None:
    text = """
for i, j in T.grid(4, 4):
    with T.block("B"):
        vi, vj = T.axis.remap("SS", [i, j])
        B[vi + vj] = A[vi, vj]
"""
    sch = Schedule(program(text, A="(4, 4)", B="(7,)"), seed=0)
    i, j = sch.get_loops("B")
    with pytest.raises(DependenceError, match="Several instances of the block 'B' write the same"):
        sch.reorder(j, i)


SIZES = """
@T.prim_func
def main(A: T.Buffer(("n", "m", "k"), "float32"), B: T.Buffer(("n", "m", "k"), "float32")):
    for i, j, l in T.grid(n, m, k):
        with T.block("B"):
            vi, vj, vl = T.axis.remap("SSS", [i, j, l])
            B[vi, vj, vl] = A[vi, vj, vl] + T.float32(1)
"""


@pytest.mark.parametrize("count", [2, 3])
def test_loops_fused_over_unknown_sizes_are_one_affine_loop(count: int) -> None:
    func = parse_func(SIZES)
    sch = Schedule(func, seed=0)
    fused = sch.fuse(*sch.get_loops("B")[3 - count :])
    outer, lanes = sch.split(fused, [None, 8])
    sch.vectorize(lanes)
    sch.parallel(outer)
    # The digits of the fused loop meet again in the address: no division is left.
    lowered = lower_func(sch.func, Target("llvm -mcpu=skylake-avx512")).func.script()
    assert "//" not in lowered.split("T.parallel((")[1].split("\n", 1)[1]
    for sizes in ((2, 3, 5), (1, 1, 1), (4, 16, 8), (3, 0, 4), (0, 2, 2)):
        assert_same_natively(func, sch.func, *sizes)


def test_a_digit_of_another_size_is_no_affine_map() -> None:
    func = parse_func(
        SIZES.replace("T.grid(n, m, k)", "T.grid(n, m * m, k)").replace(
            'vi, vj, vl = T.axis.remap("SSS", [i, j, l])',
            """vi = T.axis.spatial(n, i)
            vj = T.axis.spatial(m, j // k)
            vl = T.axis.spatial(k, j % m)""",
        )
    )
    sch = Schedule(func, seed=0)
    with pytest.raises(DependenceError, match="Several iterations of 'j' may write the same"):
        sch.parallel(sch.get_loops("B")[1])


def test_an_empty_loop_of_both_kinds_is_not_fused() -> None:
    func = program(
        """
for i in range(5):
    for k in range(6):
        with T.block("C"):
            vi = T.axis.spatial(5, i)
            vk = T.axis.reduce(6, k)
            with T.init():
                C[vi] = T.float32(0)
            C[vi] = C[vi] + A[vi, vk]
""",
        A="(5, 6)",
        C="(5,)",
    )
    sch = Schedule(func, seed=0)
    sch.loop_partition(sch.get_loops("C")[0], [5, None])
    with pytest.raises(DependenceError, match="'i_p1' has no iterations, and 'C_1' runs over"):
        sch.fuse(*sch.get_loops("C_1"))
    assert_same(func, sch.func)
