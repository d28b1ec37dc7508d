"""One row times a matrix that lies by rows."""

from __future__ import annotations

import numpy as np
import pytest

from burnish.support.host import native_target
from burnish.tensorir import operators as op
from burnish.tensorir.text.printer import print_func
from burnish.tests.native import call_native
from burnish.tests.tuner.rules.checking import HASWELL, Shape, Workload, check_rule, scheduled


def product(x: Shape, w: Shape, dtype: str = "float32") -> Workload:
    return Workload(op.matmul, np.matmul, x, w, dtype=dtype)


def layer(depth: int, columns: int) -> Workload:
    return Workload(
        lambda x, w, b: op.relu(op.add(op.matmul(x, w), b)),
        lambda x, w, b: np.maximum(x @ w + b, 0),
        (1, depth),
        (depth, columns),
        (columns,),
    )


@pytest.mark.parametrize("depth", [256, 257, 300, 1000])
@pytest.mark.parametrize("columns", [2048, 2052, 3001])
def test_any_columns_and_depth(depth: int, columns: int) -> None:
    check_rule(product((1, depth), (depth, columns)), "gemv", seeds=1, tolerance=1e-4)


@pytest.mark.parametrize("x", [(512,), (1, 512), (1, 1, 512), (2, 512), (4, 512), (2, 2, 512)])
def test_any_rows(x: Shape) -> None:
    check_rule(product(x, (512, 2048)), "gemv", seeds=1, tolerance=1e-4)


def test_an_epilogue() -> None:
    check_rule(layer(512, 2048), "gemv", tolerance=1e-4)


def test_float64() -> None:
    check_rule(product((1, 512), (512, 1024), "float64"), "gemv", tolerance=1e-9)


def test_w_is_read_along() -> None:
    """Eight rows abreast, in the loop over all columns, for groups of rows that threads share."""
    text = print_func(scheduled(product((1, 4096), (4096, 4096)).func, target=HASWELL)[1])
    lines = [line for line in text.split('"matmul_rf_update"')[0].splitlines() if "for " in line]
    groups, *_, rows, columns, _, abreast, lane = lines
    assert "T.parallel(8)" in groups
    assert "T.serial(64," in rows
    assert "range(128)" in columns
    assert "T.unroll(8)" in abreast
    assert "T.vectorized(32)" in lane


@pytest.mark.parametrize(
    ("x", "w"),
    [
        ((8, 512), (512, 2048)),  # many rows
        ((5, 512), (512, 1024)),
        (("m", 512), (512, 2048)),
        ((1, 16), (16, 1024)),  # near
        ((1, 4096), (4096, 64)),  # short rows
        ((4, 1, 512), (4, 512, 2048)),  # a batch
    ],
)
def test_what_is_left_to_the_matmul_rule(x: Shape, w: Shape) -> None:
    assert scheduled(product(x, w).func, target=HASWELL)[0] == "matmul"


def test_a_weight_of_any_layout_is_packed() -> None:
    func = product((1, 512), (512, 2048)).func.with_attr("layout_free", [1])
    assert scheduled(func, target=HASWELL)[0] == "matmul"


def test_long_sums_are_added_in_blocks_that_threads_do_not_change() -> None:
    workload = product((1, 4096), (4096, 1024))
    x, w = np.full((1, 4096), 0.1, "float32"), np.full((4096, 1024), 0.1, "float32")
    _, func = scheduled(workload.func, target=native_target())
    results = [np.zeros((1, 1024), "float32") for _ in range(3)]
    for threads, found in enumerate(results, 1):
        call_native(func, x, w, found, threads=threads)
    exact = x.astype("float64") @ w.astype("float64")
    np.testing.assert_allclose(results[0], exact, rtol=4e-7)
    assert all((found == results[0]).all() for found in results)
