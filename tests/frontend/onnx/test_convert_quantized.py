"""Quantised operators against onnx's reference, and products of extreme bytes against int64."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper

from burnish.driver.compile import compile
from burnish.frontend.onnx import import_onnx
from burnish.graphir.verify import verify_module
from burnish.tests.frontend.onnx.oracle import check, evaluate, model, operators_of, refusal

RNG = np.random.default_rng(0)
BYTES = {"uint8": (0, 256), "int8": (-128, 128)}


def bytes_of(dtype: str, *shape: int) -> np.ndarray:
    """Random bytes, the extremes among them."""
    low, high = BYTES[dtype]
    x = RNG.integers(low, high, shape).astype(dtype)
    x.reshape(-1)[:2] = low, high - 1
    return x


@pytest.mark.parametrize("first", BYTES)
@pytest.mark.parametrize("second", BYTES)
@pytest.mark.parametrize(
    ("a_shape", "b_shape"), [((3, 5), (5, 4)), ((2, 3, 5), (5, 4)), ((2, 3, 5), (2, 5, 4))]
)
def test_products_with_zero_points(
    first: str, second: str, a_shape: tuple[int, ...], b_shape: tuple[int, ...]
) -> None:
    a, b = bytes_of(first, *a_shape), bytes_of(second, *b_shape)
    zeros = [np.array(7, first), np.array(-3 if second == "int8" else 200, second)]
    dims = ", ".join(map(str, a_shape))
    for given in ((), (0,), (1,), (0, 1)):
        names = [name if i in given else "" for i, name in enumerate(("az", "bz"))]
        weights = {"b": b} | {n: z for n, z in zip(names, zeros, strict=True) if n}
        text = (
            f"y = MatMulInteger(a, b, {', '.join(names)})" if given else "y = MatMulInteger(a, b)"
        )
        check(model(text, f"{first}[{dims}] a", outputs="int32 y", weights=weights), a=a)


def test_zero_points_of_rows_and_columns() -> None:
    a, b = bytes_of("uint8", 3, 5), bytes_of("int8", 5, 4)
    rows, columns = bytes_of("uint8", 3), bytes_of("int8", 4)
    made = model(
        "y = MatMulInteger(a, b, az, bz)", "uint8[3, 5] a", outputs="int32 y",
        weights={"b": b, "az": rows, "bz": columns},
    )  # fmt: skip
    imported = import_onnx(made)
    verify_module(imported.module)
    (found,) = evaluate(imported, {"a": a})
    wanted = (a.astype("int32") - rows[:, None]) @ (b.astype("int32") - columns)
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize(("a_shape", "b_shape"), [((5,), (5, 4)), ((3, 5), (5,)), ((5,), (5,))])
def test_zero_points_of_vectors(a_shape: tuple[int, ...], b_shape: tuple[int, ...]) -> None:
    a, b = bytes_of("uint8", *a_shape), bytes_of("int8", *b_shape)
    dims = ", ".join(map(str, a_shape))
    made = model(
        "y = MatMulInteger(a, b, az, bz)", f"uint8[{dims}] a", outputs="int32 y",
        weights={"b": b, "az": np.array(7, "uint8"), "bz": np.array(-3, "int8")},
    )  # fmt: skip
    (found,) = evaluate(import_onnx(made), {"a": a})
    wanted = (a.astype("int32") - 7) @ (b.astype("int32") + 3)
    assert found.shape == wanted.shape
    np.testing.assert_array_equal(found, wanted)


def test_zero_points_that_are_zero_cost_nothing() -> None:
    zero = np.array(0, "uint8")
    made = model(
        "y = MatMulInteger(a, b, z)", "uint8[3, 5] a", outputs="int32 y",
        weights={"b": bytes_of("int8", 5, 4), "z": zero},
    )  # fmt: skip
    assert operators_of(check(made, a=bytes_of("uint8", 3, 5))) == ["integer_matmul"]


@pytest.mark.parametrize("kind", ["uint8", "int8"])
def test_there_and_back(kind: str) -> None:
    x = (RNG.standard_normal((2, 3, 4)) * 100).astype("float32")
    x.reshape(-1)[:4] = 0.25, 0.75, 1e9, -1e9
    zero = np.array(3, kind)
    weights = {"s": np.array(0.5, "float32"), "z": zero}
    check(model("y = QuantizeLinear(x, s, z)", opset=21, outputs=f"{kind} y", weights=weights), x=x)
    made = model(
        "q = QuantizeLinear(x, s, z)\ny = DequantizeLinear(q, s, z)", opset=21, weights=weights
    )
    check(made, x=x)


def test_scales_along_an_axis() -> None:
    x = (RNG.standard_normal((2, 3, 4)) * 100).astype("float32")
    for axis, n in ((0, 2), (1, 3), (-1, 4)):
        scale = RNG.random(n).astype("float32") + 0.5
        weights = {"s": scale, "z": bytes_of("int8", n)}
        axis_text = f"<axis = {axis}>"
        text = f"q = QuantizeLinear{axis_text}(x, s, z)\ny = DequantizeLinear{axis_text}(q, s, z)"
        check(model(text, "float[2, 3, 4] x", 21, weights=weights), x=x)


def test_dynamic_quantisation() -> None:
    for x in (RNG.standard_normal((3, 4)), RNG.random((3, 4)) + 1, -1 - RNG.random((3, 4))):
        made = model(
            "y, s, z = DynamicQuantizeLinear(x)", "float[3, 4] x",
            outputs="uint8 y, float s, uint8 z",
        )  # fmt: skip
        check(made, x=x.astype("float32"))


def test_a_layer_of_bytes() -> None:
    """As dynamic quantisation writes it: the zero point of the activations is computed."""
    b = bytes_of("int8", 8, 6)
    made = model(
        "q, s, z = DynamicQuantizeLinear(x)\np = MatMulInteger(q, b, z)\nf = Cast<to = 1>(p)\n"
        "t = Mul(s, w)\ny = Mul(f, t)",
        "float[5, 8] x", weights={"b": b, "w": np.array(0.02, "float32")},
    )  # fmt: skip
    check(made, x=RNG.standard_normal((5, 8)).astype("float32"))


@pytest.mark.parametrize("kind", ["uint8", "int8"])
def test_a_product_that_is_quantised(kind: str) -> None:
    a, b = bytes_of(kind, 3, 5), bytes_of(kind, 5, 4)
    weights = {
        "b": b, "as": np.array(0.01, "float32"), "bs": np.array(0.02, "float32"),
        "ys": np.array(0.05, "float32"), "az": np.array(7, kind), "bz": np.array(9, kind),
        "yz": np.array(11, kind),
    }  # fmt: skip
    made = model(
        "y = QLinearMatMul(a, as, az, b, bs, bz, ys, yz)", f"{kind}[3, 5] a",
        outputs=f"{kind} y", weights=weights,
    )  # fmt: skip
    check(made, a=a)


def test_scales_by_blocks() -> None:
    weights = {"s": np.random.default_rng(0).random((2, 3, 2)).astype(np.float32)}
    text = "y = DequantizeLinear<axis = 2, block_size = 2>(x, s)"
    x = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
    check(model(text, "uint8[2, 3, 4] x", 21, weights=weights), x=x)


def test_what_cannot_be_imported() -> None:
    scales = {"s": np.ones(2, "float32")}
    text = "y = DequantizeLinear<axis = 2, block_size = 2>(x, s)"
    assert "blocks need a static axis" in refusal(
        model(text, "uint8[2, 3, 4] x", 21, weights=scales)
    )
    text = "y = DequantizeLinear<axis = 5>(x, s)"
    weights = {"s": np.ones(3, "float32")}
    assert "axis 5" in refusal(model(text, "uint8[2, 3, 4] x", weights=weights))


@pytest.mark.parametrize(("kind", "bits"), [("int8", 8), ("uint8", 8), ("int4", 4), ("uint4", 4)])
@pytest.mark.parametrize("form", ["tensor", "column", "block"])
def test_products_of_dequantised_weights_read_integers(kind: str, bits: int, form: str) -> None:
    """A weight (k, n) with a zero point and a scale for all of it, each column, or 32 rows."""
    k, n = 64, 48
    rng = np.random.default_rng(0)
    low = 0 if kind.startswith("u") else -(1 << (bits - 1))
    w = rng.integers(low, low + (1 << bits), (k, n))
    shape = {"tensor": (), "column": (n,), "block": (k // 32, n)}[form]
    scale = rng.uniform(0.01, 0.1, shape).astype(np.float32)
    zero = rng.integers(low, low + (1 << bits), shape)
    number = getattr(TensorProto, kind.upper())
    extra = {"tensor": "", "column": "<axis = 1>", "block": "<axis = 0, block_size = 32>"}[form]
    made = model(
        f"d = DequantizeLinear{extra}(w, s, z)\ny = MatMul(x, d)", f"float[3, {k}] x", 21,
        weights={"s": scale},
    )  # fmt: skip
    for name, values in (("w", w), ("z", zero)):
        tensor = helper.make_tensor(name, number, values.shape, values.reshape(-1).tolist())
        made.graph.initializer.append(tensor)
    x = rng.standard_normal((3, k)).astype(np.float32)
    repeat = np.repeat if form == "block" else lambda a, *_: a
    factor, shift = repeat(scale, 32, 0), repeat(zero, 32, 0)
    compiled = compile(made)
    weight = (w - shift) * factor.astype(np.float64)
    np.testing.assert_allclose(compiled(x), x @ weight, rtol=1e-4, atol=1e-4)
    assert [s.rule for s in compiled.report.schedules.values()] == ["scaled"]
    assert any(f"integers of {bits} bits" in note for note in compiled.report.notes)
