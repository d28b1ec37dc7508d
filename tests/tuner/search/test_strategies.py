"""Strategies and models by name."""

from __future__ import annotations

import pytest

from burnish.support.errors import TuningError
from burnish.support.host import resolve
from burnish.support.target import Target
from burnish.tests.tuner.spaces import doubled, four_levels
from burnish.tuner.search.evolution import EvolutionarySearch
from burnish.tuner.search.search import RandomSearch, ReplayTraceSearch
from burnish.tuner.search.strategies import MODELS, STRATEGIES, make_model, make_strategy

TARGET = resolve(Target("native -threads=1"))


def test_each_name_is_a_strategy_that_proposes() -> None:
    kinds = []
    for name in STRATEGIES:
        found = make_strategy(name, doubled(64), [four_levels], seed=0, target=TARGET)
        assert len(found.propose(3)) == 3
        kinds.append(type(found))
    assert kinds == [EvolutionarySearch, RandomSearch, ReplayTraceSearch]


def test_an_unknown_strategy() -> None:
    with pytest.raises(TuningError, match=r"no search strategy 'evolution'.*'replay_trace'"):
        make_strategy("evolution", doubled(64), [four_levels], seed=0, target=TARGET)


def test_each_name_is_a_model() -> None:
    assert [make_model(name).name for name in MODELS] == list(MODELS)
    assert make_model(None).name == "learned"
    with pytest.raises(TuningError, match="no cost model 'xgb'"):
        make_model("xgb")
