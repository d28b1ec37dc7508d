"""What is measured: models of ``burnish.models`` at fixed batches, with seeded inputs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Case:
    """``build()`` gives an evaluated torch module and its NumPy inputs."""

    name: str
    flop: float
    """Floating-point operations of one call."""
    build: Callable[[], tuple[Any, tuple[np.ndarray, ...]]]


def _mlp(batch: int) -> Case:
    def build() -> tuple[Any, tuple[np.ndarray, ...]]:
        from burnish.models import mlp

        module, _ = mlp.build(seed=0)
        rng = np.random.default_rng(0)
        return module, (rng.random((batch, 1, 28, 28), dtype=np.float32),)

    return Case(f"mlp-{batch}", 2.0 * batch * (784 * 128 + 128 * 10), build)


CASES = {c.name: c for c in (_mlp(1), _mlp(256))}
