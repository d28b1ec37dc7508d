"""Importing whole ONNX models: where they come from, their inputs and dims, exporters, refusals."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper
from torch import nn

from burnish.frontend.imported import Imported
from burnish.frontend.onnx import import_onnx
from burnish.graphir.verify import verify_module
from burnish.support.errors import ArityError, FrontendError, UnsupportedOpError
from burnish.tests.frontend.onnx.oracle import check, evaluate, model, operators_of, refusal
from burnish.tests.graphir.reference import run

W = np.arange(12, dtype=np.float32).reshape(3, 4) / 10
BODY = """
    s = Shape(x)
    n = Gather(s, zero)
    n1 = Unsqueeze(n, axis)
    t = Concat<axis = 0>(n1, four)
    f = Reshape(x, t)
    g = Gemm<transB = 1>(f, w, b)
    y = Relu(g)
"""
WEIGHTS = {
    "zero": np.int64(0), "axis": np.array([0]), "four": np.array([4]), "w": W,
    "b": np.array([0.5, -0.5, 1], np.float32),
}  # fmt: skip


def small() -> onnx.ModelProto:
    return model(BODY, "float[batch, 2, 2] x", 13, outputs="float[batch, 3] y", weights=WEIGHTS)


X = np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 2, 2)


def test_the_text_of_a_small_model(golden: Callable[..., None]) -> None:
    imported = check(small(), x=X)
    golden(imported.module.script())
    assert imported.dim_names == ("batch",)
    assert imported.input_names == ("x",)
    assert imported.single_output
    assert imported.unflatten_outputs(["only"]) == "only"
    assert imported.variables["g"] == "lv_1"


# -- where it comes from -----------------------------------------------------------------------
def test_a_path_bytes_and_a_proto_are_the_same(tmp_path: Path) -> None:
    path = tmp_path / "small.onnx"
    onnx.save(small(), path)
    imported = [import_onnx(m) for m in (path, str(path), path.read_bytes(), small())]
    assert len({i.module.script() for i in imported}) == 1
    sources = ["small.onnx", "small.onnx", "ONNX bytes", "ONNX model"]
    assert [i.source for i in imported] == sources


def test_weights_in_another_file(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onnx.save_model(small(), path, save_as_external_data=True, location="w.bin", size_threshold=0)
    expected = evaluate(import_onnx(small()), {"x": X})[0]
    assert np.array_equal(evaluate(import_onnx(path), {"x": X})[0], expected)
    with pytest.raises(FrontendError, match="pass the model's path instead of its contents"):
        import_onnx(path.read_bytes())
    (tmp_path / "w.bin").unlink()
    with pytest.raises(FrontendError, match=r"its data file 'w\.bin' is missing"):
        import_onnx(path)


@pytest.mark.parametrize("data", [b"", b"this is no model", b"\x08\x08\xff\xff\xff\xff"])
def test_bytes_that_are_no_model(data: bytes) -> None:
    with pytest.raises(FrontendError, match="these bytes: this is no ONNX model: "):
        import_onnx(data)


def test_a_truncated_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "cut.onnx"
    path.write_bytes(small().SerializeToString()[:200])
    with pytest.raises(FrontendError) as caught:
        import_onnx(path)
    assert str(caught.value).startswith(f"{path}: this is no ONNX model: ")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(FrontendError) as caught:
        import_onnx(tmp_path / "none.onnx")
    assert (
        str(caught.value) == f"{tmp_path / 'none.onnx'} cannot be read: No such file or directory."
    )


# -- opsets ------------------------------------------------------------------------------------
@pytest.mark.parametrize("opset", [7, 9, 11, 13, 17, 21])
def test_every_opset_reads_a_perceptron(opset: int) -> None:
    body = "f = Flatten(x)\ng = Gemm<transB = 1>(f, w, b)\nr = Relu(g)\ny = Softmax<axis = 1>(r)"
    check(model(body, "float[N, 2, 2] x", opset, weights=WEIGHTS), x=X)


def test_opsets_that_are_too_old_or_absent() -> None:
    message = refusal(model("y = Relu(x)", opset=5))
    assert message.startswith("the model is of opset 5; burnish reads 6 and later. Convert it with")
    same = model("y = Not(x)", "bool[2] x", 1, outputs="bool y")
    assert evaluate(import_onnx(same), {"x": np.array([True, False])})[0].tolist() == [False, True]
    made = small()
    del made.opset_import[:]
    assert refusal(made) == (
        "the model names no version of the ai.onnx operators. Set it: "
        'model.opset_import.add(domain="", version=...).'
    )
    for version in (0, -3, 2**40):
        made = small()
        made.opset_import[0].version = version
        assert refusal(made) == f"the domain '' has version {version}, which none has."


def test_unsupported_operators_are_reported_at_once() -> None:
    body = "a = Gru(x)\n[named] b = com.acme.Magic(x)\nc = Gru(b)\ny = Relu(c)"
    made = model(body, domains=', "com.acme": 1')
    with pytest.raises(UnsupportedOpError) as caught:
        import_onnx(made)
    lines = str(caught.value).splitlines()
    assert lines[:3] == [
        "2 operators of this onnx model cannot be imported:",
        "  Gru (x2), first at the Gru that makes 'a'",
        "  com.acme.Magic (x1), first at node 'named' (Magic)",
    ]


# -- inputs and outputs ------------------------------------------------------------------------
def test_dims_of_one_name_are_one_dim_and_others_are_not() -> None:
    made = model("y = Add(x, z)", "float[B, 3] x, float[B, 3] z")
    for value in made.graph.input:
        value.type.tensor_type.shape.dim[0].dim_param = "batch-size"
    imported = check(made, x=X[:, 0, :1].repeat(3, 1), z=X[:, 1, :1].repeat(3, 1))
    assert imported.dim_names == ("batch_size",)
    shapes = "float[N, M, N] x"
    assert import_onnx(model("y = Relu(x)", shapes)).dim_names == ("N", "M")
    made = model("y = Relu(x)", "float[a_b, 2] x")
    made.graph.input[0].type.tensor_type.shape.dim[1].dim_param = "a-b"
    assert import_onnx(made).dim_names == ("a_b", "a_b_1")


def test_dims_without_a_name_get_one() -> None:
    made = model("y = Relu(x)", "float[?, 2] x")
    assert import_onnx(made).dim_names == ("x_dim0",)
    made.graph.input[0].type.tensor_type.shape.dim[1].dim_value = -1
    assert import_onnx(made).dim_names == ("x_dim0", "x_dim1")


def test_names_that_are_no_identifiers_stay_the_users() -> None:
    made = model("y = Sub(x, z)", "float[2] x, float[2] z")
    for value, name in zip(made.graph.input, ("input.1", "input-1"), strict=True):
        value.name = name
    made.graph.node[0].input[:] = ["input.1", "input-1"]
    imported = import_onnx(made)
    assert imported.input_names == ("input.1", "input-1")
    a, b = np.ones(2, np.float32), np.zeros(2, np.float32)
    for args, kwargs in (
        ((a, b), {}),
        (({"input-1": b, "input.1": a},), {}),
        ((), {"input.1": a, "input-1": b}),
    ):
        flat = imported.flatten_inputs(args, kwargs)
        assert run(imported.module, "main", *flat).tolist() == [1, 1]


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        ((1,), {}, "the model takes 2 inputs (x, z); got 1: 'z' missing."),
        ((1, 2, 3), {}, "the model takes 2 inputs (x, z); got 3."),
        ((1,), {"x": 2}, "'x' was given twice; the inputs are x, z."),
        (
            ({"x": 1, "zz": 2},),
            {},
            "'zz' is no input of this model; the inputs are x, z. Did you mean 'z'?",
        ),
    ],
)
def test_calls_that_do_not_fit(args: Any, kwargs: Any, message: str) -> None:
    imported = import_onnx(model("y = Sub(x, z)", "float[2] x, float[2] z"))
    with pytest.raises(ArityError) as caught:
        imported.flatten_inputs(args, kwargs)
    assert str(caught.value) == message


def test_several_outputs_come_in_graph_order() -> None:
    body = "b = Relu(x)\na = Neg(b)"
    imported = check(
        model(body, outputs="float a, float b, float x"), x=np.ones((1, 3, 4), np.float32)
    )
    assert not imported.single_output
    assert imported.unflatten_outputs([1, 2, 3]) == (1, 2, 3)


def test_a_graph_without_nodes_passes_its_input_on() -> None:
    made = model("", "float[2] x", outputs="float[2] x")
    assert evaluate(import_onnx(made), {"x": np.ones(2, np.float32)})[0].tolist() == [1, 1]


def test_initializers_among_the_inputs_are_weights() -> None:
    made = model("y = Add(x, w)", "float[3, 4] x, float[3, 4] w", 7, weights={"w": W})
    imported = check(made, x=W)
    assert imported.input_names == ("x",)


def test_local_functions_are_inlined() -> None:
    made = onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["" : 17, "local" : 1]>
        g (float[N, 3] x) => (float[N, 3] y) { y = local.twice(x) }
        <domain: "local", opset_import: ["" : 17]>
        twice (a) => (b) { b = Add(a, a) }
    """)
    assert operators_of(check(made, x=W[:, :3])) == ["add"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda v: v.type.tensor_type.ClearField("shape"), "input 'x' has no shape; export"),
        (lambda v: v.type.sequence_type.SetInParent(), "input 'x' is no tensor."),
        (lambda v: setattr(v.type.tensor_type, "elem_type", TensorProto.STRING),
         "input 'x': dtype STRING cannot be imported"),
        (lambda v: setattr(v.type.tensor_type, "elem_type", TensorProto.COMPLEX64),
         "input 'x': dtype COMPLEX64 cannot be imported"),
    ],
)  # fmt: skip
def test_inputs_that_cannot_be_imported(change: Callable[[Any], Any], message: str) -> None:
    made = model("y = Relu(x)")
    change(made.graph.input[0])
    assert refusal(made).startswith(message)


def test_a_damaged_name_is_refused() -> None:
    made = model("y = Relu(x)", "float[batch] x", outputs="float[batch] y").SerializeToString()
    with pytest.raises(FrontendError, match="input 'x': the name of dim 0 is no text"):
        import_onnx(made.replace(b"batch", b"b\xfftch"))
    with pytest.raises(UnsupportedOpError, match="Re"):
        import_onnx(made.replace(b"Relu", b"Re\xffu"))


def test_invalid_graphs_are_refused_by_node() -> None:
    made = model("y = Relu(x)")
    made.graph.node[0].input[0] = "nobody"
    assert refusal(made).startswith("the Relu that makes 'y' reads 'nobody', which is no input")
    made = model("y = Relu(x)", outputs="float z")
    assert refusal(made).startswith("the model's output reads 'z', which is no input")
    made = model('y = Softmax<axis = "one">(x)')
    assert "the Softmax that makes 'y' is not valid ONNX: " in refusal(made)
    made = model("y = Gather(x)")
    assert refusal(made).startswith(
        "the Gather that makes 'y': expected 2 inputs or more, found no 'indices' among ['x']."
    )
    for dims in ([-2, 3], [-1, -1]):
        made = model("y = Reshape(x, s)", weights={"s": np.array(dims)})
        assert "expected dims of 0 or more and at most one -1, found [" in refusal(made)
    made = model("y = Add(x, w)", weights={"w": np.ones((5, 1), np.float32)})
    message = refusal(made)
    assert "add: the shapes do not broadcast" in message
    assert "while importing the Add that makes 'y'" in message
    made = model("y = Relu(x)")
    made.graph.sparse_initializer.add().values.CopyFrom(helper.make_tensor("s", 1, [1], [1.0]))
    assert refusal(made).startswith("initializer 's': ")


def test_sparse_initializers_are_weights_with_zeros() -> None:
    made = model("y = Add(x, w)", "float[2, 3] x")
    sparse = made.graph.sparse_initializer.add(dims=[2, 3])
    sparse.values.CopyFrom(helper.make_tensor("w", TensorProto.FLOAT, [2], [5.0, 7.0]))
    sparse.indices.CopyFrom(helper.make_tensor("i", TensorProto.INT64, [2], [1, 5]))
    found = evaluate(import_onnx(made), {"x": np.zeros((2, 3), np.float32)})[0]
    assert found.tolist() == [[0, 5, 0], [0, 0, 7]]


# -- what torch exports ------------------------------------------------------------------------
class Network(nn.Module):
    """What exporters write in several ways: views by size, expand, select, normalisation,
    chunks."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 6)
        self.norm = nn.LayerNorm(6)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        flat = x.view(x.shape[0], -1)
        hidden = nn.functional.gelu(self.norm(self.linear(flat)))
        left, right = hidden.chunk(2, dim=1)
        wide = (left * right).softmax(-1).unsqueeze(1).expand(-1, 2, -1)
        return (
            wide.reshape(x.shape[0] * 2, 3),
            hidden[:, 0] + hidden.mean(1),
            hidden.clamp(-0.5, 0.5),
        )


@pytest.fixture
def quiet() -> Iterator[None]:
    """torch's exporters warn about themselves: the old one is deprecated, the new one is
    verbose."""
    logger = logging.getLogger("torch.onnx")
    before = logger.level
    logger.setLevel(logging.ERROR)
    with warnings.catch_warnings():
        for category in (DeprecationWarning, FutureWarning, UserWarning):
            warnings.simplefilter("ignore", category)
        yield
    logger.setLevel(before)


def check_network(imported: Imported, module: nn.Module) -> None:
    verify_module(imported.module)
    assert imported.dim_names == ("batch",)
    for batch in (1, 2, 5):
        x = torch.rand(batch, 2, 3)
        with torch.no_grad():
            expected = module(x)
        found = evaluate(imported, {imported.input_names[0]: x.numpy()})
        for f, e in zip(found, expected, strict=True):
            np.testing.assert_allclose(f, e.numpy(), rtol=1e-5, atol=1e-5)


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("opset", [11, 17])
def test_models_of_the_script_exporter(tmp_path: Path, opset: int) -> None:
    module, path = Network().eval(), tmp_path / "network.onnx"
    torch.onnx.export(
        module, (torch.rand(2, 2, 3),), path, dynamo=False, opset_version=opset,
        input_names=["x"], dynamic_axes={"x": {0: "batch"}},
    )  # fmt: skip
    check_network(import_onnx(path), module)


@pytest.mark.slow
@pytest.mark.usefixtures("quiet")
def test_models_of_the_dynamo_exporter() -> None:
    module = Network().eval()
    program = torch.onnx.export(
        module, (torch.rand(2, 2, 3),), dynamo=True, dynamic_shapes=({0: "batch"},), verbose=False
    )
    assert program is not None
    check_network(import_onnx(program.model_proto), module)


def test_a_newer_opset_is_read_as_the_newest_that_is_known() -> None:
    newest = onnx.defs.onnx_opset_version()
    assert import_onnx(model("y = Relu(x)", opset=newest)).notes == ()
    assert import_onnx(model("y = Relu(x)", opset=newest + 2)).notes == (
        f"the model is of opset {newest + 2}, and the installed onnx knows {newest}: its operators "
        f"are taken for those of {newest}.",
    )
