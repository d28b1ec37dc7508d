"""Intrinsics that are not elementary functions, and what is left to ``math``."""

from __future__ import annotations

import numpy as np
import pytest

from burnish.support.errors import CodegenError
from burnish.support.host import native_target
from burnish.tensorir.codegen.object import emit_object
from burnish.tensorir.expr import Call
from burnish.tensorir.function import PrimFunc
from burnish.tensorir.stmt import BufferStore
from burnish.tensorir.text.parser import parse_func
from burnish.tests.native import call_native, lower

X = np.array([-7.5, -1, -0.5, 0, 0.5, 3, 8, 100], "float32")
BITS = np.array([0, 1, 2, 3, 255, 256, 2**30, 2**31 - 1], "int32")


def kernel(expr: str, source: str, target: str) -> PrimFunc:
    return parse_func(f"""
@T.prim_func
def f(A: T.Buffer((8,), "{source}"), O: T.Buffer((8,), "{target}")):
    T.func_attr({{"is_scheduled": True}})
    for i in T.vectorized(8):
        with T.block("O"):
            v = T.axis.spatial(8, i)
            O[v] = {expr}
""")


@pytest.mark.parametrize(
    ("expr", "source", "expected"),
    [
        ("T.popcount(A[v])", BITS, np.bitwise_count(BITS).astype("int32")),
        ("T.clz(A[v])", BITS, np.array([32 - int(b).bit_length() for b in BITS], "int32")),
        ("T.abs(A[v] - T.int32(2))", BITS, np.abs(BITS - 2)),
        ('T.reinterpret("int32", A[v])', X, X.view("int32")),
        ("T.isfinite(A[v] / T.float32(0))", X, np.zeros(8, "bool")),
        ("A[v] // T.float32(3)", X, np.floor_divide(X, np.float32(3))),
        ("A[v] % T.float32(3)", X, np.mod(X, np.float32(3))),
        ("A[v] % T.float32(-3)", X, np.mod(X, np.float32(-3))),
        ("T.rsqrt(A[v] * A[v])", X[X != 0], None),
    ],
)
def test_value(expr: str, source: np.ndarray, expected: np.ndarray | None) -> None:
    if expected is None:
        source = np.abs(X) + 1
        expected = (1 / np.sqrt(source.astype("float64") ** 2)).astype("float32")
    out = np.empty(8, expected.dtype)
    call_native(kernel(expr, source.dtype.name, expected.dtype.name), source, out)
    np.testing.assert_allclose(out.astype("float64"), expected.astype("float64"), rtol=2e-7)


def test_an_unknown_intrinsic_is_an_error() -> None:
    func = lower(kernel("A[v]", "int32", "int32"))
    store = func.func.body
    assert isinstance(store, BufferStore)
    call = Call("frobnicate", (store.value,), store.value.dtype)
    body = BufferStore(store.buffer, call, store.indices)
    broken = PrimFunc(func.func.params, body, func.func.attrs, "f")
    lowered = type(func)(broken, func.shared_bytes, func.thread_bytes, func.dims)
    with pytest.raises(CodegenError, match=r"No machine code is known for .* 'frobnicate'"):
        emit_object([lowered], native_target())


def test_a_bool_has_no_bits_to_reinterpret() -> None:
    func = kernel('T.reinterpret("int8", A[v])', "bool", "int8")
    with pytest.raises(CodegenError, match="A bool has no bits to reinterpret"):
        emit_object([lower(func)], native_target())
