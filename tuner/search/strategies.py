"""The search strategies and cost models by name."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ...support.errors import TuningError, nearest
from ...support.target import Target
from ...tensorir.function import PrimFunc
from ..candidate import SpaceFunction
from ..cost.analytic_model import AnalyticModel
from ..cost.cost_model import CostModel, LearnedModel, RandomModel, default_model
from .evolution import EvolutionarySearch
from .search import RandomSearch, ReplayTraceSearch, SearchStrategy

STRATEGIES = ("evolutionary", "random", "replay_trace")
MODELS = ("learned", "analytic", "random")


def verify_strategy(name: str) -> None:
    """Raise TuningError unless there is a strategy of this name."""
    if name not in STRATEGIES:
        raise TuningError(
            f"There is no search strategy {name!r}; there are "
            f"{', '.join(map(repr, STRATEGIES))}.{nearest(str(name), STRATEGIES)}"
        )


def make_strategy(
    name: str,
    func: PrimFunc,
    space: Sequence[SpaceFunction],
    *,
    seed: int,
    target: Target,
    model: CostModel | None = None,
    first: Sequence[SpaceFunction] = (),
    seen: Collection[str] = (),
    group: str = "task",
    sizes: Sequence[int] = (),
) -> SearchStrategy:
    """The strategy of this name; ``model``, ``group`` and ``sizes`` are for the one that learns."""
    verify_strategy(name)
    if name == "random":
        return RandomSearch(func, space, seed=seed, first=first, seen=seen)
    if name == "replay_trace":
        return ReplayTraceSearch(func, space, seed=seed, first=first, seen=seen)
    return EvolutionarySearch(
        func,
        space,
        seed=seed,
        target=target,
        model=model or default_model(seed),
        first=first,
        seen=seen,
        group=group,
        sizes=sizes,
    )


def make_model(name: str | None, seed: int = 0) -> CostModel:
    """The cost model of this name; None is the learned one where xgboost is installed, else the
    analytic one. Raises TuningError for another name, and for ``learned`` without xgboost."""
    match name:
        case None:
            return default_model(seed)
        case "learned":
            return LearnedModel(seed=seed)
        case "analytic":
            return AnalyticModel()
        case "random":
            return RandomModel(seed)
        case _:
            raise TuningError(
                f"There is no cost model {name!r}{nearest(str(name), MODELS)}; there are "
                f"{', '.join(map(repr, MODELS))}."
            )
