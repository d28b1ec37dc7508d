from __future__ import annotations

import numpy as np
import pytest

from burnish.tensorir.arith import IndexMap
from burnish.tensorir.schedule import pack_array

W = np.arange(24, dtype=np.float32).reshape(6, 4)


def tiles(size: int) -> IndexMap:
    return IndexMap.from_function(lambda n, k: (n // size, k, n % size), 2)


def test_packing_is_a_renaming() -> None:
    packed = pack_array(W, tiles(3), None, "float32")
    assert np.array_equal(packed, W.reshape(2, 3, 4).transpose(0, 2, 1))
    assert packed.ctypes.data % 64 == 0
    swapped = pack_array(W, IndexMap.from_function(lambda n, k: (k, n), 2), None, "float32")
    assert np.array_equal(swapped, W.T)


def test_padding_fills_what_no_element_reaches() -> None:
    packed = pack_array(W, tiles(4), -1.0, "float32")
    assert packed.shape == (2, 4, 4)
    assert np.array_equal(packed[0], W[:4].T)
    assert np.array_equal(packed[1, :, :2], W[4:].T)
    assert (packed[1, :, 2:] == -1).all()


@pytest.mark.parametrize(("dtype", "held"), [("int8", np.int8), ("bfloat16", np.uint16)])
def test_padding_in_other_dtypes(dtype: str, held: type) -> None:
    data = np.ones((3,), held)
    m = IndexMap.from_function(lambda n: (n // 2, n % 2), 1)
    packed = pack_array(data, m, 1.0, dtype)
    assert packed.dtype == held
    assert packed.tolist() == [[1, 1], [1, 0x3F80 if dtype == "bfloat16" else 1]]
