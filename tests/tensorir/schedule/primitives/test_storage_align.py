from __future__ import annotations

import numpy as np
import pytest

from burnish.support.errors import ScheduleValueError
from burnish.tensorir.expr import Var
from burnish.tensorir.function import PrimFunc
from burnish.tensorir.schedule import Schedule
from burnish.tensorir.te import compute as te
from burnish.tensorir.text.parser import parse_func
from burnish.tests.native import call_native, lower
from burnish.tests.tensorir.schedule.programs import assert_same, chain, matmul
from burnish.tests.tensorir.schedule.replaying import assert_replays


def transposed(m: int | Var, n: int | Var) -> PrimFunc:
    a = te.placeholder((m, n), name="A")
    b = te.compute((m, n), lambda i, j: a[i, j] * 2.0, name="B")
    c = te.compute((n, m), lambda i, j: b[j, i] + 1.0, name="C")
    return te.create_prim_func([a, c])


def lowered_text(func: PrimFunc) -> str:
    return lower(func).func.script()


@pytest.mark.parametrize(
    ("axis", "factor", "offset", "index", "size"),
    [
        (0, 32, 8, "i * 40 + j", 240),
        (0, 5, 1, "i * 36 + j", 216),
        (-2, 8, 0, "i * 32 + j", 192),
        (-1, 4, 3, "i * 96 + j * 3", 576),
    ],
)
def test_the_stride_is_padded(axis: int, factor: int, offset: int, index: str, size: int) -> None:
    func = transposed(6, 32)
    sch = Schedule(func, seed=0)
    sch.storage_align("B", 0, axis, factor, offset)
    text = lowered_text(sch.func)
    assert f"B = T.allocate([{size}]" in text
    assert f"B[{index}] = " in text
    assert_replays(func, sch)
    assert_same(func, sch.func)
    check(func, sch.func, (6, 32), (32, 6))


def test_the_tile_that_compute_at_makes_is_padded() -> None:
    func = transposed(64, 64)
    sch = Schedule(func, seed=0)
    sch.storage_align("B", "B", 0, 32, 12)
    i, j = sch.get_loops("C")
    i0, i1 = sch.split(i, [None, 8])
    j0, j1 = sch.split(j, [None, 4])
    sch.reorder(i0, j0, i1, j1)
    sch.compute_at("B", j0)
    sch.vectorize(sch.get_loops("B")[-1])
    text = lowered_text(sch.func)
    assert "B = T.allocate([48]" in text
    assert "B[j_1 * 12 + i_1]" in text
    assert_replays(func, sch)
    check(func, sch.func, (64, 64), (64, 64))


@pytest.mark.parametrize("sizes", [(0, 5), (5, 0), (3, 24), (7, 40)])
def test_symbolic_strides_of_a_buffer_that_may_be_empty(sizes: tuple[int, int]) -> None:
    func = transposed(Var("m"), Var("n"))
    sch = Schedule(func, seed=0)
    sch.storage_align("B", 0, 0, 32, 8)
    assert "T.allocate([m * (n + (8 - n) % 32)]" in lowered_text(sch.func)
    m, n = sizes
    check(func, sch.func, (m, n), (n, m), dims=sizes)


def test_two_axes_and_a_second_wish() -> None:
    a = te.placeholder((3, 4, 5), name="A")
    b = te.compute((3, 4, 5), lambda *i: a[i] + 1.0, name="B")
    c = te.compute((3, 4, 5), lambda i, j, k: b[2 - i, 3 - j, 4 - k], name="C")
    func = te.create_prim_func([a, c])
    sch = Schedule(func, seed=0)
    sch.storage_align("B", 0, 1, 2, 1)
    sch.storage_align("B", 0, 1, 8, 1)
    sch.storage_align("B", 0, 0, 8, 4)
    annotations = dict(sch.get(sch.get_block("B")).annotations)
    assert annotations == {"buffer_dim_align": [[0, 0, 8, 4], [0, 1, 8, 1]]}
    assert "B[i0 * 36 + i1 * 9 + i2] = " in lowered_text(sch.func)
    assert_replays(func, sch)
    check(func, sch.func, (3, 4, 5), (3, 4, 5))


def test_the_final_block_of_rfactor_keeps_the_alignment() -> None:
    a = te.placeholder((4, 6, 8), name="A")
    k = te.reduce_axis((0, 8), "k")
    s = te.compute((4, 6), lambda i, j: te.sum(a[i, j, k], axis=[k]), name="S")
    d = te.compute((6, 4), lambda i, j: s[j, i] * 2.0, name="D")
    func = te.create_prim_func([a, d])
    sch = Schedule(func, seed=0)
    sch.storage_align("S", 0, 0, 8, 1)
    init = sch.copy()
    partial = sch.rfactor(sch.get_loops("S")[2], 0)
    assert not sch.get(partial).annotations
    text = lowered_text(sch.func)
    assert "S = T.allocate([36]" in text
    assert "S_rf = T.allocate([192]" in text
    check(func, sch.func, (4, 6, 8), (6, 4))
    init.decompose_reduction("S", init.get_loops("S")[0])
    assert "S = T.allocate([36]" in lowered_text(init.func)
    check(func, init.func, (4, 6, 8), (6, 4))


def test_registers_are_padded() -> None:
    func = chain(4, 4)
    sch = Schedule(func, seed=0)
    sch.storage_align("B", 0, 0, 8, 1)
    sch.set_scope("B", 0, "register")
    for block in ("B", "C"):
        for loop in sch.get_loops(block):
            sch.unroll(loop)
    assert "B = T.allocate([36]" in lowered_text(sch.func)
    check(func, sch.func, (4, 4), (4, 4))


# -- refusals --------------------------------------------------------------------------------------
def test_what_cannot_be_aligned() -> None:
    sch = Schedule(chain(), seed=0)
    before = sch.func
    with pytest.raises(ScheduleValueError, match="The buffer 'C' is a parameter; its layout is"):
        sch.storage_align("C", 0, 0, 8, 1)
    with pytest.raises(ScheduleValueError, match="Expected an axis from -2 to 1 of 'B'; found 2"):
        sch.storage_align("B", 0, 2, 8, 1)
    with pytest.raises(ScheduleValueError, match="an offset from 0 to below it; found 8 and 8"):
        sch.storage_align("B", 0, 0, 8, 8)
    with pytest.raises(ScheduleValueError, match="found 0 and 0"):
        sch.storage_align("B", 0, 0, 0, 0)
    with pytest.raises(ScheduleValueError, match="Expected an integer as factor; found float"):
        sch.storage_align("B", 0, 0, 8.0, 0)  # type: ignore[arg-type]
    with pytest.raises(ScheduleValueError, match="writes no buffer 'B'; it writes 'C'"):
        sch.storage_align("C", "B", 0, 8, 0)
    with pytest.raises(ScheduleValueError, match=r"has 1 write buffers .'B'.; asked for number 1"):
        sch.storage_align("B", 1, 0, 8, 1)
    assert sch.func is before


def test_two_writers_agree() -> None:
    sch = Schedule(matmul(), seed=0)
    sch.cache_write("C", 0, "global")
    init = sch.decompose_reduction("C", sch.get_loops("C")[2])
    sch.storage_align("C_update", 0, 0, 32, 8)
    sch.storage_align(init, 0, 0, 32, 8)
    with pytest.raises(ScheduleValueError, match="'C_update', which writes 'C_global' too, asks"):
        sch.storage_align(init, 0, 0, 16, 1)


def test_strides_of_its_own() -> None:
    func = parse_func("""
@T.prim_func
def main(A: T.Buffer((4,), "float32"), C: T.Buffer((4,), "float32")):
    B = T.alloc_buffer((4,), strides=[2])
    for i in range(4):
        with T.block("B"):
            vi = T.axis.spatial(4, i)
            B[vi] = A[vi]
    for i in range(4):
        with T.block("C"):
            vi = T.axis.spatial(4, i)
            C[vi] = B[vi]
""")
    with pytest.raises(ScheduleValueError, match="The buffer 'B' has strides of its own"):
        Schedule(func, seed=0).storage_align("B", 0, 0, 4, 1)


# -- numbers ---------------------------------------------------------------------------------------
def check(
    before: PrimFunc,
    after: PrimFunc,
    shape: tuple[int, ...],
    out: tuple[int, ...],
    dims: tuple[int, ...] = (),
) -> None:
    """Both functions give the same numbers natively."""
    a = np.random.default_rng(3).standard_normal(shape).astype("float32")
    results = [np.full(out, np.nan, "float32") for _ in range(2)]
    for func, result in zip((before, after), results, strict=True):
        call_native(func, a, result, dims=dims)
    np.testing.assert_allclose(*results, rtol=1e-5)
