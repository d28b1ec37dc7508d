"""Dot products: few rows, and weights whose rows lie along k."""

from __future__ import annotations

import numpy as np
import pytest

from burnish.tensorir import operators as op
from burnish.tensorir.text.printer import print_func
from burnish.tests.native import call_native
from burnish.tests.tuner.rules.checking import (
    SKYLAKE,
    Shape,
    Workload,
    assembly_of,
    check_rule,
    scheduled,
)


def linear(x: Shape, w: Shape) -> Workload:
    return Workload(
        lambda a, b, c: op.relu(op.linear(a, b, c)),
        lambda a, b, c: np.maximum(a @ b.T + c, 0),
        x,
        w,
        w[:1],
    )


@pytest.mark.parametrize("columns", [1, 2, 7, 8, 33])
@pytest.mark.parametrize("depth", [16, 31, 64, 100])
def test_any_columns_and_depth(columns: int, depth: int) -> None:
    check_rule(linear((1, depth), (columns, depth)), "dot", seeds=1)


@pytest.mark.parametrize("x", [(2, 40), (4, 40), (2, 2, 40), (40,)])
def test_any_rows(x: Shape) -> None:
    check_rule(linear(x, (17, 40)), "dot")


def test_a_matrix_times_a_vector() -> None:
    check_rule(Workload(op.matmul, np.matmul, (17, 40), (40,)), "dot")
    check_rule(Workload(op.matmul, np.matmul, ("m", 40), (40,)), "dot", m=(0, 1, 8, 13))


@pytest.mark.parametrize("rows", [1, 7, 17, 64])
def test_a_matrix_times_one_column(rows: int) -> None:
    """The rows are columns of the column times the matrix, several at a time."""
    workload = Workload(op.matmul, np.matmul, (rows, 40), (40, 1))
    check_rule(workload, "dot")
    layer = Workload(
        lambda a, b, c: op.relu(op.add(op.matmul(a, b), c)),
        lambda a, b, c: np.maximum(a @ b + c, 0),
        (rows, 40),
        (40, 1),
        (1,),
    )
    check_rule(layer, "dot")
    if rows == 64:
        text = print_func(scheduled(workload.func, target=SKYLAKE)[1])
        assert "for i0_1 in T.unroll(8)" in text


def test_a_batch_of_queries() -> None:
    workload = Workload(
        lambda a, b: op.matmul(a, b, transpose_b=True),
        lambda a, b: a @ b.swapaxes(1, 2),
        (3, 1, 40),
        (3, "m", 40),
    )
    check_rule(workload, "dot", m=(0, 1, 8, 13))


@pytest.mark.parametrize(
    ("x", "w"), [((5, 40), (17, 40)), (("m", 40), (17, 40)), ((1, 7), (17, 7))]
)
def test_what_is_left_to_the_matmul_rule(x: Shape, w: Shape) -> None:
    dims = {"m": (1, 9)} if "m" in x else {}
    check_rule(linear(x, w), "matmul", **dims)


def test_a_free_weight_is_packed_instead() -> None:
    func = linear((1, 64), (32, 64)).func.with_attr("layout_free", [1])
    assert scheduled(func)[0] == "matmul"


def test_the_code_of_a_layer() -> None:
    _, func = scheduled(linear((1, 784), (128, 784)).func, target=SKYLAKE.with_options(threads=1))
    assembly = assembly_of(func, SKYLAKE)
    assert "Spill" not in assembly
    assert "callq" not in assembly
    # 8 columns at once, each read straight from memory.
    assert sum("vfmadd" in x and "zmm" in x and "(%r" in x for x in assembly.splitlines()) == 8


def test_threads_change_no_bit() -> None:
    workload = linear((1, 300), (130, 300))
    _, func = scheduled(workload.func)
    assert "T.parallel" in print_func(func)
    inputs = workload.arguments()
    results = [np.zeros((1, 130), "float32") for _ in range(2)]
    for threads, result in enumerate(results, 1):
        call_native(func, *inputs, result, threads=threads)
    assert (results[0] == results[1]).all()
