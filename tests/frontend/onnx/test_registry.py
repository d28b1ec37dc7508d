"""The ONNX converter context: tensors in every encoding, external data, operands, attributes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from burnish.frontend.onnx import import_onnx
from burnish.frontend.onnx.registry import (
    DTYPES,
    MOST_SIZES,
    Context,
    ShapeValue,
    attribute,
    import_dtype,
    node_name,
    values_of,
)
from burnish.graphir.builder import BlockBuilder
from burnish.graphir.dim import print_shape
from burnish.graphir.expr import constant
from burnish.support.errors import FrontendError
from burnish.tensorir.expr import IntImm, Var
from burnish.tests.frontend.onnx.oracle import evaluate, model, refusal

NODE = helper.make_node("Relu", ["x"], ["y"])


def context() -> Context:
    made = Context(BlockBuilder(), 17)
    made.values["n"] = ShapeValue((Var("n"), IntImm(2)))
    made.values["two"] = ShapeValue((IntImm(2),), scalar=True)
    made.values["ints"] = constant(np.array([1, 2]))
    made.values["i32"] = constant(np.array([1, 2], np.int32))
    made.values["floats"] = constant(np.array([1.5]))
    made.values["long"] = constant(np.arange(MOST_SIZES + 1))
    return made


def node(*inputs: str, **attributes: Any) -> onnx.NodeProto:
    return helper.make_node("Op", list(inputs), ["y"], name="here", **attributes)


def test_every_dtype_of_a_tensor() -> None:
    for kind, dtype in DTYPES.items():
        tensor = helper.make_tensor("t", kind, [2], [1, 0])
        array, found = values_of(tensor, "t")
        assert found is dtype
        expected = [0x3F80, 0] if dtype == "bfloat16" else [1, 0]
        assert array.tolist() == expected


def test_raw_and_typed_data_are_the_same() -> None:
    values = np.array([[1.5, -2], [0.25, 4]], np.float32)
    raw = numpy_helper.from_array(values)
    typed = helper.make_tensor("t", TensorProto.FLOAT, [2, 2], values.ravel())
    assert np.array_equal(values_of(raw, "t")[0], values_of(typed, "t")[0])


def test_data_of_a_wrong_size_is_refused() -> None:
    tensor = numpy_helper.from_array(np.zeros(4, np.float32))
    tensor.raw_data = tensor.raw_data[:-1]
    with pytest.raises(FrontendError, match="w: the tensor's data cannot be read: "):
        values_of(tensor, "w")


@pytest.mark.parametrize("kind", [TensorProto.STRING, TensorProto.COMPLEX64])
def test_other_dtypes_are_refused(kind: int) -> None:
    with pytest.raises(FrontendError) as caught:
        import_dtype(kind, "input 'x'")
    assert f"input 'x': dtype {TensorProto.DataType.Name(kind)} cannot" in str(caught.value)


# -- external data -----------------------------------------------------------------------------
def external(location: str, **more: str) -> TensorProto:
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[2])
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in {"location": location, **more}.items():
        tensor.external_data.add(key=key, value=value)
    return tensor


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "model" / "sub").mkdir(parents=True)
    data = np.array([1, 2, 3], np.float32).tobytes()
    for place in ("model/w.bin", "model/sub/w.bin", "outside.bin"):
        (tmp_path / place).write_bytes(data)
    return tmp_path / "model"


def test_external_data_beside_the_model(folder: Path) -> None:
    made, _ = values_of(external("w.bin", length="8"), "w", str(folder))
    assert made.tolist() == [1, 2]
    made, _ = values_of(external("sub/w.bin", offset="4", length="8"), "w", str(folder))
    assert made.tolist() == [2, 3]


def test_external_data_outside_is_not_read(folder: Path) -> None:
    (folder / "link.bin").symlink_to(folder.parent / "outside.bin")
    for location in ("../outside.bin", str(folder.parent / "outside.bin"), "link.bin"):
        with pytest.raises(FrontendError) as caught:
            values_of(external(location, length="8"), "initializer 'w'", str(folder))
        assert str(caught.value).startswith(
            f"initializer 'w': its data file {location!r} lies outside of the model's folder"
        )


def test_external_data_that_is_missing_or_short(folder: Path) -> None:
    with pytest.raises(FrontendError, match=r"its data file 'none.bin' is missing in "):
        values_of(external("none.bin"), "w", str(folder))
    with pytest.raises(FrontendError, match="the tensor's data cannot be read"):
        values_of(external("w.bin", offset="8", length="8"), "w", str(folder))
    with pytest.raises(FrontendError, match="its file states 4, and has 12 from 0 on"):
        values_of(external("w.bin", length="4"), "w", str(folder))
    with pytest.raises(FrontendError, match="the place of its data is no number"):
        values_of(external("w.bin", offset="here"), "w", str(folder))
    with pytest.raises(FrontendError, match="pass the model's path instead of its contents"):
        values_of(external("w.bin"), "w")


# -- operands ----------------------------------------------------------------------------------
def test_names_of_nodes() -> None:
    assert node_name(node("x")) == "node 'here' (Op)"
    assert node_name(NODE) == "the Relu that makes 'y'"


def test_inputs_may_be_absent_but_not_unknown() -> None:
    given = node("ints", "")
    assert context().raw(given, 1) is None
    assert context().raw(given, 2) is None
    with pytest.raises(FrontendError, match=r"node 'here' \(Op\): input 1 is missing."):
        context().operand(given, 1)
    with pytest.raises(
        FrontendError, match="reads 'nobody', which is no input, no initializer and"
    ):
        context().operand(node("nobody"), 0)


def test_sizes_of_values() -> None:
    made = context()
    assert print_shape(made.shape_value(node("n"), 0).dims) == "(n, 2)"
    assert print_shape(made.shape_value(node("i32"), 0).dims) == "(1, 2)"
    assert made.sizes(made.values["i32"]) is None
    assert made.sizes(made.values["long"]) is None
    assert made.all_sizes([made.values["n"], made.values["ints"]]) is not None
    assert made.all_sizes([made.values["n"], made.values["floats"]]) is None
    assert made.all_sizes([]) is None
    with pytest.raises(FrontendError, match=r"input 0 \('floats'\) has dtype float64"):
        made.shape_value(node("floats"), 0)


def test_constant_arguments() -> None:
    made = context()
    assert made.ints(node("ints"), 0) == [1, 2]
    assert made.ints(node("ints"), 1) is None
    assert made.number(node("floats"), 0) == 1.5
    assert made.number(node("two"), 0) == 2
    made.values["half"] = constant(np.array([0x3FC0], np.uint16), "bfloat16")
    assert made.number(node("half"), 0) == 1.5
    with pytest.raises(FrontendError, match=r"\('n'\) must be constant, and depends on a symbolic"):
        made.ints(node("n"), 0)
    with pytest.raises(FrontendError, match=r"\('ints'\) has \(2,\) elements; expected one number"):
        made.number(node("ints"), 0)


def test_attributes() -> None:
    given = node("x", axis=2, mode="constant", scale=0.5, axes=[1, 2])
    found = [attribute(given, n) for n in ("axis", "mode", "scale", "axes", "none")]
    assert found == [2, "constant", 0.5, [1, 2], None]
    assert attribute(given, "none", 7) == 7


def test_inputs_without_a_name_are_left_out() -> None:
    made = model("y = Concat<axis = 0>(x, x)", "float[3] x")
    made.graph.node[0].input.insert(1, "")
    x = np.array([3.0, -1.0, 2.0], np.float32)
    (found,) = evaluate(import_onnx(made), {"x": x})
    np.testing.assert_array_equal(found, np.concatenate([x, x]))


def test_results_beyond_all_memory_are_refused() -> None:
    weights = {"s": np.array([1 << 30, 1 << 30, 4])}
    assert "no memory holds" in refusal(model("y = Expand(x, s)", "float[1] x", weights=weights))
