"""Inputs and results of types that torch has not been told of."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

import burnish
from burnish.frontend.torch.known_types import register_types, registered_results
from burnish.frontend.torch.object_parts import flatten_object
from burnish.support.errors import ArityError
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


def test_a_type_that_is_there_twice() -> None:
    @dataclass
    class Part:
        x: Any

    @dataclass
    class Within:
        x: Any

    given = [Part(X), Part(Within(X)), Within(X)]
    register_types(given)
    assert all(x is X for x in pytree.tree_leaves(given))


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


_SMALL = {
    "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1,
    "intermediate_size": 16, "vocab_size": 99, "pad_token_id": 0, "bos_token_id": 1,
    "eos_token_id": 2,
}  # fmt: skip


def _recurrent() -> nn.Module:
    return transformers.MambaModel(
        transformers.MambaConfig(
            hidden_size=16, num_hidden_layers=1, state_size=4, vocab_size=99, time_step_rank=2
        )
    )


def _mixed() -> nn.Module:
    config = transformers.Lfm2Config(**_SMALL, layer_types=["conv", "full_attention"])
    return transformers.Lfm2Model(config)


def _window() -> nn.Module:
    return transformers.MistralModel(transformers.MistralConfig(**_SMALL, sliding_window=4))


def _plain() -> nn.Module:
    return transformers.LlamaModel(transformers.LlamaConfig(**_SMALL))


def _cache_of(result: Any) -> Any:
    """By the name that this version of the library has for it."""
    names = [n for n in ("cache", "past_key_values", "cache_params") if n in result]
    return result[names[0]]


def _assert_same_caches(ours: Any, theirs: Any) -> None:
    found, structure = flatten_object(ours)
    expected, wanted = flatten_object(theirs)
    assert structure == wanted
    assert expected
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("make", [_recurrent, _mixed, _window])
def test_caches_that_are_more_than_keys_and_values_come_out(make: Any) -> None:
    torch.manual_seed(0)
    module = make().eval()
    ids = torch.randint(3, 99, (1, 6))
    with torch.no_grad():
        expected = module(ids)
    found = burnish.compile(module)(ids)
    torch.testing.assert_close(found[0], expected[0], rtol=1e-4, atol=1e-5)
    _assert_same_caches(_cache_of(found), _cache_of(expected))


class Seen(TorchDispatchMode):
    """Keeps the names of the operators that run."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(str(func))
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("make", [_plain, _window])
def test_a_cache_is_put_together_without_operators(make: Any) -> None:
    """Joined to nothing, keys and values would be copies."""
    torch.manual_seed(0)
    with torch.no_grad():
        cache = _cache_of(make()(torch.randint(3, 99, (1, 3))))
    register_types(cache)
    leaves, spec = pytree.tree_flatten(cache)
    assert len(leaves) == 4
    with Seen() as seen:
        back = pytree.tree_unflatten(leaves, spec)
    assert seen.names == []
    assert [x is y for x, y in zip(pytree.tree_leaves(back), leaves, strict=True)] == [True] * 4
    assert back.get_seq_length() == cache.get_seq_length() == 3
    token = torch.rand(1, *leaves[0].shape[1:2], 1, leaves[0].shape[-1])
    for own, other in zip(back.update(token, token, 0), cache.update(token, token, 0), strict=True):
        assert torch.equal(own, other)
    _assert_same_caches(back, cache)


@pytest.mark.parametrize("length", [3, 9])
def test_windows_of_named_lengths_come_out(length: int) -> None:
    """Their count of tokens is a number of Python, which the program computes."""
    torch.manual_seed(0)
    module = _window().eval()
    sizes = {"input_ids": {0: "batch", 1: "length"}}
    example = torch.randint(3, 99, (2, 6))
    model = burnish.compile(module, (example,), dynamic_shapes=sizes)
    ids = torch.randint(3, 99, (1, length))
    with torch.no_grad():
        expected = module(ids)
    found = model(ids)
    torch.testing.assert_close(found[0], expected[0], rtol=1e-4, atol=1e-5)
    _assert_same_caches(_cache_of(found), _cache_of(expected))


@pytest.mark.parametrize("make", [_recurrent, _window, _plain])
def test_caches_go_in(make: Any) -> None:
    torch.manual_seed(0)
    module = make().eval()
    ids = torch.randint(3, 99, (1, 6))
    with torch.no_grad():
        cache = _cache_of(module(ids))
        expected = module(ids[:, :1], cache=copy.deepcopy(cache))
    given = (ids[:, :1],), {"cache": copy.deepcopy(cache)}
    model = burnish.compile(module, given[0], example_kwargs=given[1])
    found = model(ids[:, :1], cache=cache)
    torch.testing.assert_close(found[0], expected[0], rtol=1e-4, atol=1e-5)
    _assert_same_caches(_cache_of(found), _cache_of(expected))
    if not isinstance(cache, tuple):  # of pairs
        assert any("among the inputs stays as it is" in note for note in model.report.notes)


def _tokens(batch: int, count: int) -> torch.Tensor:
    return torch.randint(3, 99, (batch, count))


def test_caches_of_named_lengths_go_in() -> None:
    """One program for all tokens of a text, however many are in the cache."""
    torch.manual_seed(0)
    module = _plain().eval()
    with torch.no_grad():
        cache = _cache_of(module(_tokens(2, 5)))
    model = burnish.compile(
        module,
        (_tokens(2, 1),),
        example_kwargs={"cache": cache},
        dynamic_shapes={
            "input_ids": {0: "batch", 1: "new"},
            "cache": {0: "batch", 2: "past"},
        },
    )
    for batch, past, new in ((1, 1, 1), (3, 40, 2)):
        with torch.no_grad():
            theirs = _cache_of(module(_tokens(batch, past)))
        ours = copy.deepcopy(theirs)
        for _ in range(3):
            ids = _tokens(batch, new)
            with torch.no_grad():
                expected = module(ids, cache=theirs)
            found = model(ids, cache=ours)
            ours, theirs = _cache_of(found), _cache_of(expected)
            torch.testing.assert_close(found[0], expected[0], rtol=1e-4, atol=1e-5)
            _assert_same_caches(ours, theirs)


def test_windows_are_of_named_lengths_until_they_are_full() -> None:
    torch.manual_seed(0)
    config = transformers.MistralConfig(**_SMALL, sliding_window=40)
    module = transformers.MistralModel(config).eval()
    with torch.no_grad():
        cache, full = [_cache_of(module(_tokens(1, past))) for past in (5, 60)]
    model = burnish.compile(
        module,
        (_tokens(1, 1),),
        example_kwargs={"cache": copy.deepcopy(cache)},
        dynamic_shapes={"cache": {2: "past"}},
    )
    ids = _tokens(1, 1)
    with torch.no_grad():
        expected = module(ids, cache=copy.deepcopy(cache))
    found = model(ids, cache=cache)
    torch.testing.assert_close(found[0], expected[0], rtol=1e-4, atol=1e-5)
    with pytest.raises(ArityError, match="'cache': this DynamicCache holds other parts or numbers"):
        model(ids, cache=full)
