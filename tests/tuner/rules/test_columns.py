"""Reductions of columns: rows that stream by, groups of them, sums in registers."""

from __future__ import annotations

import numpy as np
import pytest

from burnish.support.target import Target
from burnish.tensorir import operators as op
from burnish.tensorir.schedule import Schedule
from burnish.tensorir.te.compute import create_prim_func, placeholder
from burnish.tensorir.text.printer import print_func
from burnish.tests import assembly
from burnish.tests.native import call_native
from burnish.tests.tuner.rules.checking import (
    HASWELL,
    SKYLAKE,
    Shape,
    Workload,
    check_rule,
    scheduled,
)
from burnish.tuner.rules.columns import factor_long_columns

NEON = Target("llvm -mcpu=generic")


def total(axis: int | tuple[int, ...], *shape: int | str, dtype: str = "float32") -> Workload:
    return Workload(lambda a: op.sum(a, axis), lambda a: a.sum(axis), shape, dtype=dtype)


def variance(*shape: int | str) -> Workload:
    return Workload(lambda a: op.variance(a, 0), lambda a: a.var(0), shape)


@pytest.mark.parametrize("rows", [1, 2, 16, 17, 31, 512, 513])
@pytest.mark.parametrize("columns", [1, 7, 128, 129, 1000])
def test_many_rows(rows: int, columns: int) -> None:
    check_rule(total(0, rows, columns), "reduction", tolerance=1e-4, seeds=1)


@pytest.mark.parametrize("columns", [4096 + 64, 8192, 10007, 40000])
def test_rows_that_are_cut_into_pieces(columns: int) -> None:
    check_rule(total(0, 33, columns), "reduction", seeds=1)


@pytest.mark.parametrize(
    ("axis", "shape"),
    [((0, 1), (5, 67, 200)), (1, (3, 67, 200)), ((0, 2), (3, 40, 130)), (0, (40, 3, 130))],
)
def test_axes_in_front_and_in_between(axis: int | tuple[int, ...], shape: Shape) -> None:
    check_rule(total(axis, *shape), "reduction", tolerance=1e-4, seeds=1)


@pytest.mark.parametrize("shape", [("m", 200), ("m", 1000), (67, "m")])
def test_symbolic_sizes(shape: Shape) -> None:
    check_rule(total(0, *shape), "reduction", m=(0, 1, 17, 300), tolerance=1e-4, seeds=1)


@pytest.mark.parametrize("shape", [(600, 300), (512, 512), (67, 129), ("m", 200)])
def test_reductions_after_one_another(shape: Shape) -> None:
    dims = {"m": (1, 40)} if "m" in shape else {}
    check_rule(variance(*shape), "reduction", seeds=1, **dims)
    mean = Workload(lambda a: op.mean(a, 0), lambda a: a.mean(0), shape)
    check_rule(mean, "reduction", seeds=1, **dims)


@pytest.mark.parametrize("dtype", ["float64", "int32", "int64"])
def test_other_dtypes(dtype: str) -> None:
    check_rule(total(0, 512, 300, dtype=dtype), "reduction", tolerance=1e-4, seeds=1)


def test_a_nan_and_infinities_stay_in_their_columns() -> None:
    workload = total(0, 512, 256)
    _, func = scheduled(workload.func)
    (a,) = workload.arguments()
    a[300, 7], a[1, 9], a[400, 9], a[5, 11] = np.nan, np.inf, -np.inf, np.inf
    found = np.zeros(256, "float32")
    call_native(func, a, found)
    assert np.isnan(found[[7, 9]]).all()
    assert found[11] == np.inf
    assert np.isfinite(np.delete(found, [7, 9, 11])).all()


@pytest.mark.parametrize(
    "shape", [(1000, 64), (10_000, 64), (1000, 3000), (100_000, 8), (100_000, 1), ("m", 64)]
)
def test_long_columns_are_added_in_blocks(shape: Shape) -> None:
    """In order, 10,000 tenths are off by 1e-5 of their sum."""
    x = np.full([10_000 if n == "m" else n for n in shape], 0.1, "float32")
    _, func = scheduled(total(0, *shape).func)
    found = np.zeros(x.shape[1], "float32")
    call_native(func, x, found, dims=[10_000] if "m" in shape else [])
    np.testing.assert_allclose(found, x.astype("float64").sum(0), rtol=4e-7)


def test_groups_of_rows_are_vectors() -> None:
    """The copies of their sums are copied in the order of their own axes."""
    _, func = scheduled(total(0, 10_000, 64).func, target=SKYLAKE)
    text = print_func(func)
    assert "T.parallel(8)" in text
    assert text.count("T.vectorized(64)") == 6


def test_rows_are_read_along() -> None:
    """The loop over the columns of a row is inside the one over rows."""
    lines = print_func(scheduled(total(0, 67, 4096).func, target=SKYLAKE)[1]).splitlines()
    update = next(i for i, line in enumerate(lines) if '"sum_update"' in line)
    loops = [line for line in lines[:update] if "for " in line]
    assert 'in T.serial(67, annotations={"sum_block": 16})' in loops[-3]
    assert "in range(64)" in loops[-2]
    assert "T.vectorized(64)" in loops[-1]


def test_what_data_tell_the_places_of_is_not_run_along() -> None:
    """Terms that are looked up are sums of rows where their indices are read by rows."""
    x, places = placeholder((3, 500), name="x"), placeholder((3, 400), "int64", name="places")
    func = create_prim_func([x, places, op.sum(op.gather_elements(x, places, axis=1), 1)])
    _, func = scheduled(func, target=SKYLAKE)
    assert "sum_register[v_i0]" not in print_func(func)
    rng = np.random.default_rng(0)
    numbers, chosen = rng.random((3, 500)).astype("float32"), rng.integers(0, 500, (3, 400))
    found = np.zeros(3, "float32")
    call_native(func, numbers, chosen, found)
    wanted = np.take_along_axis(numbers.astype("float64"), chosen, 1).sum(1)
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_few_rows_are_summed_in_registers() -> None:
    text = print_func(scheduled(total(0, 16, 4096).func, target=SKYLAKE)[1])
    assert 'scope="register"' in text


@pytest.mark.parametrize(
    ("workload", "groups"),
    [
        (total(0, 1024, 256), 8),
        (total(0, 1023, 256), 3),
        (total(0, 1021, 256), 0),  # a prime
        (total(0, 64, 2048), 2),
        (total(0, 1024, 4096), 8),  # one piece of columns
        (total(0, 1024, 16384), 2),  # four
        (total(0, 1024, 32768), 0),  # enough
        (total(0, 64, 256), 0),  # little to do
        (total(1, 256, 1024), 0),  # not columns
        (total(0, "m", 256), 0),
        (total(0, 1, 1 << 18), 0),
    ],
)
def test_groups_of_rows(workload: Workload, groups: int) -> None:
    sch = Schedule(workload.func)
    found = factor_long_columns(sch)
    assert found == (["sum_rf"] if groups else [])
    if groups:
        assert f"sum_rf = T.alloc_buffer(({groups}, " in sch.func.script()


def test_what_reads_its_rows_again_has_no_groups() -> None:
    softmax = Workload(lambda a: op.softmax(a, 0), lambda a: a, (1024, 256))
    assert factor_long_columns(Schedule(softmax.func)) == []


def test_each_of_several_reductions_has_groups() -> None:
    sch = Schedule(variance(1024, 256).func)
    assert factor_long_columns(sch) == ["mean_sum_rf", "square_sum_rf"]


@pytest.mark.parametrize(
    "workload", [total(0, 1024, 256), total(0, 67, 10007), variance(1024, 200), total(0, 1021, 300)]
)
def test_threads_change_no_bit(workload: Workload) -> None:
    _, func = scheduled(workload.func)
    inputs = workload.arguments()
    results = []
    for threads in (1, 2, 3):
        results.append(np.zeros(np.asarray(workload.reference(*inputs)).shape, "float32"))
        call_native(func, *inputs, results[-1], threads=threads)
    assert (results[0] == results[1]).all()
    assert (results[0] == results[2]).all()


def _stores(line: assembly.Line) -> int:
    """Vectors that an instruction puts into memory."""
    if line.operation in ("str", "stp"):
        return 1 + (line.operation == "stp")
    return int(line.operation in ("vmovaps", "vmovups") and line.code.endswith(")"))


@pytest.mark.parametrize("target", [SKYLAKE, HASWELL, NEON])
@pytest.mark.parametrize(("shape", "abreast"), [((512, 1024), 8), ((66, 1024), 2), ((67, 1000), 1)])
def test_the_loop_over_rows_is_loads_adds_and_stores(
    shape: Shape, abreast: int, target: Target
) -> None:
    """Rows that are abreast are added up in registers: as many stores as for one."""
    alone = target.with_options(threads=1)
    _, func = scheduled(total(0, *shape).func, target=alone)
    lines = assembly.kernel_lines(func, alone)
    assert assembly.foreign_calls(lines) == []
    adds, stores = [], []
    for loop in assembly.innermost_loops(lines):
        assert assembly.spills(loop) == []
        found = [line for line in loop if line.operation in ("vaddps", "fadd")]
        assert all(line.is_wide for line in found)
        adds.append(len(found))
        stores.append(sum([_stores(line) for line in loop]))
    assert max(adds) == 4 * abreast
    assert max(n for n, added in zip(stores, adds, strict=True) if added == max(adds)) == 4


def test_rows_abreast_with_columns_that_fill_no_four_vectors() -> None:
    """3,000 columns are 375 vectors of 8."""
    text = print_func(scheduled(total(0, 64, 3000).func, target=HASWELL)[1])
    assert "T.unroll(8)" in text
    assert "T.vectorized(8)" in text
