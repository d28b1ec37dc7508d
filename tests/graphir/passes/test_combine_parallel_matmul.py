"""CombineParallelMatmul: which layers become one, and that results stay."""

from __future__ import annotations

import numpy as np
import torch

import burnish
from burnish.graphir.passes.combine_parallel_matmul import CombineParallelMatmul


class Heads(torch.nn.Module):
    """Three layers of one input, one of them without a bias, and one of another input."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k = torch.nn.Linear(8, 6), torch.nn.Linear(8, 4)
        self.v, self.o = torch.nn.Linear(8, 5, bias=False), torch.nn.Linear(6, 3)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        q = torch.relu(self.q(x))
        return q, self.k(x) * 2, self.v(x), self.o(q)


def test_layers_of_one_input_with_the_same_operands_are_one() -> None:
    module, x = Heads().eval(), torch.rand(3, 8)
    model = burnish.compile(
        module, (x,), dynamic_shapes=({0: "batch"},), passes=[CombineParallelMatmul()]
    )
    text = model.script("10-canonical")
    assert text.count("R.linear(") == 3
    assert '"q.weight.combined", R.Tensor((10, 8)' in text
    for batch in (0, 1, 3, 9):
        given = torch.rand(batch, 8)
        for found, expected in zip(model(given), module(given), strict=True):
            torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)
    held = model.executable.stages["10-canonical"].constants["q.weight.combined"]
    parts = [module.q.weight.detach(), module.k.weight.detach()]
    np.testing.assert_array_equal(held, torch.cat(parts).numpy())


def test_fewer_branches_than_asked_for_stay() -> None:
    model = burnish.compile(
        Heads().eval(), (torch.rand(3, 8),), passes=[CombineParallelMatmul(min_branches=3)]
    )
    assert model.script("10-canonical").count("R.linear(") == 4
