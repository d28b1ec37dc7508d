"""Dot products of two int16: the same numbers from every unit, and the instructions."""

from __future__ import annotations

import numpy as np
import pytest

from burnish.support.dtype import DType
from burnish.support.errors import DTypeError
from burnish.support.target import Target
from burnish.tensorir.codegen.dot4 import dot_unit
from burnish.tensorir.codegen.object import emit_object
from burnish.tensorir.expr import Var
from burnish.tensorir.function import PrimFunc
from burnish.tensorir.intrinsics import call_intrin
from burnish.tensorir.text.parser import parse_func
from burnish.tests.native import call_native, lower

SSE2 = Target("llvm -mcpu=x86-64")


def kernel(lanes: int, kind: str = "vectorized", order: str = "01") -> PrimFunc:
    b = ", ".join([f"B[v, {t}]" for t in order])
    return parse_func(f"""
@T.prim_func
def f(
    A: T.Buffer((2,), "int16"),
    B: T.Buffer(({lanes}, 2), "int16"),
    C: T.Buffer(({lanes},), "int32"),
):
    T.func_attr({{"is_scheduled": True}})
    for i in T.{kind}({lanes}):
        with T.block("C"):
            v = T.axis.spatial({lanes}, i)
            C[v] = T.dot2_i16(C[v], A[0], A[1], {b})
""")


@pytest.mark.parametrize("lanes", [1, 2, 3, 4, 8, 12, 16, 20, 32])
@pytest.mark.parametrize("order", ["01", "10"])
@pytest.mark.parametrize("kind", ["vectorized", "serial"])
def test_values_wrap_at_32_bits(lanes: int, order: str, kind: str) -> None:
    rng = np.random.default_rng(lanes)
    a = rng.integers(-(1 << 15), 1 << 15, 2).astype("int16")
    b = rng.integers(-(1 << 15), 1 << 15, (lanes, 2)).astype("int16")
    a[0], b[0] = -(1 << 15), -(1 << 15)
    c = rng.integers(-(1 << 31), 1 << 31, lanes).astype("int32")
    picked = b[:, [int(t) for t in order]].astype("int64")
    expected = (c + picked @ a.astype("int64")).astype("int32")
    for target in (None, SSE2):
        found = c.copy()
        call_native(kernel(lanes, kind, order), a, b, found, target=target)
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("cpu", "lanes", "words"),
    [
        ("haswell", 8, ("vpmaddwd", "vpaddd")),
        ("skylake-avx512", 16, ("vpmaddwd", "vpaddd")),
        ("cascadelake", 16, ("vpdpwssd",)),
        ("x86-64", 4, ("pmaddwd", "paddd")),
    ],
)
def test_neighbours_are_one_load_and_their_product_one_instruction(
    cpu: str, lanes: int, words: tuple[str, ...]
) -> None:
    target = Target(f"llvm -mcpu={cpu}")
    text = emit_object([lower(kernel(lanes), target)], target, keep_text=True).assembly
    found = [line.split()[0] for line in text.splitlines() if line.strip()]
    assert [found.count(word) for word in words] == [1] * len(words)
    assert not [w for w in found if w.startswith(("vpinsr", "vpunpck", "vpsll", "vpsra", "psll"))]


def test_other_cpus_widen() -> None:
    target = Target("llvm -mcpu=generic")
    assert dot_unit(target).kind == "neon"
    text = emit_object([lower(kernel(4), target)], target, keep_text=True).assembly
    assert "mla" in text or "mul" in text


def test_operands_have_their_dtypes() -> None:
    total, x = Var("c", DType("int32")), Var("x", DType("int16"))
    assert call_intrin("dot2_i16", total, x, x, x, x).dtype == "int32"
    with pytest.raises(DTypeError, match="int16"):
        call_intrin("dot2_i16", total, total, x, x, x)
