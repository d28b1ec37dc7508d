"""Every kind of expression, scalar and vector, on several CPUs, against NumPy."""

from __future__ import annotations

import re

import ml_dtypes
import numpy as np
import pytest

from burnish.support.host import native_target
from burnish.support.target import Target
from burnish.tensorir.codegen.object import emit_object
from burnish.tensorir.lowering.pipeline import lower_func
from burnish.tensorir.text.parser import parse_func
from burnish.tests.native import call_native
from tests import assembly

TARGETS = ("native", "llvm -mcpu=haswell")
N = 37


def kernel(expr: str, dtypes: str, *, kind: str, n: int = N) -> str:
    """``O[i] = expr`` over inputs A, B, C of the dtypes, the last dtype being that of O."""
    *inputs, out = dtypes.split()
    params = ", ".join(f'{x}: T.Buffer(({n},), "{d}")' for x, d in zip("ABC", inputs, strict=False))
    scheduled = kind == "T.vectorized"
    return f"""
@T.prim_func
def f({params}, O: T.Buffer(({n},), "{out}")):
    T.func_attr({{"is_scheduled": {scheduled}}})
    for i in {kind}({n}):
        with T.block("O"):
            v = T.axis.spatial({n}, i)
            O[v] = {expr}
"""


def numpy_dtype(name: str) -> np.dtype:
    return np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)


def evaluate(
    expr: str, dtypes: str, *arrays: np.ndarray, kind: str, target: str = "native"
) -> np.ndarray:
    out = np.empty(N, numpy_dtype(dtypes.split()[-1]))
    out.view(np.uint8)[:] = 0xEE
    call_native(parse_func(kernel(expr, dtypes, kind=kind)), *arrays, out, target=Target(target))
    return out


@pytest.fixture(params=["range", "T.vectorized"], ids=["scalar", "vector"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def floats(seed: int, dtype: str = "float32") -> np.ndarray:
    """Ordinary numbers with a few specials among them."""
    x = np.random.default_rng(seed).standard_normal(N) * 4
    x[3], x[11], x[19], x[20] = np.nan, np.inf, -np.inf, -0.0
    return x.astype(numpy_dtype(dtype))


def ints(seed: int, dtype: str, low: int | None = None, high: int | None = None) -> np.ndarray:
    info = np.iinfo(dtype)
    low = info.min if low is None else low
    return np.random.default_rng(seed).integers(
        low, info.max if high is None else high, N, dtype, endpoint=True
    )


FLOAT_CASES = {
    "A[v] + B[v]": np.add,
    "A[v] - B[v]": np.subtract,
    "A[v] * B[v]": np.multiply,
    "A[v] / B[v]": np.divide,
    "T.max(A[v], B[v])": np.maximum,
    "T.min(A[v], B[v])": np.minimum,
    "T.max(A[v], T.{d}(0))": lambda a, b: np.maximum(a, 0),
    "T.min(T.{d}(6), T.max(T.{d}(0), A[v]))": lambda a, b: np.minimum(np.maximum(a, 0), 6),
    "T.Select(A[v] < B[v], A[v], B[v])": lambda a, b: np.where(a < b, a, b),
    "T.if_then_else(A[v] >= B[v], A[v], B[v])": lambda a, b: np.where(a >= b, a, b),
    "T.sqrt(T.abs(A[v]))": lambda a, b: np.sqrt(np.abs(a)),
    "T.floor(A[v])": lambda a, b: np.floor(a),
    "T.ceil(A[v])": lambda a, b: np.ceil(a),
    "T.trunc(A[v])": lambda a, b: np.trunc(a),
    "T.round(A[v] * T.{d}(2))": lambda a, b: np.round(a * 2),
    "T.copysign(A[v], B[v])": np.copysign,
    "-A[v]": lambda a, b: -a,
    "T.Select(T.isnan(A[v]), T.{d}(1), T.Select(T.isinf(A[v]), T.{d}(2), T.{d}(3)))": lambda a, b: (
        np.where(np.isnan(a), 1, np.where(np.isinf(a), 2, 3))
    ),
}


@pytest.mark.parametrize("expr", FLOAT_CASES)
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_float_operations(expr: str, dtype: str, kind: str) -> None:
    a, b = floats(1, dtype), floats(2, dtype)
    with np.errstate(all="ignore"):
        wide = [x.astype("float32") if dtype in ("float16", "bfloat16") else x for x in (a, b)]
        expected = FLOAT_CASES[expr](*wide).astype(numpy_dtype(dtype))
    found = evaluate(expr.format(d=dtype), f"{dtype} {dtype} {dtype}", a, b, kind=kind)
    np.testing.assert_array_equal(found.astype("float64"), expected.astype("float64"))


@pytest.mark.parametrize("target", TARGETS)
def test_fma_and_elementary_functions(kind: str, target: str) -> None:
    a, b = floats(1), floats(2)
    with np.errstate(all="ignore"):
        fused = (a.astype("float64") * b + 1).astype("float32")
        exp = np.exp(a.astype("float64")).astype("float32")
    found = evaluate(
        "T.fma(A[v], B[v], T.float32(1))", "float32 float32 float32", a, b, kind=kind, target=target
    )
    np.testing.assert_allclose(found, fused, rtol=1e-7)
    found = evaluate("T.exp(A[v])", "float32 float32", a, kind=kind, target=target)
    np.testing.assert_allclose(found, exp, rtol=1e-6)


INT_CASES = {
    "A[v] + B[v]": np.add,
    "A[v] - B[v]": np.subtract,
    "A[v] * B[v]": np.multiply,
    "A[v] // B[v]": np.floor_divide,
    "A[v] % B[v]": np.mod,
    "A[v] // T.{d}(7)": lambda a, b: a // a.dtype.type(7),
    "A[v] % T.{d}(8)": lambda a, b: a % a.dtype.type(8),
    "T.max(A[v], B[v])": np.maximum,
    "T.min(A[v], B[v])": np.minimum,
    "T.Select(A[v] <= B[v], A[v], B[v])": np.minimum,
    "T.bitwise_and(A[v], B[v])": np.bitwise_and,
    "T.bitwise_xor(A[v], T.bitwise_not(B[v]))": lambda a, b: a ^ ~b,
    "T.shift_right(A[v], T.{d}(2))": lambda a, b: a >> a.dtype.type(2),
    "T.shift_left(A[v], T.{d}(3))": lambda a, b: a << a.dtype.type(3),
}


@pytest.mark.parametrize("expr", INT_CASES)
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint32", "int64"])
def test_integer_operations_wrap(expr: str, dtype: str, kind: str) -> None:
    a, b = ints(3, dtype), ints(4, dtype)
    b[b == 0] = 5
    b[b == np.array(-1).astype(dtype)] = 3
    with np.errstate(over="ignore"):
        expected = INT_CASES[expr](a, b)
    found = evaluate(expr.format(d=dtype), f"{dtype} {dtype} {dtype}", a, b, kind=kind)
    np.testing.assert_array_equal(found, expected)


CASTS = [
    ("float32", "float64"),
    ("float64", "float32"),
    ("float32", "bfloat16"),
    ("bfloat16", "float32"),
    ("float16", "float64"),
    ("int32", "float32"),
    ("uint8", "float32"),
    ("int64", "float64"),
    ("int8", "int64"),
    ("int64", "int8"),
    ("uint8", "int32"),
    ("int32", "bool"),
    ("bool", "float32"),
    ("bool", "int64"),
]


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64", "uint8", "uint32"])
@pytest.mark.parametrize("masked", [False, True])
def test_no_integer_divisor_stops_the_process(dtype: str, kind: str, masked: bool) -> None:
    """By 0 a number is its own quotient, and the least number by -1; the remainders are 0."""
    a, b = ints(1, dtype), ints(2, dtype)
    b[::3] = 0
    a[4:20:5] = np.iinfo(dtype).min
    if dtype.startswith("int"):
        b[1::3] = -1
    wide = a.astype(object)
    safe = np.where(b == 0, 1, b).astype(object)
    floor, mod = wide // safe, wide % safe
    trunc = np.array(
        [
            abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)
            for x, y in zip(wide, safe, strict=True)
        ],
        object,
    )
    for expr, expected in (
        ("A[v] // B[v]", floor),
        ("A[v] % B[v]", mod),
        ("T.truncdiv(A[v], B[v])", trunc),
    ):
        text = f"T.if_then_else(v < 30, {expr}, A[v])" if masked else expr
        found = evaluate(text, f"{dtype} {dtype} {dtype}", a, b, kind=kind)
        bits = np.iinfo(dtype).bits
        kept = [
            e if v < 30 or not masked else w
            for v, (e, w) in enumerate(zip(expected, wide, strict=True))
        ]
        assert [int(x) % (1 << bits) for x in found] == [int(x) % (1 << bits) for x in kept]


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_a_divisor_that_is_known_is_not_asked(dtype: str) -> None:
    """Nothing is chosen where the divisor is neither 0 nor -1."""
    for expr, is_asked in (("A[v] // T.{0}(7)", False), ("A[v] // B[v]", True)):
        text = kernel(expr.format(dtype), f"{dtype} {dtype} {dtype}", kind="range")
        lowered = lower_func(parse_func(text), Target("native"))
        made = emit_object([lowered], Target("native"), keep_text=True)
        assert ("select i1" in made.ir) == is_asked


@pytest.mark.parametrize(("source", "target"), CASTS)
def test_casts(source: str, target: str, kind: str) -> None:
    if source == "bool":
        a = np.arange(N) % 3 == 0
    else:
        a = floats(5, source) if "float" in source else ints(5, source)
    with np.errstate(all="ignore"):
        expected = a.astype(numpy_dtype(target))
    found = evaluate(f'T.cast(A[v], "{target}")', f"{source} {target}", a, kind=kind)
    np.testing.assert_array_equal(found.astype("float64"), expected.astype("float64"))


@pytest.mark.parametrize("cpu", ["native", "llvm -mcpu=haswell"])
@pytest.mark.parametrize("source", ["float32", "float64"])
@pytest.mark.parametrize(
    "target", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
)
def test_float_to_integer_saturates(source: str, target: str, cpu: str, kind: str) -> None:
    a = floats(6, source) * np.dtype(source).type(100)
    a[:4] = [3e38, -3e38, 1e10, np.nan]
    a[4:8] = [-0.75, 127.75, 255.75, 65535.75]
    a[12:18] = [2147483520.0, 2147483648.0, -2147483648.0, 4294967040.0, 9.2e18, -9.3e18]
    info = np.iinfo(target)
    exact = np.trunc(np.nan_to_num(a.astype("float64"), nan=0, posinf=1e300, neginf=-1e300))
    expected = [
        int(min(max(x, info.min), info.max))
        if abs(x) < 1e300
        else (info.max if x > 0 else info.min)
        for x in exact
    ]
    found = evaluate(f'T.cast(A[v], "{target}")', f"{source} {target}", a, kind=kind, target=cpu)
    assert found.tolist() == expected


@pytest.mark.parametrize("cpu", ["skylake-avx512", "haswell", "x86-64", "generic"])
@pytest.mark.parametrize("target", ["int8", "uint8", "int16", "uint16", "int32"])
def test_lanes_are_not_converted_one_by_one(target: str, cpu: str) -> None:
    text = kernel(f'T.cast(A[v], "{target}")', f"float32 {target}", kind="T.vectorized", n=64)
    lines = assembly.kernel_lines(parse_func(text), Target(f"llvm -mcpu={cpu}"))
    scalar = re.compile(r"v?cvtt?s[sd]2u?si|fcvtz[su] [wx]")
    assert [x.code for x in lines if scalar.match(x.code)] == []
    assert [x.code for x in lines if re.match(r"v?cvttps2dq|fcvtz[su] v", x.code)]


def test_booleans(kind: str) -> None:
    a, b = np.arange(N) % 2 == 0, np.arange(N) % 3 == 0
    for expr, expected in (
        ("T.And(A[v], B[v])", a & b),
        ("T.Or(A[v], T.Not(B[v]))", a | ~b),
        ("A[v] == B[v]", a == b),
        ("A[v] != B[v]", a != b),
    ):
        found = evaluate(expr, "bool bool bool", a, b, kind=kind)
        np.testing.assert_array_equal(found, expected)
        assert set(found.view(np.uint8).tolist()) <= {0, 1}


def test_let_and_the_loop_variable_as_a_value(kind: str) -> None:
    a = floats(7)
    found = evaluate('T.cast(v * 3 - 20, "float32") * A[v]', "float32 float32", a, kind=kind)
    np.testing.assert_array_equal(found, (np.arange(N) * 3 - 20).astype("float32") * a)


def test_relu_is_one_instruction_on_a_vector() -> None:
    target = Target("llvm -mcpu=skylake-avx512")
    text = kernel("T.max(A[v], T.float32(0))", "float32 float32", kind="T.vectorized", n=16)
    assembly = emit_object([lower_func(parse_func(text), target)], target, keep_text=True).assembly
    body = assembly.split("f.impl:")[1].split("retq")[0]
    assert body.count("vmaxps") == 1
    assert "vcmp" not in body
    assert "blend" not in body


def test_running_maximum_keeps_nan_with_a_short_chain() -> None:
    func = parse_func("""
@T.prim_func
def f(A: T.Buffer((8, 16), "float32"), O: T.Buffer((16,), "float32")):
    T.func_attr({"is_scheduled": True})
    for j in T.vectorized(16):
        for i in range(8):
            with T.block("O"):
                vj, vi = T.axis.remap("SR", [j, i])
                with T.init():
                    O[vj] = T.min_value("float32")
                O[vj] = T.max(O[vj], A[vi, vj])
""")
    a = np.random.default_rng(0).standard_normal((8, 16)).astype("float32")
    a[3, 5] = np.nan
    out = np.empty(16, "float32")
    call_native(func, a, out)
    np.testing.assert_array_equal(out, a.max(axis=0))


def test_no_library_call_is_left() -> None:
    target = native_target()
    for expr, dtypes in (("T.exp(T.floor(A[v]))", "float32 float32"), ("A[v]", "float32 float32")):
        text = kernel(expr, dtypes, kind="range", n=4096)
        assembly = emit_object(
            [lower_func(parse_func(text), target)], target, keep_text=True
        ).assembly
        calls = [
            line.split()[1]
            for line in assembly.splitlines()
            if line.strip().startswith(("callq", "jmp\t"))
        ]
        assert {c for c in calls if not c.startswith(".L")} <= {"f.impl"}


@pytest.mark.parametrize("cpu", ["skylake-avx512", "haswell", "x86-64"])
def test_a_call_that_branches_is_emitted_once_a_statement(cpu: str) -> None:
    """However often an expression has it: LLVM does not find those of different basic blocks."""
    target = Target(f"llvm -mcpu={cpu}")

    def divisions(expr: str) -> int:
        func = parse_func(kernel(expr, "float32 float32 float32", kind="T.vectorized", n=64))
        code = emit_object([lower_func(func, target)], target, keep_text=True)
        lines = assembly.read_lines(code.assembly)
        return sum(line.operation in ("vdivps", "divps") for line in lines)

    once = divisions("T.fmod(A[v], B[v])")
    assert once > 0
    twice = (
        "T.Select(T.fmod(A[v], B[v]) < T.float32(0), T.fmod(A[v], B[v]) + B[v], T.fmod(A[v], B[v]))"
    )
    assert divisions(twice) == once
    assert divisions("T.fmod(A[v], B[v]) + T.fmod(B[v], A[v])") == 2 * once


def test_a_call_is_emitted_again_after_a_store() -> None:
    """What it reads may have changed, in this iteration or in the one before."""
    func = parse_func("""
@T.prim_func
def f(A: T.Buffer((8,), "float32"), O: T.Buffer((8,), "float32")):
    T.func_attr({"is_scheduled": True})
    with T.block("root"):
        for i in range(8):
            with T.block("O"):
                v = T.axis.opaque(8, i)
                T.reads(A[0:8])
                T.writes(O[0:8])
                O[v] = T.sin(A[v])
                O[v] = O[v] + T.sin(O[v]) * T.sin(O[v])
                O[v] = T.sin(O[v]) + T.sin(A[v])
""")
    x = np.linspace(-3, 3, 8, dtype="float32")
    out = np.empty(8, "float32")
    call_native(func, x, out)
    y = np.sin(x.astype("float64"))
    y = y + np.sin(y) ** 2
    np.testing.assert_allclose(out, np.sin(y) + np.sin(x.astype("float64")), rtol=1e-6, atol=1e-6)


def test_a_condition_sees_what_was_stored_before_it() -> None:
    func = parse_func("""
@T.prim_func
def f(O: T.Buffer((8,), "float32"), R: T.Buffer((8,), "float32")):
    T.func_attr({"is_scheduled": True})
    with T.block("root"):
        for i in range(8):
            with T.block("O"):
                v = T.axis.opaque(8, i)
                T.reads(O[0:8])
                T.writes(O[0:8], R[0:8])
                O[v] = T.float32(4) + T.sin(O[v])
                R[v] = T.float32(0)
                if T.sin(O[v]) > T.float32(0):
                    R[v] = T.float32(1)
""")
    given = np.linspace(-3, 3, 8, dtype="float32")
    changed, found = given.copy(), np.empty(8, "float32")
    call_native(func, changed, found)
    wanted = np.sin(4 + np.sin(given.astype("float64"))) > 0
    assert wanted.any()
    assert not wanted.all()
    np.testing.assert_array_equal(found, wanted.astype("float32"))
