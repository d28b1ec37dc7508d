"""AnalyticModel: an estimate of cycles from the features, for when nothing is learned yet.

It is a roofline with the costs of loops, latencies and spilled registers (``features``), and ranks
candidates where xgboost is not installed or has too few records to learn from.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .features import CYCLES, Floats


class AnalyticModel:
    """Fewer estimated cycles, higher score. It learns nothing."""

    name = "analytic"

    def predict(self, features: Floats) -> Floats:
        """[n] scores, higher is better."""
        return np.asarray(-features[:, CYCLES])

    def update(self, group: str, features: Floats, seconds: Sequence[float]) -> None:
        """Measurements change nothing."""
