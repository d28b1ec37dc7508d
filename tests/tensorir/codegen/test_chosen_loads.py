"""Loads of one of several buffers: one load through a pointer that is chosen before the loop."""

from __future__ import annotations

import numpy as np
import pytest

from burnish.support.target import Target
from burnish.tensorir.codegen.object import emit_object
from burnish.tensorir.function import PrimFunc
from burnish.tensorir.lowering.pipeline import lower_func
from burnish.tensorir.text.parser import parse_func
from burnish.tests.native import call_native

TARGETS = ("native", "llvm -mcpu=haswell", "llvm -mcpu=x86-64-v2")
RNG = np.random.default_rng(0)
ROWS = (3, 1, 4, 2)


@pytest.fixture(params=TARGETS)
def target(request: pytest.FixtureRequest) -> Target:
    return Target(request.param)


def concat_of_rows(width: int, value: str, dtype: str = "float32", lanes: int = 8) -> PrimFunc:
    """(2, r, width) for r of ROWS, side by side at axis 1, in vectors of ``lanes``."""
    buffers = ", ".join(f'A{k}: T.Buffer((2, {r}, {width}), "{dtype}")' for k, r in enumerate(ROWS))
    return parse_func(f"""
@T.prim_func
def concat({buffers}, B: T.Buffer((2, 10, {width}), "{dtype}")):
    T.func_attr({{"is_scheduled": True}})
    for n, i, j0 in T.grid(2, 10, {-(-width // lanes)}):
        for j1 in T.vectorized({lanes}):
            with T.block("B"):
                T.where(j0 * {lanes} + j1 < {width})
                vn, vi = T.axis.remap("SS", [n, i])
                vj = T.axis.spatial({width}, j0 * {lanes} + j1)
                B[vn, vi, vj] = {value}
""")


CHAIN = (
    "T.if_then_else(vi < 3, A0[vn, vi, vj], T.if_then_else(vi < 4, A1[vn, vi - 3, vj], "
    "T.if_then_else(8 <= vi, A3[vn, vi - 8, vj], A2[vn, vi - 4, vj])))"
)


def parts_of(width: int, dtype: str) -> list[np.ndarray]:
    return [(RNG.standard_normal((2, r, width)) * 50).astype(dtype) for r in ROWS]


def text_of(func: PrimFunc, target: str = "llvm -mcpu=haswell") -> str:
    resolved = Target(target)
    return emit_object([lower_func(func, resolved)], resolved, keep_text=True).ir


@pytest.mark.parametrize("width", [16, 13])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "bool"])
def test_rows_of_several_buffers(width: int, dtype: str, target: Target) -> None:
    parts, result = parts_of(width, dtype), np.zeros((2, 10, width), dtype)
    call_native(concat_of_rows(width, CHAIN, dtype), *parts, result, target=target)
    np.testing.assert_array_equal(result, np.concatenate(parts, axis=1))


def test_there_is_one_load_of_a_chosen_pointer() -> None:
    text = text_of(concat_of_rows(16, CHAIN))
    assert text.count("load <8 x float>") == 1
    assert text.count("select") == 3
    before_the_row = text[: text.index("load <8 x float>")].rsplit("phi", 1)[0]
    assert before_the_row.count("select") == 3


def test_a_masked_load_is_chosen_too() -> None:
    text = text_of(concat_of_rows(13, CHAIN))
    assert text.count("call <8 x float> @llvm.masked.load") == 1


@pytest.mark.parametrize(
    "value",
    [
        "T.if_then_else(vi < 3, A0[vn, vi, vj], T.float32(1))",
        "T.if_then_else(vi < 1, A1[vn, vi, vj], A2[vn, 3, vj] + T.float32(1))",
        "T.if_then_else(vi < 1, A1[vn, vi, vj], A2[vn, 0, 15 - vj])",
    ],
)
def test_other_sides_and_conditions_stay_branches(value: str) -> None:
    func = concat_of_rows(16, value)
    assert " br i1" in text_of(func)
    assert "select i1" not in text_of(func)


def test_one_buffer_at_two_places(target: Target) -> None:
    parts, result = parts_of(16, "float32"), np.zeros((2, 10, 16), "float32")
    value = "T.if_then_else(vi < 5, A2[vn, 3, vj], A2[vn, 0, vj])"
    call_native(concat_of_rows(16, value), *parts, result, target=target)
    expected = np.concatenate([parts[2][:, 3:4]] * 5 + [parts[2][:, :1]] * 5, axis=1)
    np.testing.assert_array_equal(result, expected)


def test_a_condition_on_data(target: Target) -> None:
    parts, result = parts_of(16, "float32"), np.zeros((2, 10, 16), "float32")
    value = "T.if_then_else(A3[vn, 0, 0] < T.float32(0), A2[vn, 0, vj], A2[vn, 1, vj])"
    parts[3][:, 0, 0] = -1, 1
    call_native(concat_of_rows(16, value), *parts, result, target=target)
    for n in range(2):
        np.testing.assert_array_equal(result[n], np.stack([parts[2][n, n]] * 10))
