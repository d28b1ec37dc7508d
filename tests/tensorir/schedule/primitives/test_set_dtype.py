"""Buffers in a wider dtype: which there are, what is converted, and that no result changes."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from burnish.support.dtype import DType
from burnish.support.errors import ScheduleValueError
from burnish.tensorir.analysis.paths import all_buffers
from burnish.tensorir.expr import cast, const
from burnish.tensorir.function import PrimFunc
from burnish.tensorir.schedule import Schedule
from burnish.tensorir.schedule.primitives.set_dtype import holds
from burnish.tensorir.te import compute as te
from burnish.tests.native import call_native
from burnish.tests.tensorir.schedule.programs import assert_same, chain
from burnish.tests.tensorir.schedule.replaying import assert_replays


def halves() -> PrimFunc:
    """B is stored in half precision; C reads it once as it is and once wide."""
    a = te.placeholder((5, 6), "float16", name="A")
    b = te.compute((5, 6), lambda i, j: a[i, j] * const(3, "float16"), name="B")
    c = te.compute(
        (5, 6), lambda i, j: cast(b[i, j], "float32") + cast(b[i, j] * b[i, j], "float32"), name="C"
    )
    return te.create_prim_func([a, c])


def test_elements_are_converted_when_they_are_written() -> None:
    func = halves()
    sch = Schedule(func, seed=0)
    sch.set_dtype("B", 0, "float32")
    text = sch.func.script()
    assert 'B[v_i, v_j] = T.Cast("float32", A[v_i, v_j] * T.float16(3))' in text
    assert 'C[v_i, v_j] = B[v_i, v_j] + T.Cast("float32", T.Cast("float16", B[v_i, v_j]) *' in text
    assert_replays(func, sch)


def test_no_bit_changes() -> None:
    func = halves()
    sch = Schedule(func, seed=0)
    sch.set_dtype("B", "B", "float64")
    a = np.random.default_rng(0).standard_normal((5, 6)).astype("float16")
    results = [np.zeros((5, 6), "float32") for _ in range(2)]
    for f, result in zip((func, sch.func), results, strict=True):
        call_native(f, a, result)
    np.testing.assert_array_equal(*results)
    assert np.any(results[0])


def test_sums_are_still_rounded_at_every_step() -> None:
    a = te.placeholder((40,), "float16", name="A")
    k = te.reduce_axis((0, 40), "k")
    b = te.compute((1,), lambda i: te.sum(a[k], axis=[k]), name="B")
    c = te.compute((1,), lambda i: b[i], name="C")
    func = te.create_prim_func([a, c])
    sch = Schedule(func, seed=0)
    sch.set_dtype("B", 0, "float32")
    x = np.random.default_rng(0).standard_normal(40).astype("float16")
    results = [np.zeros(1, "float16") for _ in range(2)]
    for f, result in zip((func, sch.func), results, strict=True):
        call_native(f, x, result)
    np.testing.assert_array_equal(*results)


def test_holds_is_what_numpy_calls_a_safe_cast() -> None:
    names = ["float16", "float32", "float64", "int8", "uint8", "int32", "uint32", "int64", "uint64"]
    for wide, narrow in itertools.product(names, names):
        # NumPy holds integers in floats too, which would be another kind of arithmetic.
        is_safe = np.can_cast(narrow, wide) and ("float" in wide) == ("float" in narrow)
        assert holds(DType(wide), DType(narrow)) == is_safe, (wide, narrow)
    assert holds(DType("float32"), DType("bfloat16"))
    assert not holds(DType("bfloat16"), DType("float16"))
    assert not holds(DType("int8"), DType("bool"))


def test_the_dtype_it_has_already() -> None:
    func = chain()
    sch = Schedule(func, seed=0)
    sch.set_dtype("B", 0, "float32")
    assert_same(func, sch.func)


@pytest.mark.parametrize(
    ("block", "dtype", "message"),
    [
        ("C", "float64", "'C' is a parameter"),
        ("B", "float16", "Expected a dtype that holds every float32; found float16"),
        ("B", "int64", "Expected a dtype that holds every float32; found int64"),
    ],
)
def test_errors(block: str, dtype: str, message: str) -> None:
    sch = Schedule(chain(), seed=0)
    with pytest.raises(ScheduleValueError, match=message):
        sch.set_dtype(block, 0, dtype)


def test_unsafe_rounds_what_it_keeps() -> None:
    sch = Schedule(chain(), seed=0)
    sch.unsafe_set_dtype("B", 0, "float16")
    a, found = np.full((8, 6), 1 / 3, np.float32), np.zeros((8, 6), np.float32)
    (b,) = [x for x in all_buffers(sch.func) if x.name == "B"]
    assert b.dtype == "float16"
    exact = np.zeros_like(found)
    call_native(chain(), a, exact)
    call_native(sch.func, a, found)
    assert not np.array_equal(found, exact)
    np.testing.assert_allclose(found, exact, rtol=2e-3)
    assert 'sch.unsafe_set_dtype(block=b0, buffer_index=0, dtype="float16")' in str(sch.trace)


@pytest.mark.parametrize("dtype", ["bool", "float32x4"])
def test_unsafe_errors(dtype: str) -> None:
    sch = Schedule(chain(), seed=0)
    with pytest.raises(ScheduleValueError, match="Expected a scalar dtype of numbers for float32"):
        sch.unsafe_set_dtype("B", 0, dtype)
    with pytest.raises(ScheduleValueError, match="'C' is a parameter"):
        sch.unsafe_set_dtype("C", 0, "float16")
