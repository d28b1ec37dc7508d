"""Reductions row by row and column by column."""

from __future__ import annotations

import re

import numpy as np
import pytest

from burnish.support.target import Target
from burnish.tensorir import operators as op
from burnish.tensorir.expr import INDEX, Var
from burnish.tensorir.te.compute import create_prim_func, placeholder
from burnish.tensorir.text.printer import print_func
from burnish.tests.assembly import innermost_loops, kernel_lines, read_lines, stack_stores
from burnish.tests.native import call_native, lower
from burnish.tests.tuner.rules.checking import (
    HASWELL,
    SIZES,
    SKYLAKE,
    Shape,
    Workload,
    assembly_of,
    check_rule,
    scheduled,
)
from burnish.tuner.tiling.row_axes import SHORT


def softmax(axis: int, *shape: int | str) -> Workload:
    def reference(a: np.ndarray) -> np.ndarray:
        if not a.size:
            return a
        powers = np.exp(a - a.max(axis, keepdims=True))
        return powers / powers.sum(axis, keepdims=True)

    return Workload(lambda a: op.softmax(a, axis), reference, shape)


def layer_norm(count: int, *shape: int | str) -> Workload:
    axes = tuple(range(-count, 0))

    def reference(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
        centered = a - a.mean(axes, keepdims=True)
        return centered / np.sqrt(a.var(axes, keepdims=True) + 1e-5) * b + c

    return Workload(
        lambda a, b, c: op.layer_norm(a, b, c, axes=axes), reference, shape, *[shape[-count:]] * 2
    )


def total(
    axis: int | tuple[int, ...] | None, *shape: int | str, keepdims: bool = False
) -> Workload:
    return Workload(
        lambda a: op.sum(a, axis, keepdims=keepdims),
        lambda a: a.sum(axis, keepdims=keepdims),
        shape,
    )


@pytest.mark.parametrize("columns", SIZES)
def test_sums_of_rows(columns: int) -> None:
    check_rule(total(1, 3, columns), "reduction")


@pytest.mark.parametrize("columns", SIZES)
def test_sums_of_columns(columns: int) -> None:
    check_rule(total(0, 3, columns), "reduction")


@pytest.mark.parametrize("columns", SIZES)
def test_softmax_of_rows(columns: int) -> None:
    check_rule(softmax(-1, 3, columns), "reduction", seeds=1)


@pytest.mark.parametrize(
    ("axis", "shape"),
    [
        ((0, 1), (5, 33)),
        (None, (17,)),
        (None, (33, 31)),
        ((1, 2), (4, 7, 5)),
        ((0, 2), (4, 7, 33)),
        ((0, 1), (4, 7, 33)),
        (1, (4, 7, 5)),
        (1, (4, 1, 5)),
        ((0, 2), (1, 4, 1)),
        (0, (33, 1)),
    ],
)
@pytest.mark.parametrize("keepdims", [False, True])
def test_sums_over_any_axes(axis: tuple[int, ...], shape: tuple[int, ...], keepdims: bool) -> None:
    check_rule(total(axis, *shape, keepdims=keepdims), "reduction", seeds=1)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("shape", [("m", 33), (33, "m"), ("m", "n")])
def test_symbolic_sums(axis: int, shape: Shape) -> None:
    dims = {"m": (0, 1, 2, 40), "n": (3, 17, 1, 33)}
    used = {k: v for k, v in dims.items() if k in shape}
    check_rule(total(axis, *shape), "reduction", **used)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_softmax_along_any_axis(axis: int) -> None:
    check_rule(softmax(axis, 5, 7, 33), "reduction")


@pytest.mark.parametrize("shape", [("m", 33), (3, "m"), ("m", 2, 8), ("m", 5)])
def test_symbolic_softmax(shape: Shape) -> None:
    check_rule(softmax(-1, *shape), "reduction", m=(1, 2, 17))


@pytest.mark.parametrize("shape", [(3, 33), (1, 64), ("m", 20), (3, 7), (2, 3, 17)])
def test_layer_norm(shape: Shape) -> None:
    dims = {"m": (0, 1, 5)} if "m" in shape else {}
    check_rule(layer_norm(1, *shape), "reduction", **dims)


def test_layer_norm_over_two_axes() -> None:
    check_rule(layer_norm(2, 3, 7, 11), "reduction")


@pytest.mark.parametrize("axis", [0, 1])
def test_variance_and_mean(axis: int) -> None:
    check_rule(
        Workload(lambda a: op.variance(a, axis), lambda a: a.var(axis), (33, 31)), "reduction"
    )
    check_rule(Workload(lambda a: op.mean(a, axis), lambda a: a.mean(axis), (33, 31)), "reduction")


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("dtype", ["float64", "int32", "int64"])
def test_other_dtypes(axis: int, dtype: str) -> None:
    workload = Workload(lambda a: op.sum(a, axis), lambda a: a.sum(axis), (33, 31), dtype=dtype)
    check_rule(workload, "reduction")
    workload = Workload(lambda a: op.max(a, axis), lambda a: a.max(axis), (33, 31), dtype=dtype)
    check_rule(workload, "reduction", seeds=1)


def test_half_precision() -> None:
    workload = Workload(
        lambda a: op.sum(a, 1),
        lambda a: a.astype("float32").sum(1),
        (5, 33),
        dtype="float16",
    )
    check_rule(workload, "reduction", tolerance=2e-3)


def test_products_of_elements() -> None:
    check_rule(
        Workload(
            lambda a, b: op.sum(op.multiply(a, b), 1), lambda a, b: (a * b).sum(1), *[(5, 33)] * 2
        ),
        "reduction",
    )


def test_a_matrix_times_a_vector_of_columns() -> None:
    check_rule(
        Workload(
            lambda a, b: op.matmul(a, b, transpose_a=True), lambda a, b: a.T @ b, (9, 33), (9,)
        ),
        "matmul",
        seeds=1,
    )


def test_a_nan_stays_in_its_row() -> None:
    workload = softmax(-1, 3, 33)
    _, func = scheduled(workload.func)
    (a,) = workload.arguments()
    a[1, 32] = np.nan
    found = np.zeros_like(a)
    call_native(func, a, found)
    assert np.isnan(found[1]).all()
    assert not np.isnan(found[[0, 2]]).any()


def test_all_blocks_of_a_row_stand_under_one_loop() -> None:
    _, func = scheduled(softmax(-1, 128, 1000).func, target=SKYLAKE)
    text = print_func(func)
    assert text.count("in range(128)") + text.count("T.parallel(128)") == 1
    lowered = lower(func, SKYLAKE)
    text = print_func(lowered.func)
    # A row of exponentials is all the memory there is.
    assert text.count("T.allocate([") - text.count('"register"') <= 4
    assert "* 1000" in text


@pytest.mark.parametrize("axis", [0, 1])
def test_the_order_of_operands_changes_no_loops(axis: int) -> None:
    """An operand of one element a row says nothing about how rows lie in memory."""
    single = (96, 1) if axis == 1 else (1, 200)

    def loops(workload: Workload) -> list[str]:
        check_rule(workload, "reduction")
        text = print_func(scheduled(workload.func)[1])
        return [line.strip() for line in text.splitlines() if "for " in line]

    first = Workload(
        lambda a, b: op.sum(op.subtract(b, a), axis),
        lambda a, b: (b - a).sum(axis),
        (96, 200),
        single,
    )
    last = Workload(
        lambda a, b: op.sum(op.subtract(a, b), axis),
        lambda a, b: (a - b).sum(axis),
        (96, 200),
        single,
    )
    assert loops(first) == loops(last)


def test_powers_are_summed_as_they_are_made_and_scaled_by_one_reciprocal() -> None:
    _, func = scheduled(softmax(1, 4, 1000).func, target=SKYLAKE)
    text = func.script()
    loop = text[text.index("prefetch_distance") :]
    assert loop.index('T.block("softmax_exp")') < loop.index('T.block("softmax_sum_rf_update")')
    assembly = assembly_of(func, SKYLAKE)
    assert "vdivps" not in assembly
    assert assembly.count("vdivss") == 1
    assert "vscalefps" in assembly


@pytest.mark.parametrize("cpu", ["x86-64", "haswell"])
@pytest.mark.parametrize("columns", SIZES)
def test_few_registers_keep_one_vector_of_sums_beside_powers(cpu: str, columns: int) -> None:
    target = Target(f"llvm -mcpu={cpu}")
    workload = softmax(1, 3, columns)
    func = scheduled(workload.func, target=target)[1]
    workload.check(func)
    if columns >= SHORT:
        sums = re.search(r"softmax_sum_rf = T.alloc_buffer\(\(3, (\d+)\)", func.script())
        assert sums is not None
        assert int(sums[1]) == target.vector_lanes("float32")


@pytest.mark.parametrize(("cpu", "vectors"), [("x86-64", 4), ("haswell", 2)])
def test_vectors_of_an_exponential_leave_a_register_to_the_sum(cpu: str, vectors: int) -> None:
    target = Target(f"llvm -mcpu={cpu}")
    func = scheduled(softmax(1, 8, 1000).func, target=target)[1]
    powers = re.search(
        r"for \w+ in T.vectorized\((\d+)\):\s+with T.block\(\"softmax_exp\"", func.script()
    )
    assert powers is not None
    assert int(powers[1]) == vectors * target.vector_lanes("float32")
    assert all(stack_stores(loop) == [] for loop in innermost_loops(kernel_lines(func, target)))


def test_a_nan_or_an_infinity_stays_in_its_row_with_few_registers() -> None:
    a = np.zeros((4, 100), np.float32)
    a[1, 37], a[2, 99], a[3, 0] = np.nan, np.inf, -np.inf
    found = np.zeros_like(a)
    func = scheduled(softmax(1, 4, 100).func, target=HASWELL)[1]
    call_native(func, a, found)
    np.testing.assert_allclose(found[0], 0.01, rtol=1e-6)
    assert np.isnan(found[1:3]).any(axis=1).all()
    np.testing.assert_allclose(found[3], np.where(np.arange(100) == 0, 0, 1 / 99), rtol=1e-6)


def test_short_rows_fetch_nothing_ahead() -> None:
    _, func = scheduled(softmax(1, 4, 20).func, target=SKYLAKE)
    assert "prefetch_distance" not in func.script()


@pytest.mark.parametrize(
    ("function", "terms"), [("sin", 2), ("sin", 7), ("sin", 15), ("exp", 9), ("tanh", 15)]
)
def test_short_rows_of_an_elementary_function_have_a_lane_each(function: str, terms: int) -> None:
    work = Workload(
        lambda a: op.sum(getattr(op, function)(a), 1),
        lambda a: getattr(np, function)(a).sum(1),
        (70, terms),
    )
    check_rule(work, "reduction")
    _, func = scheduled(work.func, target=SKYLAKE)
    text = print_func(lower(func, SKYLAKE).func)
    # Each lane loads from a row of its own, and none is idle.
    assert f", {terms}, 16)]" in text
    assert f"T.{function}(x[T.Ramp(" in text or f"T.{function}(a[T.Ramp(" in text


@pytest.mark.parametrize("axis", [None, (1, 2)])
def test_a_sum_along_which_an_operand_is_the_same_is_in_vectors(axis: tuple[int, ...]) -> None:
    work = Workload(
        lambda a: op.sum(op.broadcast_to(a, (2, 300, 3)), axis),
        lambda a: np.broadcast_to(a, (2, 300, 3)).sum(axis),
        (2, 300, 1),
    )
    check_rule(work, "reduction")
    _, func = scheduled(work.func, target=SKYLAKE)
    assert "x[T.Ramp(" in print_func(lower(func, SKYLAKE).func).replace("a[", "x[")


def test_the_main_loop_of_a_sum_is_loads_and_adds() -> None:
    _, func = scheduled(total(1, 8, 1024).func, target=SKYLAKE)
    assembly = assembly_of(func, SKYLAKE)
    adds = [x for x in assembly.splitlines() if "vaddps" in x and "zmm" in x and "(%r" in x]
    assert len(adds) >= 4  # one for each of the independent sums, straight from memory
    assert "Spill" not in assembly
    assert "vgather" not in assembly


@pytest.mark.parametrize(
    ("workload", "target"),
    [
        (softmax(-1, 8, 100), SKYLAKE),
        (layer_norm(1, 8, 100), SKYLAKE),
        (layer_norm(1, 8, 100), HASWELL),
        (total(1, 9, 100), HASWELL),
        (total(0, 9, 100), HASWELL),
    ],
)
def test_no_spills_and_no_calls(workload: Workload, target: Target) -> None:
    _, func = scheduled(workload.func, target=target.with_options(threads=1))
    assembly = assembly_of(func, target)
    # A constant of a norm may wait in memory on AVX2, outside of the loops along a row.
    lines = read_lines(assembly)
    for loop in innermost_loops(lines) or [lines]:
        assert [line.code for line in loop if line.is_spill] == []
    assert "callq" not in assembly


@pytest.mark.parametrize(
    "workload", [softmax(-1, 200, 100), softmax(0, 100, 200), total(1, 500, 65), total(0, 500, 650)]
)
def test_threads_change_no_bit(workload: Workload) -> None:
    _, func = scheduled(workload.func)
    assert "T.parallel" in print_func(func)
    inputs = workload.arguments()
    shape = np.asarray(workload.reference(*inputs)).shape
    results = []
    for threads in (1, 2, 3):
        results.append(np.zeros(shape, "float32"))
        call_native(func, *inputs, results[-1], threads=threads)
    assert (results[0] == results[1]).all()
    assert (results[0] == results[2]).all()


def test_one_thread_has_no_parallel_loop() -> None:
    _, func = scheduled(softmax(-1, 200, 100).func, target=SKYLAKE.with_options(threads=1))
    assert "T.parallel" not in print_func(func)


@pytest.mark.parametrize("target", [HASWELL, SKYLAKE])
def test_rows_of_bfloat16_of_any_length_are_kept_in_float32(target: Target) -> None:
    """What is read again under a mask is float32, not bits of bfloat16."""
    x = placeholder((3, Var("n", INDEX)), "bfloat16", name="x")
    func = create_prim_func([x, op.softmax(x, -1)])
    text = assembly_of(scheduled(func, target=target)[1], target)
    assert "vaddps" in text
