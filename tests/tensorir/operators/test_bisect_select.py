"""One element of the order against torch: ties, every dtype, the first and the last; its code
counts in vectors."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from burnish.support.target import Target
from burnish.tensorir.operators.bisect_select import bisect_select
from burnish.tests.assembly import kernel_lines
from burnish.tests.tensorir.operators.ordered_rows import (
    DTYPES,
    check_order,
    ordered_func,
    sample,
)


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_dtypes(dtype: str, descending: bool) -> None:
    for start in (0, 74, 149):
        x = sample(dtype, (3, 150))
        check_order(bisect_select, x, start + 1, start=start, descending=descending)


@pytest.mark.parametrize("length", [1, 2, 15, 1000, 70_000])
def test_lengths(length: int) -> None:
    for dtype in ("float32", "int16"):
        check_order(bisect_select, sample(dtype, (2, length)), length // 2 + 1, start=length // 2)


def test_extremes_of_integers() -> None:
    x = torch.tensor([[5, np.iinfo(np.int64).max, np.iinfo(np.int64).min, -1, 5]])
    for start in range(5):
        check_order(bisect_select, x, start + 1, start=start)


@pytest.mark.parametrize(
    ("cpu", "compare"), [("x86-64-v4", "vpcmpltud"), ("haswell", "vpcmpgtd"), ("generic", "cmhi")]
)
def test_code_counts_vectors(cpu: str, compare: str) -> None:
    func = ordered_func(bisect_select, "float32", 4, 1024, 513, start=512, descending=False)
    lines = kernel_lines(func, Target(f"llvm -mcpu={cpu}"))
    assert any(line.operation == compare and "%xmm" not in line.code for line in lines)
