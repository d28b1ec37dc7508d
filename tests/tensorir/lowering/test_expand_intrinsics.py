"""Composed intrinsics against NumPy: accuracy, special values, vectors, half precision."""

from __future__ import annotations

import numpy as np
import pytest

from burnish.support.node import walk
from burnish.support.target import Target
from burnish.tensorir.expr import Call
from burnish.tensorir.function import PrimFunc
from burnish.tensorir.intrinsics import INTRINSICS
from burnish.tensorir.lowering.expand_intrinsics import EXPANSIONS, expand_intrinsics
from burnish.tensorir.text.parser import parse_func
from burnish.tests.native import call_native, load_native

NUMPY = {
    "exp10": lambda x: np.power(type(x.flat[0])(10), x),
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
}
SPECIAL = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-6, -1e-6, 1.5, 30.0, -88.5, 1e20, -1e5]


def func(name: str, dtype: str, count: int) -> PrimFunc:
    """``C = name(A)`` in vectors of 8, with a rest."""
    return parse_func(f"""
@T.prim_func
def main(A: T.Buffer(({count},), "{dtype}"), C: T.Buffer(({count},), "{dtype}")):
    for i0 in range({-(-count // 8)}):
        for i1 in T.vectorized(8):
            with T.block("C"):
                vi = T.axis.spatial({count}, i0 * 8 + i1)
                T.where(i0 * 8 + i1 < {count})
                C[vi] = T.{name}(A[vi])
""")


def computed(name: str, x: np.ndarray) -> np.ndarray:
    out = np.zeros_like(x)
    call_native(func(name, str(x.dtype), len(x)), x, out)
    return out


@pytest.mark.parametrize("name", NUMPY)
@pytest.mark.parametrize(("dtype", "rtol"), [("float32", 2e-6), ("float64", 4e-15)])
def test_values(name: str, dtype: str, rtol: float) -> None:
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.uniform(-1, 1, 50), rng.uniform(-9, 9, 50), np.array(SPECIAL)])
    x = x.astype(dtype)
    with np.errstate(all="ignore"):
        exact = NUMPY[name](x.astype("float64")).astype(dtype)
    np.testing.assert_allclose(computed(name, x), exact, rtol=rtol, atol=1e-30)


def test_signs_of_zero() -> None:
    zeros = np.array([0.0, -0.0], "float32")
    for name in ("asinh", "atanh"):
        assert np.signbit(computed(name, zeros)).tolist() == [False, True]


def test_half_precision_is_rounded_once() -> None:
    x = np.linspace(-1, 1, 33).astype("float16")
    expected = np.arcsinh(x.astype("float32")).astype("float16")
    np.testing.assert_allclose(computed("asinh", x), expected, rtol=1e-3)


def test_hypot_does_not_overflow_between() -> None:
    f = parse_func("""
@T.prim_func
def main(A: T.Buffer((8,)), B: T.Buffer((8,)), C: T.Buffer((8,))):
    for i in T.vectorized(8):
        C[i] = T.hypot(A[i], B[i])
""")
    a = np.array([3, 0, -3e30, np.inf, np.nan, np.inf, 1e-30, 5], "float32")
    b = np.array([4, 0, 4e30, 1, 1, np.nan, 1e-30, 0], "float32")
    out = np.zeros(8, "float32")
    call_native(f, a, b, out)
    np.testing.assert_allclose(out, np.hypot(a, b), rtol=1e-6)


def test_every_composed_intrinsic_is_expanded_into_others() -> None:
    assert set(EXPANSIONS) == {name for name, row in INTRINSICS.items() if row.composed}
    made = expand_intrinsics(func("asinh", "float32", 8))
    assert not any(n.op in EXPANSIONS for n in walk(made.body) if isinstance(n, Call))
    plain = func("exp", "float32", 8)
    assert expand_intrinsics(plain) is plain


@pytest.mark.parametrize("target", ["native", "llvm -mcpu=haswell", "llvm -mcpu=x86-64"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_hypot_is_within_two_units_of_the_last_place_in_every_lane(dtype: str, target: str) -> None:
    """With few registers a vector is several, each with variables of its own."""
    count = 4096
    f = parse_func(f"""
@T.prim_func
def main(A: T.Buffer(({count},), "{dtype}"), B: T.Buffer(({count},), "{dtype}"),
         C: T.Buffer(({count},), "{dtype}")):
    T.func_attr({{"is_scheduled": True}})
    for i0 in range({count // 32}):
        for i1 in T.vectorized(32):
            with T.block("C"):
                vi = T.axis.spatial({count}, i0 * 32 + i1)
                C[vi] = T.hypot(A[vi], B[vi])
""")
    rng = np.random.default_rng(0)
    scale = 2.0 ** rng.choice([-100, 0, 100], count)
    a, b = ((rng.uniform(1, 9, count) * scale).astype(dtype) for _ in range(2))
    out = np.zeros_like(a)
    load_native(f, a, b, out, target=Target(target))()
    x, y = a.astype(np.longdouble), b.astype(np.longdouble)
    exact = np.sqrt(x * x + y * y)
    assert (abs(out - exact) / np.spacing(exact.astype(dtype))).max() <= 2
