"""The arithmetic kit: cut constants, exact sums and products, selections that keep NaN."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import llvmlite.ir as ir
import mpmath as mp
import numpy as np
import pytest

from burnish.support.dtype import DType
from burnish.support.errors import DTypeError
from burnish.tensorir.codegen.lanes import LN2, LOG2_E, LOG10_2, LOG10_E, PI, Lanes

Loops = Callable[..., Callable[..., np.ndarray]]


def lanes(dtype: str) -> Lanes:
    function = ir.Function(ir.Module(), ir.FunctionType(ir.VoidType(), []), "function")
    return Lanes(ir.IRBuilder(function.append_basic_block()), DType(dtype))


def stepwise(dtype: str, register: int) -> str:
    """The IR of a polynomial whose vectors are kept together."""
    kind = Lanes(ir.IRBuilder(), DType(dtype)).float_type
    function = ir.Function(ir.Module(), ir.FunctionType(kind, [kind]), "function")
    builder = ir.IRBuilder(function.append_basic_block())
    kit = Lanes(builder, DType(dtype), stepwise=register)
    builder.ret(kit.poly(function.args[0], [1.0, 2.0, 3.0]))
    return str(function)


@pytest.mark.parametrize(
    ("dtype", "register", "steps"),
    [
        ("float32x16", 128, 2),  # four registers, one step a coefficient
        ("float64x4", 128, 2),
        ("float32x16", 0, 0),
        ("float32x4", 128, 0),  # one register
        ("float32", 128, 0),
        ("float32x6", 128, 0),  # not whole registers
        ("float32x32", 128, 0),  # more than there are registers for
    ],
)
def test_which_vectors_go_step_by_step(dtype: str, register: int, steps: int) -> None:
    assert stepwise(dtype, register).count("asm") == steps


def test_vectors_that_go_step_by_step_give_the_same_bits(emitted_loop: Loops) -> None:
    def emit(register: int) -> Callable[[ir.IRBuilder, list[ir.Value]], ir.Value]:
        def polynomial(b: ir.IRBuilder, args: list[ir.Value]) -> ir.Value:
            return Lanes(b, DType("float32x16"), stepwise=register).poly(args[0], [1.0, -2.0, 3.0])

        return polynomial

    x = np.random.default_rng(0).standard_normal(64).astype(np.float32)
    x[:2] = np.nan, np.inf
    found = [emitted_loop(emit(n), "float32x16", 1, "x86-64")(x) for n in (0, 128)]
    np.testing.assert_array_equal(*found)


def test_the_constants() -> None:
    with mp.workprec(220):
        expected = [mp.log(2), 1 / mp.log(2), 1 / mp.log(10), mp.log10(2), mp.pi]
        for found, exact in zip([LN2, LOG2_E, LOG10_E, LOG10_2, PI], expected, strict=True):
            assert abs(mp.mpf(found.numerator) / found.denominator - exact) < mp.mpf(10) ** -60


@pytest.mark.parametrize("value", [LN2, PI / 2, PI, LOG10_2, Fraction(1), Fraction(2, 3)])
def test_pieces(value: Fraction) -> None:
    parts = lanes("float64").pieces(value, [33, 20])
    assert abs(sum(map(Fraction, parts)) - value) <= value / 2**100
    for part, width in zip(parts, [33, 20], strict=False):
        assert Fraction(part).numerator.bit_length() <= width
    assert 0 <= parts[1] < parts[0] / 2**32


def test_pieces_of_float32() -> None:
    high, low = lanes("float32").pieces(LN2, [16])
    assert high == 45426 / 2**16
    assert low == float(np.float32(low))
    assert abs(Fraction(high) + Fraction(low) - LN2) < Fraction(1, 2**40)


@pytest.mark.parametrize("dtype", ["int32x4", "float16", "bfloat16x8"])
def test_formats_without_lanes(dtype: str) -> None:
    with pytest.raises(DTypeError, match="a format to compute in, one of float32, float64"):
        lanes(dtype)


@pytest.mark.parametrize("cpu", ["host", "x86-64"])
@pytest.mark.parametrize("operation", ["two_sum", "two_product"])
def test_unevaluated_results_are_exact(emitted_loop: Loops, operation: str, cpu: str) -> None:
    def part(index: int) -> Callable[[ir.IRBuilder, list[ir.Value]], ir.Value]:
        def emit(b: ir.IRBuilder, args: list[ir.Value]) -> ir.Value:
            kit = Lanes(b, DType("float64x4"))
            return getattr(kit, operation)(*args)[index]

        return emit

    rng = np.random.default_rng(4)
    a, b = np.ldexp(rng.normal(size=(2, 400)), rng.integers(-40, 40, (2, 400)))
    high, low = (emitted_loop(part(i), "float64x4", 2, cpu)(a, b) for i in (0, 1))
    for x, y, h, lo in zip(a, b, high, low, strict=True):
        p, q = Fraction(float(x)), Fraction(float(y))
        exact = p + q if operation == "two_sum" else p * q
        rest = abs(exact - Fraction(float(h)) - Fraction(float(lo)))
        assert rest == 0 if operation == "two_sum" else rest <= abs(exact) / 2**104


def test_limits_keep_nan(emitted_loop: Loops) -> None:
    def emit(b: ir.IRBuilder, args: list[ir.Value]) -> ir.Value:
        kit = Lanes(b, DType("float32x4"))
        return kit.at_most(kit.at_least(args[0], -2.0), 3.0)

    x = np.array([np.nan, -np.inf, np.inf, -5, 1, 4, -2], np.float32)
    expected = np.array([np.nan, -2, 3, -2, 1, 3, -2], np.float32)
    np.testing.assert_array_equal(emitted_loop(emit, "float32x4")(x), expected)


def test_rounding_halves_to_even(emitted_loop: Loops) -> None:
    def emit(b: ir.IRBuilder, args: list[ir.Value]) -> ir.Value:
        return Lanes(b, DType("float64x4")).round_integral(args[0])

    x = np.array([0.5, 1.5, 2.5, -0.5, -1.5, 1e9 + 0.5, 2.49, -7.51])
    np.testing.assert_array_equal(emitted_loop(emit, "float64x4")(x), np.rint(x))


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 8, 9])
def test_a_polynomial_in_pairs(emitted_loop: Loops, count: int) -> None:
    coefficients = [float(c) for c in range(1, count + 1)]

    def emit(b: ir.IRBuilder, args: list[ir.Value]) -> ir.Value:
        return Lanes(b, DType("float64x4")).poly_pairs(args[0], coefficients)

    x = np.array([0.0, 1.0, -2.0, 0.5, 3.0])
    expected = np.polynomial.polynomial.polyval(x, coefficients)
    np.testing.assert_array_equal(emitted_loop(emit, "float64x4")(x), expected)


def test_a_sign_taken_off_and_given_back(emitted_loop: Loops) -> None:
    def emit(b: ir.IRBuilder, args: list[ir.Value]) -> ir.Value:
        kit = Lanes(b, DType("float32x4"))
        return kit.with_sign(*kit.split_sign(args[0]))

    x = np.array([0.0, -0.0, 1.5, -1.5, np.inf, -np.inf, np.nan, -np.nan], np.float32)
    found = emitted_loop(emit, "float32x4")(x)
    np.testing.assert_array_equal(found.view(np.uint32), x.view(np.uint32))


def test_parts_are_joined_to_what_they_are_of(emitted_loop: Loops) -> None:
    def emit(b: ir.IRBuilder, args: list[ir.Value]) -> ir.Value:
        kit = Lanes(b, DType("float64x16"))
        return kit.joined([kit.part(args[0], start, 4) for start in (4, 0, 12, 8)])

    x = np.arange(32.0)
    expected = x.reshape(2, 4, 4)[:, [1, 0, 3, 2]].ravel()
    np.testing.assert_array_equal(emitted_loop(emit, "float64x16")(x), expected)
