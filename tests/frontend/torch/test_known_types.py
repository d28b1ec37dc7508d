"""Inputs and results of types that torch has not been told of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import nn

import burnish
from burnish.frontend.torch.known_types import register_types, registered_results
from burnish.tests.models_of_others.libraries import transformers

X = torch.rand(2, 4)


@dataclass
class Inner:
    double: torch.Tensor


@dataclass
class Result:
    values: torch.Tensor
    inner: Inner


@dataclass
class Given:
    x: torch.Tensor
    y: torch.Tensor


class Gives(nn.Module):
    def forward(self, x: torch.Tensor) -> Result:
        return Result(x + 1, Inner(x * 2))


class Takes(nn.Module):
    def forward(self, given: Given) -> torch.Tensor:
        return given.x + given.y


def test_dataclasses_in_results_and_inputs() -> None:
    found = burnish.compile(Gives(), (X,))(X)
    assert isinstance(found, Result)
    torch.testing.assert_close(found.values, X + 1)
    torch.testing.assert_close(found.inner.double, X * 2)
    model = burnish.compile(Takes(), (Given(X, X),))
    torch.testing.assert_close(model(Given(X, X + 1)), X + X + 1)


def test_other_types_stay_as_they_are() -> None:
    class Other:
        pass

    register_types({"a": [Other(), X, 3]})
    module = Gives()
    with registered_results(module):
        assert "forward" in module.__dict__
    assert "forward" not in module.__dict__


def _decoder() -> tuple[nn.Module, dict[str, Any]]:
    small = {"n_embd": 32, "n_layer": 2, "n_head": 4, "vocab_size": 99, "n_positions": 64}
    tokens = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
    config = transformers.GPT2Config(**small, **tokens)
    ids = torch.randint(3, 99, (1, 5))
    return transformers.GPT2LMHeadModel(config), {"input_ids": ids}


def _encoder_decoder() -> tuple[nn.Module, dict[str, Any]]:
    config = transformers.T5Config(
        d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4, vocab_size=99, pad_token_id=0,
        decoder_start_token_id=0,
    )  # fmt: skip
    ids = torch.randint(3, 99, (1, 5))
    inputs = {"input_ids": ids, "decoder_input_ids": ids[:, :3]}
    return transformers.T5ForConditionalGeneration(config), inputs


@pytest.mark.parametrize("make", [_decoder, _encoder_decoder])
def test_caches_of_transformers_come_out(make: Any) -> None:
    torch.manual_seed(0)
    module, inputs = make()
    module.eval()
    found = burnish.compile(module)(**inputs)
    with torch.no_grad():
        expected = module(**inputs)
    assert type(found) is type(expected)
    torch.testing.assert_close(found.logits, expected.logits, rtol=1e-4, atol=1e-5)
    ours, theirs = found.past_key_values, expected.past_key_values
    assert type(ours) is type(theirs)
    if not hasattr(ours, "layers"):
        ours, theirs = ours.cross_attention_cache, theirs.cross_attention_cache
    for a, b in zip(ours.layers, theirs.layers, strict=True):
        torch.testing.assert_close(a.keys, b.keys, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(a.values, b.values, rtol=1e-4, atol=1e-5)
