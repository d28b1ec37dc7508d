from __future__ import annotations

import numpy as np
import pytest

from burnish.tensorir.arith import IndexMap
from burnish.tensorir.schedule import (
    pack_array,
    packed_shape,
    packing,
    parse_index_map,
    unpack_array,
)

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


MAPS = (
    "lambda n, k: (n // 4, k, n % 4)",
    "lambda n, k: (k // 2, n // 6, k % 2, n % 6 // 3, n % 3)",
    "lambda n, k: (n // 4 % 2, k, n // 8, n % 4)",
    "lambda n, k: (n * 3 + k % 3, k // 3)",
    "lambda n, k: (0, n, k)",
)


@pytest.mark.parametrize("text", MAPS)
@pytest.mark.parametrize("shape", [(16, 6), (17, 6), (1, 3), (24, 12)])
def test_digits_are_packed_as_indices_are(
    text: str, shape: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Taking axes apart is the fast way; assignment by indices is what the map means."""
    data = np.arange(1, 1 + shape[0] * shape[1], dtype=np.float32).reshape(shape)
    fast = pack_array(data, parse_index_map(text), -1.0, "float32")
    np.testing.assert_array_equal(unpack_array(fast, parse_index_map(text), shape), data)
    assert packed_shape(shape, parse_index_map(text), -1.0) == fast.shape
    monkeypatch.setattr(packing, "_digits", lambda *_: None)
    np.testing.assert_array_equal(fast, pack_array(data, parse_index_map(text), -1.0, "float32"))
    np.testing.assert_array_equal(unpack_array(fast, parse_index_map(text), shape), data)


def test_what_is_no_permutation_of_digits_is_left_to_indices() -> None:
    data = np.zeros((16, 6), np.float32)
    for text, is_view in zip(MAPS[:4], (True, True, True, False), strict=True):
        sizes = pack_array(data, parse_index_map(text), 0.0, "float32").shape
        view = packing._digit_view(data, parse_index_map(text), sizes, np.float32(0))
        assert (view is not None) is is_view
