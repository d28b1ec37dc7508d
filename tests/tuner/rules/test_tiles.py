"""Products in tile registers: every part of rows, columns and k, in emulated tiles and in loops."""

from __future__ import annotations

import re
from functools import cache

import numpy as np
import pytest

from burnish.support.dtype import bfloat16_bits
from burnish.support.host import native_target, resolve
from burnish.support.target import Target
from burnish.tensorir import operators as op
from burnish.tensorir.codegen.object import emit_object
from burnish.tensorir.expr import IntImm, Var
from burnish.tensorir.function import PrimFunc
from burnish.tensorir.lowering.pipeline import lower_func
from burnish.tensorir.lowering.tile_nests import TILE_REGISTERS
from burnish.tensorir.schedule import pack_array, parse_index_map
from burnish.tensorir.te.compute import Tensor, create_prim_func, placeholder
from burnish.tensorir.text.printer import print_func
from burnish.tests.native import call_native
from burnish.tests.tuner.rules.checking import rules_of, scheduled

SERVER = Target("llvm -mcpu=graniterapids")
"""Schedules are those for this CPU; the CPU that runs the tests emulates its tiles."""
Shape = tuple[int | str, ...]
BYTES = ("int8", "uint8")


@cache
def emulated() -> Target:
    host = resolve(native_target())
    return host.with_options(features=(*host.features, "+emulated-tiles"))


def product(
    a: Shape, b: Shape, x: str = "bfloat16", w: str = "bfloat16", *, free: bool = True
) -> PrimFunc:
    """A product of these dtypes whose epilogue doubles the sums."""
    known = {d: Var(d) for d in (*a, *b) if isinstance(d, str)}

    def operand(name: str, shape: Shape, dtype: str) -> Tensor:
        return placeholder(tuple([known.get(d, d) for d in shape]), dtype, name=name)  # type: ignore[arg-type]

    left, right = operand("x", a, x), operand("w", b, w)
    y = (
        op.integer_matmul(left, right)
        if x in BYTES
        else op.matmul(left, right, out_dtype="float32")
    )
    func = create_prim_func([left, right, op.add(y, y)])
    return func.with_attr("layout_free", [1]) if free else func


def values(held: np.ndarray) -> np.ndarray:
    if held.dtype == np.uint16:
        return (held.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return held.astype(np.float64)


def drawn(rng: np.random.Generator, shape: list[int], dtype: str) -> np.ndarray:
    if dtype in BYTES:
        limits = np.iinfo(dtype)
        return rng.integers(limits.min, limits.max + 1, shape).astype(dtype)
    held = rng.standard_normal(shape).astype("float32")
    return bfloat16_bits(held) if dtype == "bfloat16" else held.astype("float16")


def check(
    func: PrimFunc,
    a: Shape,
    b: Shape,
    x: str = "bfloat16",
    w: str = "bfloat16",
    *,
    m: int = 0,
    threads: int = 1,
) -> None:
    rng = np.random.default_rng(0)
    left, right = (
        drawn(rng, [m if d == "m" else int(d) for d in shape], dtype)
        for shape, dtype in ((a, x), (b, w))
    )
    expected = 2 * (values(left) @ values(right))
    bound = 2 * (left.shape[-1] + 1) * 2.0**-24 * (np.abs(values(left)) @ np.abs(values(right)))
    packed = right
    for _, text, pad in func.attr("layout_maps") or ():
        packed = pack_array(right, parse_index_map(text), pad, w)
    dims = [] if isinstance(func.buffers[0].shape[0], IntImm) else [m]
    for target in (emulated(), native_target()):
        found = np.full(expected.shape, -77, "int32" if x in BYTES else "float32")
        call_native(func, left, packed, found, target=target, dims=dims, threads=threads)
        assert np.all(np.abs(found - expected) <= (0 if x in BYTES else bound))


def tiles_emitted(func: PrimFunc) -> set[str]:
    """The operations on tiles that code for emulated ones calls."""
    code = emit_object([lower_func(func, emulated())], emulated(), keep_text=True)
    return set(re.findall(r'call [a-z ]*void @"?tile\.([a-z0-9.]+)"?', code.ir))


def server_assembly(func: PrimFunc) -> str:
    target = SERVER.with_options(cores=1)
    return emit_object([lower_func(func, target)], target, keep_text=True).assembly


@pytest.mark.parametrize("depth", [32, 48, 50, 96, 784])
@pytest.mark.parametrize("columns", [3, 16, 45])
def test_any_depth_and_columns(depth: int, columns: int) -> None:
    name, func = scheduled(product((37, depth), (depth, columns)), target=SERVER)
    assert name == "tiles"
    assert tiles_emitted(func) == {"zero", "load", "store", "bfloat16.bfloat16"}
    check(func, (37, depth), (depth, columns))


@pytest.mark.parametrize("rows", [5, 16, 17, 33, 49, 64])
def test_any_rows_and_decisions(rows: int) -> None:
    for sampled, seed in ((False, 0), (True, 1), (True, 2)):
        name, func = scheduled(
            product((rows, 64), (64, 140)), sampled=sampled, seed=seed, target=SERVER
        )
        assert name == "tiles"
        check(func, (rows, 64), (64, 140))


@pytest.mark.parametrize("x", BYTES)
@pytest.mark.parametrize("w", BYTES)
def test_bytes_of_all_signs_are_exact(x: str, w: str) -> None:
    name, func = scheduled(product((21, 196), (196, 40), x, w), target=SERVER)
    assert name == "tiles"
    assert tiles_emitted(func) == {"zero", "load", "store", f"{x}.{w}"}
    check(func, (21, 196), (196, 40), x, w)


@pytest.mark.parametrize(
    ("a", "b", "free"),
    [
        ((3, 37, 64), (64, 24), True),
        ((2, 9, 64), (2, 64, 24), True),
        ((2, 3, 9, 64), (2, 3, 64, 24), True),
        ((70, 64), (64, 40), False),
    ],
)
def test_batches_and_weights_of_a_fixed_layout(a: Shape, b: Shape, free: bool) -> None:
    name, func = scheduled(product(a, b, free=free), target=SERVER)
    assert name == "tiles"
    check(func, a, b)


@pytest.mark.parametrize("dtypes", [("bfloat16", "bfloat16"), ("uint8", "int8")])
def test_any_number_of_rows(dtypes: tuple[str, str]) -> None:
    name, func = scheduled(product(("m", 64), (64, 40), *dtypes), target=SERVER)
    assert name == "tiles"
    for m in (1, 2, 15, 16, 47, 64, 0):
        check(func, ("m", 64), (64, 40), *dtypes, m=m)


def test_threads_change_no_bit() -> None:
    _, func = scheduled(product((150, 160), (160, 96)), target=SERVER)
    found = []
    rng = np.random.default_rng(1)
    x, w = drawn(rng, [150, 160], "bfloat16"), drawn(rng, [160, 96], "bfloat16")
    ((_, text, pad),) = func.attr("layout_maps")
    packed = pack_array(w, parse_index_map(text), pad, "bfloat16")
    for threads in (1, 2, 5):
        y = np.zeros((150, 96), "float32")
        call_native(func, x, packed, y, target=emulated(), threads=threads)
        found.append(y)
    assert np.array_equal(found[0], found[1])
    assert np.array_equal(found[0], found[2])


@pytest.mark.parametrize(
    ("a", "b", "why"),
    [
        ((4, 64), (64, 40), "few rows wait for the weights' bytes"),
        ((40, 33), (33, 40), "an odd number of terms does not stand in pairs"),
        ((40, 4), (4, 40), "tiles would be mostly empty"),
    ],
)
def test_what_is_left_to_the_rules_behind(a: Shape, b: Shape, why: str) -> None:
    assert "tiles" not in rules_of(product(a, b), target=SERVER), why


def test_instructions_keep_sums_in_registers() -> None:
    """Of 2 x 2 tiles of sums none moves in the loop over k: four loads for four products."""
    _, func = scheduled(product((64, 768), (768, 64)), target=SERVER)
    lines = server_assembly(func)
    loop = re.findall(r"\b(tdpbf16ps|tileloadd|tilestored|tilezero)\b", lines)
    assert loop.count("tdpbf16ps") == loop.count("tileloadd")
    assert loop.count("tilezero") == loop.count("tilestored") == 4
    assert len(re.findall(r"\bldtilecfg\b", lines)) == 1
    assert "tilerelease" in lines
    assert print_func(func).count(TILE_REGISTERS) == 2


def test_another_shape_at_the_end_is_configured_and_back() -> None:
    _, func = scheduled(product((37, 80), (80, 32)), target=SERVER)
    assert len(re.findall(r"\bldtilecfg\b", server_assembly(func))) >= 2
