"""Random weights that are the same for a seed, and leave torch's own generator as it was."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn


def seeded_module(
    make: Callable[[], nn.Module], shapes: Sequence[Sequence[int]], seed: int
) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """``make()`` in eval mode, and normal inputs of ``shapes``.

    Batch norms get statistics and scales that are not those of a fresh module (which would do
    nothing), close enough to one that activations keep their size through many layers.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        module = make().eval()
        with torch.no_grad():
            for layer in module.modules():
                if isinstance(layer, nn.BatchNorm2d):
                    layer.running_mean.normal_(0, 0.1)  # type: ignore[union-attr]
                    layer.running_var.uniform_(0.5, 1.5)  # type: ignore[union-attr]
                    layer.weight.uniform_(0.5, 1.5)
                    layer.bias.normal_(0, 0.1)
        return module, tuple([torch.randn(tuple(s)) for s in shapes])
