"""A size that is negative for a call is refused, also one that no kernel has any more."""

from __future__ import annotations

import numpy as np
import pytest

import burnish
from burnish.graphir.dim import is_nonnegative
from burnish.support.errors import ShapeMismatchError
from burnish.tensorir.expr import Var as DimVar
from burnish.tests.frontend.onnx.oracle import model as onnx_model

M, N = DimVar("m"), DimVar("n")
LONGER = """
    s = Shape<start = 1>(x)
    k = Constant<value_ints = [4]>()
    n = Sub(s, k)
    two = Constant<value_float = 2.0>()
    filled = Expand(two, n)
    e = Sqrt(filled)
    q = Constant<value_floats = [1.0, 2.0, 3.0, 4.0]>()
    r = Concat<axis = 0>(e, q)
"""
"""A row of m numbers, of which the last 4 are given."""


def row(m: int) -> np.ndarray:
    return np.array([2**0.5] * (m - 4) + [1, 2, 3, 4], np.float32)


def test_what_may_be_negative() -> None:
    for size in (M, M * N, (M + 7) // 8, M + N - M):
        assert is_nonnegative(size)
    for size in (M - N, (M - 3) // 2 + 1):
        assert not is_nonnegative(size)


def test_a_size_that_fusion_leaves_out_is_refused() -> None:
    model = burnish.compile(onnx_model(f"{LONGER} y = Add(x, r)", "float[2, m] x"))
    (kernel,) = model.report.kernels
    assert "m - 4" not in str(kernel)
    for m in (7, 4):
        x = np.ones((2, m), np.float32)
        np.testing.assert_allclose(model(x), x + row(m), rtol=1e-6)
    for m in (3, 0):
        with pytest.raises(ShapeMismatchError, match=r"m - 4 >= 0, got m = \d"):
            model(np.ones((2, m), np.float32))


def test_one_of_a_branch_is_refused_where_that_is_taken() -> None:
    text = f"""
        y = If(c) <
            then_branch = yes () => (a) {{ {LONGER} a = Add(x, r) }},
            else_branch = no () => (b) {{ b = Neg(x) }}
        >
    """
    model = burnish.compile(onnx_model(text, "float[2, m] x, bool c"))
    for m in (6, 2):
        x = np.ones((2, m), np.float32)
        np.testing.assert_array_equal(model(x, np.array(False)), -x)
    np.testing.assert_allclose(model(np.ones((2, 6), np.float32), np.array(True)),
                               1 + row(6)[None].repeat(2, 0), rtol=1e-6)  # fmt: skip
    with pytest.raises(ShapeMismatchError, match="m - 4 >= 0, got m = 2"):
        model(np.ones((2, 2), np.float32), np.array(True))
