"""TuningProgress: how far a session is; what callers are told after every answer."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from .measuring.pipeline import PipelineTimes
from .records.database import TuningRecord
from .task import TuneTask


@dataclass
class TuningProgress:
    """What a session has done; handed to ``on_progress`` after every answer."""

    task: TuneTask
    trials: int
    done: int = 0
    failed: int = 0
    best: float | None = None
    """Smallest time of a call so far, in seconds; records of earlier sessions count."""
    started: float = field(default_factory=time.monotonic)
    history: list[tuple[float, float]] = field(default_factory=list)
    """(seconds since the start, best so far) at each improvement."""
    times: PipelineTimes = field(default_factory=PipelineTimes)
    propose_seconds: float = 0.0

    @property
    def gflops(self) -> float:
        return self.task.flop / self.best / 1e9 if self.best else 0.0

    @property
    def left(self) -> int:
        return self.trials - self.done - self.failed

    def count(self, record: TuningRecord) -> None:
        """Take an answer into account."""
        if record.best is None:
            self.failed += 1
            return
        self.done += 1
        if self.best is None or record.best < self.best:
            self.best = record.best
            self.history.append((time.monotonic() - self.started, record.best))
