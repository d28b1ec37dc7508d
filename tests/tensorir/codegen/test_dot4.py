"""Dot products of four bytes: the instruction and its replacement give the same bits."""

from __future__ import annotations

import re

import numpy as np
import pytest

from burnish.support.dtype import DType
from burnish.support.errors import DTypeError
from burnish.support.host import native_target, resolve
from burnish.support.target import Target
from burnish.tensorir.codegen.dot4 import DotUnit, dot_unit
from burnish.tensorir.codegen.object import emit_object
from burnish.tensorir.expr import Var
from burnish.tensorir.function import PrimFunc
from burnish.tensorir.intrinsics import call_intrin
from burnish.tensorir.text.parser import parse_func
from burnish.tests.native import call_native, lower
from burnish.tests.tensorir.interpreter import run

SSE2 = Target("llvm -mcpu=x86-64")


def without_vnni() -> Target:
    """This machine without the instruction."""
    target = resolve(native_target())
    kept = [f for f in target.features if "vnni" not in f]
    return target.with_options(features=(*kept, "-avx512vnni", "-avxvnni"))


SIGNS = ("u8i8", "i8i8", "u8u8")
DTYPES = {"i": "int8", "u": "uint8"}


def kernel(
    lanes: int, kind: str = "vectorized", order: str = "0123", signs: str = "u8i8"
) -> PrimFunc:
    b = ", ".join([f"B[v, {t}]" for t in order])
    first, second = DTYPES[signs[0]], DTYPES[signs[2]]
    return parse_func(f"""
@T.prim_func
def f(
    A: T.Buffer((4,), "{first}"),
    B: T.Buffer(({lanes}, 4), "{second}"),
    C: T.Buffer(({lanes},), "int32"),
):
    T.func_attr({{"is_scheduled": True}})
    for i in T.{kind}({lanes}):
        with T.block("C"):
            v = T.axis.spatial({lanes}, i)
            C[v] = T.dot4_{signs}(C[v], A[0], A[1], A[2], A[3], {b})
""")


RANGES = {"i": (-128, 127), "u": (0, 255)}


def operands(
    lanes: int, *, extreme: bool, signs: str = "u8i8"
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(lanes)
    c = rng.integers(-(2**31), 2**31, lanes).astype("int32")
    bytes_ = []
    for sign, shape in ((signs[0], (4,)), (signs[2], (lanes, 4))):
        low, high = RANGES[sign]
        worst = low if sign == "i" else high
        x = np.full(shape, worst) if extreme else rng.integers(low, high + 1, shape)
        bytes_.append(x.astype(DTYPES[sign]))
    return bytes_[0], bytes_[1], c


@pytest.mark.parametrize("lanes", [1, 2, 3, 4, 8, 12, 16, 20, 32])
@pytest.mark.parametrize("extreme", [False, True])
@pytest.mark.parametrize("signs", SIGNS)
def test_values(lanes: int, extreme: bool, signs: str) -> None:
    for order in ("0123", "2103"):
        for kind in ("vectorized", "serial"):
            a, b, c = operands(lanes, extreme=extreme, signs=signs)
            picked = b[:, [int(t) for t in order]].astype("int64")
            expected = (c.astype("int64") + picked @ a.astype("int64")).astype("int32")
            func = kernel(lanes, kind, order, signs)
            for target in (None, without_vnni(), SSE2):
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


@pytest.mark.parametrize(
    ("cpu", "features"), [("cascadelake", ""), ("haswell", " -mattr=+avxvnni")]
)
@pytest.mark.parametrize(("signs", "instructions"), [("u8i8", 1), ("i8i8", 2), ("u8u8", 2)])
def test_vnni(cpu: str, features: str, signs: str, instructions: int) -> None:
    """Where the signs are not its own, a second instruction counts what the first has too much."""
    target = Target(f"llvm -mcpu={cpu}{features}")
    text = assembly(kernel(target.vector_bits // 32, signs=signs), target)
    assert text.count("vpdpbusd") == instructions
    assert "vpmaddwd" not in text


@pytest.mark.parametrize("signs", SIGNS)
@pytest.mark.parametrize(
    ("cpu", "word"),
    [("skylake-avx512", "vpmaddwd"), ("haswell", "vpmaddwd"), ("x86-64", "pmaddwd")],
)
def test_without_vnni_pairs_of_16_bits_are_multiplied(cpu: str, word: str, signs: str) -> None:
    target = Target(f"llvm -mcpu={cpu}")
    lines = assembly(kernel(target.vector_bits // 32, signs=signs), target).splitlines()
    operations = [line.split()[0] for line in lines if line.startswith("\t")]
    assert operations.count(word) == 2
    # No product saturates, none is taken one by one, and no byte leaves its lane.
    assert not [x for x in operations if re.match(r"v?(?:pmaddubsw|pmulld|pmuludq|pmov|punpck)", x)]


@pytest.mark.parametrize(
    ("features", "signs", "words"),
    [
        ("+dotprod", "i8i8", {"sdot": 1}),
        ("+dotprod", "u8u8", {"udot": 1}),
        ("+dotprod", "u8i8", {"sdot": 2}),
        ("+dotprod,+i8mm", "u8i8", {"usdot": 1}),
        ("", "i8i8", {"sadalp": 2}),
        ("", "u8u8", {"uadalp": 2}),
        ("", "u8i8", {"sadalp": 2}),
    ],
)
def test_aarch64(features: str, signs: str, words: dict[str, int]) -> None:
    target = Target("llvm -mcpu=generic" + (f" -mattr={features}" if features else ""))
    lines = assembly(kernel(4, signs=signs), target).splitlines()
    operations = [line.split()[0] for line in lines if line.startswith("\t")]
    known = ("sdot", "udot", "usdot", "sadalp", "uadalp")
    assert {x: operations.count(x) for x in known if x in operations} == words


def test_who_has_what() -> None:
    def unit(text: str) -> DotUnit:
        return dot_unit(Target(f"llvm -mcpu={text}"))

    assert unit("cascadelake") == DotUnit("vnni", 16, True)
    assert unit("skylake-avx512") == DotUnit("madd", 16)
    assert unit("haswell") == DotUnit("madd", 8)
    assert unit("x86-64") == DotUnit("madd", 4)
    assert unit("alderlake -mtriple=x86_64-linux-gnu -vector-bits=256 -l1=32K") == DotUnit(
        "vnni", 8, True
    )
    assert unit("cascadelake -mattr=-avx512vnni") == DotUnit("madd", 16)
    assert unit("neoverse-n1") == DotUnit("dotprod", 4)
    assert unit("neoverse-n1 -mattr=-dotprod") == DotUnit("neon", 4)
    assert unit("generic -mattr=+dotprod,+i8mm") == DotUnit("dotprod", 4, True)
    other = Target("llvm -mcpu=generic-rv64").with_options(triple="riscv64-unknown-linux-gnu")
    assert dot_unit(other) == DotUnit()


def test_operands_are_checked() -> None:
    c, a, b = (Var(n, DType(d)) for n, d in (("c", "int32"), ("a", "uint8"), ("b", "int8")))
    assert call_intrin("dot4_u8i8", c, a, a, a, a, b, b, b, b).dtype == DType("int32")
    with pytest.raises(DTypeError, match="an operand of dot4_u8i8"):
        call_intrin("dot4_u8i8", c, b, b, b, b, a, a, a, a)
    with pytest.raises(DTypeError, match="9 operands"):
        call_intrin("dot4_u8i8", c, a, b)
