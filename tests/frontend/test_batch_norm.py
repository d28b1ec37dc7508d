"""Constant statistics become a scale and a shift, rounded once."""

from __future__ import annotations

import numpy as np

from burnish.frontend.batch_norm import float64_values, fold_batch_norm
from burnish.graphir.expr import Var, constant
from burnish.graphir.type import tensor_type
from burnish.support.dtype import DType

RNG = np.random.default_rng(0)
MEAN, VARIANCE, WEIGHT, BIAS = (RNG.random(5, np.float32) + 0.1 for _ in range(4))
F32 = DType("float32")


def test_scale_and_shift_are_the_norm() -> None:
    x = RNG.random((2, 5, 3))
    for weight, bias in ((WEIGHT, BIAS), (None, BIAS), (WEIGHT, None), (None, None)):
        folded = fold_batch_norm(
            constant(MEAN), constant(VARIANCE),
            None if weight is None else constant(weight), None if bias is None else constant(bias),
            epsilon=1e-3, dtype=F32, ndim=3,
        )  # fmt: skip
        assert folded is not None
        scale, shift = folded
        assert scale.data.shape == shift.data.shape == (5, 1)
        assert scale.data.dtype == shift.data.dtype == np.float32
        centred = (x - MEAN[:, None]) / np.sqrt(VARIANCE.astype(np.float64)[:, None] + 1e-3)
        expected = centred * (1 if weight is None else weight[:, None])
        expected = expected + (0 if bias is None else bias[:, None])
        np.testing.assert_allclose(x * scale.data + shift.data, expected, rtol=1e-6, atol=1e-6)


def test_bfloat16_is_read_from_its_bits() -> None:
    value = constant(np.array([1.5, -2.0, 3.25]), "bfloat16")
    np.testing.assert_array_equal(float64_values(value), [1.5, -2.0, 3.25])
    assert float64_values(value).dtype == np.float64
    folded = fold_batch_norm(
        value, constant(np.ones(3)), None, None, epsilon=0.0, dtype=DType("bfloat16"), ndim=4
    )
    assert folded is not None
    np.testing.assert_array_equal(float64_values(folded[1]).reshape(-1), [-1.5, 2.0, -3.25])


def test_what_is_no_constant_is_left() -> None:
    given = Var("m", tensor_type([5], "float32"))
    known = constant(VARIANCE)
    for mean, variance, weight in (
        (given, known, None),
        (known, given, None),
        (known, known, given),
    ):
        folded = fold_batch_norm(mean, variance, weight, None, epsilon=1e-5, dtype=F32, ndim=2)
        assert folded is None
