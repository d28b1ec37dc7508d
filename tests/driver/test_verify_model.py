"""model.verify: what agrees, and who is named where something is broken on purpose."""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import burnish
from burnish.driver.cli import main
from burnish.frontend.onnx.registry import REGISTRY as ONNX
from burnish.frontend.torch.registry import REGISTRY as TORCH
from burnish.graphir.expr import Call, Value, Var
from burnish.graphir.module import IRModule
from burnish.graphir.mutator import ExprMutator
from burnish.graphir.passes.eliminate_common_subexpr import EliminateCommonSubexpr
from burnish.support.errors import ArgumentError, FrontendError, VerificationError
from burnish.support.node import map_children, replace
from burnish.support.target import Target
from burnish.tensorir.expr import FloatImm
from burnish.tensorir.function import PrimFunc
from burnish.tuner.analytic import schedule_analytically

onnx = pytest.importorskip("onnx")


class Net(nn.Module):
    """Floats, integers and a dict."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.norm = nn.Linear(6, 8), nn.LayerNorm(8)

    def forward(self, x: torch.Tensor, scale: float = 2.0) -> dict[str, torch.Tensor]:
        hidden = self.norm(torch.relu(self.linear(x)) * scale)
        return {"y": hidden, "best": hidden.softmax(-1).argmax(-1)}


X = torch.rand(3, 6, generator=torch.Generator().manual_seed(0))


@pytest.fixture
def net() -> nn.Module:
    torch.manual_seed(0)
    return Net().eval()


def test_all_values_agree_and_stand_in_the_table(net: nn.Module) -> None:
    found = burnish.compile(net, (X,)).verify(X)
    assert found
    assert found.first is None
    assert [v.dtype for v in found.outputs] == ["float32", "int64"]
    assert [v.operator for v in found.values][:2] == ["aten.linear.default", "aten.relu.default"]
    assert all(v.error < 1e-5 for v in found.values)
    assert "torch Net agrees, beside eager PyTorch" in str(found)
    assert "test_verify_model.py" in found.values[0].where
    assert found.check() is found


def test_lazy_models_named_dims_and_plain_values(net: nn.Module) -> None:
    model = burnish.compile(net, dynamic_shapes={"x": {0: "n"}})
    assert model.verify(X, 3.0)
    assert model.verify(X[:1], 3.0)
    assert model.compilations == 1


def test_float64_shows_eagers_errors_beside_ours(net: nn.Module) -> None:
    found = burnish.compile(net, (X,)).verify(X, float64=True)
    assert found
    assert found.reference == "eager PyTorch in float64"
    eager = [v.eager_error for v in found.values if v.dtype == "float32"]
    assert all(e is not None and 0 < e < 1e-5 for e in eager)


def test_a_tolerance_of_ones_own(net: nn.Module) -> None:
    found = burnish.compile(net, (X,)).verify(X, tolerance=1e-12)
    assert not found
    assert "differ" in str(found)
    with pytest.raises(VerificationError, match=r"aten\."):
        found.check()


class Counter(nn.Module):
    """A model whose calls change it, and their input."""

    def __init__(self) -> None:
        super().__init__()
        self.count: torch.Tensor
        self.register_buffer("count", torch.zeros(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count += 1
        x.add_(self.count)
        return x * 2


def test_state_and_inputs_stay_as_they_are() -> None:
    module, x = Counter().eval(), torch.ones(2)
    model = burnish.compile(module, (torch.ones(2),))
    assert model.verify(x)
    assert torch.equal(module.count, torch.zeros(2))
    assert torch.equal(x, torch.ones(2))
    assert torch.equal(model(x), torch.full((2,), 4.0))


# -- broken on purpose -----------------------------------------------------------------------------
def _negated(converter: Callable[..., Any]) -> Callable[..., Any]:
    """A converter of the opposite."""

    def opposite(context: Any, node: Any) -> Any:
        value = converter(context, node)
        value = value if isinstance(value, Var) else context.builder.emit(value)
        return context.builder.emit(Call("negative", (value,)))

    return opposite


def test_a_wrong_converter_is_named_by_its_operator(
    net: nn.Module, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(TORCH._table, "aten.relu.default", _negated(TORCH["aten.relu.default"]))
    found = burnish.compile(net, (X,)).verify(X)
    assert not found
    assert found.first is not None
    assert found.first.operator == "aten.relu.default"
    assert "torch.relu(self.linear(x))" in found.first.where
    assert [v.operator for v in found.values if not v.agrees] == ["aten.relu.default"]


def test_a_wrong_pass_is_named(net: nn.Module, monkeypatch: pytest.MonkeyPatch) -> None:
    class Wrong(ExprMutator):
        def visit_Call(self, call: Call) -> Value:  # noqa: N802
            return replace(call, op="sigmoid") if call.op == "relu" else call

    run = EliminateCommonSubexpr.run

    def spoiled(self: Any, module: IRModule) -> Any:
        return Wrong(run(self, module)).transform()

    monkeypatch.setattr(EliminateCommonSubexpr, "run", spoiled)
    found = burnish.compile(net, (X,)).verify(X)
    assert not found
    assert found.first is None
    assert "eliminate-common-subexpr" in found.blame
    assert "canonicalize" not in found.blame


def test_a_wrong_schedule_is_named_by_its_kernel(net: nn.Module) -> None:
    model = burnish.compile(net, (X,))
    assert model.verify(X)

    def spoiled(func: PrimFunc, target: Target) -> PrimFunc:
        made = schedule_analytically(func, target)
        return _halved(made) if "layer_norm" in func.name else made

    model._schedule = spoiled
    model._fixed = model._adopt((), model._again())  # type: ignore[misc]
    found = model.verify(X)
    assert not found
    assert "layer_norm" in found.blame
    assert "schedule" in found.blame


def _halved(func: PrimFunc) -> PrimFunc:
    """The function with every constant 0 of a comparison or start replaced by another number."""

    def change(node: Any) -> Any:
        if isinstance(node, FloatImm):
            return replace(node, value=node.value + 1.0)
        return map_children(node, change)

    changed: PrimFunc = change(func)
    return changed


# -- the first call --------------------------------------------------------------------------------
def test_the_first_call_of_each_signature_is_compared_once(
    net: nn.Module, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = burnish.compile(net, check="first-call")
    calls: list[int] = []
    verify: Callable[..., Any] = type(model).verify
    monkeypatch.setattr(
        type(model), "verify", lambda self, *a, **k: calls.append(1) or verify(self, *a, **k)
    )
    for _ in range(3):
        model(X)
    assert len(calls) == 1
    assert any("first call agrees with eager PyTorch" in n for n in model.report.notes)
    model(X[:2])
    assert len(calls) == 2


def test_a_first_call_that_differs_raises(net: nn.Module) -> None:
    model = burnish.compile(net, (X,), check="first-call")
    with torch.no_grad():
        net.linear.weight += 1  # type: ignore[operator,union-attr]
    with pytest.raises(VerificationError, match="torch Net DIFFERS, beside eager PyTorch"):
        model(X)
    with pytest.raises(ArgumentError, match=r'check is None or "first-call"; found \'always\'.$'):
        burnish.compile(net, check="always")
    for option, word in (("check", "first-call"), ("fallback", "torch")):
        with pytest.raises(ArgumentError, match=f"Did you mean '{word}'"):
            burnish.compile(net, **{option: word[:-1]})


# -- other sources ---------------------------------------------------------------------------------
def test_exported_programs_are_given_again(net: nn.Module) -> None:
    program = torch.export.export(net, (X,))
    model = burnish.compile(program)
    with pytest.raises(ArgumentError, match="source="):
        model.verify(X)
    assert model.verify(X, source=program)
    with pytest.raises(ArgumentError, match="IRModule"):
        model.verify(X, source=model.module)


def test_a_module_that_is_gone() -> None:
    model = burnish.compile(Net().eval(), (X,))
    gc.collect()
    with pytest.raises(FrontendError, match="is gone"):
        model.verify(X)


def _onnx_model() -> Any:
    helper, kinds = onnx.helper, onnx.TensorProto
    weight = onnx.numpy_helper.from_array(np.eye(4, 3, dtype=np.float32), "w")
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"], name="product"),
        helper.make_node("Relu", ["h"], ["r"], name="rectified"),
        helper.make_node("ArgMax", ["r"], ["best"], axis=-1, keepdims=0),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", kinds.FLOAT, [2, 4])],
        [helper.make_tensor_value_info("best", kinds.INT64, [2])],
        [weight],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])


def test_onnx_models_beside_the_reference_evaluator(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, proto = tmp_path / "m.onnx", _onnx_model()
    onnx.save(proto, path)
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    found = burnish.compile(path).verify(x)
    assert found
    assert [v.operator for v in found.values] == ["MatMul", "Relu", "ArgMax"]
    assert burnish.compile(proto).verify({"x": x}, source=proto)
    with pytest.raises(ArgumentError, match="float64"):
        burnish.compile(path).verify(x, float64=True)
    assert main(["verify", str(path)]) == 0
    assert "agrees, beside ONNX's reference evaluator" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["verify", str(path), "--tolerance", "-1"])
    monkeypatch.setitem(ONNX._table, "Relu", _negated(ONNX["Relu"]))
    assert main(["verify", str(path)]) == 1
    assert "the first: Relu (r, float32[2, 3])" in capsys.readouterr().out


def test_programs_that_depend_on_values_are_compared_by_their_outputs() -> None:
    helper, kinds = onnx.helper, onnx.TensorProto
    graph = helper.make_graph(
        [helper.make_node("Unsqueeze", ["x", "axes"], ["y"])],
        "g",
        [
            helper.make_tensor_value_info("x", kinds.FLOAT, [4]),
            helper.make_tensor_value_info("axes", kinds.INT64, [1]),
        ],
        [helper.make_tensor_value_info("y", kinds.FLOAT, None)],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])
    x = np.float32([0, 1, 0, 2])
    found = burnish.compile(proto).verify(x, np.array([1]), source=proto)
    assert found
    assert not found.values
    assert "depends on values" in str(found)
