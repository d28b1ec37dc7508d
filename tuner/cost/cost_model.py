"""Cost models: which of many candidates will be fast, learned from those that were measured.

``LearnedModel`` is gradient-boosted trees (xgboost) with a ranking objective: only candidates of
one group (one task on one machine) are compared with each other, so records of other tasks and
machines teach it too. It is retrained after every batch, and is data: saved and loaded as JSON,
never pickled. The analytic estimate ranks until the trees have seen enough, counts less the more
they have seen and the less it agreed with what was measured, and ranks alone where xgboost is not
installed. ``RandomModel`` is the baseline that any model must beat.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from ...support.errors import TuningError
from .analytic_model import AnalyticModel
from .features import FEATURE_NAMES, FEATURES_VERSION, Floats

ENOUGH = 16
"""Measured candidates of one group from which the learned model ranks."""
_ROUNDS = 40
_PRIOR = 32.0
"""Measured candidates of one group at which trees and analytic estimate count the same, where the
estimate ranks them as they were measured; fewer where it does not."""
_LEVELS = 31
_MOST_ROWS = 3000
_FORMAT = "burnish cost model"
_PARAMETERS: dict[str, Any] = {
    "objective": "rank:pairwise",
    "lambdarank_pair_method": "mean",
    "lambdarank_num_pair_per_sample": 6,
    "eta": 0.15,
    "max_depth": 6,
    "min_child_weight": 0.0,
    "gamma": 0.001,
    "tree_method": "hist",
    "max_bin": 32,
    "nthread": 1,
    "verbosity": 0,
}


class CostModel(Protocol):
    """Ranks candidates by their features, and learns from measurements."""

    @property
    def name(self) -> str:
        """What reports call it."""

    def predict(self, features: Floats) -> Floats:
        """[n] scores of [n, FEATURE_NAMES], higher is better."""

    def update(self, group: str, features: Floats, seconds: Sequence[float]) -> None:
        """Learn from measured candidates of one group; infinity stands for one that failed."""


class RandomModel:
    """Scores that mean nothing: the baseline."""

    name = "random"

    def __init__(self, seed: int = 0) -> None:
        self._rng = np.random.default_rng(seed)

    def predict(self, features: Floats) -> Floats:
        """[n] scores, drawn."""
        return np.asarray(self._rng.random(features.shape[0]), dtype=np.float64)

    def update(self, group: str, features: Floats, seconds: Sequence[float]) -> None:
        """Measurements change nothing."""


def has_xgboost() -> bool:
    """Whether the package that the learned model needs is installed."""
    return importlib.util.find_spec("xgboost") is not None


def default_model(seed: int = 0) -> CostModel:
    """The learned model where xgboost is installed, else the analytic one."""
    return LearnedModel(seed=seed) if has_xgboost() else AnalyticModel()


class LearnedModel:
    """Trees that rank the candidates of a group; deterministic by seed and data.

    Raises TuningError where xgboost is not installed.
    """

    name = "learned"

    def __init__(self, *, seed: int = 0, enough: int = ENOUGH) -> None:
        if not has_xgboost():
            raise TuningError(
                "The learned cost model needs xgboost. Install burnish[tune], or use the analytic "
                "model."
            )
        self._xgboost = importlib.import_module("xgboost")
        self.seed, self.enough = seed, enough
        self.groups: dict[str, tuple[list[Floats], list[float]]] = {}
        self._analytic = AnalyticModel()
        self._booster: Any = None
        self._agreement: float | None = None
        """See ``agreement``; None where measurements came since it was worked out."""

    @property
    def is_trained(self) -> bool:
        """Whether its own trees rank, and not the analytic estimate."""
        return self._booster is not None

    def predict(self, features: Floats) -> Floats:
        """[n] scores, higher is better."""
        estimate = self._analytic.predict(features)
        if self._booster is None:
            return estimate
        scores = self._booster.predict(
            self._xgboost.DMatrix(features.astype(np.float32), nthread=1)
        )
        most = max(len(times) for _, times in self.groups.values())
        trust = most / (most + _PRIOR * self.agreement)
        return trust * _standard(scores) + (1.0 - trust) * _standard(estimate)

    @property
    def agreement(self) -> float:
        """How far the analytic estimate ranks the largest group as it was measured: their rank
        correlation, 0 where it is negative."""
        if self._agreement is None:
            rows, times = max(self.groups.values(), key=lambda g: len(g[1]))
            finite = [i for i, t in enumerate(times) if np.isfinite(t)]
            estimate = self._analytic.predict(np.stack(rows))[finite]
            found = _rank_correlation(estimate, -np.array(times)[finite])
            self._agreement = max(0.0, found)
        return self._agreement

    def update(self, group: str, features: Floats, seconds: Sequence[float]) -> None:
        """Add measurements and train anew on all there is."""
        self.add(group, features, seconds)
        self.train()

    def add(self, group: str, features: Floats, seconds: Sequence[float]) -> None:
        """Add measurements without training."""
        if features.shape != (len(seconds), len(FEATURE_NAMES)):
            raise TuningError(
                f"Expected features of shape {(len(seconds), len(FEATURE_NAMES))}, a row a "
                f"measurement; found {features.shape}."
            )
        rows, times = self.groups.setdefault(group, ([], []))
        rows.extend(features)
        times.extend(float(s) for s in seconds)
        self._agreement = None

    def train(self) -> None:
        """Fit the trees to the measurements, if one group has enough of them."""
        if max((len(times) for _, times in self.groups.values()), default=0) < self.enough:
            return
        rows: list[Floats] = []
        labels: list[float] = []
        numbers: list[int] = []
        for number, (features, times) in enumerate(self.groups.values()):
            kept = slice(-_MOST_ROWS // len(self.groups), None)
            rows += features[kept]
            labels += _relevance(times[kept])
            numbers += [number] * len(features[kept])
        data = self._xgboost.DMatrix(
            np.stack(rows).astype(np.float32),
            label=np.array(labels),
            qid=np.array(numbers),
            nthread=1,
        )
        self._booster = self._xgboost.train(
            {**_PARAMETERS, "seed": self.seed}, data, num_boost_round=_ROUNDS
        )

    # -- JSON --------------------------------------------------------------------------------------
    def as_json(self) -> dict[str, Any]:
        """Trees and measurements as what JSON has."""
        return {
            "format": _FORMAT,
            "features": FEATURES_VERSION,
            "columns": len(FEATURE_NAMES),
            "seed": self.seed,
            "enough": self.enough,
            "groups": {
                name: [[[round(float(x), 5) for x in row] for row in rows], _finite(times)]
                for name, (rows, times) in self.groups.items()
            },
            "trees": None
            if self._booster is None
            else json.loads(bytes(self._booster.save_raw("json"))),
        }

    @classmethod
    def from_json(cls, data: Any, *, where: str = "the data") -> LearnedModel:
        """The model written by ``as_json``; TuningError for anything else, and for one whose
        features have another meaning."""
        if not isinstance(data, dict) or data.get("format") != _FORMAT:
            raise TuningError(f"Expected a saved cost model; {where} is none.")
        found = (data.get("features"), data.get("columns"))
        if found != (FEATURES_VERSION, len(FEATURE_NAMES)):
            raise TuningError(
                f"The cost model of {where} was trained on features of version {found[0]} with "
                f"{found[1]} columns; this burnish has version {FEATURES_VERSION} with "
                f"{len(FEATURE_NAMES)}. Train it anew from the records."
            )
        try:
            model = cls(seed=int(data["seed"]), enough=int(data["enough"]))
            for name, (rows, times) in data["groups"].items():
                seconds = [float("inf") if t is None else float(t) for t in times]
                model.add(str(name), np.array(rows, dtype=np.float64), seconds)
            if data["trees"] is not None:
                booster = model._xgboost.Booster({"nthread": 1})
                booster.load_model(bytearray(json.dumps(data["trees"]).encode()))
                model._booster = booster
        except (KeyError, TypeError, ValueError) as error:
            raise TuningError(f"The cost model of {where} is damaged: {error!r}.") from error
        return model

    def save(self, path: str | Path) -> None:
        """Write the model to a file."""
        Path(path).write_text(json.dumps(self.as_json()), encoding="utf-8")

    @classmethod
    def load(cls, path: str | Path) -> LearnedModel:
        """Read a model from a file; TuningError for a file that holds none."""
        try:
            data = json.loads(Path(path).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise TuningError(f"{path} cannot be read as a cost model: {error}.") from error
        return cls.from_json(data, where=str(path))


def _standard(scores: Floats) -> Floats:
    """Scores with mean 0 and deviation 1; zeros where they are all the same."""
    values = np.asarray(scores, dtype=np.float64)
    deviation = float(values.std())
    return (values - values.mean()) / deviation if deviation > 1e-12 else np.zeros_like(values)


def _rank_correlation(a: Floats, b: Floats) -> float:
    """Spearman's, from -1 to 1; 0 where either is all the same or there are fewer than three."""
    if len(a) < 3:
        return 0.0
    # What is alike has a rank in the middle.
    x, y = (
        np.searchsorted(np.sort(v), v) + np.searchsorted(np.sort(v), v, "right") for v in (a, b)
    )
    x, y = x - x.mean(), y - y.mean()
    size = float(np.sqrt((x * x).sum() * (y * y).sum()))
    return float((x * y).sum()) / size if size > 0 else 0.0


def _relevance(seconds: Sequence[float]) -> list[float]:
    """How good each time is beside the best of its group, from 0 (failed) to _LEVELS."""
    best = min(seconds)
    if not np.isfinite(best):
        return [0.0] * len(seconds)
    return [float(round(_LEVELS * best / s)) for s in seconds]


def _finite(seconds: Sequence[float]) -> list[float | None]:
    return [s if np.isfinite(s) else None for s in seconds]
