"""Functions that torch computes for sizes it knows, of named ones, beside eager PyTorch."""

from __future__ import annotations

import torch

import burnish
from burnish.tests.frontend.torch.oracle import check_all


def test_products_powers_and_places() -> None:
    check_all(
        {
            "kron": lambda x: torch.kron(x, torch.tensor([1.0, 2.0])),
            "kron of two": lambda x: torch.kron(x, x[:, 0]),
            "vander": lambda x: torch.vander(x[:, 0], 3),
            "vander of all": lambda x: torch.vander(x[0], increasing=True),
            "taken": lambda x: torch.take_along_dim(x, x.argmax(1, keepdim=True), 1),
            "taken of broadcast": lambda x: x.take_along_dim(x[:1].argsort(1), 1),
            "taken in a row": lambda x: torch.take_along_dim(x, x.argsort(1)),
        },
        torch.randn(5, 3),
        dynamic_shapes=(({0: "n", 1: "m"},),),
        also=[(torch.randn(n, m),) for n, m in ((1, 1), (2, 7), (8, 2))],
    )


def test_places_of_triangles() -> None:
    class Triangles(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            lower = torch.tril_indices(x.shape[0], x.shape[1], 1)
            return lower, x[lower[0], lower[1]]

    model = burnish.compile(Triangles(), (torch.rand(5, 3),), dynamic_shapes=({0: "n", 1: "m"},))
    for n, m in ((5, 3), (1, 1), (2, 7)):
        x = torch.rand(n, m)
        for found, expected in zip(model(x), Triangles()(x), strict=True):
            assert torch.equal(found, expected)
