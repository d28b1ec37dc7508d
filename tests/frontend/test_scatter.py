"""Scatters with the dims behind their axis as one."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import burnish
from burnish.tests.frontend.torch.oracle import check_all, import_function, operators_of

torch.manual_seed(0)
X, V = torch.rand(4, 3, 2, 5), torch.rand(6, 3, 2, 5)
PLACES = torch.randint(0, 4, (6, 3, 2, 5))


@pytest.mark.parametrize("how", ["sum", "prod", "amax", "mean"])
def test_whole_dims_behind_the_axis_are_one(how: str) -> None:
    def function(x: Any, i: Any) -> Any:
        return x.scatter_reduce(0, i, V, how)

    imported = import_function(function, X, PLACES)
    assert "reshape" in operators_of(imported)
    assert "R.shape([4, 30])" in imported.module.script()
    check_all({"all": function}, X, PLACES)


def test_parts_of_the_dims_behind_stay_as_they_are() -> None:
    part = PLACES[:, :, :1]
    imported = import_function(lambda x, i: x.scatter(0, i, V), X, part)
    assert "scatter_elements" in operators_of(imported)
    assert "R.shape([4, 30])" not in imported.module.script()
    check_all(
        {
            "part": lambda x, i: x.scatter(0, i, V),
            "axis in the middle": lambda x, i: x.scatter(1, i[:4, :2] % 3, V[:4, :2]),
            "axis before the last": lambda x, i: x.scatter(2, i[:4] % 2, V[:4]),
            "last": lambda x, i: x.scatter(-1, i[:4], V[:4]),
            "a number": lambda x, i: x.scatter(1, i[:4] % 3, 2.5),
        },
        X, part.expand(6, 3, 2, 5),
    )  # fmt: skip


def test_named_sizes() -> None:
    class Scatter(torch.nn.Module):
        def forward(self, x: Any, i: Any, v: Any) -> Any:
            return x.scatter_add(0, i, v)

    shapes = {0: "n", 1: "a", 2: "b"}
    other = {0: "m", 1: "a", 2: "b"}
    model = burnish.compile(Scatter(), (X, PLACES, V), dynamic_shapes=(shapes, other, other))
    for inputs in ((X, PLACES, V), (X[:, :1], PLACES[:, :1], V[:, :1])):
        torch.testing.assert_close(model(*inputs), Scatter()(*inputs))
