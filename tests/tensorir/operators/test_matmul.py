"""Matrix products against NumPy: ranks, batches, transposes, half precision."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from burnish import te
from burnish.support.errors import ComputeError
from burnish.tensorir import operators as ops

Run = Callable[..., np.ndarray]


def array(*shape: int, dtype: str = "float32") -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(dtype)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((3, 4), (4, 5)),
        ((4,), (4, 5)),
        ((3, 4), (4,)),
        ((4,), (4,)),
        ((2, 3, 4), (4, 5)),
        ((2, 1, 3, 4), (6, 4, 5)),
        ((3, 4), (2, 4, 5)),
    ],
)
def test_shapes(run: Run, a: tuple[int, ...], b: tuple[int, ...]) -> None:
    x, y = array(*a), array(*b)
    np.testing.assert_allclose(run(ops.matmul, x, y), x @ y, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "dtypes", [("int8", "int8"), ("uint8", "int8"), ("uint8", "uint8"), ("int16", "int16")]
)
@pytest.mark.parametrize(("a", "b"), [((3, 9), (9, 5)), ((2, 3, 4), (4, 5)), ((4,), (4,))])
def test_integers_are_summed_in_int32(
    run: Run, dtypes: tuple[str, str], a: tuple[int, ...], b: tuple[int, ...]
) -> None:
    worst = {"int8": -128, "uint8": 255, "int16": -9000}
    x, y = (np.full(s, worst[d], d) for s, d in zip((a, b), dtypes, strict=True))
    found = run(ops.integer_matmul, x, y)
    assert found.dtype == "int32"
    np.testing.assert_array_equal(found, x.astype("int32") @ y.astype("int32"))


def test_transposes(run: Run) -> None:
    x, y = array(2, 4, 3), array(2, 5, 4)
    found = run(lambda a, b: ops.matmul(a, b, transpose_a=True, transpose_b=True), x, y)
    np.testing.assert_allclose(found, x.swapaxes(1, 2) @ y.swapaxes(1, 2), rtol=1e-5, atol=1e-6)


def test_linear(run: Run) -> None:
    x, w, b = array(2, 3, 7), array(5, 7), array(5)
    np.testing.assert_allclose(run(ops.linear, x, w, b), x @ w.T + b, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(run(ops.linear, x, w), x @ w.T, rtol=1e-5, atol=1e-5)


def test_symbolic_batch(run: Run) -> None:
    x, w, b = array(3, 7), array(5, 7), array(5)
    found = run(ops.linear, x, w, b, shapes=[("n", 7), (5, 7), (5,)])
    np.testing.assert_allclose(found, x @ w.T + b, rtol=1e-5, atol=1e-5)


def test_half_precision_accumulates_in_float32(run: Run) -> None:
    x, w, b = (
        array(2, 300, dtype="float16"),
        array(4, 300, dtype="float16"),
        array(4, dtype="float16"),
    )
    exact = x.astype("float32") @ w.astype("float32").T
    np.testing.assert_allclose(run(ops.linear, x, w), exact.astype("float16"), rtol=2e-3)
    found = run(ops.linear, x, w, b)
    np.testing.assert_allclose(found, (exact + b).astype("float16"), rtol=2e-3)
    assert found.dtype == np.float16


@pytest.mark.parametrize("dtype", ["float32", "float16", "int32"])
def test_outer_products(run: Run, dtype: str) -> None:
    x, y, b = array(7, 1), array(1, 5), array(5)
    x, y, b = ((4 * v).astype(dtype) for v in (x, y, b))
    found = run(ops.matmul, x, y)
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, x @ y)
    np.testing.assert_allclose(run(ops.linear, x, y.T, b), x @ y + b, rtol=2e-3, atol=1e-3)
    np.testing.assert_array_equal(run(ops.matmul, x[:, 0][None, :1], y), x[:1] @ y)


def test_outer_products_sum_nothing() -> None:
    x, y = te.placeholder((2, 7, 1)), te.placeholder((1, 5))
    text = te.create_prim_func([x, y, ops.matmul(x, y)]).script()
    assert "matmul[v_i0, v_i1, v_i2] = placeholder[v_i0, v_i1, 0] * placeholder_1[0, v_i2]" in text
    assert "T.init" not in text


def test_integers(run: Run) -> None:
    x, y = np.arange(6, dtype="int32").reshape(2, 3), np.arange(6, dtype="int32").reshape(3, 2)
    np.testing.assert_array_equal(run(ops.matmul, x, y), x @ y)


def test_linear_is_a_reduction_and_a_bias_add(golden: Callable[..., None]) -> None:
    x, w, b = (
        te.placeholder((1, 784), name="x"),
        te.placeholder((128, 784), name="w"),
        te.placeholder((128,), name="b"),
    )
    golden(te.create_prim_func([x, w, b, ops.linear(x, w, b)]).script())


def test_errors() -> None:
    x = te.placeholder((3, 4))
    with pytest.raises(ComputeError, match="a scalar has no matrix product"):
        ops.matmul(te.placeholder(()), x)
    with pytest.raises(ComputeError, match="expected equal inner dimensions, found 4 and 3"):
        ops.matmul(x, x)
    with pytest.raises(ComputeError, match="operands of one dtype, found float32 and float16"):
        ops.matmul(x, te.placeholder((4, 2), "float16"))
    with pytest.raises(ComputeError, match=r"expected x\[\.\.\., k\], w\[n, k\]"):
        ops.linear(x, te.placeholder((4,)))
    with pytest.raises(ComputeError, match="found 5 and 6"):
        ops.linear(x, te.placeholder((5, 4)), te.placeholder((6,)))
