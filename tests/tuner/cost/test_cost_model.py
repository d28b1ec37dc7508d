"""Cost models: what is learned, how it is kept, and what is refused."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from burnish.support.errors import TuningError
from burnish.tuner.cost import cost_model
from burnish.tuner.cost.analytic_model import AnalyticModel
from burnish.tuner.cost.cost_model import LearnedModel, RandomModel, default_model
from burnish.tuner.cost.features import CYCLES, FEATURE_NAMES, Floats

WIDTH = len(FEATURE_NAMES)


def population(n: int, seed: int) -> tuple[Floats, list[float]]:
    """Rows of noise, and times that depend on two of the columns."""
    rng = np.random.default_rng(seed)
    rows = rng.random((n, WIDTH)) * 8
    rows[:, CYCLES] = 5.0
    times = 1e-3 * (1 + rows[:, 3] + np.abs(rows[:, 40] - 4) * 2)
    return rows, [float(t) for t in times]


def agreement(scores: Floats, times: list[float]) -> float:
    """The share of pairs that are in the right order."""
    s, t = np.asarray(scores), np.array(times)
    first, second = np.triu_indices(len(t), 1)
    return float(np.mean((s[first] - s[second]) * (t[second] - t[first]) > 0))


def test_it_learns_a_ranking() -> None:
    model = LearnedModel()
    model.update("task", *population(200, 0))
    rows, times = population(100, 1)
    assert model.is_trained
    assert agreement(model.predict(rows), times) > 0.75
    assert agreement(RandomModel(0).predict(rows), times) < 0.6


def test_groups_are_not_compared_with_each_other() -> None:
    model = LearnedModel()
    rows, times = population(120, 0)
    model.update("fast", rows[:60], [t / 1000 for t in times[:60]])
    model.update("slow", rows[60:], times[60:])
    others, wanted = population(80, 1)
    assert agreement(model.predict(others), wanted) > 0.7


def test_the_same_data_give_the_same_scores() -> None:
    rows, times = population(60, 0)
    scores = []
    for _ in range(2):
        model = LearnedModel(seed=3)
        model.update("task", rows, times)
        scores.append(model.predict(rows))
    assert (scores[0] == scores[1]).all()


def test_failed_candidates_rank_low() -> None:
    model = LearnedModel()
    rows, _ = population(80, 0)
    times = [math.inf if row[7] > 4 else 1e-3 for row in rows]
    model.update("task", rows, times)
    scores = model.predict(rows)
    failed = np.isinf(times)
    assert scores[failed].mean() < scores[~failed].mean()
    model = LearnedModel()
    model.update("task", rows, [math.inf] * 80)  # all failed: nothing to rank, no error
    assert np.isfinite(model.predict(rows)).all()


def following(model: LearnedModel) -> float:
    """The correlation of a model's scores with the analytic estimate, where nothing else varies
    that it was taught."""
    others, _ = population(50, 1)
    others[:, CYCLES] = np.linspace(0, 8, 50)
    return float(np.corrcoef(model.predict(others), -others[:, CYCLES])[0, 1])


def test_the_estimate_counts_while_little_is_measured_and_it_agrees() -> None:
    rows, times = population(20, 0)
    rows[:, CYCLES] = np.log2(np.array(times) * 1e6)
    model = LearnedModel()
    model.update("task", rows, times)
    assert model.agreement == pytest.approx(1.0)
    assert following(model) > 0.5


@pytest.mark.parametrize("sign", [0.0, -1.0], ids=["says nothing", "is wrong"])
def test_an_estimate_that_does_not_agree_counts_nothing(sign: float) -> None:
    rows, times = population(20, 0)
    rows[:, CYCLES] = sign * np.log2(np.array(times) * 1e6)
    model = LearnedModel()
    model.update("task", rows, times)
    assert model.agreement == 0.0
    assert following(model) < 0.3
    model.update("task", rows, [float("inf")] * 20)
    assert model.agreement == 0.0


def test_before_there_is_enough_the_analytic_model_ranks() -> None:
    model = LearnedModel(enough=16)
    rows, times = population(15, 0)
    model.update("task", rows, times)
    assert not model.is_trained
    assert (model.predict(rows) == AnalyticModel().predict(rows)).all()


def test_it_travels_as_json(tmp_path: Path) -> None:
    model = LearnedModel(seed=4)
    rows, times = population(40, 0)
    model.update("task", rows, [math.inf, *times[1:]])
    model.save(tmp_path / "model.json")
    again = LearnedModel.load(tmp_path / "model.json")
    others, _ = population(30, 1)
    assert np.allclose(again.predict(others), model.predict(others))
    assert list(again.groups) == ["task"]
    assert again.groups["task"][1][:2] == [math.inf, times[1]]
    again.update("task", *population(10, 2))  # it goes on learning


def test_features_of_another_version_are_refused(tmp_path: Path) -> None:
    data = LearnedModel().as_json()
    data["features"] = 0
    path = tmp_path / "old.json"
    path.write_text(json.dumps(data))
    with pytest.raises(TuningError, match=r"features of version 0 .* this burnish has version 3"):
        LearnedModel.load(path)


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"format": "other"}'])
def test_files_that_are_no_models(tmp_path: Path, text: str) -> None:
    path = tmp_path / "model.json"
    path.write_text(text)
    with pytest.raises(TuningError, match=r"model\.json"):
        LearnedModel.load(path)
    with pytest.raises(TuningError, match="cannot be read"):
        LearnedModel.load(tmp_path / "missing.json")


def test_a_damaged_model() -> None:
    data = LearnedModel().as_json()
    del data["groups"]
    with pytest.raises(TuningError, match="damaged"):
        LearnedModel.from_json(data)


def test_rows_of_another_width_are_refused() -> None:
    with pytest.raises(TuningError, match="Expected features of shape"):
        LearnedModel().update("task", np.zeros((2, 3)), [1.0, 2.0])


def test_without_xgboost(monkeypatch: pytest.MonkeyPatch) -> None:
    assert default_model().name == "learned"
    monkeypatch.setattr(cost_model, "has_xgboost", lambda: False)
    assert default_model().name == "analytic"
    with pytest.raises(TuningError, match=r"Install burnish\[tune\]"):
        LearnedModel()


def test_random_scores_are_repeatable() -> None:
    rows = np.zeros((5, WIDTH))
    assert (RandomModel(1).predict(rows) == RandomModel(1).predict(rows)).all()
