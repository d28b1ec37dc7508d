"""Sizes that torch leaves out are one branch, or are seen to be several."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import burnish
from burnish.support.errors import ArtifactError, FrontendError, ShapeMismatchError

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
    (lambda x, n: x * 2 if n % 4 == 0 else x + x, "4, 8, 12, 16, 64, 128, 256, 512, 1024"),
    (
        lambda x, n: (x * 2.0 if n == 444 else 2 * x) if n % 4 == 0 else x + x,
        "4, 8, 12, 16, 64, 128, 256, 444, 512, 1024",
    ),
    (
        lambda x, n: (x * 2.0 if n >= 4000 else 2 * x) if n % 4 == 0 else x + x,
        "4, 8, 12, 16, 64, 128, 256, 512, 1024, 4000",
    ),
    (
        lambda x, n: x * 2 if n % 8 > 1 and n % 8 != 5 else x + x,
        "2, 3, 4, 5, 6, 7, 10, 13, 21, 29, 66, 69, 130, 133, 258, 261, 514, 517, 1026, 1029",
    ),
    (
        lambda x, n: (
            (x * 2 if n % 3 == 0 else 2 * x if n % 5 == 0 else x * 2.0) if n % 2 == 0 else x + x
        ),
        "2, 4, 6, 8, 10, 12, 14, 18, 20, 24, 40, 50, "
        "64, 66, 70, 128, 130, 132, 256, 258, 260, 512, 516, 520, 1024, 1026, 1030",
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
            1120,
        ),
        # What a branch computes differs from some size on.
        (
            lambda x, n: (
                x * 2 + torch.full((1,), float(n)).sub(900).relu() if n % 2 == 0 else x + x
            ),
            1024,
        ),
        # Sizes that the numbers of a guard tell of together.
        (lambda x, n: x * (3 if n // 100 == 33 else 2) if n % 4 == 0 else x + x, 3332),
        (lambda x, n: x * (3 if n % 2047 == 0 else 2) if n % 6 == 0 else x + x, 12282),
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


def test_large_sizes_alone_are_looked_at() -> None:
    module = Branches(lambda x, n: x * 3 if n % 2 == 0 else x * 2)
    sizes = ({0: torch.export.Dim("n", min=3000, max=3100)},)
    with pytest.raises(FrontendError, match="computes something else where n is 30"):
        burnish.compile(module, (torch.rand(3001, 2),), dynamic_shapes=sizes)


# -- several names ---------------------------------------------------------------------------------
def of_two(body: Callable[[torch.Tensor, int, int], torch.Tensor]) -> burnish.CompiledModel:
    module = Branches(lambda x, n: body(x, n, x.shape[1]))
    return burnish.compile(module, (torch.rand(13, 7),), dynamic_shapes=({0: "h", 1: "w"},))


@pytest.mark.parametrize(
    ("body", "right", "wrong"),
    [
        (lambda x, h, w: x * 2 if h > w else x, (5, 3), (3, 5)),
        (lambda x, h, w: x * 2 if h > w else x, (5, 3), (3, 3)),
        (lambda x, h, w: x * 2 if h >= w else x, (3, 3), (3, 5)),
        (lambda x, h, w: x if h == w else x * 2, (5, 3), (5, 5)),
        (lambda x, h, w: x * 2 if (h + w) % 2 == 0 else x, (5, 3), (5, 4)),
        (lambda x, h, w: x * 2 if h * w < 5000 else x, (5, 3), (101, 101)),
    ],
)
def test_calls_are_on_the_side_of_the_example(
    body: Any, right: tuple[int, int], wrong: tuple[int, int]
) -> None:
    model = of_two(body)
    x = torch.rand(right)
    torch.testing.assert_close(model(x), x * 2)
    with pytest.raises(ShapeMismatchError, match="takes another branch for other sizes"):
        model(torch.rand(wrong))
    assert any("takes another branch where not" in note for note in model.report.notes)
    with pytest.raises(ArtifactError, match="which a file does not say"):
        model.save("never written")


def test_branches_on_two_names_that_compute_the_same_bind_nothing() -> None:
    model = of_two(lambda x, h, w: x * 2 if h > w else x + x)
    for shape in ((3, 5), (5, 3), (4, 4)):
        x = torch.rand(shape)
        torch.testing.assert_close(model(x), x * 2)
    assert not any("another branch where" in note for note in model.report.notes)


@pytest.mark.parametrize(
    "body",
    [
        lambda x, h, w: x * 2 if h + w == 20 else x,  # the example's side is no other's
        lambda x, h, w: x * (3 if (h % 32 == 0) + (w % 32 == 0) == 2 else 2),
    ],
)
def test_what_differs_for_two_names_together_is_refused(body: Any) -> None:
    with pytest.raises(FrontendError, match="computes something else where"):
        of_two(body)
