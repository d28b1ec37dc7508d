"""``.data`` in ``forward()``: read as a value, refused where it is set."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from burnish.frontend.torch import import_module
from burnish.support.errors import FrontendError
from burnish.tests.frontend.torch.oracle import check_all, evaluate

X = torch.linspace(-1, 1, 6).reshape(2, 3)


class Weighs(nn.Module):
    """Multiplies by twice a weight, which it reads or sets by ``.data``."""

    def __init__(self, *, sets: bool) -> None:
        super().__init__()
        self.sets = sets
        self.first, self.second = nn.Linear(3, 3), nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        twice = self.first.weight.data * 2
        if self.sets:
            self.second.weight.data = twice.contiguous()
            return self.second(x)
        return x @ twice


def test_data_are_read() -> None:
    check_all(
        {
            "of an input": lambda x: x.data + 1,
            "of a result": lambda x: (x * 2).data.exp(),
            "written": lambda x: (x * 1).data.add_(1),
        },
        X,
        dynamic_shapes=(({0: "n"},),),
        also=[(X[:1],), (X.repeat(2, 1),)],
    )


def test_data_of_weights_are_read() -> None:
    module = Weighs(sets=False).eval()
    (found,) = evaluate(import_module(module, (X,)), X)
    torch.testing.assert_close(torch.from_numpy(found), module(X).detach())


def test_data_that_are_set_are_refused_where_it_stands() -> None:
    module = Weighs(sets=True).eval()
    with pytest.raises(FrontendError, match=r"sets \.data of a tensor at .*test_traced_data\.py:"):
        import_module(module, (X,))
    assert "data" not in vars(torch.Tensor)
