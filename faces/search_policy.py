"""How a search with a log file begins: the states it is told of, and the model that ranks.

A policy only says which logs are known beforehand and which cost model ranks; the search itself is
``SearchTask.tune``'s.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ..support.errors import TuningError


@dataclass(frozen=True)
class PreloadMeasuredStates:
    """A search that begins with the records of a log: they are not measured again."""

    filename: str | Path


@dataclass
class XGBModel:
    """The learned cost model (gradient-boosted trees), and the logs it is taught beforehand."""

    logs: list[str | Path] = field(default_factory=list)
    name = "learned"

    def update_from_file(self, file_name: str | Path) -> None:
        """Have the model learn from the records of a log before the search."""
        self.logs.append(file_name)


@dataclass
class RandomModel:
    """No model: candidates are ranked at random."""

    logs: list[str | Path] = field(default_factory=list)
    name = "random"


@dataclass
class SketchPolicy:
    """The search policy of a task: its cost model and what it knows beforehand.

    ``program_cost_model`` is an ``XGBModel``, a ``RandomModel``, or ``"xgb"``, ``"random"``.
    Raises TuningError for any other.
    """

    task: object
    program_cost_model: XGBModel | RandomModel | str = "xgb"
    init_search_callbacks: Sequence[PreloadMeasuredStates] = ()
    seed: int | None = None

    def __post_init__(self) -> None:
        if self.program_cost_model == "xgb":
            self.program_cost_model = XGBModel()
        elif self.program_cost_model == "random":
            self.program_cost_model = RandomModel()
        if not isinstance(self.program_cost_model, (XGBModel, RandomModel)):
            raise TuningError(
                "program_cost_model is XGBModel(), RandomModel(), 'xgb' or 'random'; found "
                f"{self.program_cost_model!r}."
            )
        for callback in self.init_search_callbacks:
            if not isinstance(callback, PreloadMeasuredStates):
                raise TuningError(
                    f"init_search_callbacks are PreloadMeasuredStates(log); found {callback!r}."
                )

    @property
    def cost_model(self) -> str:
        """The name of the model that ranks."""
        assert not isinstance(self.program_cost_model, str)
        return self.program_cost_model.name

    @property
    def logs(self) -> list[str | Path]:
        """The logs whose records the search knows beforehand."""
        assert not isinstance(self.program_cost_model, str)
        return [*[c.filename for c in self.init_search_callbacks], *self.program_cost_model.logs]
