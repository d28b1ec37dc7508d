from __future__ import annotations

import numpy as np
import pytest

from burnish.support.errors import (
    DependenceError,
    LayoutError,
    ScheduleValueError,
    TensorizeError,
)
from burnish.support.structural import assert_structural_equal
from burnish.tensorir.function import PrimFunc
from burnish.tensorir.schedule import Schedule, TensorIntrin, tensor_intrin
from burnish.tensorir.text.parser import parse_func
from burnish.tensorir.text.printer import print_func
from burnish.tensorir.verify.laws import verify_func
from burnish.tensorir.verify.regions import verify_regions
from burnish.tests.native import call_native
from burnish.tests.tensorir.schedule.programs import assert_same, body, matmul
from burnish.tests.tensorir.schedule.replaying import assert_replays


@pytest.fixture(autouse=True)
def _registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test registers ends with it."""
    known = dict(tensor_intrin._REGISTERED)
    monkeypatch.setattr(tensor_intrin, "_REGISTERED", known)


def rows(m: int = 12, n: int = 32, k: int = 9, lanes: int = 16) -> tuple[PrimFunc, Schedule]:
    """A product whose innermost loop is a row of ``lanes``."""
    func = matmul(m, n, k)
    sch = Schedule(func, seed=0)
    i, j, r = sch.get_loops("C")
    j_0, j_1 = sch.split(j, [None, lanes])
    sch.reorder(i, j_0, r, j_1)
    return func, sch


def checked(before: PrimFunc, sch: Schedule) -> str:
    after = verify_regions(verify_func(sch.func))
    assert_structural_equal(parse_func(after.script()), after)
    assert_same(before, after)
    assert_replays(before, sch)
    return body(after)


def product(func: PrimFunc, m: int, n: int, k: int, threads: int = 1) -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, s).astype("float32") for s in ((m, k), (k, n)))
    c = np.full((m, n), np.nan, "float32")
    call_native(func, a, b, c, threads=threads)
    np.testing.assert_array_equal(c, a @ b)


@pytest.mark.parametrize("lanes", [4, 8, 16])
@pytest.mark.parametrize("keep", [True, False])
def test_a_row_of_a_product(lanes: int, keep: bool) -> None:
    func, sch = rows(lanes=lanes)
    sch.tensorize(sch.get_loops("C")[3], f"fma_f32_{lanes}x", keep)
    text = checked(func, sch)
    assert f"for j in T.vectorized({lanes}):" in text
    assert "T.init()" in text
    product(sch.func, 12, 32, 9)


def test_a_micro_kernel_of_intrinsics() -> None:
    func, sch = rows(12, 32, 10)
    i, j_0, r, j_1 = sch.get_loops("C")
    i_0, i_1 = sch.split(i, [None, 4])
    sch.reorder(i_0, j_0, r, i_1, j_1)
    init = sch.decompose_reduction("C", r)
    sch.tensorize(j_1, "fma_f32_16x")
    sch.tensorize(sch.get_loops(init)[-1], "fill_f32_16x")
    sch.unroll(i_1)
    sch.parallel(i_0)
    assert checked(func, sch).count("T.match_buffer") == 4
    product(sch.func, 12, 32, 10, threads=2)


def test_bytes_by_dot_products() -> None:
    """A product of uint8 and int8 over a packed operand: 16 sums of 4 products at a time."""
    func = parse_func("""
@T.prim_func
def main(
    A: T.Buffer((5, 12), "uint8"),
    B: T.Buffer((2, 3, 16, 4), "int8"),
    C: T.Buffer((5, 32), "int32"),
):
    for i, j, k in T.grid(5, 32, 12):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = 0
            C[vi, vj] = C[vi, vj] + T.Cast("int32", A[vi, vk]) * T.Cast(
                "int32", B[vj // 16, vk // 4, vj % 16, vk % 4]
            )
""")
    sch = Schedule(func, seed=0)
    i, j, k = sch.get_loops("C")
    j_0, j_1 = sch.split(j, [None, 16])
    k_0, k_1 = sch.split(k, [None, 4])
    sch.reorder(i, j_0, k_0, j_1, k_1)
    sch.tensorize(j_1, "dot_u8i8i32_16x4")
    assert "T.match_buffer(B[vj_o, vk_o, 0:16, 0:4], (16, 4)" in checked(func, sch)
    rng = np.random.default_rng(0)
    a = rng.integers(0, 256, (5, 12)).astype("uint8")
    b = rng.integers(-128, 128, (12, 32)).astype("int8")
    packed = np.ascontiguousarray(b.reshape(3, 4, 2, 16).transpose(2, 0, 3, 1))
    c = np.zeros((5, 32), "int32")
    call_native(sch.func, a, packed, c)
    np.testing.assert_array_equal(c, a.astype("int32") @ b.astype("int32"))


def test_twice_in_one_function() -> None:
    func = parse_func("""
@T.prim_func
def main(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4, 8), "float32")):
    for i, j in T.grid(4, 8):
        with T.block("A"):
            vi, vj = T.axis.remap("SS", [i, j])
            A[vi, vj] = T.float32(0)
    for i, j in T.grid(4, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = T.float32(0)
""")
    sch = Schedule(func, seed=0)
    for name in ("A", "B"):
        sch.tensorize(sch.get_loops(name)[1], "fill_f32_8x")
    text = checked(func, sch)
    assert 'with T.block("fill"):' in text
    assert 'with T.block("fill_1"):' in text


def test_a_block_that_is_blockized_already() -> None:
    func, sch = rows()
    outer = sch.blockize(sch.get_loops("C")[3])
    sch.tensorize(outer, "fma_f32_16x")
    _, direct = rows()
    direct.tensorize(direct.get_loops("C")[3], "fma_f32_16x")
    assert_structural_equal(sch.func, direct.func)
    checked(func, sch)


COLUMN = """
@T.prim_func
def main(x: T.handle, y: T.handle):
    s = T.int64()
    o = T.int64()
    X = T.match_buffer(x, (4,), "float32"{layout})
    Y = T.match_buffer(y, (4,), "float32")
    for k in range(4):
        with T.block("column"):
            vk = T.axis.spatial(4, k)
            Y[vk] = {value}
"""


def column_func() -> PrimFunc:
    return parse_func("""
@T.prim_func
def main(A: T.Buffer((8, 6), "float32"), B: T.Buffer((6, 8), "float32")):
    for i, j in T.grid(6, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vj, vi]
""")


def test_an_operand_that_is_a_column() -> None:
    """A view may take away any dimension; strides and offset that are variables get values."""
    desc = parse_func(COLUMN.format(layout="", value="X[vk]"))
    impl = parse_func(
        COLUMN.format(
            layout=", strides=[s], elem_offset=o",
            value='X[vk] + T.Cast("float32", s - 6 + (o - o))',
        )
    )
    TensorIntrin.register("test_column", desc, impl, override=True)
    func = column_func()
    sch = Schedule(func, seed=0)
    _, j = sch.get_loops("B")
    sch.tensorize(sch.split(j, [None, 4])[1], "test_column")
    text = checked(func, sch)
    assert "T.match_buffer(A[vj_o * 4:vj_o * 4 + 4, vi_o]" in text
    a = np.arange(48, dtype="float32").reshape(8, 6)
    b = np.full((6, 8), np.nan, "float32")
    call_native(sch.func, a, b)
    np.testing.assert_array_equal(b, a.T)


def test_a_fixed_stride_must_be_that_of_the_operand() -> None:
    desc = parse_func(COLUMN.format(layout="", value="X[vk]"))
    impl = parse_func(COLUMN.format(layout=", strides=[1]", value="X[vk]"))
    TensorIntrin.register("test_compact", desc, impl, override=True)
    sch = Schedule(column_func(), seed=0)
    inner = sch.split(sch.get_loops("B")[1], [None, 4])[1]
    before = sch.func
    with pytest.raises(LayoutError, match="'test_compact' needs a stride of 1 in 'X'; 'A' has"):
        sch.tensorize(inner, "test_compact")
    assert sch.func is before


def test_the_first_difference_is_shown() -> None:
    _, sch = rows()
    before = sch.func
    with pytest.raises(TensorizeError, match="First difference") as caught:
        sch.tensorize(sch.get_loops("C")[3], "fma_f32_8x")
    text = str(caught.value)
    assert "the extent of the loop 'j_1': expected '8', found '16'." in text
    assert "The description:" in text
    assert 'with T.block("update"):' in text
    assert sch.func is before


def test_a_predicate_is_a_difference() -> None:
    _, sch = rows(n=30)
    with pytest.raises(TensorizeError, match="the predicate of the block 'C'"):
        sch.tensorize(sch.get_loops("C")[3], "fma_f32_16x")


def test_unknown_names_are_told_apart() -> None:
    _, sch = rows()
    with pytest.raises(ScheduleValueError, match=r"no tensor intrinsic 'fma_f32_17x'.*fma_f32_1"):
        sch.tensorize(sch.get_loops("C")[3], "fma_f32_17x")


def test_a_written_operand_is_no_other() -> None:
    func = parse_func("""
@T.prim_func
def main(A: T.Buffer((2, 8), "float32")):
    for i in range(1):
        for j in range(8):
            with T.block("A"):
                vj = T.axis.spatial(8, j)
                A[1, vj] = A[1, vj] + A[1, 0] * A[0, vj]
""")
    sch = Schedule(func, seed=0)
    with pytest.raises(DependenceError, match="would both lie in 'A', and one of them is written"):
        sch.tensorize(sch.get_loops("A")[1], "fma_f32_8x")


def test_an_implementation_stays_in_what_the_block_declares() -> None:
    """The description touches half of its operand, the implementation all of it."""
    text = """
@T.prim_func
def main(X: T.Buffer((8,), "float32")):
    for k in range({extent}):
        with T.block("fill"):
            vk = T.axis.spatial({extent}, k)
            X[vk] = T.float32(1)
"""
    half, whole = parse_func(text.format(extent=4)), parse_func(text.format(extent=8))
    TensorIntrin.register("test_half", half, whole, override=True)
    func = parse_func(text.format(extent=8))
    sch = Schedule(func, seed=0)
    inner = sch.split(sch.get_loops("fill")[0], [None, 4])[1]
    with pytest.raises(LayoutError, match="would reach beyond what the block 'fill_o' declares"):
        sch.tensorize(inner, "test_half")


def test_the_text_of_a_tensorized_function_is_a_program() -> None:
    func, sch = rows()
    sch.tensorize(sch.get_loops("C")[3], "fma_f32_16x")
    again = parse_func(print_func(sch.func))
    product(again, 12, 32, 9)
    assert_same(func, again)
