"""Every function of the table: errors in ULP against docs/math.md, no calls, all dtypes and widths.

``pytest --update-golden`` rewrites the measured columns of the document; its bounds are written by
hand and hold on CPUs with fma and without.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import llvmlite.ir as ir
import mpmath as mp
import numpy as np
import pytest
import scipy.special

from burnish.support.dtype import DType
from burnish.support.errors import CodegenError, DTypeError
from burnish.tensorir.codegen.math import MATH_FUNCTIONS, SPLITS_BLOCK, emit_math

DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "math.md"
SAMPLES_32, SAMPLES_64 = 20_000, 60
Arrays = tuple[np.ndarray, ...]

REFERENCE_32: dict[str, Callable[..., np.ndarray]] = {
    "exp": np.exp,
    "exp_negative": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "sigmoid": scipy.special.expit,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "log1p": np.log1p,
    "tanh": np.tanh,
    "erf": scipy.special.erf,
    "erfc": scipy.special.erfc,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "atan": np.arctan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan2": np.arctan2,
    "pow": np.power,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "fmod": np.fmod,
}
REFERENCE_64: dict[str, Callable[..., mp.mpf]] = {
    "exp_negative": mp.exp,
    "exp2": lambda x: mp.mpf(2) ** x,
    "sigmoid": lambda x: 1 / (1 + mp.exp(-x)),
    "log2": lambda x: mp.log(x, 2),
    "pow": mp.power,
    "rsqrt": lambda x: 1 / mp.sqrt(x),
    "fmod": lambda x, y: mp.mpf(float(np.fmod(float(x), float(y)))),
}
SATURATED = {"exp": 2000, "exp2": 2000, "expm1": 2000, "sinh": 2000, "cosh": 2000, "sigmoid": 2000}
SATURATED |= {"exp_negative": 2000, "tanh": 200, "erf": 40, "erfc": 40}
"""Beyond these mpmath would work on numbers of absurd size; the results do not change any more."""


DENSE = {
    "exp": ((-105, 90), (-746, 711)),
    "exp2": ((-151, 129), (-1076, 1025)),
    "erf": ((-4.2, 4.2), (-6.2, 6.2)),
    "erfc": ((-4.2, 10.2), (-6.2, 27.4)),
    "atan": ((-4, 4), (-4, 4)),
}
"""Where a function of one argument does something, in float32 and float64; those of exp by
default."""


def any_floats(rng: np.random.Generator, dtype: type, count: int) -> np.ndarray:
    """Finite floats with random bits."""
    integer = np.uint32 if dtype is np.float32 else np.uint64
    x = rng.integers(0, np.iinfo(integer).max, 2 * count, integer, endpoint=True).view(dtype)
    return x[np.isfinite(x)][:count]


def samples(name: str, dtype: type, count: int) -> Arrays:
    """Arguments over a function's whole domain, denser where it is not trivial."""
    rng = np.random.default_rng(len(name) * 1000 + ord(name[0]))
    wild = any_floats(rng, dtype, count)
    if MATH_FUNCTIONS[name].arity == 2:
        return pair_samples(name, rng, wild, dtype)

    def uniform(low: float, high: float) -> np.ndarray:
        return rng.uniform(low, high, count).astype(dtype)

    small = (rng.choice([-1, 1], count) * np.exp(rng.uniform(-20, 0, count))).astype(dtype)
    if name in ("log", "log2", "log10", "rsqrt"):
        x = np.concatenate([abs(wild), uniform(0.3, 3), 1 + small / 10])
        return (x[x > 0],)
    if name == "log1p":
        x = np.concatenate([wild, abs(wild), uniform(-1, 3), small])
        return (x[x > -1],)
    if name in ("sin", "cos", "tan"):
        near = (rng.integers(0, 2**22, count) * np.pi / 2).astype(dtype)
        ranges = [uniform(-7, 7), uniform(-1e4, 1e4), uniform(-2e6, 2e6)]
        return (np.concatenate([wild, *ranges, near, small]),)
    if name in ("asin", "acos"):
        return (np.concatenate([uniform(-1, 1), small, 1 - abs(small), abs(small) - 1]),)
    single, double = DENSE.get(name, DENSE["exp"])
    dense = uniform(*(single if dtype is np.float32 else double))
    x = np.concatenate([wild, dense, uniform(-2, 2), small])
    return (-abs(x) if name == "exp_negative" else x,)


def pair_samples(name: str, rng: np.random.Generator, wild: np.ndarray, dtype: type) -> Arrays:
    """Pairs with random bits, and pairs of moderate size."""
    count = len(wild)
    normal = rng.normal(size=(2, count)).astype(dtype)
    if name != "pow":
        other = any_floats(np.random.default_rng(7), dtype, count)
        return np.concatenate([wild, normal[0]]), np.concatenate([other, normal[1]])
    near_1 = (1 + rng.normal(size=count) / 1000).astype(dtype)
    base = np.concatenate([abs(wild), np.exp(3 * normal[0]), near_1]).astype(dtype)
    scales = np.repeat([0.3, 10, 1e4] if dtype is np.float32 else [0.3, 100, 1e5], count)
    return base, (scales * rng.normal(size=3 * count)).astype(dtype)


def error_32(name: str, arrays: Arrays, got: np.ndarray) -> float:
    """The largest error in ULP of the exact result; infinite where overflow is not where it
    should."""
    with np.errstate(all="ignore"):
        exact = REFERENCE_32[name](*[a.astype(np.float64) for a in arrays])
        rounded = exact.astype(np.float32)
        unit = np.spacing(np.maximum(abs(rounded), np.finfo(np.float32).tiny)).astype(np.float64)
        error = abs(got - exact) / unit
        error = np.where(np.isinf(rounded), np.where(got == rounded, 0, np.inf), error)
        error = np.where(np.isfinite(rounded) & ~np.isfinite(got), np.inf, error)
    return float(error.max())


def error_64(name: str, arrays: Arrays, got: np.ndarray) -> float:
    """As ``error_32``, against mpmath."""
    reference = REFERENCE_64.get(name) or getattr(mp, name)
    limit = SATURATED.get(name)
    worst = 0.0
    with mp.workprec(1300 if name in SPLITS_BLOCK else 200):
        overflow = mp.mpf(2) ** 1024 * (1 - mp.mpf(2) ** -54)
        for *args, value in zip(*arrays, got, strict=True):
            exact_args = [mp.mpf(float(a)) for a in args]
            if limit is not None and abs(exact_args[0]) > limit:
                exact_args[0] = mp.sign(exact_args[0]) * limit
            if name == "pow" and abs(mp.log(exact_args[0] or 1) * exact_args[1]) > 2000:
                continue
            exact = reference(*exact_args)
            if abs(exact) >= overflow:
                error = 0.0 if value == float(mp.sign(exact)) * np.inf else np.inf
            else:
                unit = mp.ldexp(1, max(int(mp.frexp(exact)[1]) - 53, -1074))
                error = float(abs(mp.mpf(float(value)) - exact) / unit)
            worst = max(worst, error)
    return worst


def bounds() -> dict[str, list[float]]:
    """(float32 measured, float32 bound, float64 measured, float64 bound) of each row."""
    rows = re.findall(r"^\| `(\w+)` \|(.*)\|$", DOCUMENT.read_text(encoding="utf-8"), re.M)
    return {name: [float(cell) for cell in cells.split("|")[:4]] for name, cells in rows}


def record(name: str, column: int, value: float) -> None:
    """Write a measured maximum into the document, rounded up to hundredths."""
    text = DOCUMENT.read_text(encoding="utf-8")
    row = re.search(rf"^\| `{name}` \|.*$", text, re.M)
    assert row is not None, f"docs/math.md has no row for {name}"
    cells = row.group().split("|")
    cells[2 + column] = f" {np.ceil(value * 100) / 100:.2f} "
    DOCUMENT.write_text(text.replace(row.group(), "|".join(cells)), encoding="utf-8")


@pytest.mark.parametrize("name", MATH_FUNCTIONS)
@pytest.mark.parametrize("bits", [32, 64])
def test_errors_in_ulp(
    math_loop: Callable[..., Callable[..., np.ndarray]],
    request: pytest.FixtureRequest,
    name: str,
    bits: int,
) -> None:
    dtype, count = (np.float32, SAMPLES_32) if bits == 32 else (np.float64, SAMPLES_64)
    arrays = samples(name, dtype, count)
    measure = error_32 if bits == 32 else error_64
    worst = 0.0
    for cpu in ("host", "x86-64"):
        got = math_loop(name, f"float{bits}x{512 // bits}", cpu)(*arrays)
        worst = max(worst, measure(name, arrays, got))
    column = 0 if bits == 32 else 2
    if request.config.getoption("--update-golden"):
        record(name, column, worst)
    assert worst <= bounds()[name][column + 1]


def test_the_document_has_every_function() -> None:
    assert list(bounds()) == list(MATH_FUNCTIONS)


def test_the_measured_errors_are_below_the_bounds() -> None:
    for measured_32, bound_32, measured_64, bound_64 in bounds().values():
        assert measured_32 <= bound_32 <= 4
        assert measured_64 <= bound_64 <= 4


@pytest.mark.parametrize("cpu", ["skylake-avx512", "haswell", "x86-64"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float32x16", "float64x8"])
def test_nothing_is_called(math_assembly: Callable[[str, str], str], dtype: str, cpu: str) -> None:
    calls = re.findall(r"^\s+(?:call|jmp)\S*\s+(?!\.L).*$", math_assembly(dtype, cpu), re.M)
    assert calls == []


@pytest.mark.parametrize("dtype", ["float32", "float32x3", "float32x5", "float64", "float64x2"])
@pytest.mark.parametrize("name", MATH_FUNCTIONS)
def test_every_width_gives_the_same_bits(
    math_loop: Callable[..., Callable[..., np.ndarray]], name: str, dtype: str
) -> None:
    scalar = str(DType(dtype).scalar)
    arrays = samples(name, np.float32 if scalar == "float32" else np.float64, 200)
    wide = math_loop(name, "float32x16" if scalar == "float32" else "float64x8")
    np.testing.assert_array_equal(math_loop(name, dtype)(*arrays), wide(*arrays))


def half_floats() -> np.ndarray:
    x = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    return x[np.isfinite(x)]


@pytest.mark.parametrize("name", ["exp", "log", "tanh", "erf", "sigmoid", "sin", "rsqrt"])
def test_float16_on_all_inputs(
    math_loop: Callable[..., Callable[..., np.ndarray]], name: str
) -> None:
    x = half_floats()
    with np.errstate(all="ignore"):
        exact = REFERENCE_32[name](x.astype(np.float64))
        expected = exact.astype(np.float16)
        unit = np.spacing(np.maximum(abs(expected), np.finfo(np.float16).tiny))
    got = math_loop(name, "float16x16")(x)
    finite = np.isfinite(expected)
    np.testing.assert_array_equal(got[~finite], expected[~finite])
    error = abs(got[finite].astype(np.float64) - exact[finite]) / unit[finite]
    assert error.max() <= 0.51


def to_bfloat16(x: np.ndarray) -> np.ndarray:
    bits = x.astype(np.float32).view(np.uint32).astype(np.uint64)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


@pytest.mark.parametrize("name", ["exp", "log", "tanh", "erf", "sigmoid", "sin", "rsqrt"])
def test_bfloat16_on_all_inputs(
    math_loop: Callable[..., Callable[..., np.ndarray]], name: str
) -> None:
    bits = np.arange(1 << 16, dtype=np.uint16)
    x = (bits.astype(np.uint32) << 16).view(np.float32)
    bits, x = bits[np.isfinite(x)], x[np.isfinite(x)]
    with np.errstate(all="ignore"):
        exact = REFERENCE_32[name](x.astype(np.float64)).astype(np.float32)
    got = math_loop(name, "bfloat16x16")(bits)
    as_float = (got.astype(np.uint32) << 16).view(np.float32)
    expected = (to_bfloat16(exact).astype(np.uint32) << 16).view(np.float32)
    nan = np.isnan(exact)
    assert np.isnan(as_float[nan]).all()
    # Twice rounded: now and then the neighbour, where float32 came out as a tie.
    differs = to_bfloat16(exact)[~nan] != got[~nan]
    assert differs.mean() < 1e-3
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(as_float[~nan], expected[~nan], rtol=2**-7, atol=1e-38)


def test_bfloat16_keeps_nan(math_loop: Callable[..., Callable[..., np.ndarray]]) -> None:
    bits = np.array([0x7F81, 0xFF81, 0x7FFF], np.uint16)
    got = (math_loop("exp", "bfloat16x4")(bits).astype(np.uint32) << 16).view(np.float32)
    assert np.isnan(got).all()


# -- the interface
# -----------------------------------------------------------------------------------
def builder() -> tuple[ir.IRBuilder, ir.Value]:
    function = ir.Function(
        ir.Module(), ir.FunctionType(ir.FloatType(), [ir.FloatType()]), "function"
    )
    return ir.IRBuilder(function.append_basic_block("entry")), function.args[0]


@pytest.mark.parametrize("name", MATH_FUNCTIONS)
def test_which_functions_split_the_block(name: str) -> None:
    b, x = builder()
    before = b.block
    value = emit_math(b, name, [x] * MATH_FUNCTIONS[name].arity, DType("float32"))
    assert value.type == ir.FloatType()
    assert (b.block is not before) == (name in SPLITS_BLOCK)


def test_an_unknown_function() -> None:
    b, x = builder()
    with pytest.raises(CodegenError, match=r"'tanhh' is no elementary .*Did you mean 'tanh'"):
        emit_math(b, "tanhh", [x], DType("float32"))


def test_a_wrong_number_of_operands() -> None:
    b, x = builder()
    with pytest.raises(CodegenError, match="pow takes 2 operands, found 1"):
        emit_math(b, "pow", [x], DType("float32"))
    with pytest.raises(CodegenError, match="exp takes 1 operand, found 2"):
        emit_math(b, "exp", [x, x], DType("float32"))


def test_a_dtype_that_is_no_float() -> None:
    b, x = builder()
    with pytest.raises(DTypeError, match=r"a float dtype, one of float16.*found 'int32x4'"):
        emit_math(b, "exp", [x], DType("int32x4"))
