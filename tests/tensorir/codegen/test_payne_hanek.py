"""The table of 2/pi and the reduction on its own."""

from __future__ import annotations

from collections.abc import Callable

import llvmlite.ir as ir
import mpmath as mp
import numpy as np
import pytest

from burnish.support.dtype import DType
from burnish.tensorir.codegen.lanes import Lanes
from burnish.tensorir.codegen.payne_hanek import reduce_large, two_over_pi

Loops = Callable[..., Callable[..., np.ndarray]]


def test_the_table_is_two_over_pi() -> None:
    with mp.workprec(1400):
        expected = int(mp.floor(2 / mp.pi * mp.mpf(2) ** 1182))
    assert int.from_bytes(two_over_pi(), "little") == expected


def part(index: int, dtype: str) -> Callable[[ir.IRBuilder, list[ir.Value]], ir.Value]:
    """An emitter of one of (high, low, quadrant as a float)."""

    def emit(b: ir.IRBuilder, args: list[ir.Value]) -> ir.Value:
        lanes = Lanes(b, DType(dtype))
        parts = reduce_large(lanes, args[0])
        if index < 2:
            return parts[index]
        quadrant = b.and_(parts[2], lanes.int_const(3))
        return b.uitofp(quadrant, lanes.float_type)

    return emit


@pytest.mark.parametrize("dtype", ["float64", "float64x4"])
def test_reduction_of_large_arguments(emitted_loop: Loops, dtype: str) -> None:
    rng = np.random.default_rng(0)
    x = rng.choice([-1, 1], 300) * np.ldexp(rng.uniform(1, 2, 300), rng.integers(20, 1024, 300))
    x = np.append(x, [2.0**20, 6381956970095103.0 * 2.0**797, np.finfo(np.float64).max])
    high, low, quadrant = (emitted_loop(part(i, dtype), dtype)(x) for i in range(3))
    assert (abs(high) <= np.pi / 4 * (1 + 2**-20)).all()
    with mp.workprec(1300):
        for v, h, lo, q in zip(x, high, low, quadrant, strict=True):
            exact = mp.mpf(float(v)) - (mp.mpf(float(h)) + mp.mpf(float(lo)))
            turns = exact / (mp.pi / 2)
            n = mp.nint(turns)
            assert int(n) % 4 == q
            assert abs((turns - n) * (mp.pi / 2)) <= abs(mp.mpf(float(h))) * mp.mpf(2) ** -75


def test_what_cannot_be_reduced_is_nan(emitted_loop: Loops) -> None:
    x = np.array([np.inf, -np.inf, np.nan])
    assert np.isnan(emitted_loop(part(0, "float64x4"), "float64x4")(x)).all()


@pytest.mark.parametrize("lanes", [1, 8, 12, 32])
def test_a_module_holds_one_copy_however_often_it_is_called(lanes: int) -> None:
    def module_of(calls: int) -> ir.Module:
        module, dtype = ir.Module(), DType("float64").with_lanes(lanes)
        kind = Lanes(ir.IRBuilder(), dtype).float_type
        function = ir.Function(module, ir.FunctionType(kind, [kind]), "f")
        builder = ir.IRBuilder(function.append_basic_block("entry"))
        value = function.args[0]
        for _ in range(calls):
            value = reduce_large(Lanes(builder, dtype), value)[0]
        builder.ret(value)
        return module

    def instructions(module: ir.Module) -> int:
        return sum(len(block.instructions) for f in module.functions for block in f.blocks)

    few, many = instructions(module_of(1)), instructions(module_of(9))
    assert many <= 2 * few + 10
