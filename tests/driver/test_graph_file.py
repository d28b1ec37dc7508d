"""The graph as an ONNX file: well-formed, with shapes, and what is known of the kernels."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import burnish
from burnish.support.errors import ArtifactError, MissingExtraError, NotCompiledError


def shapes(values: Any) -> dict[str, tuple[int, list[Any]]]:
    found = {}
    for value in values:
        kind = value.type.tensor_type
        dims = [d.dim_param or d.dim_value for d in kind.shape.dim]
        found[value.name] = (kind.elem_type, dims)
    return found


def test_the_graph_of_a_model(dynamic: Any, tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    dynamic.save_graph(tmp_path / "g.onnx")
    model = onnx.load(tmp_path / "g.onnx")
    onnx.checker.check_model(model)
    graph = model.graph
    float32 = onnx.TensorProto.FLOAT
    ((name, found),) = shapes(graph.input).items()
    assert found == (float32, ["batch", 1, 28, 28])
    assert list(shapes(graph.output).values()) == [(float32, ["batch", 10])]
    first, last = graph.node
    assert (first.op_type, first.domain, list(first.input)) == (
        "fused_linear_relu",
        "burnish",
        [name],
    )
    assert list(last.input) == list(first.output)
    assert list(last.output) == [graph.output[0].name]
    known = {a.name: onnx.helper.get_attribute_value(a) for a in first.attribute}
    assert known["constants"] == 2
    assert len(known["rule"]) > 0
    assert (tmp_path / "g.onnx").stat().st_size < 5_000


def test_several_outputs_and_dtypes(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")

    class Several(torch.nn.Module):
        def forward(self, x: torch.Tensor, n: torch.Tensor) -> Any:
            values, places = x.topk(2)
            return values, places + n, x.to(torch.bfloat16)

    model = burnish.compile(
        Several(), (torch.ones(3, 4, dtype=torch.float64), torch.ones(3, 1, dtype=torch.int64))
    )
    model.save_graph(tmp_path / "g.onnx")
    found = onnx.load(tmp_path / "g.onnx")
    onnx.checker.check_model(found)
    kinds = onnx.TensorProto
    inputs = [kind for kind, _ in shapes(found.graph.input).values()]
    assert inputs == [kinds.DOUBLE, kinds.INT64]
    outputs = shapes(found.graph.output)
    assert (kinds.BFLOAT16, [3, 4]) in outputs.values()


def test_what_is_missing_is_told(
    dynamic: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(NotCompiledError, match="save_graph"):
        burnish.compile(torch.nn.ReLU()).save_graph(tmp_path / "g.onnx")
    with pytest.raises(ArtifactError, match="cannot be written: No such file"):
        dynamic.save_graph(tmp_path / "no" / "g.onnx")
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(MissingExtraError, match=r"burnish\[onnx\]"):
        dynamic.save_graph(tmp_path / "g.onnx")
