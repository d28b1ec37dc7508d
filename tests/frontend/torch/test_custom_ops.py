"""Operators of torch.library with converters of users: kernels, environment functions, errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import burnish
from burnish import graph, te
from burnish.frontend import custom_ops
from burnish.frontend.torch.custom_ops import register_torch_op
from burnish.frontend.torch.registry import REGISTRY
from burnish.graphir import op as op_table
from burnish.support.errors import BurnishError, FrontendError, UnsupportedOpError
from burnish.vm import registry as environment


@torch.library.custom_op("burnish_tests::clip_softly", mutates_args=())
def clip_softly(x: torch.Tensor, limit: float, *, scale: float = 1.0) -> torch.Tensor:
    return torch.tanh(x / limit) * limit * scale


@clip_softly.register_fake
def _(x: torch.Tensor, limit: float, *, scale: float = 1.0) -> torch.Tensor:
    return torch.empty_like(x)


@torch.library.custom_op("burnish_tests::both_ends", mutates_args=())
def both_ends(xs: list[torch.Tensor], bias: torch.Tensor | None) -> list[torch.Tensor]:
    low, high = torch.minimum(xs[0], xs[1]), torch.maximum(xs[0], xs[1])
    return [low, high if bias is None else high + bias]


@both_ends.register_fake
def _(xs: list[torch.Tensor], bias: torch.Tensor | None) -> list[torch.Tensor]:
    return [torch.empty_like(xs[0]), torch.empty_like(xs[0])]


class Clip(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(8, 6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.ops.burnish_tests.clip_softly(self.linear(x) * 4, 2.0, scale=0.5)
        return torch.relu(y) + 1


class Ends(torch.nn.Module):
    def __init__(self, bias: bool) -> None:
        super().__init__()
        self.bias = torch.nn.Parameter(torch.rand(4)) if bias else None

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        low, high = torch.ops.burnish_tests.both_ends([x, y], self.bias)
        return low * 2 + high


@pytest.fixture(autouse=True)
def tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test registers is gone after it."""
    monkeypatch.setattr(op_table, "_OPS", op_table.all_ops())
    monkeypatch.setattr(REGISTRY, "_table", dict(REGISTRY._table))
    monkeypatch.setattr(custom_ops, "_OWN", {})
    monkeypatch.setattr(environment, "_functions", dict(environment._functions))

    @graph.define_op(name="test_clip_softly")
    def definition(x: Any, *, limit: float, scale: float) -> Any:
        return te.compute(x.shape, lambda *i: te.tanh(x(*i) / limit) * (limit * scale))


def agrees(module: torch.nn.Module, *inputs: torch.Tensor, **options: Any) -> burnish.compile:  # type: ignore[valid-type]
    model = burnish.compile(module.eval(), inputs, **options)
    torch.testing.assert_close(model(*inputs), module(*inputs), rtol=1e-5, atol=1e-6)
    return model


@pytest.mark.parametrize("name", ["burnish_tests::clip_softly", clip_softly,
                                  torch.ops.burnish_tests.clip_softly,
                                  torch.ops.burnish_tests.clip_softly.default])  # fmt: skip
def test_a_graph_operator_fuses_with_its_neighbours(name: Any) -> None:
    x = torch.randn(3, 8)
    with pytest.raises(UnsupportedOpError, match=r"burnish\.register_torch_op"):
        burnish.compile(Clip().eval(), (x,))
    register_torch_op(name, "test_clip_softly")
    model = agrees(Clip(), x)
    assert list(model.module.prim_funcs) == ["fused_linear_test_clip_softly_relu_add"]  # type: ignore[attr-defined]


def test_every_batch_size_and_a_saved_model(tmp_path: Any) -> None:
    register_torch_op("burnish_tests::clip_softly", "test_clip_softly")
    module = Clip().eval()
    model = burnish.compile(module, (torch.randn(4, 8),), dynamic_shapes=({0: "batch"},))
    model.save(tmp_path / "m.burnish")
    loaded = burnish.load(tmp_path / "m.burnish")
    for batch in (0, 1, 5):
        x = torch.randn(batch, 8)
        for made in (model, loaded):
            torch.testing.assert_close(made(x), module(x), rtol=1e-5, atol=1e-6)
    found = model.verify(torch.randn(3, 8))
    assert found
    assert "burnish_tests.clip_softly.default" in [v.operator for v in found.values]


def test_a_function_gets_the_arguments() -> None:
    seen: list[Any] = []

    def convert(x: Any, limit: float, *, scale: float) -> Any:
        seen.append((limit, scale))
        return graph.op("multiply", graph.op("tanh", graph.op("divide", x, limit)), limit * scale)

    register_torch_op("burnish_tests::clip_softly", convert)
    agrees(Clip(), torch.randn(3, 8))
    assert seen == [(2.0, 0.5)]


@pytest.mark.parametrize("bias", [False, True])
def test_lists_absent_tensors_and_several_results(bias: bool) -> None:
    def convert(xs: list[Any], held: Any) -> Any:
        assert (held is not None) is bias
        high = graph.op("maximum", *xs)
        return graph.op("minimum", *xs), graph.op("add", high, held) if bias else high

    register_torch_op("burnish_tests::both_ends", convert)
    agrees(Ends(bias), torch.randn(3, 4), torch.randn(3, 4))


def test_a_function_of_the_environment() -> None:
    @torch.library.custom_op("burnish_tests::twice", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    twice.register_fake(torch.empty_like)

    class Twice(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.ops.burnish_tests.twice(x + 1) - 1

    burnish.register_func(
        "test.twice", lambda x, out: np.multiply(x.numpy(), 2, out=out.numpy()), override=True
    )
    register_torch_op("burnish_tests::twice", environment="test.twice")
    agrees(Twice(), torch.randn(3, 4))
    register_torch_op("burnish_tests::clip_softly", environment="test.twice")
    with pytest.raises(FrontendError, match="an environment function gets tensors alone"):
        burnish.compile(Clip().eval(), (torch.randn(3, 8),))


def test_a_converter_of_ours_stays_unless_it_is_asked_for() -> None:
    with pytest.raises(BurnishError, match=r"'aten\.relu\.default' has a converter of burnish"):
        register_torch_op("aten::relu", "gelu")
    register_torch_op("aten::relu", lambda x: graph.op("maximum", x, 0.0), override=True)
    model = agrees(torch.nn.Sequential(torch.nn.ReLU()), torch.randn(3, 4))
    assert "R.maximum" in model.script("00-import")  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("convert", "said"),
    [
        (lambda x, limit, scale: graph.op("sum", x, axis=(0,)), "gave float32(6,), and torch says"),
        (lambda x, limit, scale: graph.op("astype", x, dtype="float64"), "gave float64(3, 6)"),
        (lambda x, limit, scale: (x, x), "gave 2 values, and torch has 1"),
        (lambda x, limit, scale: 3, "its converter gave 3; it gives a graph value"),
    ],
)
def test_what_a_converter_may_not_give(convert: Any, said: str) -> None:
    register_torch_op("burnish_tests::clip_softly", convert)
    with pytest.raises(FrontendError) as error:
        burnish.compile(Clip().eval(), (torch.randn(3, 8),))
    assert said in str(error.value)
    assert "test_custom_ops.py" in str(error.value)


def test_errors_of_registering() -> None:
    for args, options, said in (
        (("clip", "relu"), {}, "takes an operator's name"),
        (("a::b",), {}, "takes a converter, or environment="),
        (("a::b", "relu"), {"environment": "f"}, "takes a converter, or environment="),
        (("a::b", "reluu"), {}, "no graph operator 'reluu'; define it first"),
        (("a::b", 3), {}, "a converter is a function"),
    ):
        with pytest.raises(BurnishError) as error:
            register_torch_op(*args, **options)  # type: ignore[arg-type]
        assert said in str(error.value)
