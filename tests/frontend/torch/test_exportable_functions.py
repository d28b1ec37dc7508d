"""Functions that torch.export cannot trace: their twins beside them, and in a module."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.modules import transformer

import burnish
from burnish.frontend.torch import import_module
from burnish.frontend.torch.exportable_functions import (
    combinations,
    corrcoef,
    cov,
    ctc_loss,
    gaussian_nll_loss,
)
from burnish.support.errors import FrontendError
from burnish.tests.frontend.torch.oracle import One, check_all

X = torch.randn(3, 7, generator=torch.Generator().manual_seed(0))
F, A = torch.arange(1, 8), torch.linspace(0.5, 2, 7)


@pytest.mark.parametrize("correction", [0, 1, 2])
def test_covariances(correction: int) -> None:
    weights: list[dict[str, Any]] = [{}, {"fweights": F}, {"aweights": A}]
    for given in (*weights, {"fweights": F, "aweights": A}):
        for x in (X, X[0], X.double(), (10 * X).long()):
            found = cov(x, correction=correction, **given)
            torch.testing.assert_close(found, torch.cov(x, correction=correction, **given))


@pytest.mark.filterwarnings("ignore:cov")
def test_correlations_also_of_too_little() -> None:
    for x in (X, X[0], X.half(), (10 * X).long(), X[:, :1]):
        torch.testing.assert_close(corrcoef(x), torch.corrcoef(x), equal_nan=True)


@pytest.mark.parametrize("n", [0, 1, 2, 5])
def test_combinations(n: int) -> None:
    for r, again in itertools.product((0, 1, 2, 3), (False, True)):
        wanted = torch.combinations(F[:n], r, again)
        assert torch.equal(combinations(F[:n], r, again), wanted)


def test_combinations_in_a_module() -> None:
    check_all(
        {
            "pairs": lambda x: torch.combinations(x),
            "three": lambda x: torch.combinations(x, 3) * 2,
            "again": lambda x: torch.combinations(x + 1, 2, with_replacement=True),
            "more than there are": lambda x: torch.combinations(x[:1], 2),
        },
        X[0],
    )


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("full", [False, True])
def test_the_loss_of_a_normal_distribution(reduction: str, full: bool) -> None:
    variances: list[Any] = [X.abs(), X[:, 0].abs(), X[:, :1].abs(), 0.5]
    for var in variances:
        found = gaussian_nll_loss(X, X + 1, var, full, reduction=reduction)
        wanted = nn.functional.gaussian_nll_loss(X, X + 1, var, full, reduction=reduction)
        torch.testing.assert_close(found, wanted)


def probabilities(steps: int, batch: int, classes: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(steps, batch, classes, generator=generator).double().log_softmax(2)


@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
def test_the_loss_of_alignments(reduction: str) -> None:
    """Repeated labels, an empty target, and one that does not fit in its steps."""
    x = probabilities(9, 4, 5)
    targets = torch.tensor([[1, 1, 2, 0], [3, 4, 3, 4], [0, 0, 0, 0], [1, 1, 1, 1]])
    inputs, sizes = torch.tensor([9, 7, 5, 6]), torch.tensor([3, 4, 0, 4])
    flat = torch.cat([row[:n] for row, n in zip(targets, sizes, strict=True)])
    for given in (targets, flat):
        for lengths in ((inputs, sizes), (inputs.tolist(), sizes.tolist())):
            for zero in (False, True):
                options = (*lengths, 0, reduction, zero)
                wanted = nn.functional.ctc_loss(x, given, *options)
                torch.testing.assert_close(ctc_loss(x, given, *options), wanted)


def test_the_loss_of_one_alignment() -> None:
    x, targets = probabilities(5, 1, 4)[:, 0], torch.tensor([2, 1])
    for lengths in (([5], [2]), (torch.tensor(5), torch.tensor(2))):
        wanted = nn.functional.ctc_loss(x, targets, *lengths, reduction="none")
        torch.testing.assert_close(ctc_loss(x, targets, *lengths, reduction="none"), wanted)


def test_they_are_imported() -> None:
    check_all(
        {
            "cov": lambda x: torch.cov(x),
            "corrcoef": lambda x: x.corrcoef(),
            "loss": lambda x: nn.GaussianNLLLoss()(x, x + 1, x.abs()),
        },
        X,
    )
    targets, sizes = torch.tensor([[1, 1, 2], [3, 0, 3]]), [3, 1]
    check_all(
        {
            "ctc": lambda x: nn.functional.ctc_loss(x, targets, [5, 4], sizes, zero_infinity=True),
            "function": lambda x: torch.ctc_loss(x, targets, [5, 5], sizes),
        },
        probabilities(5, 2, 4),
    )


def test_another_look_at_values_is_refused_where_it_stands() -> None:
    def branch(x: torch.Tensor) -> torch.Tensor:
        return x if bool((torch.cov(x) > 0).all()) else -x

    with pytest.raises(FrontendError, match="does not export"):
        import_module(One(branch), (X,))


class Policy(nn.Module):
    """Distributions whose parameters and values torch checks, as policies have them."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 6)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
        found = self.layer(x)
        mean, spread = found[:, :3], found[:, 3:].exp()
        normal = torch.distributions.Normal(mean, spread)
        choice = torch.distributions.Categorical(logits=found, validate_args=True)
        mixed = torch.distributions.MixtureSameFamily(
            torch.distributions.Categorical(logits=mean), normal
        )
        shape = torch.distributions.Beta(spread, spread + 1)
        return [
            *(normal.mean, normal.log_prob(y), normal.entropy(), normal.cdf(y)),
            *(choice.mode, choice.probs, choice.entropy(), choice.log_prob(y[:, 0].long())),
            *(mixed.log_prob(y[:, 0]), mixed.mean, mixed.variance),
            *(shape.mean, shape.log_prob(y), shape.entropy()),
        ]


def test_distributions_do_without_checks() -> None:
    module = Policy().eval()
    x, y = torch.randn(5, 4), torch.rand(5, 3)
    model = burnish.compile(module, (x, y), dynamic_shapes=({0: "n"}, {0: "n"}))
    for n in (5, 2):
        with torch.no_grad():
            expected = module(x[:n], y[:n])
        for found, wanted in zip(model(x[:n], y[:n]), expected, strict=True):
            torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)


class Translates(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Transformer(8, 2, 1, 1, 16, batch_first=True)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        causal = nn.Transformer.generate_square_subsequent_mask(y.shape[1])
        found: torch.Tensor = self.layers(x, y, tgt_mask=causal)
        return found


def test_masks_that_transformers_look_at() -> None:
    module, looks = Translates().eval(), transformer._detect_is_causal_mask
    x, y = torch.randn(2, 5, 8), torch.randn(2, 4, 8)
    model = burnish.compile(module, (x, y), dynamic_shapes=({0: "n"}, {0: "n", 1: "m"}))
    assert transformer._detect_is_causal_mask is looks
    for m in (4, 3, 1):
        torch.testing.assert_close(model(x, y[:, :m]), module(x, y[:, :m]).detach())
