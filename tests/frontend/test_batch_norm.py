"""Constant statistics become a scale and a shift, rounded once."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch

import burnish
from burnish.frontend.batch_norm import fold_batch_norm
from burnish.graphir.expr import Var, constant
from burnish.graphir.text.literal import readable
from burnish.graphir.type import tensor_type
from burnish.graphir.weights import Weights
from burnish.support.dtype import DType

RNG = np.random.default_rng(0)
MEAN, VARIANCE, WEIGHT, BIAS = (RNG.random(5, np.float32) + 0.1 for _ in range(4))
F32 = DType("float32")


def test_scale_and_shift_are_the_norm() -> None:
    x = RNG.random((2, 5, 3))
    for weight, bias in ((WEIGHT, BIAS), (None, BIAS), (WEIGHT, None), (None, None)):
        weights = Weights()
        folded = fold_batch_norm(
            weights, constant(MEAN), constant(VARIANCE),
            None if weight is None else constant(weight), None if bias is None else constant(bias),
            epsilon=1e-3, dtype=F32, ndim=3,
        )  # fmt: skip
        assert folded is not None
        scale, shift = map(weights.array, folded)
        assert scale.shape == shift.shape == (5, 1)
        assert scale.dtype == shift.dtype == np.float32
        centred = (x - MEAN[:, None]) / np.sqrt(VARIANCE.astype(np.float64)[:, None] + 1e-3)
        expected = centred * (1 if weight is None else weight[:, None])
        expected = expected + (0 if bias is None else bias[:, None])
        np.testing.assert_allclose(x * scale + shift, expected, rtol=1e-6, atol=1e-6)


def test_bfloat16_is_read_from_its_bits() -> None:
    value, dtype = constant(np.array([1.5, -2.0, 3.25]), "bfloat16"), DType("bfloat16")
    ones = constant(np.ones(3))
    folded = fold_batch_norm(Weights(), value, ones, None, None, epsilon=0.0, dtype=dtype, ndim=4)
    assert folded is not None
    assert readable(folded[1].values(), dtype).reshape(-1).tolist() == [-1.5, 2.0, -3.25]


def test_what_is_made_of_named_weights_has_their_names() -> None:
    weights = Weights()
    given = [weights.add(name, np.full(32, 2, np.float32)) for name in ("mean", "var", "w", "b")]
    folded = fold_batch_norm(weights, *given, epsilon=0.0, dtype=F32, ndim=2)
    assert folded is not None
    assert [c.name for c in folded] == ["w.scale", "b.shift"]


def test_what_is_no_constant_is_left() -> None:
    given = Var("m", tensor_type([5], "float32"))
    known = constant(VARIANCE)
    for mean, variance, weight in (
        (given, known, None),
        (known, given, None),
        (known, known, given),
    ):
        folded = fold_batch_norm(
            Weights(), mean, variance, weight, None, epsilon=1e-5, dtype=F32, ndim=2
        )
        assert folded is None


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("affine", [True, False])
def test_half_precision_is_rounded_once(dtype: torch.dtype, affine: bool) -> None:
    torch.manual_seed(0)
    norm = torch.nn.BatchNorm2d(6, affine=affine).eval()
    for p in (*norm.parameters(), norm.running_mean, norm.running_var):
        assert p is not None
        torch.nn.init.uniform_(p, 0.5, 2.0)
    norm, x = norm.to(dtype), torch.randn(2, 6, 9, 7).to(dtype)
    found = burnish.compile(norm, (x,))(x)
    wanted = copy.deepcopy(norm).double()(x.double())
    assert found.dtype is dtype
    rounding = torch.finfo(dtype).eps / 2
    torch.testing.assert_close(found.double(), wanted, rtol=rounding, atol=1e-6)
