"""Ranking against torch, at sizes around those of vectors; its code has no compare of one pair."""

from __future__ import annotations

import pytest

from burnish.support.dtype import DType
from burnish.support.target import Target
from burnish.tensorir.operators.order_entries import Entries
from burnish.tensorir.operators.rank_sort import most_ranked, rank_sort
from burnish.tests.assembly import kernel_lines, operations
from burnish.tests.tensorir.operators.ordered_rows import (
    DTYPES,
    check_order,
    ordered_func,
    sample,
)


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_dtypes(dtype: str, descending: bool) -> None:
    check_order(rank_sort, sample(dtype, (5, 21)), descending=descending)


@pytest.mark.parametrize("dtype", ["float32", "int64"])
@pytest.mark.parametrize("length", [1, 2, 7, 8, 9, 64])
def test_lengths(length: int, dtype: str) -> None:
    check_order(rank_sort, sample(dtype, (3, length)))


@pytest.mark.parametrize("count", [0, 1, 5, 13])
def test_the_first_few(count: int) -> None:
    check_order(rank_sort, sample("float32", (3, 13)), count, descending=True)


def test_rows_are_ranked_up_to_a_length_that_grows_with_the_passes_it_saves() -> None:
    most = [most_ranked(Entries(DType(d), False)) for d in ("int8", "int16", "int32")]
    assert most == sorted(most)
    assert most[0] >= 8


def test_code_compares_vectors() -> None:
    func = ordered_func(rank_sort, "float32", 4, 64, None, descending=False)
    lines = kernel_lines(func, Target("llvm -mcpu=x86-64-v4"))
    assert "vpcmpltuq" in operations(lines)
    assert not [line.code for line in lines if line.is_spill]
