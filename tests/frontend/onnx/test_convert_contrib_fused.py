"""Fused operators of com.microsoft, beside NumPy by their documentation."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
import torch
from onnx import TensorProto, helper

from burnish.frontend.onnx import import_onnx
from burnish.tests.frontend.onnx.oracle import evaluate, model, refusal
from burnish.tests.frontend.onnx.test_convert_contrib import floats, near, run

RNG = np.random.default_rng(0)


def conv(x: np.ndarray, w: np.ndarray, b: np.ndarray) -> np.ndarray:
    given = [torch.from_numpy(a) for a in (x, w, b)]
    return torch.nn.functional.conv2d(*given, padding=1).numpy()


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ('activation = "Relu"', lambda y: np.maximum(y, 0)),
        ('activation = "LeakyRelu", activation_alpha = 0.1', lambda y: np.where(y > 0, y, y * 0.1)),
        ('activation = "Tanh", alpha = 2.0', None),
    ],
)
def test_gemms(attributes: str, expected: object) -> None:
    a, b, c = floats(3, 4), floats(5, 4), floats(5)
    found = run(f"FusedGemm<transB = 1, {attributes}>(a, b, c)", a=a, b=b, c=c)[0]
    near(found, expected(a @ b.T + c) if callable(expected) else np.tanh(2 * (a @ b.T) + c))


def test_convolutions() -> None:
    x, w, b, z = floats(2, 3, 5, 5), floats(4, 3, 3, 3), floats(4), floats(2, 4, 5, 5)
    plain = conv(x, w, b)
    call = 'FusedConv<pads = [1, 1, 1, 1], activation = "{}"{}>(x, w, b{})'
    near(run(call.format("Relu", "", ""), x=x, w=w, b=b)[0], np.maximum(plain, 0), 1e-4)
    found = run(call.format("Relu", "", ", z"), x=x, w=w, b=b, z=z)[0]
    near(found, np.maximum(plain + z, 0), 1e-4)
    numbers = ", activation_params = [0.0, 1.5]"
    near(run(call.format("Clip", numbers, ""), x=x, w=w, b=b)[0], np.clip(plain, 0, 1.5), 1e-4)


def test_embeddings() -> None:
    ids = RNG.integers(0, 9, (2, 4)).astype(np.int32)
    kinds = RNG.integers(0, 2, (2, 4)).astype(np.int32)
    mask = np.array([[1, 1, 1, 0], [1, 1, 0, 0]], np.int32)
    words, places, segments, gamma, beta = (floats(n, 8) for n in (9, 6, 2, 1, 1))
    given = {"ids": ids, "kinds": kinds, "words": words, "places": places, "segments": segments}
    rest = {"gamma": gamma[0], "beta": beta[0], "mask": mask}
    body = (
        "y, m, s = com.microsoft.EmbedLayerNormalization(ids, kinds, words, places, segments, "
        "gamma, beta, mask)"
    )
    inputs = (
        "int32[B, T] ids, int32[B, T] kinds, float[9, 8] words, float[6, 8] places, "
        "float[2, 8] segments, float[8] gamma, float[8] beta, int32[B, T] mask"
    )
    made = model(body, inputs, outputs="float y, int32 m, float s", domains=', "com.microsoft": 1')
    y, many, total = evaluate(import_onnx(made), {**given, **rest})
    expected = words[ids] + places[:4] + segments[kinds]
    near(total, expected)
    assert many.dtype == np.int32
    assert many.tolist() == [3, 2]
    centred = expected - expected.mean(-1, keepdims=True)
    deviation = np.sqrt(expected.var(-1, keepdims=True) + 1e-12)
    near(y, centred / deviation * gamma[0] + beta[0], 1e-4)
    given_places = np.array([[3, 2, 1, 0]] * 2, np.int32)
    call = "EmbedLayerNormalization(ids, , words, places, , gamma, beta, , at)"
    rest = {"gamma": gamma[0], "beta": beta[0], "at": given_places}
    found = run(call, 3, (2,), ids=ids, words=words, places=places, **rest)[0]
    near(found, words[ids] + places[given_places])


def test_pools_with_channels_last() -> None:
    x = RNG.integers(0, 255, (1, 6, 6, 3)).astype(np.uint8)
    body = "y = com.microsoft.NhwcMaxPool<kernel_shape = [2, 2], strides = [2, 2]>(x)"
    made = model(body, "uint8[1, N, 6, 3] x", outputs="uint8 y", domains=', "com.microsoft": 1')
    (found,) = evaluate(import_onnx(made), {"x": x})
    np.testing.assert_array_equal(found, x.reshape(1, 3, 2, 3, 2, 3).max((2, 4)))


def test_quantised_convolutions_with_channels_last() -> None:
    x = RNG.integers(0, 255, (1, 5, 5, 4)).astype(np.uint8)
    w = RNG.integers(-99, 99, (6, 4, 3, 3)).astype(np.int8)
    weights = {
        "w": w, "xs": np.float32(0.02), "xz": np.uint8(120), "ws": np.float32(0.01),
        "wz": np.int8(0), "ys": np.float32(0.1), "yz": np.uint8(128),
    }  # fmt: skip
    found = []
    for domain, last, given in (("com.microsoft.", 1, x), ("", 0, x.transpose(0, 3, 1, 2))):
        attributes = f"<channels_last = {last}>" if last else ""
        body = f"y = {domain}QLinearConv{attributes}(x, xs, xz, w, ws, wz, ys, yz)"
        inputs = f"uint8[{', '.join(map(str, given.shape))}] x"
        made = model(
            body, inputs, outputs="uint8 y", domains=', "com.microsoft": 1', weights=weights
        )
        found.append(evaluate(import_onnx(made), {"x": np.ascontiguousarray(given)})[0])
    np.testing.assert_array_equal(found[0], found[1].transpose(0, 2, 3, 1))


@pytest.mark.parametrize("kind", ["int4", "uint4", "bytes", "zeros"])
def test_rows_of_blocks(kind: str) -> None:
    """Numbers of four bits, as such or two a byte, of which two blocks make a row."""
    signed = kind == "int4"
    table = RNG.integers(-8 if signed else 0, 8 if signed else 16, (5, 32))
    scales, zeros = np.abs(floats(5, 2)), RNG.integers(0, 16, (5, 2))
    nodes_type = {"int4": TensorProto.INT4, "uint4": TensorProto.UINT4}.get(kind)
    weights = {"scales": scales}
    shift = np.zeros((5, 2))
    if nodes_type is None:
        weights["table"] = (table[:, ::2] | table[:, 1::2] << 4).astype(np.uint8)
        shift = np.full((5, 2), 8)
    given = "table, ids, scales"
    if kind == "zeros":
        weights["zeros"] = (zeros[:, ::2] | zeros[:, 1::2] << 4).astype(np.uint8)
        given, shift = f"{given}, zeros", zeros
    call = "GatherBlockQuantized<block_size = 16, gather_axis = 0, quantize_axis = 1>"
    made = model(
        f"y = com.microsoft.{call}({given})", "int64[N, 3] ids",
        domains=', "com.microsoft": 1', weights=weights, opset=21,
    )  # fmt: skip
    if nodes_type is not None:
        stored = table.astype(ml_dtypes.int4 if signed else ml_dtypes.uint4)
        packed = (stored.view(np.uint8)[:, ::2] & 15) | (stored.view(np.uint8)[:, 1::2] & 15) << 4
        made.graph.initializer.append(
            helper.make_tensor("table", nodes_type, (5, 32), packed.tobytes(), raw=True)
        )
    ids = np.array([[0, 4, 2], [1, 1, 3]])
    (found,) = evaluate(import_onnx(made), {"ids": ids})
    real = (table - np.repeat(shift, 16, 1)) * np.repeat(scales, 16, 1)
    near(found, real[ids])


def test_blocks_along_another_axis_are_refused() -> None:
    body = "y = com.microsoft.GatherBlockQuantized<quantize_axis = 0>(t, ids, s)"
    weights = {"t": np.zeros((32, 4), np.uint8), "s": floats(1, 4)}
    made = model(body, "int64[3] ids", domains=', "com.microsoft": 1', weights=weights)
    assert "quantize_axis 0 of 2" in refusal(made)


def test_steps_of_the_contrib_domain() -> None:
    """Of 16 bits, which ONNX's own operators did not have at first."""
    x = floats(2, 5)
    weights = {"s": np.float32(0.01), "z": np.uint16(300)}
    body = "q = com.microsoft.QuantizeLinear(x, s, z)\ny = com.microsoft.DequantizeLinear(q, s, z)"
    made = model(body, "float[N, 5] x", domains=', "com.microsoft": 1', weights=weights)
    (found,) = evaluate(import_onnx(made), {"x": x})
    near(found, (np.clip(np.round(x / np.float32(0.01)) + 300, 0, 65535) - 300) * 0.01)
