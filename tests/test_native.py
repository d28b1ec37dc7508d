"""Kernels that tests call are seen where they write beside an array."""

from __future__ import annotations

import numpy as np
import pytest

from burnish.tensorir.text.parser import parse_func

from .native import call_native

TEXT = """
@T.prim_func
def f(A: T.Buffer((8,), "DTYPE"), B: T.Buffer((8,), "DTYPE")):
    for i in range(8):
        B[i + PLACE] = A[i]
"""


def _call(dtype: str, place: int, a: np.ndarray, b: np.ndarray) -> None:
    text = TEXT.replace("DTYPE", dtype).replace("PLACE", str(place))
    call_native(parse_func(text), a, b)


@pytest.mark.parametrize("dtype", ["uint8", "float16", "float64"])
def test_what_lies_inside_is_given_back(dtype: str) -> None:
    a, b = np.arange(8).astype(dtype), np.zeros(8, dtype)
    _call(dtype, 0, a, b)
    np.testing.assert_array_equal(b, a)


@pytest.mark.parametrize(("place", "where"), [(1, "byte 8 to byte 8"), (-1, "byte -1 to byte -1")])
def test_a_store_beside_an_array_is_named(place: int, where: str) -> None:
    a, b = np.zeros(8, "uint8"), np.zeros(8, "uint8")
    with pytest.raises(AssertionError, match=rf"^B has 8 bytes.* wrote 1 beside.*{where}$"):
        _call("uint8", place, a, b)


def test_a_store_into_what_is_read_only_is_named() -> None:
    a, b = np.ones(8), np.zeros(8)
    b.flags.writeable = False
    with pytest.raises(AssertionError, match=r"^B is read-only"):
        _call("float64", 0, a, b)


def test_one_array_for_two_arguments_stays_one() -> None:
    a = np.arange(8.0)
    _call("float64", 0, a, a)
    np.testing.assert_array_equal(a, np.arange(8.0))


def test_arrays_keep_their_place_in_a_line() -> None:
    raw = np.zeros(200, "uint8")
    start = -raw.ctypes.data % 64 + 24
    b = raw[start : start + 64].view("float64")
    _call("float64", 0, np.arange(8.0), b)
    np.testing.assert_array_equal(b, np.arange(8.0))


def test_views_that_overlap_in_part_are_called_in_place() -> None:
    raw = np.arange(12.0)
    _call("float64", 0, raw[4:], raw[:8])
    np.testing.assert_array_equal(raw, [*range(4, 12), *range(8, 12)])
