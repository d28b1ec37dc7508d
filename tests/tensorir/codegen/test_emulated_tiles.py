"""Emulated tiles against NumPy, for each pair of dtypes that tiles multiply."""

from __future__ import annotations

import numpy as np
import pytest

from burnish.support.dtype import bfloat16_bits
from burnish.tensorir.text.parser import parse_func
from burnish.tests.native import call_native
from burnish.tests.tensorir.codegen.test_tiles import emulated

PAIRS = [(a, b) for a in ("int8", "uint8") for b in ("int8", "uint8")]
HALVES = [("bfloat16", "bfloat16"), ("float16", "float16")]


@pytest.mark.parametrize(("first", "second"), [*PAIRS, *HALVES])
@pytest.mark.parametrize(("rows", "columns", "groups"), [(16, 16, 16), (3, 5, 7)])
def test_a_product(first: str, second: str, rows: int, columns: int, groups: int) -> None:
    halves = first in ("bfloat16", "float16")
    group, total = (2, "float32") if halves else (4, "int32")
    func = parse_func(f"""
@T.prim_func
def main(
    X: T.Buffer(({rows}, {groups * group}), "{first}"),
    W: T.Buffer(({groups}, {columns}, {group}), "{second}"),
    Y: T.Buffer(({rows}, {columns}), "{total}"),
):
    for j in T.serial({columns}, annotations={{"tile_registers": 1}}):
        for i, k2, k1 in T.grid({rows}, {groups}, {group}):
            with T.block("Y"):
                vi, vj = T.axis.remap("SS", [i, j])
                vk = T.axis.reduce({groups * group}, k2 * {group} + k1)
                Y[vi, vj] = Y[vi, vj] + T.Cast("{total}", X[vi, vk]) * T.Cast(
                    "{total}", W[vk // {group}, vj, vk % {group}]
                )
""")
    rng = np.random.default_rng(0)

    def drawn(shape: tuple[int, ...], dtype: str) -> tuple[np.ndarray, np.ndarray]:
        if not halves:
            limits = np.iinfo(dtype)
            held = rng.integers(limits.min, limits.max + 1, shape).astype(dtype)
            return held, held.astype(np.int64)
        # Few bits: every sum is exact, whatever its order.
        held = rng.integers(-16, 17, shape).astype("float32")
        return bfloat16_bits(held) if dtype == "bfloat16" else held.astype("float16"), held

    x, exact_x = drawn((rows, groups * group), first)
    w, exact_w = drawn((groups, columns, group), second)
    y = np.full((rows, columns), 2, total)
    call_native(func, x, w, y, target=emulated())
    turned = exact_w.transpose(0, 2, 1).reshape(groups * group, columns)
    assert np.array_equal(y, 2 + exact_x @ turned)
