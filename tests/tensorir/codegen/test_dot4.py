"""Dot products of four bytes: the instruction and its replacement give the same bits."""

from __future__ import annotations

import numpy as np
import pytest

from burnish.support.dtype import DType
from burnish.support.errors import DTypeError
from burnish.support.target import Target
from burnish.tensorir.codegen.dot4 import vnni_lanes
from burnish.tensorir.codegen.host import native_target, resolve
from burnish.tensorir.codegen.object import emit_object
from burnish.tensorir.expr import Var
from burnish.tensorir.function import PrimFunc
from burnish.tensorir.intrinsics import call_intrin
from burnish.tensorir.parser import parse_func
from burnish.tests.native import call_native, lower
from burnish.tests.tensorir.interpreter import run


def without_vnni() -> Target:
    """This machine without the instruction."""
    target = resolve(native_target())
    kept = [f for f in target.features if "vnni" not in f]
    return target.with_options(features=(*kept, "-avx512vnni", "-avxvnni"))


def kernel(lanes: int, kind: str = "vectorized", order: str = "0123") -> PrimFunc:
    b = ", ".join([f"B[v, {t}]" for t in order])
    return parse_func(f"""
@T.prim_func
def f(
    A: T.Buffer((4,), "uint8"), B: T.Buffer(({lanes}, 4), "int8"), C: T.Buffer(({lanes},), "int32")
):
    T.func_attr({{"is_scheduled": True}})
    for i in T.{kind}({lanes}):
        with T.block("C"):
            v = T.axis.spatial({lanes}, i)
            C[v] = T.dot4_u8i8(C[v], A[0], A[1], A[2], A[3], {b})
""")


def operands(lanes: int, *, extreme: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(lanes)
    c = rng.integers(-(2**31), 2**31, lanes).astype("int32")
    if extreme:
        return np.full(4, 255, "uint8"), np.full((lanes, 4), -128, "int8"), c
    a = rng.integers(0, 256, 4).astype("uint8")
    return a, rng.integers(-128, 128, (lanes, 4)).astype("int8"), c


@pytest.mark.parametrize("lanes", [1, 2, 3, 4, 8, 12, 16, 20, 32])
@pytest.mark.parametrize("extreme", [False, True])
def test_values(lanes: int, extreme: bool) -> None:
    for order in ("0123", "2103"):
        for kind in ("vectorized", "serial"):
            a, b, c = operands(lanes, extreme=extreme)
            picked = b[:, [int(t) for t in order]].astype("int64")
            expected = (c.astype("int64") + picked @ a.astype("int64")).astype("int32")
            func = kernel(lanes, kind, order)
            for target in (None, without_vnni()):
                found = c.copy()
                call_native(func, a, b, found, target=target)
                np.testing.assert_array_equal(found, expected)
            found = c.copy()
            run(func, a, b, found)
            np.testing.assert_array_equal(found, expected)


def test_different_bytes_in_every_lane() -> None:
    func = parse_func("""
@T.prim_func
def f(A: T.Buffer((8, 4), "uint8"), B: T.Buffer((4, 8), "int8"), C: T.Buffer((8,), "int32")):
    T.func_attr({"is_scheduled": True})
    for i in T.vectorized(8):
        with T.block("C"):
            v = T.axis.spatial(8, i)
            C[v] = T.dot4_u8i8(
                C[v], A[v, 0], A[v, 1], A[v, 2], A[v, 3], B[0, v], B[1, v], B[2, v], B[3, v]
            )
""")
    rng = np.random.default_rng(0)
    a = rng.integers(0, 256, (8, 4)).astype("uint8")
    b = rng.integers(-128, 128, (4, 8)).astype("int8")
    expected = np.einsum("ij,ji->i", a.astype("int32"), b.astype("int32"))
    for target in (None, without_vnni()):
        c = np.zeros(8, "int32")
        call_native(func, a, b, c, target=target)
        np.testing.assert_array_equal(c, expected)


def assembly(func: PrimFunc, target: Target) -> str:
    return emit_object([lower(func, target)], target, keep_text=True).assembly


def test_neighbours_are_one_load_and_one_instruction() -> None:
    """64 bytes and a broadcast word, straight into the instruction."""
    target = Target("llvm -mcpu=cascadelake")
    lines = [line.strip() for line in assembly(kernel(16), target).splitlines()]
    assert sum(line.startswith("vpdpbusd") for line in lines) == 1
    assert not [line for line in lines if line.startswith(("vpinsr", "vpunpck", "vpshuf", "vperm"))]
    plain = assembly(kernel(16), Target("llvm -mcpu=skylake-avx512"))
    assert "vpdpbusd" not in plain


def test_who_has_the_instruction() -> None:
    assert vnni_lanes(Target("llvm -mcpu=cascadelake")) == 16
    assert vnni_lanes(Target("llvm -mcpu=skylake-avx512")) == 0
    assert vnni_lanes(without_vnni()) == 0


def test_operands_are_checked() -> None:
    c, a, b = (Var(n, DType(d)) for n, d in (("c", "int32"), ("a", "uint8"), ("b", "int8")))
    assert call_intrin("dot4_u8i8", c, a, a, a, a, b, b, b, b).dtype == DType("int32")
    with pytest.raises(DTypeError, match="an operand of dot4_u8i8"):
        call_intrin("dot4_u8i8", c, b, b, b, b, a, a, a, a)
    with pytest.raises(DTypeError, match="9 operands"):
        call_intrin("dot4_u8i8", c, a, b)
