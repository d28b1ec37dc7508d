"""Chains of products: each is blocked and packed as alone, and the numbers stay NumPy's."""

from __future__ import annotations

import numpy as np
import pytest

from burnish.support.errors import ScheduleError
from burnish.support.target import Target
from burnish.tensorir import operators as op
from burnish.tensorir.schedule import Schedule
from burnish.tensorir.te.compute import Tensor
from burnish.tensorir.text.printer import print_func
from burnish.tests.tuner.rules.checking import (
    HASWELL,
    SKYLAKE,
    Shape,
    Workload,
    assembly_of,
    check_rule,
    scheduled,
)


def two(a: Shape, b: Shape, c: Shape) -> Workload:
    def build(x: Tensor, y: Tensor, z: Tensor) -> Tensor:
        return op.matmul(op.exp(op.matmul(x, y)), z)

    return Workload(build, lambda x, y, z: np.exp(x @ y) @ z, a, b, c)


def three(n: int) -> Workload:
    def build(x: Tensor, y: Tensor, z: Tensor, w: Tensor) -> Tensor:
        return op.matmul(op.matmul(op.matmul(x, y), z), w)

    return Workload(build, lambda x, y, z, w: x @ y @ z @ w, *[(n, n)] * 4)


@pytest.mark.parametrize(
    "work",
    [
        two((24, 16), (16, 32), (32, 48)),
        two((7, 33), (33, 31), (31, 17)),
        two((1, 5), (5, 64), (64, 9)),
        two((5, 2), (2, 3), (3, 1)),
        three(40),
    ],
    ids=["even", "odd", "row", "thin", "three"],
)
def test_any_choice_computes_the_chain(work: Workload) -> None:
    check_rule(work, "chain", seeds=4, tolerance=2e-4)


@pytest.mark.parametrize("target", [HASWELL, SKYLAKE], ids=["avx2", "avx512"])
def test_both_products_are_packed_and_summed_in_registers(target: Target) -> None:
    func = scheduled(two((96, 64), (64, 512), (512, 512)).func, target=target)[1]
    text = print_func(func)
    assert text.count("prefetch_distance") >= 2  # weights are asked for before they are packed
    assembly = assembly_of(func, target)
    register = "zmm" if target is SKYLAKE else "ymm"
    sums = [x for x in assembly.splitlines() if "vfmadd231ps" in x and register in x]
    # Two products of a step with many sums, or of four steps with a few.
    assert len(sums) >= (48 if target is SKYLAKE else 96)


def test_one_product_is_no_chain() -> None:
    one = Workload(op.matmul, np.matmul, (8, 8), (8, 8))
    with pytest.raises(ScheduleError, match="another kind"):
        Schedule(one.func, seed=0).apply_rule("chain", HASWELL)
