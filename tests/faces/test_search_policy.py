"""Search policies: what they know beforehand, and what they refuse."""

from __future__ import annotations

from typing import Any

import pytest

from burnish.auto_scheduler import PreloadMeasuredStates, RandomModel, SketchPolicy, XGBModel
from burnish.support.errors import TuningError


def test_a_policy_knows_its_logs() -> None:
    model = XGBModel()
    model.update_from_file("a.json")
    policy = SketchPolicy(None, model, init_search_callbacks=[PreloadMeasuredStates("b.json")])
    assert policy.logs == ["b.json", "a.json"]
    assert policy.cost_model == "learned"


@pytest.mark.parametrize(
    ("model", "name"), [("xgb", "learned"), ("random", "random"), (RandomModel(), "random")]
)
def test_models_by_name(model: Any, name: str) -> None:
    policy = SketchPolicy(None, model)
    assert (policy.cost_model, policy.logs) == (name, [])


def test_what_is_no_policy() -> None:
    with pytest.raises(TuningError, match=r"program_cost_model is XGBModel\(\).*found 'mlp'"):
        SketchPolicy(None, "mlp")
    with pytest.raises(TuningError, match=r"PreloadMeasuredStates\(log\); found 'log'"):
        SketchPolicy(None, init_search_callbacks=["log"])  # type: ignore[list-item]
