from __future__ import annotations

import pytest

from burnish.support.errors import (
    LayoutError,
    NonAffineError,
    NotReductionBlockError,
    ScheduleValueError,
)
from burnish.tensorir.expr import cast
from burnish.tensorir.function import PrimFunc
from burnish.tensorir.schedule import Schedule
from burnish.tensorir.te import compute as te
from burnish.tensorir.text.parser import parse_func
from burnish.tensorir.verify.bounds import verify_bounds
from burnish.tensorir.verify.laws import verify_func
from burnish.tensorir.verify.regions import verify_regions
from burnish.tests.tensorir.schedule.programs import (
    assert_same,
    body,
    linear_relu,
    matmul,
    program,
)
from burnish.tests.tensorir.schedule.replaying import assert_replays, assert_same_natively


def packed() -> Schedule:
    sch = Schedule(linear_relu(4, 6, 3), seed=0)
    sch.cache_read("Y", 1, "global")
    sch.transform_layout("Y", ("read", 1), lambda n, k: (n // 4, k, n % 4), pad_value=0.0)
    return sch


def test_full_tiles_over_a_padded_operand() -> None:
    sch = packed()
    sch.pad_einsum("Y", [1, 4, 1])
    text = body(sch.func)
    assert "Y = T.alloc_buffer((4, 8))" in text
    assert "for i, j, k in T.grid(4, 8, 3):" in text
    assert_same(linear_relu(4, 6, 3), sch.func)
    sch.split(sch.get_loops("Y")[1], [None, 4])
    assert "T.where" not in body(sch.func)


def test_nothing_to_pad() -> None:
    sch = packed()
    before = sch.func
    sch.pad_einsum("Y", [2, 3, 1])
    assert sch.func is before


def test_refusals() -> None:
    sch = packed()
    with pytest.raises(ScheduleValueError, match="Expected 3 paddings"):
        sch.pad_einsum("Y", [4])
    with pytest.raises(LayoutError, match="'X' would be read out of bounds"):
        sch.pad_einsum("Y", [1, 1, 4])
    with pytest.raises(LayoutError, match="'X' would be read out of bounds"):
        sch.pad_einsum("Y", [8, 1, 1])
    with pytest.raises(LayoutError, match="The output 'C' is a parameter"):
        Schedule(matmul(3, 3, 3), seed=0).pad_einsum("C", [4, 1, 1])
    sch.split(sch.get_loops("Y")[1], [None, 2])
    with pytest.raises(NonAffineError, match="pad before splitting"):
        sch.pad_einsum("Y", [1, 4, 1])


def copied(dtype: str = "float32") -> Schedule:
    """A product of 5 x 7 and 7 x 6, of copies, into a copy."""
    a, b = te.placeholder((5, 7), dtype, name="A"), te.placeholder((7, 6), dtype, name="B")
    k = te.reduce_axis((0, 7), "k")
    c = te.compute(
        (5, 6),
        lambda i, j: (
            te.sum(cast(a[i, k], "int32") * cast(b[k, j], "int32"), axis=[k])
            if dtype == "int8"
            else te.sum(a[i, k] * b[k, j], axis=[k])
        ),
        name="C",
    )
    sch = Schedule(te.create_prim_func([a, b, c]), seed=0)
    sch.cache_read("C", 0, "global")
    sch.cache_read("C", 1, "global")
    sch.cache_write("C", 0, "global")
    return sch


@pytest.mark.parametrize("dtype", ["float32", "int8"])
@pytest.mark.parametrize("padding", [[1, 1, 4], [4, 4, 4], [1, 4, 3], [4, 1, 1], [8, 16, 32]])
def test_operands_grow_and_a_sum_runs_over_zeros(padding: list[int], dtype: str) -> None:
    sch = copied(dtype)
    before = sch.func
    sch.pad_einsum("C", padding)
    sizes = [-(-n // p) * p for n, p in zip((5, 6, 7), padding, strict=True)]
    assert [sch.get(loop).extent.value for loop in sch.get_loops("C")] == sizes
    verify_func(sch.func)
    verify_bounds(sch.func)
    verify_regions(sch.func)
    assert_same(before, sch.func)
    assert_same_natively(before, sch.func)


def test_axes_grow_one_after_the_other() -> None:
    func = copied().func
    sch = Schedule(func, seed=0)
    sch.pad_einsum("C", [1, 1, 8])
    sch.pad_einsum("C", [4, 4, 16])
    assert_same(func, sch.func)
    assert_replays(func, sch)


NORM = """
S = T.alloc_buffer((5,))
N = T.alloc_buffer((5, 7))
for i, k in T.grid(5, 7):
    with T.block("S"):
        vi, vk = T.axis.remap("SR", [i, k])
        with T.init():
            S[vi] = T.float32(0)
        S[vi] = S[vi] + A[vi, vk] * A[vi, vk]
for i, k in T.grid(5, 7):
    with T.block("N"):
        vi, vk = T.axis.remap("SS", [i, k])
        N[vi, vk] = A[vi, vk] * T.sqrt(S[vi] + T.float32(1))
for i, k in T.grid(5, 7):
    with T.block("C"):
        vi, vk = T.axis.remap("SS", [i, k])
        C[vi, vk] = N[vi, vk]
"""


@pytest.mark.parametrize(
    "steps",
    [
        [("S", [8, 1]), ("N", [8, 1]), ("S", [8, 1])],
        [("S", [8, 8]), ("N", [8, 16])],
        [("N", [1, 16]), ("S", [1, 32]), ("S", [4, 1])],
        [("S", [16, 1]), ("N", [8, 4]), ("N", [16, 8])],
    ],
)
def test_rows_of_a_norm_that_were_padded_before_are_padded_again(
    steps: list[tuple[str, list[int]]],
) -> None:
    sch = Schedule(program(NORM, A="(5, 7)", C="(5, 7)"), seed=0)
    sch.cache_read("S", 0, "global", consumer_blocks=["S", "N"])
    before = sch.func
    for block, padding in steps:
        sch.pad_einsum(block, padding)
    verify_func(sch.func)
    verify_bounds(sch.func)
    assert_same(before, sch.func)
    assert_same_natively(before, sch.func)


def test_a_sum_that_an_operand_is_comes_first() -> None:
    sch = Schedule(program(NORM, A="(5, 7)", C="(5, 7)"), seed=0)
    sch.cache_read("S", 0, "global", consumer_blocks=["S", "N"])
    with pytest.raises(LayoutError, match="'S' would be read out of bounds"):
        sch.pad_einsum("N", [8, 1])
    sch.pad_einsum("S", [8, 1])
    sch.pad_einsum("N", [8, 1])


def reduced(term: str, first: str = "T.float32(0)", combine: str = "{} + {}") -> PrimFunc:
    """``C[i]`` reduces ``term`` of copies of A and S over k."""
    return program(
        f"""
X = T.alloc_buffer((5, 7))
C = T.alloc_buffer((5,))
for i, k in T.grid(5, 7):
    with T.block("X"):
        vi, vk = T.axis.remap("SS", [i, k])
        X[vi, vk] = A[vi, vk]
for i, k in T.grid(5, 7):
    with T.block("C"):
        vi, vk = T.axis.remap("SR", [i, k])
        with T.init():
            C[vi] = {first}
        C[vi] = {combine.format("C[vi]", term)}
for i in range(5):
    with T.block("D"):
        vi = T.axis.spatial(5, i)
        D[vi] = C[vi]
""",
        A="(5, 7)",
        S="(5,)",
        D="(5,)",
    )


def test_terms_that_are_not_zero_beyond_the_axis() -> None:
    func = reduced("X[vi, vk] * X[vi, vk]")
    sch = Schedule(func, seed=0)
    sch.pad_einsum("C", [1, 4])
    assert_same(func, sch.func)
    for term in ("X[vi, vk] * S[vi]", "(X[vi, vk] + T.float32(1))", "T.exp(X[vi, vk])"):
        with pytest.raises(LayoutError, match="is not known to be 0 where 'vk' is beyond its end"):
            Schedule(reduced(term), seed=0).pad_einsum("C", [1, 4])
    largest = reduced("X[vi, vk]", 'T.min_value("float32")', "T.max({}, {})")
    with pytest.raises(NotReductionBlockError, match="'C' is no sum; more terms"):
        Schedule(largest, seed=0).pad_einsum("C", [1, 4])


def test_one_zero_is_enough_of_integers() -> None:
    a, b = te.placeholder((5, 7), "int8", name="A"), te.placeholder((9, 6), "int8", name="B")
    k = te.reduce_axis((0, 7), "k")
    product = te.compute(
        (5, 6),
        lambda i, j: te.sum(cast(a[i, k], "int32") * cast(b[k, j], "int32"), axis=[k]),
        name="C",
    )
    sch = Schedule(te.create_prim_func([a, b, product]), seed=0)
    sch.cache_write("C", 0, "global")
    before = sch.func
    with pytest.raises(LayoutError, match="'A' would be read out of bounds"):
        sch.pad_einsum("C", [1, 1, 2])
    sch.cache_read("C", 0, "global")
    sch.pad_einsum("C", [1, 1, 2])
    assert [sch.get(loop).extent.value for loop in sch.get_loops("C")] == [5, 6, 8]
    assert_same(before, sch.func)
    # The other one is read, and has to be there.
    with pytest.raises(LayoutError):
        sch.pad_einsum("C", [1, 1, 16])


def test_axes_of_one_element_grow() -> None:
    a, b = te.placeholder((1, 1), name="A"), te.placeholder((1, 6), name="B")
    k = te.reduce_axis((0, 1), "k")
    c = te.compute((1, 6), lambda i, j: te.sum(a[i, k] * b[k, j], axis=[k]), name="C")
    func = te.create_prim_func([a, b, c])
    sch = Schedule(func, seed=0)
    sch.cache_read("C", 0, "global")
    sch.cache_read("C", 1, "global")
    sch.cache_write("C", 0, "global")
    sch.pad_einsum("C", [4, 1, 4])
    assert_same(func, sch.func)


def test_zeros_of_a_padded_layout_are_known() -> None:
    func = reduced("X[vi, vk]")
    sch = Schedule(func, seed=0)
    sch.transform_layout("X", "X", lambda i, k: (k, i), pad_value=0)
    sch.pad_einsum("X", [1, 1])
    sch.pad_einsum("C", [1, 8])
    sch.pad_einsum("C", [4, 8])
    assert_same(func, sch.func)


def test_loops_with_other_blocks_under_them_are_not_grown() -> None:
    sch = packed()
    sch.decompose_reduction("Y", sch.get_loops("Y")[2])
    with pytest.raises(NonAffineError, match=r"The loop 'j' .* also runs 'Y_update'"):
        sch.pad_einsum("Y_init", [1, 4])


USE_B = """
for i in range(10):
    with T.block("C"):
        vi = T.axis.spatial(10, i)
        C[vi] = B[vi]
"""


def test_a_predicate_is_not_padded() -> None:
    func = program(
        """
B = T.alloc_buffer((10,))
for i in range(10):
    with T.block("B"):
        vi = T.axis.spatial(10, i)
        T.where(i < 9)
        B[vi] = A[vi]
"""
        + USE_B,
        A="(16,)",
        C="(10,)",
    )
    with pytest.raises(NonAffineError, match="The block 'B' has a predicate"):
        Schedule(func, seed=0).pad_einsum("B", [16])


def test_several_outputs_are_not_padded() -> None:
    func = program(
        """
B = T.alloc_buffer((10,))
D = T.alloc_buffer((10,))
for i in range(10):
    with T.block("B"):
        vi = T.axis.spatial(10, i)
        B[vi] = A[vi]
        D[vi] = A[vi]
"""
        + USE_B,
        A="(16,)",
        C="(10,)",
    )
    with pytest.raises(ScheduleValueError, match="The block 'B' writes 2 buffers; expected one"):
        Schedule(func, seed=0).pad_einsum("B", [16])


def test_an_axis_must_index_a_dimension_by_itself() -> None:
    func = program(
        """
B = T.alloc_buffer((20,))
for i in range(10):
    with T.block("B"):
        vi = T.axis.spatial(10, i)
        B[vi * 2] = A[vi]
"""
        + USE_B,
        A="(16,)",
        C="(10,)",
    )
    with pytest.raises(NonAffineError, match="'vi' does not index one dimension of 'B' by itself"):
        Schedule(func, seed=0).pad_einsum("B", [16])


PART = """
@T.prim_func
def main(A: T.Buffer((5, 8), "float32"), C: T.Buffer((5, 8), "float32")):
    B = T.alloc_buffer((5, 8), "float32")
    for i, j in T.grid(5, 3):
        with T.block("left"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = T.float32(1)
    for i, j in T.grid(5, 5):
        with T.block("right"):
            vi = T.axis.spatial(5, i)
            vj = T.axis.spatial((3, 8), j + 3)
            B[vi, vj] = T.float32(2)
    for i, j in T.grid(5, 8):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] + A[vi, vj]
"""


def test_an_axis_over_a_part_of_a_buffer_does_not_grow() -> None:
    sch = Schedule(parse_func(PART), seed=0)
    with pytest.raises(LayoutError, match="'vj' runs over a part of dimension 1 of 'B'"):
        sch.pad_einsum("left", [1, 5])


def test_axes_that_do_not_grow_keep_their_domains() -> None:
    func = parse_func(PART)
    sch = Schedule(func, seed=0)
    sch.pad_einsum("right", [4, 1])
    assert "T.axis.spatial((3, 8), j + 3)" in body(sch.func)
    assert_same(func, sch.func)


SUMS_OF_A_BIAS = """
Y = T.alloc_buffer((10,))
for i, k in T.grid(10, 4):
    with T.block("Y"):
        vi, vk = T.axis.remap("SR", [i, k])
        with T.init():
            Y[vi] = S[vi]
        Y[vi] = Y[vi] + A[vk]
for i in range(10):
    with T.block("Z"):
        vi = T.axis.remap("S", [i])
        Z[vi] = Y[vi]
"""

TWO_STORES = """
Y = T.alloc_buffer((8, 8))
for i in range(8):
    with T.block("Y"):
        vi = T.axis.remap("S", [i])
        Y[vi, 0] = T.float32(1)
        Y[7 - vi, 1] = T.float32(2)
for i in range(8):
    with T.block("Z"):
        vi = T.axis.remap("S", [i])
        Z[vi] = Y[vi, 0] + Y[vi, 1]
"""


def test_what_an_init_reads_must_reach_as_far() -> None:
    sch = Schedule(program(SUMS_OF_A_BIAS, A="(4,)", S="(10,)", Z="(10,)"), seed=0)
    with pytest.raises(LayoutError, match="'S' would be read out of bounds"):
        sch.pad_einsum("Y", [16, 1])


def test_every_store_must_grow_with_the_axis() -> None:
    sch = Schedule(program(TWO_STORES, Z="(8,)"), seed=0)
    with pytest.raises(NonAffineError, match="'vi' does not index one dimension of 'Y' by itself"):
        sch.pad_einsum("Y", [16])
