"""Types and constants, by their LLVM text."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from llvmlite import ir

from burnish.support.dtype import DType
from burnish.support.errors import CodegenError
from burnish.tensorir.codegen.llvm_types import (
    bfloat16_bits,
    constant,
    emit_cast,
    int_vector,
    memory_type,
    register_type,
    type_suffix,
)


@pytest.mark.parametrize(
    ("dtype", "register", "memory"),
    [
        ("float32", "float", "float"),
        ("float32x16", "<16 x float>", "<16 x float>"),
        ("bool", "i1", "i8"),
        ("boolx8", "<8 x i1>", "<8 x i8>"),
        ("bfloat16x4", "<4 x i16>", "<4 x i16>"),
        ("float16", "half", "half"),
        ("uint8", "i8", "i8"),
        ("handle", "ptr", "ptr"),
    ],
)
def test_types(dtype: str, register: str, memory: str) -> None:
    assert str(register_type(DType(dtype))) == register
    assert str(memory_type(DType(dtype))) == memory


def test_suffixes_of_intrinsics() -> None:
    assert type_suffix(register_type(DType("float32x16"))) == "v16f32"
    assert type_suffix(register_type(DType("int64"))) == "i64"


@pytest.mark.parametrize(
    ("dtype", "value", "text"),
    [
        ("float32", 1.0, "0x3FF0000000000000"),
        ("float32", 0.1, "0x3FB99999A0000000"),
        ("float64", 0.1, "0x3FB999999999999A"),
        ("float32", math.inf, "0x7FF0000000000000"),
        ("float32", 1e300, "0x7FF0000000000000"),
        ("float32", -0.0, "0x8000000000000000"),
        ("float16", 1e6, "0x7FF0000000000000"),
        ("bfloat16", 1.0, "16256"),
        ("bool", 1, "true"),
        ("int8", -3, "-3"),
        ("float32x4", 2.0, "splat (float 0x4000000000000000)"),
        ("boolx4", 0, "splat (i1 false)"),
    ],
)
def test_constants_are_exact(dtype: str, value: float, text: str) -> None:
    assert constant(DType(dtype), value).get_reference() == text


def test_nan_stays_nan() -> None:
    bits = int(constant(DType("float32"), math.nan).get_reference(), 16)
    assert bits & 0x7FF8000000000000 == 0x7FF8000000000000


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.floats(width=32, allow_nan=False))
def test_bfloat16_rounds_to_even(value: float) -> None:
    expected = np.float32(value).astype(ml_dtypes.bfloat16).view(np.uint16)
    assert bfloat16_bits(value) == int(expected)


def test_int_vector() -> None:
    assert str(int_vector(32, [0, 1])) == "<2 x i32> <i32 0, i32 1>"


def test_a_handle_cannot_be_converted() -> None:
    function = ir.Function(ir.Module(), ir.FunctionType(ir.VoidType(), []), "f")
    builder = ir.IRBuilder(function.append_basic_block())
    null = ir.Constant(ir.PointerType(), None)
    with pytest.raises(CodegenError, match="no conversion from handle to float32"):
        emit_cast(builder, null, DType("handle"), DType("float32"))
