"""Quantised operators of com.microsoft, beside NumPy by their documentation."""

from __future__ import annotations

import numpy as np
import pytest

from burnish.tests.frontend.onnx.test_convert_contrib import (
    attend,
    floats,
    heads,
    joined,
    near,
    softmax,
)
from burnish.tests.frontend.onnx.test_convert_contrib import run as run_contrib

RNG = np.random.default_rng(0)
R, S, T = np.float32(0.1), np.float32(0.2), np.float32(0.3)
ZERO = np.uint8(100)


def bytes_(*shape: int) -> np.ndarray:
    return RNG.integers(0, 255, shape).astype(np.uint8)


def real(a: np.ndarray, scale: np.float32, zero: np.generic = ZERO) -> np.ndarray:
    return (a.astype(np.float64) - float(zero)) * float(scale)


def run(call: str, **values: object) -> np.ndarray:
    return run_contrib(call, **values)[0]


def steps(x: np.ndarray, scale: np.float32 = T) -> np.ndarray:
    return np.clip(np.round(x / float(scale)) + float(ZERO), 0, 255)


def close(found: np.ndarray, expected: np.ndarray) -> None:
    """Bytes but for halves, which float32 and float64 round to either side."""
    assert np.abs(np.asarray(found, float) - expected).max() <= 1


def test_products_of_bytes() -> None:
    x, s = floats(3, 4), np.float32(0.05)
    b, z = RNG.integers(-9, 9, (4, 2)).astype(np.int8), np.int8(1)
    scale = (max(x.max(), 0) - min(x.min(), 0)) / 255
    zero = np.round(-min(x.min(), 0) / scale)
    steps = np.clip(np.round(x / scale) + zero, 0, 255)
    expected = (steps - zero) @ (b.astype(np.float32) - 1) * scale * s
    near(run("DynamicQuantizeMatMul(x, b, s, z)", x=x, b=b, s=s, z=z), expected, 1e-4)


def test_sums_of_bytes() -> None:
    a, b = bytes_(2, 3), bytes_(2, 3)
    scales = {"r": R, "s": S, "t": T, "z": ZERO}
    close(
        run("QLinearAdd(a, r, z, b, s, z, t, z)", a=a, b=b, **scales),
        steps(real(a, R) + real(b, S)),
    )
    found = run("QLinearConcat<axis = 1>(t, z, a, t, z, b, t, z)", a=a, b=b, z=ZERO, t=T)
    near(found, np.concatenate([a, b], 1))


@pytest.mark.parametrize("quantised", [False, True])
@pytest.mark.parametrize("turned", [0, 1])
def test_gemm(turned: int, quantised: bool) -> None:
    a, b = bytes_(3, 8), RNG.integers(-9, 9, (8, 5)).astype(np.int8)
    c, one = RNG.integers(-50, 50, (5,)).astype(np.int32), np.int8(1)
    sums = (a.astype(int) - 100) @ (b.astype(int) - 1) + c
    expected = sums * 0.5 * float(R) * float(S)
    given = {"a": a.T if turned else a, "b": b.T if turned else b}
    given = {k: np.ascontiguousarray(v) for k, v in given.items()}
    call = f"QGemm<alpha = 0.5, transA = {turned}, transB = {turned}>(a, r, z, b, s, o, c"
    values = {**given, "c": c, "r": R, "s": S, "z": ZERO, "o": one}
    if quantised:
        close(run(f"{call}, t, z)", t=T, **values), steps(expected))
    else:
        near(run(f"{call})", **values), expected, 1e-4)


@pytest.mark.parametrize(("axis", "opset"), [(-1, 13), (1, 13), (1, 12), (2, 12)])
def test_softmax(axis: int, opset: int) -> None:
    x, t = bytes_(2, 3, 4), np.float32(1 / 256)
    made = real(x, R)
    if opset < 13 and axis == 1:
        expected = softmax(made.reshape(2, 12)).reshape(2, 3, 4)
    else:
        expected = np.moveaxis(softmax(np.moveaxis(made, axis, -1)), -1, axis)
    call = f"QLinearSoftmax<axis = {axis}, opset = {opset}>(x, r, z, t, o)"
    found = run(call, x=x, r=R, z=ZERO, t=t, o=np.uint8(0))
    close(found, np.clip(np.round(expected * 256), 0, 255))


@pytest.mark.parametrize("last", [0, 1])
def test_means(last: int) -> None:
    x = bytes_(2, 4, 6, 6)
    windows = real(x, R).reshape(2, 4, 3, 2, 3, 2).mean((3, 5))
    given = x.transpose(0, 2, 3, 1) if last else x
    call = f"QLinearAveragePool<kernel_shape = [2, 2], strides = [2, 2], channels_last = {last}>"
    found = run(f"{call}(x, r, z, t, z)", x=given, r=R, z=ZERO, t=T)
    close(found, steps(windows.transpose(0, 2, 3, 1) if last else windows))
    call = "QLinearReduceMean<axes = [1, 3], keepdims = 0>(x, r, z, t, z)"
    close(run(call, x=x, r=R, z=ZERO, t=T), steps(real(x, R).mean((1, 3))))


def test_choice() -> None:
    a, b = bytes_(2, 3), bytes_(2, 3)
    expected = steps(np.where(a > 100, real(a, R), real(b, S)))
    call = "QLinearWhere(c, a, r, z, b, s, z, t, z)"
    close(run(call, c=a > 100, a=a, b=b, r=R, s=S, t=T, z=ZERO), expected)


def test_attention() -> None:
    x, w = bytes_(2, 3, 8), RNG.integers(-9, 9, (8, 24)).astype(np.int8)
    b, small, s = floats(24), np.float32(0.01), np.float32(0.02)
    joint = real(x, small) @ (w.astype(float) * float(s)) + b
    q, k, v = (heads(p, 2) for p in np.split(joint, 3, -1))
    lengths = np.array([3, 2], np.int32)
    mask = np.where(np.arange(3) < lengths[:, None], 0, -1e9)[:, None, None]
    call = "QAttention<num_heads = 2>(x, w, b, r, s, m, z, o)"
    found = run(call, x=x, w=w, b=b, r=small, s=s, m=lengths, z=ZERO, o=np.int8(0))
    near(found, joined(attend(q, k, v, mask)), 1e-4)
