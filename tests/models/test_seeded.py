"""Seeded modules: the same for a seed, in eval mode, and torch's generator is left alone."""

from __future__ import annotations

import torch
from torch import nn

from burnish.models.seeded import seeded_module


def make() -> nn.Module:
    return nn.Sequential(nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3))


def test_a_seed_gives_the_same_module_and_inputs() -> None:
    (first, (x,)), (again, (y,)), (other, (z,)) = (
        seeded_module(make, [(1, 2, 5, 5)], seed) for seed in (3, 3, 4)
    )
    states = [m.state_dict() for m in (first, again, other)]
    assert all(torch.equal(states[0][k], states[1][k]) for k in states[0])
    assert torch.equal(x, y)
    assert not torch.equal(states[0]["0.weight"], states[2]["0.weight"])
    assert not torch.equal(x, z)
    assert x.shape == (1, 2, 5, 5)


def test_the_module_is_in_eval_mode_and_its_batch_norm_does_something() -> None:
    module, _ = seeded_module(make, [], 0)
    assert not module.training
    norm = module[1]  # type: ignore[index]
    assert isinstance(norm, nn.BatchNorm2d)
    assert norm.running_mean is not None
    assert norm.running_var is not None
    assert norm.running_mean.abs().min() > 0
    assert 0.5 <= float(norm.running_var.min()) <= float(norm.running_var.max()) <= 1.5
    weight = norm.weight.detach()
    assert 0.5 <= float(weight.min()) <= float(weight.max()) <= 1.5


def test_torch_keeps_its_generator() -> None:
    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    seeded_module(make, [(1, 2, 5, 5)], 7)
    assert torch.equal(torch.rand(3), expected)
