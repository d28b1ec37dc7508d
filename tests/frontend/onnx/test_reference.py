"""The values of ONNX's reference evaluator, by the names of the file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

from burnish.frontend.onnx.reference import onnx_reference
from burnish.support.errors import FrontendError
from burnish.vm.tensor import array


def model(*nodes: onnx.NodeProto, output: str = "y") -> onnx.ModelProto:
    graph = helper.make_graph(
        list(nodes),
        "g",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, [2]) for n in ("a", "b")],
        [helper.make_tensor_value_info(output, TensorProto.FLOAT, [2])],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])


A, B = np.float32([1, 2]), np.float32([3, -4])
CHAIN = (
    helper.make_node("Add", ["a", "b"], ["s"], name="sum"),
    helper.make_node("Abs", ["s"], ["y"]),
)


@pytest.mark.parametrize("call", [((A, B), {}), ((A,), {"b": B}), (({"a": A, "b": B},), {})])
def test_values_in_order(call: tuple[tuple[object, ...], dict[str, object]]) -> None:
    found = onnx_reference(model(*CHAIN), *call)
    assert found.imported is not None
    assert [(v.name, v.operator, v.where) for v in found.values] == [
        ("s", "Add", "node 'sum'"),
        ("y", "Abs", ""),
    ]
    np.testing.assert_array_equal(found.outputs[0], np.abs(A + B))
    assert set(found.imported.variables) >= {"s", "y"}


def test_bytes_are_a_model_too() -> None:
    found = onnx_reference(model(*CHAIN).SerializeToString(), (A, B), {})
    np.testing.assert_array_equal(found.outputs[0], np.abs(A + B))


def test_an_operator_that_the_evaluator_does_not_have() -> None:
    node = helper.make_node("BiasGelu", ["a", "b"], ["y"], domain="com.microsoft")
    proto = model(node)
    proto.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    with pytest.raises(FrontendError, match="reference evaluator fails"):
        onnx_reference(proto, (A, B), {})


def test_files_that_cannot_be_read_or_are_no_model(tmp_path: Path) -> None:
    with pytest.raises(FrontendError, match="cannot be read: No such file"):
        onnx_reference(tmp_path / "nosuch.onnx", (A, B), {})
    other = tmp_path / "other.onnx"
    other.write_bytes(b"PK and whatever else")
    with pytest.raises(FrontendError, match="this is no ONNX model"):
        onnx_reference(other, (A, B), {})


def test_weights_in_a_file_of_their_own(tmp_path: Path) -> None:
    made = model(helper.make_node("Add", ["a", "w"], ["y"]))
    made.graph.initializer.append(numpy_helper.from_array(np.float32([5, 6]), "w"))
    path = tmp_path / "m.onnx"
    onnx.save_model(
        made, path, save_as_external_data=True, location="w.bin", size_threshold=0,
        convert_attribute=False,
    )  # fmt: skip
    found = onnx_reference(path, (A, B), {})
    np.testing.assert_array_equal(found.outputs[0], A + np.float32([5, 6]))
    (tmp_path / "w.bin").unlink()
    with pytest.raises(FrontendError, match="external data"):
        onnx_reference(path, (A, B), {})


def test_bfloat16_is_given_and_kept_as_bits() -> None:
    shapes = [helper.make_tensor_value_info(name, TensorProto.BFLOAT16, [2]) for name in ("a", "y")]
    graph = helper.make_graph([helper.make_node("Neg", ["a"], ["y"])], "g", shapes[:1], shapes[1:])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])
    half = torch.tensor([1.5, -3], dtype=torch.bfloat16)
    for given in (half, array(np.float32([1.5, -3]), "bfloat16")):
        found = onnx_reference(proto, (given,), {})
        assert found.inputs[0] is given
        assert found.outputs[0].dtype == np.uint16
        assert torch.equal(torch.from_numpy(found.outputs[0]).view(torch.bfloat16), -half)
