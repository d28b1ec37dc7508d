"""Digests of weights: every kind of tensor, by name."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from burnish.driver.weights import changed_weights, digest_weights


def test_names_and_kinds() -> None:
    module = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    module.scale = torch.ones(())
    module[0].label = "no tensor"
    digests = digest_weights(module)
    assert set(digests) == {"scale", *module.state_dict()}
    assert digests["0.weight"].startswith("torch.float32 (3, 2) torch.strided cpu ")


@pytest.mark.parametrize(
    "dtype", [torch.float64, torch.bfloat16, torch.float16, torch.bool, torch.int8, torch.complex64]
)
def test_one_changed_element_of_any_dtype_is_seen(dtype: torch.dtype) -> None:
    module = nn.Module()
    module.t = torch.zeros(4, 5, dtype=dtype).t()
    before = digest_weights(module)
    assert changed_weights(before, digest_weights(module)) == []
    module.t[3, 2] = 1
    assert changed_weights(before, digest_weights(module)) == ["t"]


def test_shapes_and_what_appears_or_goes() -> None:
    module = nn.Module()
    module.t, module.empty = torch.zeros(2, 3), torch.zeros(0)
    before = digest_weights(module)
    module.t = torch.zeros(3, 2)
    module.new = torch.zeros(1)
    del module.empty
    assert set(changed_weights(before, digest_weights(module))) == {"t", "empty", "new"}


def test_tensors_without_memory_have_a_kind() -> None:
    module = nn.Module()
    module.t = torch.zeros(2, device="meta")
    assert digest_weights(module) == {"t": "torch.float32 (2,) torch.strided meta"}


def test_tensors_in_lists_and_dicts_count() -> None:
    module = nn.Module()
    module.parts, module._seen = [{"a": torch.ones(2)}, (torch.ones(1),)], [torch.ones(3)]
    before = digest_weights(module)
    assert set(before) == {"parts[0]['a']", "parts[1][0]"}
    module.parts[0]["a"][1] = 2
    assert changed_weights(before, digest_weights(module)) == ["parts[0]['a']"]
