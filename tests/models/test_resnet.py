"""ResNets: shapes, seeds, and small ones against torch."""

from __future__ import annotations

from functools import partial

import pytest

from burnish.models import resnet
from burnish.tests.models.zoo import check_compiled, check_seed


@pytest.mark.parametrize(("depth", "millions"), [(18, 11.7), (34, 21.8), (50, 25.6)])
def test_depths_have_the_published_number_of_parameters(depth: int, millions: float) -> None:
    module, (x,) = resnet.build(depth, size=32)
    count = sum(p.numel() for p in module.parameters())
    assert round(count / 1e6, 1) == millions
    assert x.shape == (1, 3, 32, 32)


def test_seeds() -> None:
    check_seed(partial(resnet.build, 18, size=32, classes=10))


def test_a_small_one_compiles() -> None:
    check_compiled(partial(resnet.build, 18, size=32, batch=2, classes=10), (2, 10))
