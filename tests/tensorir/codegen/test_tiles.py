"""Regions of tile registers: what is kept in them, and programs that are no region, all with the
numbers of the loops that they are."""

from __future__ import annotations

import re

import numpy as np
import pytest

from burnish.support.dtype import bfloat16_bits
from burnish.support.host import native_target, resolve
from burnish.support.target import Target
from burnish.tensorir.codegen.object import emit_object
from burnish.tensorir.codegen.tiles import config_bytes
from burnish.tensorir.function import PrimFunc
from burnish.tensorir.lowering.pipeline import lower_func
from burnish.tensorir.text.parser import parse_func
from burnish.tests.native import call_native

SERVER = Target("llvm -mcpu=sapphirerapids -cores=1")
BODY = """
                vi = T.axis.spatial(64, {i})
                vj = T.axis.spatial(64, {j})
"""


def zero(i: str, j: str, rows: int = 16) -> str:
    return f"""
    for j in T.serial(16, annotations={{"tile_registers": 1}}):
        for i in range({rows}):
            with T.block("Z"):
                vi = T.axis.spatial(64, {i})
                vj = T.axis.spatial(64, {j})
                Y[vi, vj] = T.float32(0)
"""


def product(i: str, j: str, k: str, rows: int = 16) -> str:
    return f"""
    for j in T.serial(16, annotations={{"tile_registers": 1}}):
        for i, k2, k1 in T.grid({rows}, 16, 2):
            with T.block("P"):
                vi = T.axis.spatial(64, {i})
                vj = T.axis.spatial(64, {j})
                vk = T.axis.reduce(64, {k} + k2 * 2 + k1)
                Y[vi, vj] = Y[vi, vj] + T.Cast("float32", X[vi, vk]) * T.Cast(
                    "float32", W[vk // 2, vj, vk % 2]
                )
"""


def other(total: str, x: str, rows: int = 16, axes: str = "SSR") -> str:
    """A nest with other places of sums and of X."""
    i, j = (("spatial" if a == "S" else "reduce") for a in axes[:2])
    return f"""
    for j in T.serial(16, annotations={{"tile_registers": 1}}):
        for i, k2, k1 in T.grid({rows}, 16, 2):
            with T.block("P"):
                vi = T.axis.{i}(32, i)
                vj = T.axis.{j}(48, j)
                vk = T.axis.reduce(64, k2 * 2 + k1)
                Y[{total}] = Y[{total}] + T.Cast("float32", X[{x}]) * T.Cast(
                    "float32", W[vk // 2, vj, vk % 2]
                )
"""


def inside(loop: str, *parts: str) -> str:
    lines = "".join(parts).splitlines()
    return f"\n    {loop}:" + "\n".join("    " + s if s.strip() else s for s in lines)


def program(*parts: str) -> PrimFunc:
    text = "".join(parts)
    for number, name in enumerate(re.findall(r'"([ZP])"', text)):
        text = text.replace(f'"{name}"', f'"{name}{number}"', 1)
    return parse_func(f"""
@T.prim_func
def main(
    X: T.Buffer((64, 64), "bfloat16"),
    W: T.Buffer((32, 64, 2), "bfloat16"),
    Y: T.Buffer((64, 64), "float32"),
):
{text}
""")


def emulated() -> Target:
    host = resolve(native_target())
    return host.with_options(features=(*host.features, "+emulated-tiles"))


def run(func: PrimFunc, target: Target) -> np.ndarray:
    rng = np.random.default_rng(0)
    x, w = (
        bfloat16_bits(rng.integers(-8, 9, s).astype("float32")) for s in ((64, 64), (32, 64, 2))
    )
    y = np.full((64, 64), 3.0, "float32")
    call_native(func, x, w, y, target=target)
    return y


def counts(func: PrimFunc) -> dict[str, int]:
    """The operations on tiles, in the text of the code for a CPU that has them."""
    text = emit_object([lower_func(func, SERVER)], SERVER, keep_text=True).assembly
    names = re.findall(r"\b(tilezero|tileloadd|tilestored|tdpbf16ps|ldtilecfg|tilerelease)\b", text)
    return {name: names.count(name) for name in sorted(set(names))}


ONE = {"ldtilecfg": 1, "tdpbf16ps": 1, "tileloadd": 3, "tilerelease": 1, "tilestored": 1}
K_LOOP = inside(
    "for k0 in range(2)", product("i", "j", "k0 * 32"), product("i + 16", "j", "k0 * 32")
)


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ((product("i", "j", "0"),), ONE),
        ((zero("i", "j"), product("i", "j", "0")), {**ONE, "tileloadd": 2, "tilezero": 1}),
        # An operand that two products have in common is loaded once.
        (
            (product("i", "j", "0"), product("i", "j + 16", "0")),
            {**ONE, "tdpbf16ps": 2, "tileloadd": 5, "tilestored": 2},
        ),
        # Zeros of something else stay a region's memory.
        ((zero("i + 32", "j"), product("i", "j", "0")), None),
        # Sums that lie over each other, that move, or are more than there are registers.
        ((product("i", "j", "0"), product("i + 8", "j", "0")), None),
        ((inside("for t in range(3)", product("i + t * 16", "j", "0")),), None),
        (
            tuple([product(f"i + {r}", f"j + {c}", "0") for r in (0, 16, 32) for c in (0, 16, 32)]),
            None,
        ),
        # Zeros behind sums; two shapes.
        ((product("i", "j", "0"), zero("i", "j"), product("i", "j", "32")), None),
        ((product("i", "j", "0"), product("i + 16", "j", "0", rows=5)), None),
        ((K_LOOP,), None),
        # Zeros in each iteration, and zeros of a part of the sums.
        ((inside("for t in range(3)", zero("i", "j"), product("i", "j", "t * 8")),), None),
        ((zero("i", "j", rows=7), product("i", "j", "0")), None),
        ((zero("i", "j"), zero("i + 16", "j"), K_LOOP), None),
    ],
    ids=[
        *("alone", "zeros", "shared", "other zeros", "overlapping", "moving", "many"),
        *("zeros later", "two shapes", "loop", "zeros in a loop", "zeros of a part"),
        "zeros and loop",
    ],
)
def test_programs(parts: tuple[str, ...], expected: dict[str, int] | None) -> None:
    func = program(*parts)
    found = counts(func)
    assert found["tdpbf16ps"] >= 1
    assert found["tilerelease"] >= 1
    if expected is not None:
        assert found == expected
    assert np.array_equal(run(func, emulated()), run(func, native_target()))


@pytest.mark.parametrize(
    "parts",
    [
        (other("0, vj", "vi, vk", axes="RSR"),),
        (other("vi, vj", "0, vk"),),
        (other("0, vi + vj", "vi, vk", axes="RRR"),),
        (other("vi, vj", "vi, vk"), other("vi, vj + 16", "vi * 2, vk")),
        (other("vi, vj", "vi, vk"), other("vi * 2, vj", "vi, vk")),
        (other("vi, vj", "vi, vk"), other("vi, vj", "vi, vk", rows=1)),
    ],
    ids=[
        *("one row of sums", "one row of X", "overlapping rows", "two pitches of X"),
        *("two pitches of sums", "a row of others' sums"),
    ],
)
def test_rows_at_other_distances(parts: tuple[str, ...]) -> None:
    func = program(*parts)
    assert np.array_equal(run(func, emulated()), run(func, native_target()))


def test_sums_of_a_loop_are_loaded_and_stored_once() -> None:
    found = counts(program(zero("i", "j"), zero("i + 16", "j"), K_LOOP))
    assert found["tilezero"] == found["tilestored"] == 2


def test_functions_whose_arguments_may_overlap_have_loops() -> None:
    func = program(product("i", "j", "0")).with_attr("inplace", True)
    assert counts(func) == {}
    assert np.array_equal(run(func, emulated()), run(func, native_target()))


def test_configurations() -> None:
    data = config_bytes([(16, 64), (5, 64), (16, 24)])
    assert len(data) == 64
    assert data[0] == 1
    assert [int.from_bytes(data[16 + 2 * n : 18 + 2 * n], "little") for n in range(4)] == [
        *(64, 64, 24, 0)
    ]
    assert list(data[48:52]) == [16, 5, 16, 0]
