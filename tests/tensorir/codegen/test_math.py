"""Every function of the table: errors in ULP against docs/math.md, no calls, all dtypes and widths.

The document's errors of float32 are those of the sweep over all arguments (``tests/ulp``), whose
record is tested there; half precision is tested on all its values here; float64 on samples and
next to the arguments that are hard. ``pytest --update-golden`` rewrites the measured columns of the
document; its bounds of float64 are written by hand and hold on CPUs with fma and without.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

import llvmlite.ir as ir
import mpmath as mp
import numpy as np
import pytest

from burnish.support.dtype import DType
from burnish.support.errors import CodegenError, DTypeError
from burnish.tensorir.codegen.math import MATH_FUNCTIONS, SPLITS_BLOCK, emit_math
from burnish.tests.ulp.document import bounds, record
from burnish.tests.ulp.reference import (
    BFLOAT16,
    EXACT,
    FLOAT16,
    LONG_ARGUMENTS,
    REFERENCES,
    errors_in_ulp,
)
from burnish.tests.ulp.sweep import VARIANTS, load_record

SAMPLES_32, SAMPLES_64 = 20_000, 60
Arrays = tuple[np.ndarray, ...]

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


def next_to(points: Iterable[float]) -> np.ndarray:
    """Float64 points of either sign with the two numbers next to them on each side."""
    x = np.array(sorted(points), np.float64)
    x = np.concatenate([x, -x])
    bits = x.view(np.int64)
    return np.concatenate([bits + k for k in (-2, -1, 0, 1, 2)]).view(np.float64)


def hard_points(name: str) -> Arrays:
    """Float64 arguments where functions change their formula, come close to a zero, or leave the
    format, and those that are the worst of float32."""
    points = {0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 2.0**-26, 2.0**-27, 2.0**-53, 2.0**-54, 2.0**-1022}
    points |= {np.sqrt(0.5), np.sqrt(2), np.sqrt(2) - 1, np.sqrt(2) + 1, 2 / 3, 4 / 3}
    points |= {(k + 0.5) * np.log(2) for k in (0, 1, 2, 51, 52, 53, 1021, 1022, 1023)}
    points |= {k * np.log(2) for k in (1, 2, 53)} | {k + 0.5 for k in (0, 1, 2, 51, 1021)}
    points |= {709.782712893384, 710.4758600739439, 744.4400719213812, 745.1332191019412}
    points |= {1023.9999999999999, 1074.0, 19.0615, 19.5, 5.9375, 2.9375, 26.543, 27.226, 36.7369}
    points |= {k * np.pi / 4 for k in (1, 2, 3, 4, 5, 6, 7, 8, 22, 355, 2**19 - 1, 2**20, 2**21)}
    # The double closest to a multiple of pi/2 (Muller, Elementary Functions, 2nd ed., 11.3.2).
    points |= {6381956970095103.0 * 2.0**797, 2.0**1023, np.finfo(np.float64).max}
    for variant in VARIANTS:
        worst = load_record()[name][variant]["worst"]
        points |= {abs(x) for point in worst for x in point["args"]}
    x = next_to(points)
    x = x[np.isfinite(x)]
    if MATH_FUNCTIONS[name].arity == 2:
        near_1 = next_to([1.0, 1 + 2.0**-20, 1 + 2.0**-45, 2.0, 0.5, 10.0])
        other = next_to([1.0, 0.5, 3.0, 1e6, np.sqrt(2) + 1, np.sqrt(2) - 1])
        pairs = np.meshgrid(abs(near_1) if name == "pow" else near_1, other)
        return pairs[0].ravel(), pairs[1].ravel()
    domains = {"log1p": x > -1, "asin": abs(x) <= 1, "acos": abs(x) <= 1, "exp_negative": x <= 0}
    domains |= dict.fromkeys(("log", "log2", "log10", "rsqrt"), x > 0)
    return (x[domains.get(name, np.ones(len(x), bool))],)


def error_64(name: str, arrays: Arrays, got: np.ndarray) -> float:
    """The largest error in ULP of the exact result, by mpmath; infinite where overflow is not
    where it should."""
    reference = EXACT.get(name) or getattr(mp, name)
    limit = SATURATED.get(name)
    worst = 0.0
    with mp.workprec(1300 if name in LONG_ARGUMENTS else 200):
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


@pytest.mark.parametrize("name", MATH_FUNCTIONS)
def test_float32_of_samples(math_loop: Callable[..., Callable[..., np.ndarray]], name: str) -> None:
    arrays = samples(name, np.float32, SAMPLES_32)
    with np.errstate(all="ignore"):
        exact = REFERENCES[name](*[a.astype(np.float64) for a in arrays])
    for cpu in ("host", "x86-64"):
        got = math_loop(name, "float32x16", cpu)(*arrays)
        assert errors_in_ulp(exact, got).max() <= bounds()[name][1]


@pytest.mark.parametrize("name", MATH_FUNCTIONS)
def test_float64_of_samples_and_hard_points(
    math_loop: Callable[..., Callable[..., np.ndarray]],
    request: pytest.FixtureRequest,
    name: str,
) -> None:
    worst = 0.0
    for arrays in (samples(name, np.float64, SAMPLES_64), hard_points(name)):
        for cpu in ("host", "x86-64"):
            got = math_loop(name, "float64x8", cpu)(*arrays)
            worst = max(worst, error_64(name, arrays, got))
    if request.config.getoption("--update-golden"):
        record(name, 2, worst)
    assert worst <= bounds()[name][3]


def test_the_measured_errors_are_below_the_bounds() -> None:
    for name in MATH_FUNCTIONS:
        measured_32, bound_32, measured_64, bound_64 = bounds()[name]
        assert measured_32 <= bound_32 <= 4
        assert measured_64 <= bound_64 <= 4


@pytest.mark.parametrize("cpu", ["skylake-avx512", "haswell", "x86-64"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float32x16", "float64x8"])
def test_no_library_is_called(
    math_assembly: Callable[[str, str], str], dtype: str, cpu: str
) -> None:
    """All that is called, or whose address is taken, stands in the module itself."""
    text = math_assembly(dtype, cpu)
    named = set(re.findall(r"^\s+(?:call|jmp|movabs)\S*\s+\$?([A-Za-z_.][\w.$]*)", text, re.M))
    named |= set(re.findall(r"([A-Za-z_.][\w.$]*)(?:@\w+)?\(%rip\)", text))
    assert any("reduce_large" in name for name in named)
    defined = set(re.findall(r"^([\w.$]+):", text, re.M))
    assert named <= defined | {"_GLOBAL_OFFSET_TABLE_"}


@pytest.mark.parametrize("dtype", ["float32", "float32x3", "float32x5", "float64", "float64x2"])
@pytest.mark.parametrize("name", MATH_FUNCTIONS)
def test_every_width_gives_the_same_bits(
    math_loop: Callable[..., Callable[..., np.ndarray]], name: str, dtype: str
) -> None:
    scalar = str(DType(dtype).scalar)
    arrays = samples(name, np.float32 if scalar == "float32" else np.float64, 200)
    wide = math_loop(name, "float32x16" if scalar == "float32" else "float64x8")
    np.testing.assert_array_equal(math_loop(name, dtype)(*arrays), wide(*arrays))


UNARY = [name for name, function in MATH_FUNCTIONS.items() if function.arity == 1]
EVERY_HALF = np.arange(1 << 16, dtype=np.uint16)


def defined(name: str, x: np.ndarray) -> np.ndarray:
    """Where a function is defined: ``exp_negative`` is at most at 0, and at NaN."""
    return ~(x > 0) if name == "exp_negative" else np.ones(len(x), bool)


@pytest.mark.parametrize("name", UNARY)
def test_float16_on_all_inputs(
    math_loop: Callable[..., Callable[..., np.ndarray]], name: str
) -> None:
    x = EVERY_HALF.view(np.float16)
    x = x[defined(name, x)]
    with np.errstate(all="ignore"):
        exact = REFERENCES[name](x.astype(np.float64))
        got = math_loop(name, "float16x16")(x)
    assert errors_in_ulp(exact, got, FLOAT16).max() <= (0.6 if name in ("sin", "cos") else 0.51)


@pytest.mark.parametrize("cpu", ["host", "x86-64"])
@pytest.mark.parametrize("name", UNARY)
def test_bfloat16_on_all_inputs(
    math_loop: Callable[..., Callable[..., np.ndarray]], name: str, cpu: str
) -> None:
    x = (EVERY_HALF.astype(np.uint32) << 16).view(np.float32)
    bits, x = EVERY_HALF[defined(name, x)], x[defined(name, x)]
    with np.errstate(all="ignore"):
        exact = REFERENCES[name](x.astype(np.float64))
        got = math_loop(name, "bfloat16x16", cpu)(bits)
    wide = (got.astype(np.uint32) << 16).view(np.float32)
    assert errors_in_ulp(exact, wide, BFLOAT16).max() <= 0.51


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
