"""Sizes that torch leaves out are one branch, or are seen to be several."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

import burnish
from burnish.support.errors import FrontendError

Body = Callable[[torch.Tensor, int], torch.Tensor]


class Branches(nn.Module):
    def __init__(self, body: Body) -> None:
        super().__init__()
        self.body = body

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(x, x.shape[0])


def compiled(body: Body) -> burnish.CompiledModel:
    example = (torch.rand(13, 3),)
    return burnish.compile(Branches(body), example, dynamic_shapes=({0: "n"},))


# What is computed in other ways, but is the same.
ONE: list[tuple[Body, str]] = [
    (lambda x, n: x * 2 if n % 4 == 0 else x + x, "4, 8, 12, 16"),
    (
        lambda x, n: (x * 2.0 if n == 444 else 2 * x) if n % 4 == 0 else x + x,
        "4, 8, 12, 16, 444",
    ),
    (
        lambda x, n: (x * 2.0 if n >= 4000 else 2 * x) if n % 4 == 0 else x + x,
        "4, 8, 12, 16, 4000",
    ),
    (lambda x, n: x * 2 if n % 8 > 1 and n % 8 != 5 else x + x, "2, 3, 4, 5, 6, 7, 10, 13, 21, 29"),
    (
        lambda x, n: (
            (x * 2 if n % 3 == 0 else 2 * x if n % 5 == 0 else x * 2.0) if n % 2 == 0 else x + x
        ),
        "2, 4, 6, 8, 10, 12, 14, 18, 20, 24, 40, 50",
    ),
]


@pytest.mark.parametrize(("body", "compared"), ONE)
def test_branches_that_compute_the_same_are_one_program(body: Body, compared: str) -> None:
    model = compiled(body)
    for size in (1, 2, 8, 12, 15, 30, 444, 445, 4000):
        x = torch.rand(size, 3)
        torch.testing.assert_close(model(x), x + x)
    (note,) = [n for n in model.report.notes if "takes other branches" in n]
    assert note.endswith(f"compared with it at {compared}.")


@pytest.mark.parametrize(
    ("body", "size"),
    [
        (lambda x, n: x * (3 if n == 400 else 2) if n % 4 == 0 else x + x, 400),
        # Beyond all sizes that are tried of themselves.
        (lambda x, n: x * (3 if n == 5000 else 2) if n % 4 == 0 else x + x, 5000),
        (lambda x, n: x * (3 if n >= 4000 else 2) if n % 4 == 0 else x + x, 4000),
        (lambda x, n: x * (3 if n == 77 else 2) if n < 200 and n != 13 else x + x, 77),
        (
            lambda x, n: (
                (x * 2 if n % 3 == 0 else x * (9 if n % 35 == 0 else 2)) if n % 2 == 0 else x + x
            ),
            350,
        ),
    ],
)
def test_a_branch_for_few_sizes_within_a_branch_is_seen(body: Body, size: int) -> None:
    with pytest.raises(FrontendError, match=f"computes something else where n is {size}"):
        compiled(body)


@pytest.mark.parametrize(
    "body",
    [
        lambda x, n: x * 2 if n % 4 == 0 and n > 1000000 else x + x,
        lambda x, n: (
            x * (2 if n % 1024 else len(torch.arange(n % 1023).tolist())) if n % 2 == 0 else x + x
        ),
        lambda x, n: x * 2 if n % 2 else x + x * [1, 2, 1, 4, 5, 6, 7, 8, 9][n % 9],
    ],
    ids=["large sizes alone", "no trace", "many branches"],
)
def test_what_nobody_can_tell_is_refused(body: Body) -> None:
    with pytest.raises(FrontendError, match=r"does not export with n of any size|something else"):
        compiled(body)
