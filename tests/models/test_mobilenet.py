"""MobileNetV2: shape, seeds, and a small one against torch."""

from __future__ import annotations

from functools import partial

from burnish.models import mobilenet
from burnish.tests.models.zoo import check_compiled, check_seed

small = partial(mobilenet.build, size=32, classes=10)


def test_it_has_the_published_number_of_parameters() -> None:
    module, (x,) = mobilenet.build(size=64)
    assert round(sum(p.numel() for p in module.parameters()) / 1e6, 1) == 3.5
    assert x.shape == (1, 3, 64, 64)


def test_seeds() -> None:
    check_seed(small)


def test_a_small_one_compiles() -> None:
    check_compiled(partial(small, batch=2), (2, 10))
