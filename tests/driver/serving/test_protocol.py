"""The Open Inference protocol: both forms of tensors, and every wrong request refused."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from burnish.driver.serving.protocol import TensorForm, format_response, parse_request
from burnish.support.errors import RequestError

INPUTS = [TensorForm("x", "float32", ("batch", "2")), TensorForm("n", "int64", ("batch",))]
OUTPUTS = [TensorForm("y", "float32", ("batch",)), TensorForm("z", "bool", ("batch",))]


def tensor(name: str, kind: str, shape: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "datatype": kind, "shape": shape, **more}


X = tensor("x", "FP32", [1, 2], data=[1, 2.5])
N = tensor("n", "INT64", [1], data=[2**53 + 1])


def parse(*inputs: Any, tail: bytes = b"", **more: Any) -> Any:
    head = json.dumps({"inputs": list(inputs), **more}).encode()
    return parse_request(head + tail, str(len(head)), INPUTS, OUTPUTS)


def test_json_flat_and_nested_in_any_order() -> None:
    nested = tensor("x", "FP32", [1, 2], data=[[1, 2.5]])
    for asked in (parse(X, N, id="a"), parse(N, nested, id="a")):
        assert asked.id == "a"
        assert asked.outputs == (("y", False), ("z", False))
        x, n = asked.arrays
        assert (x.dtype, x.tolist()) == (np.float32, [[1.0, 2.5]])
        assert n.tolist() == [2**53 + 1]


def test_binary_tensors_in_and_out() -> None:
    x = np.array([[1.5, np.inf]], np.float32)
    sized = tensor("x", "FP32", [1, 2], parameters={"binary_data_size": 8})
    asked = parse(
        sized,
        N,
        tail=x.tobytes(),
        outputs=[{"name": "z"}, {"name": "y", "parameters": {"binary_data": True}}],
    )
    np.testing.assert_array_equal(asked.arrays[0], x)
    assert asked.arrays[0].flags.aligned
    results = {"y": np.array([np.nan], np.float32), "z": np.array([True])}
    body, headers = format_response("m", asked, results, OUTPUTS)
    length = int(headers["inference-header-content-length"])
    outputs = json.loads(body[:length])["outputs"]
    assert outputs[0] == tensor("z", "BOOL", [1], data=[True])
    assert outputs[1]["parameters"] == {"binary_data_size": 4}
    assert np.isnan(np.frombuffer(body[length:], np.float32)).all()


def test_what_json_cannot_carry_is_refused() -> None:
    results = {"y": np.array([np.nan], np.float32), "z": np.array([True])}
    with pytest.raises(RequestError, match="binary_data"):
        format_response("m", parse(X, N), results, OUTPUTS)


HALF = TensorForm("h", "bfloat16", ("2",))


def test_bfloat16_is_numbers_in_json_and_bits_in_binary() -> None:
    assert HALF.describe()["datatype"] == "BF16"
    bits = np.array([0x3F80, 0xC020], np.uint16)  # 1 and -2.5
    written = json.dumps({"inputs": [tensor("h", "BF16", [2], data=[1.001, -2.5])]}).encode()
    asked = parse_request(written, None, [HALF], [HALF])
    np.testing.assert_array_equal(asked.arrays[0], bits)
    body, _ = format_response("m", asked, {"h": bits}, [HALF])
    assert json.loads(body)["outputs"] == [tensor("h", "BF16", [2], data=[1.0, -2.5])]

    sized = tensor("h", "BF16", [2], parameters={"binary_data_size": 4})
    head = json.dumps({"inputs": [sized], "parameters": {"binary_data_output": True}}).encode()
    asked = parse_request(head + bits.tobytes(), str(len(head)), [HALF], [HALF])
    np.testing.assert_array_equal(asked.arrays[0], bits)
    body, headers = format_response("m", asked, {"h": bits}, [HALF])
    assert body[int(headers["inference-header-content-length"]) :] == bits.tobytes()


def test_bfloat16_has_no_infinities_in_json() -> None:
    for data, found in ([1e39, 0], "not finite in BF16"), ([True, False], "not all values of BF16"):
        written = json.dumps({"inputs": [tensor("h", "BF16", [2], data=data)]}).encode()
        with pytest.raises(RequestError, match=found):
            parse_request(written, None, [HALF], [HALF])
    written = json.dumps({"inputs": [tensor("h", "BF16", [2], data=[1, 2])]}).encode()
    asked = parse_request(written, None, [HALF], [HALF])
    with pytest.raises(RequestError, match="binary_data"):
        format_response("m", asked, {"h": np.array([0x7F80, 0], np.uint16)}, [HALF])


@pytest.mark.parametrize(
    ("x", "found"),
    [
        (tensor("x", "FP32", [1, 3], data=[1, 2, 3]), r"expected shape \[batch, 2\]"),
        (tensor("x", "FP32", [2], data=[1, 2]), "expected shape"),
        (tensor("x", "FP32", [-1, 2], data=[]), "expected shape"),
        (tensor("x", "FP32", [True, 2], data=[1, 2]), "expected shape"),
        (tensor("x", "FP32", "12", data=[1, 2]), "expected shape"),
        (tensor("x", "FP32", [10**9, 2], data=[1, 2]), "does not fit 2 values"),
        (tensor("x", "FP32", [1, 2], data=[[1], [2]]), "its data has"),
        (tensor("x", "FP32", [1, 2], data=[[1, 2], [3]]), "not of one shape"),
        (tensor("x", "FP32", [1, 2], data=["1", "2"]), "not all values of FP32"),
        (tensor("x", "FP32", [1, 2], data=[1, None]), "not all values of FP32"),
        (tensor("x", "FP32", [1, 2], data=[True, False]), "not all values of FP32"),
        (tensor("x", "FP32", [1, 2], data=[1, 1e300]), "not finite"),
        (tensor("x", "FP32", [1, 2], data=[1, float("nan")]), "not finite"),
        (tensor("x", "FP32", [1, 2], data="12"), "a list; found str"),
        (tensor("x", "FP32", [1, 2]), "found nothing"),
        (tensor("x", "FP64", [1, 2], data=[1, 2]), "expected datatype FP32"),
        (tensor("w", "FP32", [1, 2], data=[1, 2]), "expected the inputs x, n; found n, w"),
        (tensor("x", "FP32", [1, 2], parameters={"binary_data_size": 4}), "has 8 bytes, not 4"),
        (tensor("x", "FP32", [1, 2], parameters={"binary_data_size": 8}), "8 bytes too early"),
        (tensor("x", "FP32", [1, 2], parameters=3), "expected a JSON object, found int"),
        (N, "given twice"),
        (7, "expected a JSON object, found int"),
    ],
)
def test_wrong_tensors(x: Any, found: str) -> None:
    with pytest.raises(RequestError, match=found):
        parse(x, N)


@pytest.mark.parametrize("value", [1.5, 2**63, -(2**63) - 1, "1", True])
def test_integers_are_never_rounded_or_wrapped(value: Any) -> None:
    with pytest.raises(RequestError, match=r"not all values of INT64|out of the range of INT64"):
        parse(X, tensor("n", "INT64", [1], data=[value]))


def test_wrong_bodies() -> None:
    for body in (b"", b"{", b"\xff", b"[" * 100_000, b"[]", b"{}", b'{"inputs": 3}'):
        with pytest.raises(RequestError):
            parse_request(body, None, INPUTS, OUTPUTS)
    for length in ("-1", "3", "x", "٣", "9" * 5000):
        with pytest.raises(RequestError, match="Inference-Header-Content-Length"):
            parse_request(b"{}", length, INPUTS, OUTPUTS)
    with pytest.raises(RequestError, match="4 bytes are left"):
        parse(X, N, tail=b"1234")
    for outputs in ([{"name": "q"}], [{"name": "y"}, {"name": "y"}], [{}], 3):
        with pytest.raises(RequestError, match="output"):
            parse(X, N, outputs=outputs)
    with pytest.raises(RequestError, match="id"):
        parse(X, N, id=3)
