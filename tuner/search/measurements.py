"""A session's measurements: what is proposed goes to the pipeline, what comes back is recorded.

Without builders, a batch is proposed, measured, and learned from, one after the other. With them
three things happen at once, two batches being on their way at any time:

    proposing     | 0 | 1 |   2 (knows 0)   |   3 (knows 1)   | ...
    building          | 0      | 1      | 2 ...
    timing                | 0         | 1         | 2 ...

Batch n is proposed as soon as batch n - 2 is all answered, and knows the answers up to that one and
no more: what is proposed does not depend on which of two answers was quicker.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, as_completed, wait
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ...support.errors import BuildError, MeasureTimeout, TuningError
from ...tensorir.text.printer import print_func
from ..candidate import Candidate
from ..measuring.cpus import stay_on
from ..measuring.pipeline import Pipeline, Pools
from ..progress import TuningProgress
from ..records.database import TuningDatabase, TuningRecord
from ..task import TuneTask
from .search import SearchStrategy

Answer = tuple[str, float | None]
"""A candidate's hash and its best seconds, None where it failed."""


@dataclass
class _Flight:
    """A batch on its way."""

    batch: Sequence[Candidate]
    futures: dict[Future[Any], Candidate]
    answers: dict[str, float | None] = field(default_factory=dict)
    open: set[Future[Any]] = field(default_factory=set)

    @property
    def results(self) -> list[Answer]:
        """The answers, in the batch's order."""
        return [(c.hash, self.answers[c.hash]) for c in self.batch if c.hash in self.answers]


class Measuring:
    """The measurements of a session: where they run, the reference they share, what they report
    to. The first measurement makes the reference."""

    def __init__(
        self,
        task: TuneTask,
        database: TuningDatabase,
        progress: TuningProgress,
        pools: Pools,
        stack: ExitStack,
        *,
        seconds: float,
        deadline: float | None,
        on_progress: Callable[[TuningProgress], None] | None,
    ) -> None:
        self.task, self.database, self.progress = task, database, progress
        self.deadline, self.on_progress = deadline, on_progress
        self.pools = pools
        text = print_func(task.stripped)
        self.source = database.add_workload(task.workload, task.name, text, task.flop)
        folder = stack.enter_context(TemporaryDirectory(prefix="burnish-tune-"))
        reference = str(Path(folder) / "reference.npz")
        self.pipeline = Pipeline(pools, text, str(task.target), reference, seconds, task.sizes)
        progress.times = self.pipeline.times
        self.predicted: dict[str, float] = {}
        """What the search expects of candidates on their way, by hash."""
        self._reference: Future[Any] | None = None

    # -- one after the other -----------------------------------------------------------------------
    def take_turns(self, search: SearchStrategy, most: int) -> None:
        """Propose up to ``most`` candidates, measure them, learn; until the budget is used up."""
        while self.progress.left > 0 and not self._is_over():
            batch = search.propose(min(most, self.progress.left), deadline=self.deadline)
            if not batch:
                return
            self.predicted = search.predictions(batch)
            search.observe(self.measure(batch))

    def measure(self, batch: Sequence[Candidate]) -> list[Answer]:
        """Measure candidates and record each answer; at the deadline the rest is dropped. An error
        of the machinery is raised after what was answered until then is recorded."""
        self.start()
        if not self._has_reference():
            return []
        flight = self._launch(batch)
        broken: BaseException | None = None
        try:
            for future in self._answers(flight.futures):
                error = self._hear(flight, future)
                if error is not None and broken is None:
                    broken = error
                    self._drop(flight.futures)
        finally:
            self._drop(flight.futures)
        if broken is not None:
            raise broken
        return flight.results

    def _answers(self, futures: Iterable[Future[Any]]) -> Iterator[Future[Any]]:
        """The futures as they are answered, until the deadline."""
        with suppress(TimeoutError):
            yield from as_completed(futures, self._time_left())

    # -- all at once -------------------------------------------------------------------------------
    def overlap(self, search: SearchStrategy, most: int) -> None:
        """As ``take_turns``, with batches of half of ``most``: one is measured while the next is
        proposed and built."""
        size = max(1, -(-most // 2))
        learned: deque[list[Answer]] = deque()
        flights: deque[_Flight] = deque()
        proposal: Future[tuple[list[Candidate], dict[str, float]]] | None = None
        count, is_exhausted = 0, False
        self.start()
        try:
            while not self._is_over():
                on_their_way = sum([len(f.open) for f in flights])
                wanted = min(size, self.progress.left - on_their_way)
                # Batch n waits for the answers of batch n - 2.
                is_free = proposal is None and (count < 2 or bool(learned))
                if is_free and wanted > 0 and not is_exhausted:
                    known = learned.popleft() if count >= 2 else []
                    proposal = self._propose(search, known, wanted)
                    count += 1
                waiting = {f for flight in flights for f in flight.open}
                if proposal is None and not waiting:
                    break
                self._wait([*waiting, *([proposal] if proposal is not None else [])])
                if proposal is not None and proposal.done():
                    batch, predicted = proposal.result()
                    proposal, is_exhausted = None, not batch
                    if batch:
                        self.predicted |= predicted
                        flights.append(self._launch(batch))
                self._land(flights, learned)
        finally:
            for flight in flights:
                self._drop(flight.futures)
        if proposal is not None:  # the deadline ends it too
            proposal.result()
        for results in [*learned, *[f.results for f in flights]]:
            search.observe(results)

    def _propose(
        self, search: SearchStrategy, known: list[Answer], count: int
    ) -> Future[tuple[list[Candidate], dict[str, float]]]:
        """Learn and propose, in a thread: answers are recorded as they come meanwhile."""
        future: Future[tuple[list[Candidate], dict[str, float]]] = Future()
        cpus = self.pools.quiet_cpus

        def run() -> None:
            start = time.perf_counter()
            try:
                if cpus:
                    stay_on(cpus)
                if known:
                    search.observe(known)
                batch = search.propose(count, deadline=self.deadline)
                answer = batch, search.predictions(batch)
            except BaseException as error:  # it is raised where the proposal is asked for
                future.set_exception(error)
            else:
                self.progress.propose_seconds += time.perf_counter() - start
                future.set_result(answer)

        # A daemon: an interrupt does not wait for a proposal that nobody will measure.
        threading.Thread(target=run, name="burnish-propose", daemon=True).start()
        return future

    def _land(self, flights: deque[_Flight], learned: deque[list[Answer]]) -> None:
        """Record what is answered; batches that are complete can be learned from."""
        for flight in flights:
            for future in [f for f in flight.futures if f in flight.open and f.done()]:
                error = self._hear(flight, future)
                if error is not None:
                    for other in flights:
                        self._drop(other.futures)
                    self._record_rest(flights)
                    raise error
        while flights and not flights[0].open:
            learned.append(flights.popleft().results)

    def _record_rest(self, flights: Iterable[_Flight]) -> None:
        """Before the session fails: what was answered is kept."""
        for flight in flights:
            for future in [f for f in flight.futures if f in flight.open and f.done()]:
                self._hear(flight, future)

    def _wait(self, futures: Sequence[Future[Any]]) -> None:
        waiting = list(futures)
        if self._reference is not None and not self._reference.done():
            waiting.append(self._reference)
        wait(waiting, self._time_left(), FIRST_COMPLETED)
        if self._reference is not None and self._reference.done():
            self._has_reference()

    # -- what both do ------------------------------------------------------------------------------
    def start(self) -> None:
        """Have the unscheduled function run, whose results candidates are compared with."""
        if self._reference is None:
            self._reference = self.pipeline.make_reference()

    def _has_reference(self) -> bool:
        """Wait for the reference (where one worker does everything it is there before a candidate
        runs in any case); false where the deadline passes first."""
        assert self._reference is not None
        try:
            self._reference.result(self._time_left())
        except TimeoutError:
            self._reference.cancel()
            return False
        except CancelledError:
            return False
        except TuningError as error:
            raise TuningError(
                f"{self.task.name!r} does not run even unscheduled: {error}"
            ) from error
        return True

    def _launch(self, batch: Sequence[Candidate]) -> _Flight:
        futures = {self.pipeline.measure(c): c for c in batch}
        return _Flight(batch, futures, open=set(futures))

    def _hear(self, flight: _Flight, future: Future[Any]) -> BaseException | None:
        """Record an answer; an error of the machinery, if it is one."""
        flight.open.discard(future)
        if future.cancelled():
            return None
        error = future.exception()
        if error is not None and not isinstance(error, (BuildError, MeasureTimeout)):
            return error
        record = self._record(flight.futures[future], future)
        flight.answers[record.candidate] = record.best
        return None

    def _record(self, candidate: Candidate, future: Future[Any]) -> TuningRecord:
        error = future.exception()
        times = tuple(future.result()["seconds"]) if error is None else ()
        record = TuningRecord(
            workload=self.task.workload,
            target=self.task.target_key,
            candidate=candidate.hash,
            source=self.source,
            trace=candidate.trace,
            seconds=times,
            error="" if error is None else str(error),
            predicted=self.predicted.pop(candidate.hash, None),
        )
        self.database.add(record)
        self.progress.count(record)
        if self.on_progress is not None:
            self.on_progress(self.progress)
        return record

    def _drop(self, futures: Iterable[Future[Any]]) -> None:
        for future in futures:
            future.cancel()
        if self._reference is not None:
            self._reference.cancel()
        self.pipeline.cancel()

    def _time_left(self) -> float | None:
        return None if self.deadline is None else max(0.0, self.deadline - time.monotonic())

    def _is_over(self) -> bool:
        return self.deadline is not None and time.monotonic() >= self.deadline
