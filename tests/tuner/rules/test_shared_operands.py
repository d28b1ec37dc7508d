"""Products that read a buffer twice: by both operands, or by an operand and what stands around."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from burnish.tensorir import operators as op
from burnish.tensorir.te.compute import Tensor
from burnish.tensorir.text.printer import print_func
from burnish.tests.tuner.rules.checking import HASWELL, SKYLAKE, Workload, check_rule, scheduled

Build = Callable[..., Tensor]
Reference = Callable[..., np.ndarray]


def turned(x: np.ndarray) -> np.ndarray:
    return x.swapaxes(-1, -2)


def linear(x: Tensor, w: Tensor) -> Tensor:
    return op.matmul(x, w, transpose_b=True)


def across(x: Tensor, y: Tensor) -> Tensor:
    return op.matmul(x, y, transpose_a=True)


ONE: dict[str, tuple[Build, Reference]] = {
    "square": (lambda x: op.relu(op.matmul(x, x)), lambda x: np.maximum(x @ x, 0)),
    "square and itself": (lambda x: op.add(op.matmul(x, x), x), lambda x: x @ x + x),
    "its transpose": (lambda x: op.negative(linear(x, x)), lambda x: -(x @ turned(x))),
    "its transpose and itself": (lambda x: op.add(linear(x, x), x), lambda x: x @ turned(x) + x),
    "transposed first": (lambda x: op.negative(across(x, x)), lambda x: -(turned(x) @ x)),
    "of a prologue": (
        lambda x: op.add(op.matmul(op.negative(x), x), x), lambda x: -x @ x + x
    ),
    "of one prologue": (
        lambda x: op.matmul(y := op.exp(op.negative(op.relu(x))), y),
        lambda x: np.exp(-np.maximum(x, 0)) @ np.exp(-np.maximum(x, 0)),
    ),
}  # fmt: skip
TWO: dict[str, tuple[Build, Reference]] = {
    "weight in the epilogue": (lambda x, y: op.add(op.matmul(x, y), y), lambda x, y: x @ y + y),
    "rows in the epilogue": (lambda x, y: op.add(op.matmul(x, y), x), lambda x, y: x @ y + x),
    "both in the epilogue": (
        lambda x, y: op.add(op.add(op.matmul(x, y), x), y), lambda x, y: x @ y + x + y
    ),
    "linear, weight too": (lambda x, y: op.add(linear(x, y), y), lambda x, y: x @ turned(y) + y),
    "across, rows too": (lambda x, y: op.add(across(x, y), x), lambda x, y: turned(x) @ y + x),
}  # fmt: skip


@pytest.mark.parametrize("size", [7, 64])
@pytest.mark.parametrize("name", ONE)
def test_one_buffer(name: str, size: int) -> None:
    build, reference = ONE[name]
    check_rule(Workload(build, reference, (size, size)), "matmul", seeds=1, tolerance=1e-4)


@pytest.mark.parametrize("size", [17, 96])
@pytest.mark.parametrize("name", TWO)
def test_an_operand_that_is_read_again(name: str, size: int) -> None:
    build, reference = TWO[name]
    workload = Workload(build, reference, (size, size), (size, size))
    check_rule(workload, "matmul", seeds=1, tolerance=1e-4)


@pytest.mark.parametrize("name", ["square and itself", "its transpose", "transposed first"])
def test_batches(name: str) -> None:
    build, reference = ONE[name]
    for shape in ((3, 34, 34), (2, 1, 32, 32)):
        check_rule(Workload(build, reference, shape), "matmul", seeds=1, tolerance=1e-4)


@pytest.mark.parametrize("name", ["square and itself", "its transpose and itself"])
def test_symbolic_sizes(name: str) -> None:
    build, reference = ONE[name]
    workload = Workload(build, reference, ("n", "n"))
    check_rule(workload, "matmul", seeds=1, tolerance=1e-4, n=(1, 19, 40))
    workload = Workload(build, reference, ("b", 33, 33))
    check_rule(workload, "matmul", seeds=0, tolerance=1e-4, b=(0, 1, 3))


@pytest.mark.parametrize("dtype", ["float64", "int32", "float16"])
def test_other_dtypes(dtype: str) -> None:
    for name in ("square and itself", "its transpose"):
        build, reference = ONE[name]
        tolerance = 0.05 if dtype == "float16" else 1e-9
        check_rule(Workload(build, reference, (33, 33), dtype=dtype), "matmul", tolerance=tolerance)


@pytest.mark.parametrize("target", [SKYLAKE, HASWELL])
@pytest.mark.parametrize("name", [*ONE, *TWO])
def test_large_ones_are_packed_as_any_other(name: str, target: object) -> None:
    build, reference = {**ONE, **TWO}[name]
    count = 1 if name in ONE else 2
    for size in (512, 1024, 1000):
        workload = Workload(build, reference, *[(size, size)] * count)
        rule, func = scheduled(workload.func, target=target)  # type: ignore[arg-type]
        assert rule == "matmul"
        assert "_global = T.alloc_buffer" in print_func(func)


def test_the_copy_is_the_one_of_another_weight() -> None:
    shapes = (1024, 1024), (1024, 1024)
    plain = Workload(lambda x, y: op.relu(op.matmul(x, y)), np.matmul, *shapes)
    shared = Workload(*ONE["square"], shapes[0])
    texts = [print_func(scheduled(w.func, target=SKYLAKE)[1]) for w in (plain, shared)]
    lines = [[x.strip() for x in text.splitlines()] for text in texts]
    loops = [[x for x in text if x.startswith("for ")] for text in lines]
    assert loops[0] == loops[1]
