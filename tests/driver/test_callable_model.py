"""CallableModel: entries are taken for the next call of a kind, and only while they are right."""

from __future__ import annotations

import numpy as np
import torch

import burnish


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
