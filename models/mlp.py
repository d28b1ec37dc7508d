"""The Fashion-MNIST MLP: flatten, 784 -> 128, relu, 128 -> 10."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import nn

from ..support.errors import DataError
from .fashion_mnist import WEIGHT_SHAPES


def build(
    weights: Mapping[str, np.ndarray] | None = None, *, seed: int = 0, batch: int = 1
) -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    """The module in eval mode and an example input, float32 [batch, 1, 28, 28] in [0, 1].

    ``weights`` holds w0 [128, 784], b0 [128], w1 [10, 128], b1 [10]; without it they are random,
    fixed by ``seed``. torch's own generator is left as it was. Raises DataError for weights that
    are missing or of another shape.
    """
    generator = torch.Generator().manual_seed(seed)
    with torch.random.fork_rng(devices=[]):
        layers = [nn.Flatten(), nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10)]
    module = nn.Sequential(*layers).eval()
    with torch.no_grad():
        for parameter, key in zip(module.parameters(), WEIGHT_SHAPES, strict=True):
            if weights is None:
                random = torch.rand(parameter.shape, generator=generator) * 2 - 1
                parameter.copy_(random / parameter.shape[-1] ** 0.5)
            else:
                parameter.copy_(torch.from_numpy(_weight(weights, key)))
    return module, (torch.rand((batch, 1, 28, 28), generator=generator),)


def _weight(weights: Mapping[str, np.ndarray], key: str) -> np.ndarray:
    shape = np.shape(weights[key]) if key in weights else None
    if shape != WEIGHT_SHAPES[key]:
        found = "nothing" if shape is None else f"shape {shape}"
        raise DataError(f"weight {key!r}: expected shape {WEIGHT_SHAPES[key]}, found {found}.")
    return np.array(weights[key], dtype=np.float32)


def weights_of(module: nn.Module) -> dict[str, np.ndarray]:
    """Copies of the weights under the names ``build`` takes."""
    values = [p.detach().numpy().copy() for p in module.parameters()]
    return dict(zip(WEIGHT_SHAPES, values, strict=True))


def train(images: np.ndarray, labels: np.ndarray, *, seed: int = 0, epochs: int = 4) -> nn.Module:
    """Train on uint8 images [N, 28, 28] and labels [N]; the module in eval mode.

    Adam on batches of 64, one thread, the same result for a seed.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        module, _ = build(seed=seed)
        x = torch.from_numpy(images.astype(np.float32) / 255.0).reshape(-1, 1, 28, 28)
        y = torch.from_numpy(labels.astype(np.int64))
        generator = torch.Generator().manual_seed(seed)
        optimizer = torch.optim.Adam(module.parameters(), lr=1e-3)
        module.train()
        for _ in range(epochs):
            for batch in torch.randperm(len(x), generator=generator).split(64):
                optimizer.zero_grad()
                nn.functional.cross_entropy(module(x[batch]), y[batch]).backward()
                optimizer.step()
        return module.eval()
    finally:
        torch.set_num_threads(threads)
