"""Data types: interning, vectors, and NumPy both ways."""

from __future__ import annotations

import copy
import pickle

import ml_dtypes
import numpy as np
import pytest

from burnish.support.dtype import DType, bfloat16_bits
from burnish.support.errors import DTypeError

FLOATS = ("float64", "float32", "float16", "bfloat16")
INTEGERS = ("int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8")
SCALARS = (*FLOATS, *INTEGERS, "bool", "handle")
NAMES_OF_NONE = ("float", "float32x0", "float32x08", "float32x", "x4", "", "Float32", "boolx")


@pytest.mark.parametrize("name", SCALARS)
def test_a_dtype_is_its_name_and_interned(name: str) -> None:
    d = DType(name)
    assert d == name
    assert DType(str(d)) is d
    assert copy.deepcopy(d) is d
    assert (d.lanes, d.scalar) == (1, d)
    assert d.with_lanes(8) == f"{name}x8"


def test_kind_and_bits() -> None:
    d = DType("uint16x4")
    assert (d.kind, d.bits, d.lanes, d.itemsize) == ("uint", 16, 4, 2)
    assert d.is_integer
    assert not d.is_float
    assert not DType("bool").is_integer
    assert DType("bool").is_bool
    assert DType("bfloat16").is_float


def test_vectors() -> None:
    v = DType("float32x16")
    assert v.scalar is DType("float32")
    assert v.with_lanes(1) is DType("float32")
    assert v.with_lanes(4) is DType("float32x4")
    assert DType("float32x1") is DType("float32")


@pytest.mark.parametrize(
    "name", ["float", "float32x0", "float32x08", "float32x", "x4", "", "Float32"]
)
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(DTypeError, match=r"Expected a dtype, one of float64, .*; found "):
        DType(name)


@pytest.mark.parametrize("name", [n for n in SCALARS if n not in ("bfloat16", "handle")])
def test_numpy_both_ways(name: str) -> None:
    d = DType(name)
    assert d.with_lanes(4).to_numpy() == np.dtype(name)
    assert DType.from_numpy(np.dtype(name)) is d
    assert d.to_numpy().itemsize == d.itemsize


def test_bfloat16_comes_from_ml_dtypes_but_has_no_numpy_dtype() -> None:
    assert DType.from_numpy(ml_dtypes.bfloat16) is DType("bfloat16")
    with pytest.raises(DTypeError, match="'bfloat16'"):
        DType("bfloat16").to_numpy()


@pytest.mark.parametrize("dtype", ["U4", object, np.complex64, ">f4", "nonsense", np.datetime64])
def test_numpy_dtypes_without_a_counterpart_are_refused(dtype: object) -> None:
    with pytest.raises(DTypeError):
        DType.from_numpy(dtype)


def test_bfloat16_rounds_to_nearest_even() -> None:
    values = np.array([1.0, 1 + 2**-8, 1 + 3 * 2**-8, -0.0, np.inf, 3.4e38, np.nan], np.float32)
    expected = values.astype(ml_dtypes.bfloat16)
    found = bfloat16_bits(values).view(ml_dtypes.bfloat16)
    np.testing.assert_array_equal(found.astype(np.float32), expected.astype(np.float32))
    assert bfloat16_bits(np.float32(-2)).tolist() == 0xC000
    payload = np.array([0x7F800001], np.uint32).view(np.float32)
    assert np.isnan(bfloat16_bits(payload).view(ml_dtypes.bfloat16).astype(np.float32)).all()


@pytest.mark.parametrize("name", ["float32", "int8x32", "bool"])
def test_what_travels_is_interned_where_it_arrives(name: str) -> None:
    dtype = DType(name)
    assert pickle.loads(pickle.dumps(dtype)) is dtype
    assert pickle.loads(pickle.dumps([dtype.with_lanes(4)]))[0] is dtype.with_lanes(4)
    assert len(pickle.dumps(dtype)) < 80
