"""Quantised models as exporters write them run in bytes, whole: QDQ pairs, QLinear operators, and
dynamic ones, against onnx's reference and without steps between their kernels."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser
from onnx.reference import ReferenceEvaluator

import burnish

RNG = np.random.default_rng(0)
CHANNELS = 16


def weights(*names: str) -> dict[str, np.ndarray]:
    made: dict[str, np.ndarray] = {}
    for n in names:
        made[n] = RNG.integers(-127, 128, (CHANNELS, CHANNELS, 3, 3)).astype(np.int8)
        made[f"{n}_scale"] = RNG.uniform(0.001, 0.002, CHANNELS).astype(np.float32)
        made[f"{n}_zero"] = np.zeros(CHANNELS, np.int8)
    return made


def model(body: str, values: dict[str, np.ndarray], opset: int = 19) -> onnx.ModelProto:
    made = parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : {opset}]>\n'
        f"g (float[1, {CHANNELS}, 9, 8] x) => (float y) {{\n{body}\n}}"
    )
    for name, array in values.items():
        made.graph.initializer.append(numpy_helper.from_array(np.asarray(array), name))
    return made


CONSTANTS = {
    "s": np.float32(0.02), "z": np.uint8(120), "r": np.float32(0.015), "o": np.uint8(0),
}  # fmt: skip
QDQ = """
    q = QuantizeLinear(x, s, z)
    d = DequantizeLinear(q, s, z)
    v = DequantizeLinear<axis = 0>(w, w_scale, w_zero)
    a = Conv<pads = [1, 1, 1, 1]>(d, v)
    b = Relu(a)
    p = QuantizeLinear(b, r, o)
    e = DequantizeLinear(p, r, o)
    u = DequantizeLinear<axis = 0>(t, t_scale, t_zero)
    f = Conv<pads = [1, 1, 1, 1], strides = [2, 1]>(e, u)
    g = Add(f, f)
    h = QuantizeLinear(g, s, z)
    y = DequantizeLinear(h, s, z)
"""


def test_qdq_convolutions_are_products_of_bytes() -> None:
    proto = model(QDQ, CONSTANTS | weights("w", "t"))
    compiled = burnish.compile(proto, threads=1)
    x = RNG.standard_normal((1, CHANNELS, 9, 8)).astype(np.float32)
    (expected,) = ReferenceEvaluator(proto).run(None, {"x": x})
    # A sum may be rounded to the other side of a half.
    assert np.abs(compiled(x) - expected).max() <= float(CONSTANTS["s"]) * 1.01
    assert "2 products are of bytes, summed in int32 and exact." in compiled.report.notes
    kernels = compiled.report.kernels
    assert sum("integer_matmul" in k for k in kernels) == 2
    # The layout changes once on the way in and once on the way out.
    assert sum("permute_dims" in k for k in kernels) <= 2
    assert not any("conv" in k for k in kernels)


@pytest.mark.parametrize("pads", [[0, 0, 0, 0], [1, 1, 1, 1]])
def test_a_zero_point_that_data_tell(pads: list[int]) -> None:
    """What onnxruntime's dynamic quantiser writes for a convolution."""
    body = f"""
        q, a, b = DynamicQuantizeLinear(x)
        c = ConvInteger<pads = {pads}>(q, w, b)
        d = Cast<to = 1>(c)
        e = Mul(a, s)
        y = Mul(d, e)
    """
    proto = model(body, {"w": weights("w")["w"], "s": np.float32(0.01)})
    compiled = burnish.compile(proto, threads=1)
    x = RNG.standard_normal((1, CHANNELS, 9, 8)).astype(np.float32)
    (expected,) = ReferenceEvaluator(proto).run(None, {"x": x})
    np.testing.assert_allclose(compiled(x), expected, rtol=1e-4, atol=1e-3)
    assert any("integer_matmul" in k for k in compiled.report.kernels)


def test_what_stays_in_float32_is_told() -> None:
    values = CONSTANTS | weights("w")
    values["w"] = values["w"][:, :1]
    proto = model(
        """
        q = QuantizeLinear(x, s, z)
        d = DequantizeLinear(q, s, z)
        v = DequantizeLinear<axis = 0>(w, w_scale, w_zero)
        y = Conv<group = 16>(d, v)
        """,
        values,
    )
    compiled = burnish.compile(proto, threads=1)
    x = RNG.standard_normal((1, CHANNELS, 9, 8)).astype(np.float32)
    (expected,) = ReferenceEvaluator(proto).run(None, {"x": x})
    np.testing.assert_allclose(compiled(x), expected, rtol=1e-4, atol=1e-4)
    (note,) = [n for n in compiled.report.notes if "products of activations that are bytes" in n]
    assert note.startswith("1 products")
