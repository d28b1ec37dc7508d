from __future__ import annotations

import pytest

from burnish.support.errors import DependenceError, NotAncestorError, ScheduleValueError
from burnish.support.target import Target
from burnish.tensorir.lowering import lower_func
from burnish.tensorir.schedule import Schedule
from burnish.tensorir.schedule.primitives.fuse import fuse
from burnish.tensorir.text.parser import parse_func
from burnish.tests.tensorir.schedule.programs import assert_same, body, chain, matmul, program
from burnish.tests.tensorir.schedule.replaying import assert_same_natively


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


def test_fuse_needs_direct_nesting() -> None:
    sch = Schedule(matmul(), seed=0)
    i, _, k = sch.get_loops("C")
    with pytest.raises(NotAncestorError, match="'k' is not the only statement directly below 'i'"):
        sch.fuse(i, k)


def test_there_must_be_a_loop_to_fuse() -> None:
    with pytest.raises(ScheduleValueError, match="fuse: Expected at least one loop; found none"):
        fuse(chain(), [])
    with pytest.raises(ScheduleValueError, match="fuse: Expected at least one loop; found none"):
        Schedule(chain(), seed=0).fuse()


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
