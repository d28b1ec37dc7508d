from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from burnish.support.errors import (
    DependenceError,
    LayoutError,
    LoopKindError,
    NotCompleteBlockError,
    ScheduleError,
)
from burnish.tensorir.expr import IntImm, Var
from burnish.tensorir.function import PrimFunc
from burnish.tensorir.schedule import Schedule
from burnish.tensorir.stmt import Block
from burnish.tensorir.te import compute as te
from burnish.tensorir.text.parser import parse_func
from burnish.tensorir.verify.laws import verify_func
from burnish.tests.native import call_native, load_native, lower
from burnish.tests.tensorir.interpreter import Interpreter, unwritten
from burnish.tests.tensorir.schedule.programs import assert_same, blur, body, chain
from burnish.tests.tensorir.schedule.replaying import assert_replays, assert_same_natively


# -- programs --------------------------------------------------------------------------------------
def blur_rows(n: int | Var = 12, m: int = 8) -> PrimFunc:
    """A pointwise block and a 3 x 3 window over it."""
    a = te.placeholder((n + 2, m + 2), name="A")
    b = te.compute((n + 2, m + 2), lambda i, j: a[i, j] * 2.0, name="B")
    r, s = te.reduce_axis((0, 3), "r"), te.reduce_axis((0, 3), "s")
    c = te.compute((n, m), lambda i, j: te.sum(b[i + r, j + s], axis=[r, s]), name="C")
    return te.create_prim_func([a, c])


def conv_pool(images: int = 2, rows: int = 12, columns: int = 8) -> PrimFunc:
    """A convolution of 3 x 3, and the largest of 3 x 1 neighbours of it, rows overlapping."""
    a = te.placeholder((images, rows + 4, columns + 2), name="A")
    w = te.placeholder((3, 3), name="W")
    r, s, p = (te.reduce_axis((0, 3), n) for n in "rsp")
    conv = te.compute(
        (images, rows + 2, columns),
        lambda n, i, j: te.sum(a[n, i + r, j + s] * w[r, s], axis=[r, s]),
        name="conv",
    )
    pool = te.compute(
        (images, rows, columns), lambda n, i, j: te.max(conv[n, i + p, j], axis=[p]), name="pool"
    )
    return te.create_prim_func([a, w, pool])


def three_stencils(n: int = 16) -> PrimFunc:
    a = te.placeholder((n + 4,), name="A")
    b = te.compute((n + 4,), lambda i: a[i] * 2.0, name="B")
    c = te.compute((n + 2,), lambda i: b[i] + b[i + 2], name="C")
    d = te.compute((n,), lambda i: c[i] - c[i + 2] + c[i + 1], name="D")
    return te.create_prim_func([a, d])


# -- what is computed ------------------------------------------------------------------------------
class _Counting(Interpreter):
    """Counts how many elements each block begins."""

    def __init__(self, func: PrimFunc, args: tuple[np.ndarray, ...]) -> None:
        super().__init__(func, args)
        self.elements: Counter[str] = Counter()

    def realize(self, block: Block, values: list[int]) -> None:
        reduced = [v for it, v in zip(block.iter_vars, values, strict=True) if it.kind == "reduce"]
        self.elements[block.name] += not any(reduced)
        super().realize(block, values)


def elements(func: PrimFunc, block: str, *sizes: int) -> int:
    """How many elements a block computes."""
    dims = dict(zip(func.shape_vars, sizes, strict=True))
    arrays = []
    for b in func.buffers:
        known = [
            d.value if isinstance(d, IntImm) else dims.get(d, sum(sizes) + 2)  # type: ignore[call-overload]
            for d in b.shape
        ]
        array = unwritten(tuple(known), str(b.dtype))
        if b not in func.written:
            array[...] = 1
        arrays.append(array)
    counting = _Counting(func, tuple(arrays))
    counting.execute(func.body)
    return counting.elements[block]


def finish(func: PrimFunc, sch: Schedule, *sizes: int) -> None:
    assert_same(func, sch.func, *sizes)
    assert_replays(func, sch)
    assert_same_natively(func, sch.func, *sizes)


# -- rolling ---------------------------------------------------------------------------------------
def tiled_blur(n: int = 16, tile: int = 4) -> Schedule:
    sch = Schedule(blur(n), seed=0)
    i0, _ = sch.split(sch.get_loops("C")[0], [None, tile])
    sch.compute_at("B", i0)
    return sch


def test_a_stencil_computes_each_element_once() -> None:
    func = blur(16)
    sch = tiled_blur()
    assert elements(sch.func, "B") == 24
    sch.rolling_buffer("B", 0)
    assert elements(sch.func, "B") == 18
    text = body(sch.func)
    assert "B = T.alloc_buffer((6,))" in text
    assert "T.where(i_0 < 1 or ax0 >= 2)" in text
    assert "C[v_i] = B[v_i % 6] + B[(v_i + 1) % 6] + B[(v_i + 2) % 6]" in text
    assert "B = T.allocate([6]" in lower(sch.func).func.script()
    finish(func, sch)


@settings(max_examples=12, deadline=None, derandomize=True)
@given(st.integers(1, 17), st.integers(1, 6))
def test_any_tile_computes_each_element_once(n: int, tile: int) -> None:
    func = blur(n)
    sch = tiled_blur(n, tile)
    try:
        sch.rolling_buffer("B", 0)
    except DependenceError:
        assert tile >= n
        return
    assert elements(sch.func, "B") == n + 2
    finish(func, sch)


def test_two_dimensions_roll() -> None:
    func = blur_rows(12, 8)
    sch = Schedule(func, seed=0)
    i, j, r, s = sch.get_loops("C")
    i0, i1 = sch.split(i, [None, 4])
    j0, j1 = sch.split(j, [None, 4])
    sch.reorder(i0, j0, i1, j1, r, s)
    sch.compute_at("B", j0)
    assert elements(sch.func, "B") == 3 * 2 * 36
    sch.rolling_buffer("B", 0)
    assert elements(sch.func, "B") == 14 * 10
    text = body(sch.func)
    assert "B = T.alloc_buffer((6, 10))" in text
    assert "T.where((i_0 < 1 or ax0 >= 2) and (j_0 < 1 or ax1 >= 2))" in text
    finish(func, sch)
    sch.vectorize(sch.get_loops("B")[-1])
    sch.decompose_reduction("C", r)
    finish(func, sch)


def test_columns_outside_of_rows_roll_on_their_own_loop() -> None:
    func = blur_rows(12, 8)
    sch = Schedule(func, seed=0)
    i, j, r, s = sch.get_loops("C")
    j0, j1 = sch.split(j, [None, 4])
    sch.reorder(j0, i, j1, r, s)
    sch.compute_at("B", i)
    sch.rolling_buffer("B", 0)
    assert "B = T.alloc_buffer((14, 6))" in body(sch.func)
    assert elements(sch.func, "B") == 14 * 10
    finish(func, sch)


def test_rows_of_a_convolution_before_pooling() -> None:
    func = conv_pool()
    sch = Schedule(func, seed=0)
    n, i, j, p = sch.get_loops("pool")
    i0, i1 = sch.split(i, [None, 3])
    sch.compute_at("conv", i0)
    assert elements(sch.func, "conv") == 2 * 4 * 5 * 8
    sch.parallel(n)
    sch.rolling_buffer("conv", 0)
    assert elements(sch.func, "conv") == 2 * 14 * 8
    *_, ax0, ax1, r, s = sch.get_loops("conv")
    sch.reorder(ax0, r, s, ax1)
    sch.vectorize(ax1)
    sch.decompose_reduction("conv", r)
    sch.reorder(i1, p, j)
    sch.vectorize(j)
    assert elements(sch.func, "conv_init") == 2 * 14 * 8
    finish(func, sch)
    text = lower(sch.func).func.script()
    allocate = next(line for line in text.splitlines() if "conv = T.allocate" in line)
    assert "[40]" in allocate  # five rows of an image
    assert text.index("T.parallel") < text.index("conv = T.allocate") < text.index("for i_0")


def test_each_image_has_a_circle_of_its_own() -> None:
    func = conv_pool(5, 9, 8)
    sch = Schedule(func, seed=0)
    n, i, *_ = sch.get_loops("pool")
    sch.compute_at("conv", i)
    sch.parallel(n)
    sch.rolling_buffer("conv", 0)
    dims_and_threads(func, sch.func, 3)
    finish(func, sch)


def dims_and_threads(before: PrimFunc, after: PrimFunc, threads: int) -> None:
    rng = np.random.default_rng(0)
    results = []
    for func in (before, after):
        rng = np.random.default_rng(0)
        arrays = []
        for b in func.buffers:
            shape = tuple([d.value for d in b.shape])  # type: ignore[attr-defined]
            arrays.append(rng.integers(-4, 5, shape).astype("float32"))
        load_native(func, *arrays, threads=threads)()
        results.append(arrays[-1])
    np.testing.assert_array_equal(*results)


def test_a_chain_of_circles() -> None:
    func = three_stencils()
    sch = Schedule(func, seed=0)
    i0, _ = sch.split(sch.get_loops("D")[0], [None, 4])
    sch.compute_at("C", i0)
    sch.compute_at("B", i0)
    sch.rolling_buffer("C", 0)
    sch.rolling_buffer("B", 0)
    assert [elements(sch.func, b) for b in "BCD"] == [20, 18, 16]
    finish(func, sch)


def test_the_loop_may_be_cut_and_unrolled_afterwards() -> None:
    func = blur(24)
    for change in (
        lambda sch, i0: sch.split(i0, [None, 2]),
        lambda sch, i0: sch.split(i0, [None, 5]),
        lambda sch, i0: sch.loop_partition(i0, [1, None]),
        lambda sch, i0: sch.unroll(i0),
        lambda sch, i0: sch.split(sch.get_loops("B")[-1], [None, 2]),
        lambda sch, i0: sch.vectorize(sch.get_loops("B")[-1]),
        lambda sch, i0: sch.vectorize(sch.get_loops("C")[-1]),
        lambda sch, i0: sch.storage_align("B", 0, 0, 4, 1),
    ):
        sch = tiled_blur(24, 4)
        sch.rolling_buffer("B", 0)
        change(sch, sch.get_loops("C")[0])
        assert_same(func, sch.func)
        finish(func, sch)


def test_what_needs_other_orders_is_refused_afterwards() -> None:
    sch = tiled_blur(24, 4)
    sch.rolling_buffer("B", 0)
    i0 = sch.get_loops("C")[0]
    before = sch.func
    for change in (
        lambda: sch.parallel(i0),
        lambda: sch.vectorize(i0),
        lambda: sch.compute_inline("B"),
        lambda: sch.cache_write("B", 0, "local"),
        lambda: sch.rolling_buffer("B", 0),
        lambda: sch.reindex("B", ("write", 0)),
    ):
        with pytest.raises(ScheduleError):
            change()
        assert sch.func is before


@pytest.mark.parametrize("size", [1, 3, 4, 9, 16])
def test_a_symbolic_number_of_rows(size: int) -> None:
    func = blur_rows(Var("n"), 8)
    sch = Schedule(func, seed=0)
    i, *_ = sch.get_loops("C")
    i0, _ = sch.split(i, [None, 4])
    sch.compute_at("B", i0)
    sch.rolling_buffer("B", 0)
    assert "B = T.alloc_buffer((6, 10))" in body(sch.func)
    assert_replays(func, sch)
    rng = np.random.default_rng(1)
    a = rng.integers(-8, 9, (size + 2, 10)).astype("float32")
    results = [np.full((size, 8), np.nan, "float32") for _ in range(2)]
    for f, result in zip((func, sch.func), results, strict=True):
        call_native(f, a, result, dims=(size,))
    np.testing.assert_array_equal(*results)


def test_a_circle_of_each_thread_in_a_loop_that_was_cut() -> None:
    func = conv_pool(5, 9, 8)
    sch = Schedule(func, seed=0)
    n, i, *_ = sch.get_loops("pool")
    sch.compute_at("conv", i)
    sch.parallel(n)
    sch.rolling_buffer("conv", 0)
    sch.loop_partition(i, [1, None])
    text = lower(sch.func).func.script()
    assert text.index("T.parallel") < text.index("conv = T.allocate") < text.index("i_p1")
    dims_and_threads(func, sch.func, 3)
    finish(func, sch)


# -- refusals --------------------------------------------------------------------------------------
def test_a_block_without_a_common_loop() -> None:
    sch = Schedule(blur(16), seed=0)
    before = sch.func
    with pytest.raises(
        DependenceError, match="No loop holds 'B' and all that read 'B'; compute_at"
    ):
        sch.rolling_buffer("B", 0)
    with pytest.raises(DependenceError, match="'C' is not allocated in the block around 'C'"):
        sch.rolling_buffer("C", 0)
    assert sch.func is before


def test_windows_that_do_not_overlap() -> None:
    sch = Schedule(chain(8, 6), seed=0)
    sch.compute_at("B", sch.get_loops("C")[0])
    with pytest.raises(DependenceError, match="No dimension of 'B' has windows that overlap"):
        sch.rolling_buffer("B", 0)


def test_windows_that_move_diagonally() -> None:
    a = te.placeholder((10, 10), name="A")
    b = te.compute((10, 10), lambda i, j: a[i, j] * 2.0, name="B")
    c = te.compute((8,), lambda i: b[i, i] + b[i + 2, i + 2], name="C")
    sch = Schedule(te.create_prim_func([a, c]), seed=0)
    sch.compute_at("B", sch.get_loops("C")[0])
    with pytest.raises(DependenceError, match="No dimension of 'B' has windows that overlap"):
        sch.rolling_buffer("B", 0)


def test_iterations_that_run_at_once() -> None:
    sch = tiled_blur()
    sch.parallel(sch.get_loops("C")[0])
    with pytest.raises(LoopKindError, match="The loop 'i_0' is parallel; its iterations take elem"):
        sch.rolling_buffer("B", 0)


def test_an_update_and_two_writers() -> None:
    sch = Schedule(conv_pool(), seed=0)
    sch.compute_at("conv", sch.get_loops("pool")[1])
    init = sch.decompose_reduction("conv", sch.get_loops("conv")[-2])
    with pytest.raises(NotCompleteBlockError, match="'conv_update' is not: its axis 'v_r' is red"):
        sch.rolling_buffer("conv_update", 0)
    with pytest.raises(DependenceError, match="'conv_update' writes 'conv' too"):
        sch.rolling_buffer(init, 0)


STENCIL = """
@T.prim_func
def main(A: T.Buffer((20,), "float32"), C: T.Buffer((16,), "float32")):
    B = T.alloc_buffer((18,))
    D = T.alloc_buffer((18,))
    for i_0 in range(4):
        for ax0 in range(6):
            with T.block("B"):
                v = T.axis.spatial(18, i_0 * 4 + ax0)
                PREDICATE
                B[v] = A[v] * T.float32(2)
        for i_1 in range(4):
            with T.block("C"):
                v = T.axis.spatial(16, i_0 * 4 + i_1)
                CONSUMER
"""


@pytest.mark.parametrize(
    ("predicate", "consumer", "error", "message"),
    [
        ("T.where(ax0 < 5)", "C[v] = B[v] + B[v + 2]",
         DependenceError, "cannot be proved that 'B' writes a whole window of 'B' in each"),
        ("T.where(i_0 * 4 + ax0 < 18)", "C[v] = B[v] + B[v + 3]",
         DependenceError, "cannot be proved that 'C' reads only what 'B' writes in the same"),
        ("T.where(i_0 * 4 + ax0 < 18)", "C[v] = B[v] + B[v + 2]\n                A[v + 1] = C[v]",
         DependenceError, "'C' writes 'A', which 'B' reads, while 'i_0' runs: elements of 'B'"),
        ("if i_0 > 0:\n                    D[v] = A[v]", "C[v] = B[v] + B[v + 2]",
         DependenceError, "'B' writes 2 buffers; only one can roll"),
        ("D[v] = A[v]", "C[v] = B[v] + B[v + 2]",
         DependenceError, "'B' writes 2 buffers; only one can roll"),
    ],
)  # fmt: skip
def test_what_cannot_be_proved(
    predicate: str, consumer: str, error: type[ScheduleError], message: str
) -> None:
    func = parse_func(STENCIL.replace("PREDICATE", predicate).replace("CONSUMER", consumer))
    with pytest.raises(error, match=message):
        Schedule(func, seed=0).rolling_buffer("B", 0)


def test_a_consumer_under_a_condition() -> None:
    text = STENCIL.replace("PREDICATE", "T.reads(A[v])").replace(
        "CONSUMER", "C[v] = B[v] + B[v + 2]"
    )
    old = text[text.index('            with T.block("C")') :]
    new = "            if i_1 < 3:\n" + "".join(f"    {line}\n" for line in old.splitlines())
    with pytest.raises(DependenceError, match="'C' stands under a condition"):
        Schedule(parse_func(text.replace(old, new)), seed=0).rolling_buffer("B", 0)


def test_strides_are_no_circle() -> None:
    text = STENCIL.replace("PREDICATE\n", "T.reads(A[v])\n").replace("CONSUMER", "C[v] = B[v]")
    func = parse_func(
        text.replace("B = T.alloc_buffer((18,))", "B = T.alloc_buffer((18,), strides=[2])")
    )
    with pytest.raises(LayoutError, match="'B' has strides or a view"):
        Schedule(func, seed=0).rolling_buffer("B", 0)


def test_a_user_of_a_circle_stays_where_it_is() -> None:
    sch = Schedule(three_stencils(), seed=0)
    sch.compute_at("B", sch.get_loops("C")[0])
    sch.rolling_buffer("B", 0)
    before = sch.func
    message = "'C' uses the circular buffer 'B' and may not leave the iteration it stands in"
    for change in (
        lambda: sch.compute_at("C", sch.get_loops("D")[0]),
        lambda: sch.compute_inline("C"),
        lambda: sch.reverse_compute_at("C", sch.get_loops("D")[0]),
    ):
        with pytest.raises(DependenceError, match=message):
            change()
    assert sch.func is before


def test_lookups_in_declared_regions_go_round_the_circle_too() -> None:
    func = parse_func(
        """
@T.prim_func
def main(I: T.Buffer((9,), "int64"), E: T.Buffer((10,), "float32"), Y: T.Buffer((8,), "float32")):
    J = T.alloc_buffer((9,), "int64")
    for i in range(8):
        for k in range(2):
            with T.block("J"):
                v = T.axis.spatial(9, i + k)
                J[v] = T.min(T.max(I[v], T.int64(0)), T.int64(9))
        with T.block("Y"):
            v = T.axis.spatial(8, i)
            Y[v] = E[J[v]] + E[J[v + 1]]
"""
    )
    sch = Schedule(func, seed=0)
    sch.rolling_buffer("J", 0)
    verify_func(sch.func)
    assert "J_1" not in body(sch.func)
    assert_same(func, sch.func)


def test_a_user_of_a_copy_of_a_circle_stays_too() -> None:
    sch = Schedule(three_stencils(), seed=0)
    sch.compute_at("B", sch.get_loops("C")[0])
    sch.rolling_buffer("B", 0)
    sch.cache_read("C", "B", "global")
    message = "'C' uses a copy of the circular buffer 'B' and may not leave the iteration"
    with pytest.raises(DependenceError, match=message):
        sch.compute_at("C", sch.get_loops("D")[0])
    assert_same(three_stencils(), sch.func)
