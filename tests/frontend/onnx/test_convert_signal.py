"""Fourier transforms beside NumPy's."""

from __future__ import annotations

import numpy as np
import pytest

from burnish.frontend.onnx import import_onnx
from burnish.tests.frontend.onnx.oracle import evaluate, model, refusal

X = np.random.default_rng(0).standard_normal((2, 6, 3, 2)).astype(np.float32)
COMPLEX = X[..., 0] + 1j * X[..., 1]


def run(attributes: str, x: np.ndarray, length: int | None = None) -> np.ndarray:
    shape = ", ".join(str(n) for n in x.shape)
    weights = {"axis": np.int64(1)} | ({} if length is None else {"n": np.int64(length)})
    body = f"y = DFT{attributes}(x, {'n' if length is not None else ''}, axis)"
    return evaluate(import_onnx(model(body, f"float[{shape}] x", 20, weights=weights)), {"x": x})[0]


def parts(z: np.ndarray) -> np.ndarray:
    return np.stack([z.real, z.imag], -1)


@pytest.mark.parametrize("length", [None, 4, 9])
def test_transforms_there_and_back(length: int | None) -> None:
    found = run("", X, length)
    np.testing.assert_allclose(found, parts(np.fft.fft(COMPLEX, length, axis=1)), atol=1e-5)
    found = run("<inverse = 1>", X, length)
    np.testing.assert_allclose(found, parts(np.fft.ifft(COMPLEX, length, axis=1)), atol=1e-5)


@pytest.mark.parametrize("length", [None, 5])
def test_half_of_a_real_transform_and_back(length: int | None) -> None:
    real = X[..., :1]
    found = run("<onesided = 1>", real, length)
    np.testing.assert_allclose(found, parts(np.fft.rfft(real[..., 0], length, axis=1)), atol=1e-5)
    back = run("<onesided = 1, inverse = 1>", found, 6 if length is None else length)
    np.testing.assert_allclose(back[..., 0], real[:, :length, :, 0], atol=1e-5)


def test_a_transform_of_too_many_points_is_refused() -> None:
    weights = {"n": np.int64(1 << 40)}
    made = model("y = DFT(x, n)", "float[1, 6, 1] x", 20, weights=weights)
    assert "1099511627776 points; at most 4096 can be imported" in refusal(made)
