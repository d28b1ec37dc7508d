"""Arrays on the boundary that kernels rely on."""

from __future__ import annotations

import numpy as np
import pytest

from burnish.support.abi import ALIGNMENT, PAGE_BYTES
from burnish.support.aligned import LARGE, MIDDLE, aligned_copy, aligned_empty


@pytest.mark.parametrize("shape", [(), (0, 3), (5,), (3, 7, 2)])
@pytest.mark.parametrize("dtype", ["float32", "int8", "bool"])
def test_it_is_aligned_and_contiguous(shape: tuple[int, ...], dtype: str) -> None:
    made = aligned_empty(shape, np.dtype(dtype))
    assert made.ctypes.data % ALIGNMENT == 0
    assert made.flags.c_contiguous
    assert (made.shape, made.dtype) == (shape, np.dtype(dtype))


def test_a_copy_has_the_values_and_its_own_memory() -> None:
    source = np.arange(12, dtype=np.float32).reshape(3, 4).T
    copy = aligned_copy(source)
    np.testing.assert_array_equal(copy, source)
    assert copy.ctypes.data % ALIGNMENT == 0
    assert copy.flags.c_contiguous
    assert not np.shares_memory(copy, source)


def test_large_arrays_begin_in_the_middle_of_a_page() -> None:
    for _ in range(3):
        assert aligned_empty((LARGE // 4,), np.dtype("float32")).ctypes.data % PAGE_BYTES == MIDDLE
