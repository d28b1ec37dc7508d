"""Dot products of two bfloat16: the instruction, its replacement, and float64."""

from __future__ import annotations

import numpy as np
import pytest

from burnish.support.dtype import DType, bfloat16_bits
from burnish.support.errors import DTypeError
from burnish.support.host import native_target, resolve
from burnish.support.target import Target
from burnish.tensorir.codegen.dot2 import PairUnit, pair_unit
from burnish.tensorir.codegen.object import emit_object
from burnish.tensorir.expr import Var
from burnish.tensorir.function import PrimFunc
from burnish.tensorir.intrinsics import call_intrin
from burnish.tensorir.text.parser import parse_func
from burnish.tests.native import call_native, lower

SSE2 = Target("llvm -mcpu=x86-64")


def without_pairs() -> Target:
    """This machine without the instruction."""
    target = resolve(native_target())
    kept = [f for f in target.features if f not in ("+avx512bf16", "+bf16")]
    return target.with_options(features=(*kept, "-avx512bf16" if target.is_x86 else "-bf16"))


def kernel(lanes: int, kind: str = "vectorized", order: str = "01") -> PrimFunc:
    b = ", ".join([f"B[v, {t}]" for t in order])
    return parse_func(f"""
@T.prim_func
def f(
    A: T.Buffer((2,), "bfloat16"),
    B: T.Buffer(({lanes}, 2), "bfloat16"),
    C: T.Buffer(({lanes},), "float32"),
):
    T.func_attr({{"is_scheduled": True}})
    for i in T.{kind}({lanes}):
        with T.block("C"):
            v = T.axis.spatial({lanes}, i)
            C[v] = T.dot2_bf16(C[v], A[0], A[1], {b})
""")


def values(bits: np.ndarray) -> np.ndarray:
    return (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)


@pytest.mark.parametrize("lanes", [1, 2, 3, 4, 8, 12, 16, 20, 32])
@pytest.mark.parametrize("order", ["01", "10"])
@pytest.mark.parametrize("kind", ["vectorized", "serial"])
def test_values(lanes: int, order: str, kind: str) -> None:
    rng = np.random.default_rng(lanes)
    a, b = (bfloat16_bits(rng.standard_normal(s).astype("float32")) for s in (2, (lanes, 2)))
    c = rng.standard_normal(lanes).astype("float32")
    picked = values(b)[:, [int(t) for t in order]]
    expected = c + picked @ values(a)
    bound = 4 * 2.0**-24 * (np.abs(c) + np.abs(picked) @ np.abs(values(a)))
    for target in (None, without_pairs(), SSE2):
        found = c.copy()
        call_native(kernel(lanes, kind, order), a, b, found, target=target)
        assert np.all(np.abs(found - expected) <= bound)


def test_infinities_and_nan() -> None:
    a = bfloat16_bits(np.array([np.inf, 1], "float32"))
    b = bfloat16_bits(np.array([[1, 2], [-1, 2], [0, 2], [np.nan, 2]], "float32"))
    for target in (None, without_pairs()):
        c = np.ones(4, "float32")
        call_native(kernel(4), a, b, c, target=target)
        np.testing.assert_array_equal(c, np.array([np.inf, -np.inf, np.nan, np.nan], "float32"))


@pytest.mark.parametrize("cpu", ["znver4", "sapphirerapids"])
def test_neighbours_are_one_load_and_one_instruction(cpu: str) -> None:
    target = Target(f"llvm -mcpu={cpu}")
    text = emit_object([lower(kernel(16), target)], target, keep_text=True).assembly
    lines = [line.strip() for line in text.splitlines()]
    assert sum(line.startswith("vdpbf16ps") for line in lines) == 1
    assert not [line for line in lines if line.startswith(("vpinsr", "vpunpck", "vpshuf", "vperm"))]


def test_the_instruction_of_aarch64() -> None:
    target = Target("llvm -mcpu=generic -mattr=+bf16")
    text = emit_object([lower(kernel(4), target)], target, keep_text=True).assembly
    assert text.count("bfdot") == 1


def test_units() -> None:
    def unit(text: str) -> PairUnit:
        return pair_unit(Target(f"llvm -mcpu={text}"))

    assert unit("znver4") == PairUnit("vdpbf16ps", 16)
    assert unit("znver4 -mattr=-avx512bf16") == PairUnit()
    assert unit("haswell") == PairUnit()
    assert unit("generic -mattr=+bf16") == PairUnit("bfdot", 4)


def test_operands_have_their_dtypes() -> None:
    total, x = Var("c", DType("float32")), Var("x", DType("bfloat16"))
    assert call_intrin("dot2_bf16", total, x, x, x, x).dtype == "float32"
    with pytest.raises(DTypeError, match="bfloat16"):
        call_intrin("dot2_bf16", total, total, x, x, x)
