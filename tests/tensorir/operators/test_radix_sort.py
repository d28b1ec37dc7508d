"""Distribution by bytes against torch: bytes that differ, bytes that all keys share."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from burnish.support.target import Target
from burnish.tensorir.operators.radix_sort import radix_sort
from burnish.tests.assembly import foreign_calls, innermost_loops, kernel_lines, spills
from burnish.tests.tensorir.operators.ordered_rows import (
    DTYPES,
    check_order,
    ordered_func,
    sample,
)


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_dtypes(dtype: str, descending: bool) -> None:
    check_order(radix_sort, sample(dtype, (3, 333)), descending=descending)


@pytest.mark.parametrize("length", [1, 2, 3, 255, 257])
def test_lengths(length: int) -> None:
    check_order(radix_sort, sample("float64", (2, length)))
    check_order(radix_sort, sample("float32", (2, length)), length // 2, descending=True)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("shared", [0, 0x00FF00, 0xFF00FF, 0xFFFFFF, 0x7FFFFFFF])
def test_bytes_that_all_keys_share(shared: int, dtype: str) -> None:
    x = np.random.default_rng(0).integers(-(2**31), 2**31, (2, 99)) & ~shared
    check_order(radix_sort, torch.tensor(x).to(getattr(torch, dtype)))


def test_one_long_row() -> None:
    check_order(radix_sort, torch.tensor(np.random.default_rng(0).standard_normal((1, 300_000))))


def test_code_keeps_its_state_in_registers() -> None:
    func = ordered_func(radix_sort, "float32", 4, 1000, None, descending=False)
    lines = kernel_lines(func, Target("llvm -mcpu=x86-64-v4"))
    assert not foreign_calls(lines)
    assert [spills(loop) for loop in innermost_loops(lines) if spills(loop)] == []
