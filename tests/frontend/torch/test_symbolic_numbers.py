"""Numbers made of named sizes as data: the same as Python's, at every size."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from burnish.frontend.torch import import_module
from burnish.support.errors import FrontendError
from burnish.tests.frontend.torch.oracle import One, check_all

X = torch.linspace(-1, 1, 10).reshape(2, 5)
NAMED: Any = (({1: "n"},),)
OTHERS = tuple([(torch.linspace(-2, 3, 2 * n).reshape(2, n),) for n in (1, 3, 4, 8)])


def test_arithmetic_of_floats() -> None:
    check_all(
        {
            "times a quotient": lambda x: x * (x.shape[1] / 2),
            "times an inverse": lambda x: x * (1.0 / x.shape[1]),
            "a root": lambda x: x / (x.shape[1] ** 0.5),
            "a root of the inverse": lambda x: x * (x.shape[1] ** -0.5),
            "several": lambda x: x + (x.shape[1] * 0.5 - 1.5) * x.shape[1] / 3,
            "of two sizes": lambda x: x * (x.shape[0] / x.shape[1]),
            "the larger": lambda x: x * torch.sym_max(x.shape[1] / 2, 1.5),
            "filled": lambda x: torch.full((x.shape[1],), 1 / x.shape[1]),
            "filled, of a type": lambda x: x.new_full((), x.shape[1] / 4, dtype=torch.float64),
            "float64 rounded once": lambda x: x.double() * (1 / x.shape[1]),
            "half": lambda x: x.half() * (x.shape[1] / 2),
            "a bound": lambda x: x.clamp(max=x.shape[1] / 8),
            "compared": lambda x: x * 8 > x.shape[1] / 3,
            "chosen": lambda x: torch.where(x > 0, x, 1 / x.shape[1]),
            "written": _written,
            "alpha": lambda x: torch.add(x, x, alpha=x.shape[1]),
            "alpha, a float": lambda x: torch.sub(x, x, alpha=1 / x.shape[1]),
            "a flag": lambda x: x * torch.tensor(x.shape[1] > 3),
            "interpolated": lambda x: torch.lerp(x, -x, 1 / x.shape[1]),
            "from a number to another": lambda x: torch.linspace(0, x.shape[1] / 2, 4),
            "counted down": lambda x: torch.linspace(0, x.shape[1] // x.shape[1], 50).long(),
            "of integers": lambda x: torch.linspace(0, x.shape[1], 50, dtype=torch.int64),
            "one step": lambda x: torch.linspace(x.shape[1], 2 * x.shape[1], 1),
        },
        X,
        dynamic_shapes=NAMED,
        also=OTHERS,
    )


def _written(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y[:, 0] = x.shape[1] / 2
    return y


def test_integers_that_are_no_dims_are_numbers_all_the_same() -> None:
    check_all(
        {
            "of a root": lambda x: x * math.floor(x.shape[1] ** 0.5),
            "distance": lambda x: x * abs(x.shape[1] - 3),
            "rounded": lambda x: x * round(x.shape[1] / 3),
            "slope": lambda x: torch.nn.functional.leaky_relu(x, 1 / x.shape[1]),
        },
        X,
        dynamic_shapes=NAMED,
        also=OTHERS,
    )


def test_what_has_to_be_a_constant_says_so() -> None:
    def elu(x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.elu(x, 1 / x.shape[1])

    with pytest.raises(FrontendError, match="alpha must be a constant"):
        import_module(One(elu).eval(), (X,), ({1: "n"},))
