"""CallableModel: entries are taken for the next call of a kind, and only while they are right."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from onnx import parser

import burnish
from burnish.support.errors import NotCompiledError


def test_the_next_call_of_a_kind_goes_directly() -> None:
    x = torch.randn(2, 3)
    model = burnish.compile(torch.nn.Linear(3, 4).eval(), (x,))
    expected = model(x)
    first = model._entry
    assert first != model._dispatch
    np.testing.assert_array_equal(model(x.numpy()), expected.numpy())
    assert model._entry is not first
    assert torch.equal(model(x), expected)
    assert torch.equal(model(input=x), expected)
    assert torch.equal(model.run([x]), expected)


def test_a_model_without_inputs_gives_what_its_source_gives() -> None:
    class Constant(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("table", torch.arange(3.0))

        def forward(self) -> torch.Tensor:
            return self.table + 1

    assert torch.equal(burnish.compile(Constant().eval(), ())(), torch.arange(3.0) + 1)


def test_arguments_are_made_of_tensors() -> None:
    class Sum(torch.nn.Module):
        def forward(self, x: list[torch.Tensor], scale: int = 1) -> torch.Tensor:
            return (x[0] + x[1]) * scale

    model = burnish.compile(Sum().eval())
    with pytest.raises(NotCompiledError, match="arguments: the model is not compiled yet"):
        model.arguments([])
    one, two = torch.ones(2), torch.full((2,), 2.0)
    model([one, one], scale=3)
    assert model.arguments([one, two]) == [[one, two], 3]
    assert torch.equal(model(*model.arguments([one, two])), torch.full((2,), 9.0))


def test_inputs_are_listed_and_taken_by_their_names() -> None:
    model = burnish.compile(
        parser.parse_model(
            '<ir_version: 8, opset_import: ["" : 17]> '
            "g (float[N, 3] first, int64[2] second) => (float[N, 3] y) "
            "{ s = ReduceSum <keepdims: int = 0> (second) t = Cast <to: int = 1> (s) "
            "y = Mul(first, t) }"
        )
    )
    assert model.inputs == (("first", ("N", "3"), "float32"), ("second", ("2",), "int64"))
    given = {"second": np.array([1, 2]), "first": np.ones((4, 3), np.float32)}
    assert {name for name, _, _ in model.inputs} == set(given)
    for found in (model(given), model(**given), model.run(given)):
        np.testing.assert_array_equal(found, np.full((4, 3), 3, np.float32))


def test_inputs_of_a_module_are_known_from_its_first_call_on() -> None:
    model = burnish.compile(torch.nn.Linear(3, 4).eval())
    with pytest.raises(NotCompiledError, match="inputs: the model is not compiled yet"):
        _ = model.inputs
    model(torch.zeros(2, 3))
    assert model.inputs == (("input", ("2", "3"), "float32"),)
