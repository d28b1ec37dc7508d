"""evaluate_prim_func: one PrimFunc on arrays, at compile time."""

from __future__ import annotations

import numpy as np
import pytest

import burnish
from burnish.driver.evaluate import evaluate_prim_func
from burnish.support.errors import InternalError
from burnish.tensorir.function import PrimFunc
from burnish.tests.driver.programs import add_one


def prim_func(text: str) -> PrimFunc:
    (func,) = burnish.parse(text).prim_funcs.values()
    assert isinstance(func, PrimFunc)
    return func


def test_outputs_are_fresh_arrays() -> None:
    x = np.arange(8, dtype=np.float32)
    (first,), (second,) = evaluate_prim_func(add_one(), [x]), evaluate_prim_func(add_one(), [x])
    np.testing.assert_array_equal(first, x + 1)
    assert not np.shares_memory(first, second)


def test_several_outputs() -> None:
    func = prim_func(
        """
@T.prim_func
def f(x: T.Buffer((2,), "int32"), a: T.Buffer((2,), "int32"), b: T.Buffer((2,), "bool")):
    for i in range(2):
        with T.block("a"):
            v = T.axis.spatial(2, i)
            a[v] = x[v] + 1
            b[v] = x[v] > 1
"""
    )
    a, b = evaluate_prim_func(func, [np.array([1, 2], np.int32)])
    assert (a.tolist(), b.tolist()) == ([2, 3], [False, True])
    assert (a.dtype, b.dtype) == (np.int32, np.bool_)


def test_bfloat16_arrays_are_bits() -> None:
    func = prim_func(
        """
@T.prim_func
def copy(x: T.Buffer((2,), "bfloat16"), y: T.Buffer((2,), "bfloat16")):
    for i in range(2):
        with T.block("y"):
            v = T.axis.spatial(2, i)
            y[v] = x[v]
"""
    )
    bits = np.array([0x3F80, 0xC000], np.uint16)
    (found,) = evaluate_prim_func(func, [bits])
    assert found.tolist() == bits.tolist()


def test_a_symbolic_output_is_a_defect() -> None:
    func = prim_func(
        """
@T.prim_func
def f(a: T.handle, b: T.handle):
    n = T.int64()
    A = T.match_buffer(a, (n,), "float32")
    B = T.match_buffer(b, (n,), "float32")
    for i in range(n):
        with T.block("B"):
            v = T.axis.spatial(n, i)
            B[v] = A[v]
"""
    )
    with pytest.raises(InternalError, match="symbolic output"):
        evaluate_prim_func(func, [np.zeros(3, np.float32)])
