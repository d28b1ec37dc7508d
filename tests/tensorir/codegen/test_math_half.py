"""Functions of half precision with fewer steps: every input, against float64; special values."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
import scipy.special

from burnish.support.target import Target
from burnish.tensorir.codegen.math import SHORT_FUNCTIONS
from burnish.tensorir.text.parser import parse_func
from burnish.tests.native import call_native

EVERY = np.arange(1 << 16, dtype=np.uint16)
REFERENCE = {
    "gelu": lambda x: x / 2 * scipy.special.erfc(-x * np.sqrt(0.5)),
    "sin": np.sin,
    "cos": np.cos,
}
MOST_ULP = {"float16": 0.6, "bfloat16": 0.51}
LAST_BIT, LEAST = {"float16": 10, "bfloat16": 7}, {"float16": -24, "bfloat16": -133}


def half(dtype: str) -> np.dtype:
    return np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)


def call(name: str, dtype: str, x: np.ndarray, cpu: str = "native") -> np.ndarray:
    """The function of an array of half floats, as float64."""
    func = parse_func(f"""
@T.prim_func
def f(A: T.Buffer(({len(x)},), "{dtype}"), O: T.Buffer(({len(x)},), "{dtype}")):
    T.func_attr({{"is_scheduled": True}})
    for i in T.vectorized({len(x)}):
        with T.block("O"):
            v = T.axis.spatial({len(x)}, i)
            O[v] = T.{name}(A[v])
""")
    out = np.empty(len(x), x.dtype)
    call_native(func, x, out, target=Target(cpu))
    return wide(out)


def wide(x: np.ndarray) -> np.ndarray:
    with np.errstate(invalid="ignore"):
        return x.astype(np.float64)


def test_every_function_is_tested() -> None:
    assert set(SHORT_FUNCTIONS) == set(REFERENCE)


@pytest.mark.parametrize("cpu", ["native", "llvm -mcpu=haswell"])
@pytest.mark.parametrize("dtype", MOST_ULP)
@pytest.mark.parametrize("name", REFERENCE)
def test_all_inputs(name: str, dtype: str, cpu: str) -> None:
    x = EVERY.view(half(dtype))
    x = x[np.isfinite(wide(x))]
    found = call(name, dtype, x, cpu)
    exact = REFERENCE[name](wide(x))
    rounded = wide(exact.astype(half(dtype)))
    exponent = np.maximum(np.frexp(rounded)[1] - 1 - LAST_BIT[dtype], LEAST[dtype])
    finite = np.isfinite(rounded)
    error = abs(found - exact)[finite] / np.ldexp(1.0, exponent[finite])
    assert error.max() <= MOST_ULP[dtype]
    np.testing.assert_array_equal(found[~finite], rounded[~finite])


@pytest.mark.parametrize("dtype", MOST_ULP)
def test_special_values(dtype: str) -> None:
    x = np.array([0.0, -0.0, np.inf, -np.inf, np.nan], half(dtype))
    found = call("gelu", dtype, x)
    np.testing.assert_array_equal(found, [0.0, -0.0, np.inf, 0.0, np.nan])
    np.testing.assert_array_equal(np.signbit(found[:2]), [False, True])
    nan = [np.nan] * 3
    np.testing.assert_array_equal(call("sin", dtype, x), [0.0, -0.0, *nan])
    assert np.signbit(call("sin", dtype, x)[1])
    np.testing.assert_array_equal(call("cos", dtype, x), [1.0, 1.0, *nan])
