"""What cannot be compiled says why, and what to do."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from burnish.support.errors import FrontendError, UnsupportedOpError
from burnish.tests.frontend.torch.oracle import check_all, import_function

X = torch.rand(4, 8)
SIZE = "its result has as many elements as the data say"
FREQUENCIES = "it transforms to or from frequencies"
RANDOM = "it draws random numbers"


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: torch.unique(x, dim=0), SIZE),
        (lambda x: torch.fft.rfft(x, n=4099).abs(), FREQUENCIES),
        (torch.rand_like, RANDOM),
        (lambda x: x + torch.randn(4, 8), RANDOM),
        (lambda x: torch.multinomial(x, 2), RANDOM),
        (torch.bernoulli, RANDOM),
    ],
)
def test_reasons(function: Any, message: str) -> None:
    with pytest.raises(UnsupportedOpError) as caught:
        import_function(function, X)
    assert message in str(caught.value)


def test_a_mask_that_is_never_or_always_drawn() -> None:
    rates = {f"{p}": lambda x, p=p: x * torch.bernoulli(x, p=p) for p in (0.0, 1.0)}
    check_all(rates, X)
    with pytest.raises(FrontendError, match="draws random numbers"):
        import_function(lambda x: torch.bernoulli(x, p=0.5), X)
