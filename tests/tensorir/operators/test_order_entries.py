"""Keys have the order of the elements; entries that of a stable sort."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from burnish import te
from burnish.support.dtype import DType
from burnish.support.errors import ComputeError
from burnish.tensorir.expr import IntImm
from burnish.tensorir.operators.order_entries import Entries, order_key
from burnish.tests.native import call_native

FLOATS = np.array([-np.inf, -2.5, -1e-6, -0.0, 0.0, 1e-7, 1.0, 1.5, np.inf, np.nan, -np.nan])
SAME = {(3, 4), (9, 10)}
"""The places of equal elements among FLOATS."""


def keys_of(x: np.ndarray, *, descending: bool) -> list[int]:
    given = te.placeholder(x.shape, str(x.dtype), "x")
    made = te.compute(x.shape, lambda i: order_key(given[i], descending=descending), "key")
    found = np.zeros(x.shape, made.dtype.to_numpy())
    call_native(te.create_prim_func([given, made]), x, found)
    return [int(k) for k in found]


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_keys_of_floats(dtype: str, descending: bool) -> None:
    keys = keys_of(FLOATS.astype(dtype), descending=descending)
    for (i, a), (j, b) in itertools.combinations(enumerate(keys), 2):
        if (i, j) in SAME:
            assert a == b
        else:
            assert (a > b) if descending else (a < b)


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64", "uint8", "uint32", "uint64"])
def test_keys_of_integers(dtype: str) -> None:
    info = np.iinfo(dtype)
    values = sorted({int(info.min), -1 if info.min else 0, 0, 1, int(info.max)})
    x = np.array(values, dtype)
    keys = keys_of(x, descending=False)
    assert keys == sorted(set(keys))
    assert keys_of(x, descending=True) == [(1 << info.bits) - 1 - k for k in keys]


def test_keys_of_bools() -> None:
    assert keys_of(np.array([True, False]), descending=False) == [1, 0]


@pytest.mark.parametrize(("dtype", "words"), [("float32", 1), ("bool", 1), ("int64", 2)])
def test_words(dtype: str, words: int) -> None:
    assert Entries(DType(dtype), False).words == words


def test_an_axis_that_is_too_long() -> None:
    Entries(DType("float64"), False).check_length(IntImm(1 << 33))
    Entries(DType("float32"), False).check_length(IntImm((1 << 32) - 1))
    with pytest.raises(ComputeError, match=r"less than 2\*\*32 float32 elements, found 4294967296"):
        Entries(DType("float32"), False).check_length(IntImm(1 << 32))
