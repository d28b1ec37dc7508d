"""Elementwise operators against NumPy: values, special values, broadcasting, symbolic dims."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

from burnish import te
from burnish.support.errors import ComputeError
from burnish.tensorir import operators as ops
from burnish.tensorir.te.compute import Tensor

Run = Callable[..., np.ndarray]
erf = np.vectorize(math.erf)
SPECIAL = np.array(
    [-np.inf, -100.0, -3.5, -1.0, -0.5, -0.0, 0.0, 0.25, 1.5, 2.5, 50.0, np.inf, np.nan]
)


def sigmoid(x: np.ndarray) -> np.ndarray:
    small = np.exp(-np.abs(x))
    result: np.ndarray = np.where(x >= 0, 1 / (1 + small), small / (1 + small))
    return result


UNARY: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "exp": np.exp,
    "expm1": np.expm1,
    "log": np.log,
    "log1p": np.log1p,
    "log2": np.log2,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "tanh": np.tanh,
    "erf": erf,
    "sigmoid": sigmoid,
    "floor": np.floor,
    "ceil": np.ceil,
    "round": np.round,
    "trunc": np.trunc,
    "abs": np.abs,
    "negative": np.negative,
    "square": np.square,
    "reciprocal": np.reciprocal,
    "relu": lambda x: np.maximum(x, 0),
    "sign": lambda x: np.where(np.isnan(x), 0, np.sign(x)),
    "leaky_relu": lambda x: np.where(x > 0, x, x * 0.01),
    "elu": lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))),
    "softplus": lambda x: np.logaddexp(x, 0),
    "hard_sigmoid": lambda x: np.minimum(np.maximum(x + 3, 0), 6) / 6,
    "isnan": np.isnan,
    "isinf": np.isinf,
    "isfinite": np.isfinite,
}


@pytest.mark.parametrize("name", UNARY)
def test_unary(run: Run, name: str) -> None:
    x = SPECIAL.astype("float32")
    with np.errstate(all="ignore"):
        expected = UNARY[name](x.astype("float64"))
    np.testing.assert_allclose(run(getattr(ops, name), x), expected, rtol=2e-6, atol=1e-7)


@pytest.mark.parametrize("name", ["silu", "gelu", "hard_swish", "sin", "cos", "tan"])
def test_unary_of_finite_values(run: Run, name: str) -> None:
    x = np.linspace(-6, 6, 49, dtype="float32")
    wide = x.astype("float64")
    expected = {
        "silu": wide * sigmoid(wide),
        "gelu": 0.5 * wide * (1 + erf(wide * math.sqrt(0.5))),
        "hard_swish": wide * np.clip(wide + 3, 0, 6) / 6,
        "sin": np.sin(wide),
        "cos": np.cos(wide),
        "tan": np.tan(wide),
    }[name]
    np.testing.assert_allclose(run(getattr(ops, name), x), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["silu", "softplus", "elu", "hard_sigmoid", "hard_swish"])
def test_half_precision_is_rounded_once(run: Run, name: str) -> None:
    x = np.linspace(-6, 6, 193).astype("float16")
    single = run(getattr(ops, name), x.astype("float32"))
    found = run(getattr(ops, name), x)
    np.testing.assert_array_equal(found, single.astype("float16"))


@pytest.mark.parametrize("name", ["abs", "negative", "square", "relu", "sign"])
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint32", "int64", "uint64"])
def test_unary_of_integers(run: Run, name: str, dtype: str) -> None:
    """Also of those that have no sign, and at both ends."""
    limits = np.iinfo(dtype)
    x = np.array([0, 1, 2, limits.max, limits.min, limits.max - 1], dtype)
    with np.errstate(all="ignore"):
        expected = UNARY[name](x) if name != "sign" else np.sign(x)
    found = run(getattr(ops, name), x)
    assert found.dtype == x.dtype
    np.testing.assert_array_equal(found, expected)


def test_gelu_with_tanh(run: Run) -> None:
    x = np.linspace(-4, 4, 33, dtype="float32")
    inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)
    found = run(lambda t: ops.gelu(t, approximate="tanh"), x)
    np.testing.assert_allclose(found, 0.5 * x * (1 + np.tanh(inner)), rtol=1e-5, atol=1e-6)
    with pytest.raises(ComputeError, match="approximate"):
        ops.gelu(te.placeholder((4,)), approximate="erf")


@pytest.mark.parametrize(
    ("name", "reference"),
    [
        ("add", np.add),
        ("subtract", np.subtract),
        ("multiply", np.multiply),
        ("divide", np.divide),
        ("maximum", np.maximum),
        ("minimum", np.minimum),
        ("floor_mod", np.mod),
        ("fmod", np.fmod),
        ("floor_divide", np.floor_divide),
        ("equal", np.equal),
        ("not_equal", np.not_equal),
        ("less", np.less),
        ("less_equal", np.less_equal),
        ("greater", np.greater),
        ("greater_equal", np.greater_equal),
    ],
)
def test_binary_broadcasts(run: Run, name: str, reference: Callable[..., np.ndarray]) -> None:
    rng = np.random.default_rng(3)
    a = rng.uniform(-9, 9, (3, 1, 5)).astype("float32")
    b = rng.uniform(-3, 3, (4, 1)).astype("float32")
    a[0, 0, :2] = b[:2, 0]
    found = run(getattr(ops, name), a, b)
    assert found.shape == (3, 4, 5)
    np.testing.assert_allclose(found, reference(a, b), rtol=1e-6, atol=1e-6)


def test_power(run: Run) -> None:
    a = np.array([0.5, 2.0, 3.0, 10.0, -2.0], "float32")
    b = np.array([2.0, 0.5, -1.0, 3.0, 3.0], "float32")
    np.testing.assert_allclose(run(ops.power, a, b), a**b, rtol=1e-6)


def test_remainder_is_exact_where_the_quotient_rounds(run: Run) -> None:
    a = np.array([1.0, -1.0, 6.0, -6.0, 0.7, 5.5], "float32")
    b = np.array([0.1, 0.1, -4.0, 4.0, -0.1, 0.0], "float32")
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(run(ops.floor_divide, a, b), np.floor_divide(a, b))
        np.testing.assert_array_equal(run(ops.floor_mod, a, b), np.mod(a, b))


def test_integers(run: Run) -> None:
    a = np.array([7, -7, 7, -7], "int32")
    b = np.array([2, 2, -2, -2], "int32")
    np.testing.assert_array_equal(run(ops.floor_divide, a, b), a // b)
    np.testing.assert_array_equal(run(ops.floor_mod, a, b), a % b)
    np.testing.assert_array_equal(run(ops.divide, a, b), [3, -3, -3, 3])
    np.testing.assert_array_equal(run(lambda x: ops.clip(x, -1.5, 2.5), a), [2, -1, 2, -1])
    np.testing.assert_array_equal(run(ops.relu, a), [7, 0, 7, 0])


def test_logic(run: Run) -> None:
    a = np.array([True, True, False, False])
    b = np.array([True, False, True, False])
    np.testing.assert_array_equal(run(ops.logical_and, a, b), a & b)
    np.testing.assert_array_equal(run(ops.logical_or, a, b), a | b)
    np.testing.assert_array_equal(run(ops.logical_xor, a, b), a ^ b)
    np.testing.assert_array_equal(run(ops.logical_not, a), ~a)


def test_where_broadcasts_all_three(run: Run) -> None:
    c = np.array([[True], [False]])
    x = np.arange(3, dtype="float32")
    y = -np.ones((2, 3), "float32")
    np.testing.assert_array_equal(run(ops.where, c, x, y), np.where(c, x, y))


def test_casts(run: Run) -> None:
    x = np.array([-1.5, 0.0, 2.7, 300.0], "float32")
    np.testing.assert_array_equal(run(lambda t: ops.cast(t, "int32"), x), [-1, 0, 2, 300])
    np.testing.assert_array_equal(run(lambda t: ops.cast(t, "bool"), x), x != 0)
    np.testing.assert_array_equal(run(lambda t: ops.cast(t, "float64"), x), x.astype("float64"))


def test_clip_propagates_nan(run: Run) -> None:
    x = np.array([-2.0, 0.5, 3.0, np.nan], "float32")
    np.testing.assert_array_equal(run(lambda t: ops.clip(t, 0.0, 1.0), x), [0, 0.5, 1, np.nan])
    np.testing.assert_array_equal(run(lambda t: ops.clip(t, max=1.0), x), [-2, 0.5, 1, np.nan])


def test_symbolic_dims(run: Run) -> None:
    a = np.arange(12, dtype="float32").reshape(3, 4)
    b = np.arange(4, dtype="float32")
    found = run(ops.add, a, b, shapes=[("n", 4), (4,)])
    np.testing.assert_array_equal(found, a + b)
    found = run(ops.multiply, a, b, shapes=[("n", "m"), ("m",)])
    np.testing.assert_array_equal(found, a * b)


def test_numbers_stand_at_every_place(run: Run) -> None:
    x = np.arange(3, dtype="float32")
    np.testing.assert_array_equal(run(lambda t: ops.add(t, 2), x), x + 2)
    np.testing.assert_array_equal(run(lambda t: ops.subtract(1.0, t), x), 1 - x)
    with pytest.raises(ComputeError, match="at least one tensor"):
        ops.add(1.0, 2.0)


def test_dims_that_do_not_broadcast() -> None:
    a, b = te.placeholder((3,)), te.placeholder((4,))
    with pytest.raises(ComputeError, match="Dimensions of 3 and 4 do not broadcast"):
        ops.add(a, b)


def test_one_block_called_like_the_operator() -> None:
    x = te.placeholder((2, 3), name="x")
    result: Tensor = ops.relu(x)
    assert 'with T.block("relu"):' in te.create_prim_func([x, result]).script()
    assert ops.relu.__doc__
    assert ops.exp.__name__ == "exp"


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64"])
def test_bounds_beyond_a_dtype_bound_nothing(run: Run, dtype: str) -> None:
    x = np.array([0, 1, 5, 100, 127], dtype)
    for low, high in ((-1e30, 1e30), (-np.inf, np.inf), (-1000.5, 50.5), (None, 2.0**70)):
        found = run(partial(ops.clip, min=low, max=high), x)
        np.testing.assert_array_equal(found, np.minimum(x, 50) if high == 50.5 else x)
