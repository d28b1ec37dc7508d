"""What every model with a seed is tested for."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn

import burnish

Build = Callable[..., tuple[nn.Module, tuple[Tensor, ...]]]


def check_seed(build: Build) -> None:
    """The same weights and inputs for a seed, others for another; torch's generator untouched."""
    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    (first, x), (again, y), (other, _) = (build(seed=s) for s in (1, 1, 2))
    assert torch.equal(torch.rand(3), expected)
    assert not first.training
    states = [m.state_dict() for m in (first, again, other)]
    assert all(torch.equal(states[0][k], states[1][k]) for k in states[0])
    assert all(torch.equal(a, b) for a, b in zip(x, y, strict=True))
    assert any(not torch.equal(states[0][k], states[2][k]) for k in states[0])


def check_compiled(build: Build, shape: tuple[int, ...], tolerance: float = 2e-4) -> None:
    """The result has ``shape``, and the compiled model agrees with torch."""
    module, inputs = build()
    with torch.no_grad():
        expected = module(*inputs)
    assert expected.shape == shape
    assert expected.dtype is torch.float32
    assert bool(torch.isfinite(expected).all())
    found = burnish.compile(module, inputs)(*inputs).numpy()
    scale = float(expected.abs().max())
    np.testing.assert_allclose(found / scale, expected.numpy() / scale, atol=tolerance)
