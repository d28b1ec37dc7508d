from __future__ import annotations

import pytest

from burnish.support.errors import (
    DependenceError,
    NonAffineError,
    NotAncestorError,
    ScheduleValueError,
)
from burnish.tensorir.schedule import Schedule
from burnish.tensorir.text.parser import parse_func
from burnish.tests.tensorir.schedule.programs import assert_same, body, chain, matmul, program


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
