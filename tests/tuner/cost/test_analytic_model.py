"""The analytic model ranks by the estimate among the features."""

from __future__ import annotations

import numpy as np

from burnish.tuner.cost.analytic_model import AnalyticModel
from burnish.tuner.cost.features import CYCLES, FEATURE_NAMES


def test_fewer_cycles_score_higher() -> None:
    rows = np.zeros((3, len(FEATURE_NAMES)))
    rows[:, CYCLES] = [10.0, 8.0, 12.0]
    model = AnalyticModel()
    assert np.argsort(-model.predict(rows)).tolist() == [1, 0, 2]
    model.update("task", rows, [1.0, 2.0, 3.0])
    assert np.argsort(-model.predict(rows)).tolist() == [1, 0, 2]
