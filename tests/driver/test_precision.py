"""``precision=``: what each word gives, and what the report says of it."""

from __future__ import annotations

import pytest
import torch

from burnish.driver.compile import compile as compile_model
from burnish.support.errors import ArgumentError


def model() -> tuple[torch.nn.Module, torch.Tensor, torch.Tensor]:
    """A module, an input, and the result in float64."""
    torch.manual_seed(0)
    layers = torch.nn.Sequential(
        torch.nn.Linear(48, 64), torch.nn.GELU(), torch.nn.LayerNorm(64), torch.nn.Linear(64, 33)
    ).eval()
    x = torch.randn(5, 48)
    with torch.no_grad():
        expected = layers.double()(x.double())
    return layers.float(), x, expected


def test_bfloat16_stays_within_its_bound_and_the_types_stay() -> None:
    module, x, expected = model()
    made = compile_model(module, (x,), precision="bfloat16")
    found = made(x)
    assert found.dtype == torch.float32
    error = float((found.double() - expected).abs().max() / expected.abs().max())
    assert 1e-5 < error < 1e-2
    (note,) = [n for n in made.report.notes if "precision" in n]
    assert "2 of 2 matrix products" in note


def test_float32_is_the_default_to_the_bit() -> None:
    module, x, _ = model()
    default = compile_model(module, (x,))
    again = compile_model(module, (x,), precision="float32")
    assert torch.equal(default(x), again(x))
    assert not [n for n in default.report.notes if "precision" in n]


def test_threads_change_no_bit_of_bfloat16() -> None:
    module, x, _ = model()
    one, two = (compile_model(module, (x,), precision="bfloat16", threads=n) for n in (1, 2))
    assert torch.equal(one(x), two(x))


def test_another_word_is_refused_with_the_nearest() -> None:
    module, x, _ = model()
    with pytest.raises(ArgumentError, match="bfloat16"):
        compile_model(module, (x,), precision="bfloat61")
