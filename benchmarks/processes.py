"""Contenders in processes of their own, timed in turns.

Rounds take turns between the ways of all contenders, so that a change of the machine's speed hits
all alike. What fails, hangs or dies becomes a way with an error, and the others go on.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from .cases import Case

PREPARE_LIMIT = 400.0
"""Seconds after which a contender that is not ready has failed."""
ANSWER_LIMIT = 120.0
"""Seconds that a round may take."""


@dataclass
class Way:
    """One way to run a contender, and the times it has given, in seconds a call."""

    contender: str
    name: str
    error: str = ""
    prepare_seconds: float = 0.0
    difference: float = 0.0
    """To the result in float64, where that was asked for."""
    times: list[float] = field(default_factory=list)
    calls: int = 1

    @property
    def title(self) -> str:
        return self.contender if self.name == "plain" else f"{self.contender} {self.name}"


class WorkerDied(Exception):
    """A worker that gives no answer; the text is the row's."""


class Worker:
    """A contender's process."""

    def __init__(self, command: Sequence[str], threads: int) -> None:
        environment = dict(os.environ, OMP_NUM_THREADS=str(threads), MKL_NUM_THREADS=str(threads))
        # Open as long as the process, which may write at any time.
        self.log: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            env=environment,
            cwd=Path(__file__).resolve().parent.parent,
        )

    def read(self, seconds: float) -> dict[str, Any]:
        """The next answer. Raises WorkerDied where none comes in time."""
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], seconds)
        if not ready:
            self.process.kill()
            raise WorkerDied(f"no answer within {seconds:.0f} s")
        line = self.process.stdout.readline()
        if not line:
            raise WorkerDied(self.last_words())
        answer: dict[str, Any] = json.loads(line)
        return answer

    def ask(self, message: dict[str, Any]) -> float:
        """Seconds that a command took. Raises WorkerDied."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write((json.dumps(message) + "\n").encode())
            self.process.stdin.flush()
        except BrokenPipeError:
            raise WorkerDied(self.last_words()) from None
        return float(self.read(ANSWER_LIMIT)["seconds"])

    def last_words(self) -> str:
        """Why the process ended, in a line."""
        code = self.process.wait(timeout=30)
        self.log.seek(0)
        lines = self.log.read().decode(errors="replace").strip().splitlines()
        return f"the process died with {code}: {lines[-1] if lines else 'without a word'}"

    def close(self) -> None:
        """End the process."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            self.process.stdin.close()
            self.process.wait(timeout=30)
        except (BrokenPipeError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        self.log.close()


def worker_command(case: str, contender: str, threads: int, *, rounds: bool = False) -> list[str]:
    """What starts a worker for a case; ``rounds`` as ``worker.prepare`` takes it."""
    spec = json.dumps({"case": case, "contender": contender, "threads": threads, "rounds": rounds})
    return [sys.executable, "-m", f"{__package__}.worker", spec]


def measure(
    case: Case, contenders: Sequence[str], threads: int, rounds: int, seconds: float
) -> list[Way]:
    """Time all ways of all contenders of a case, interleaved; each round lasts about ``seconds`` a
    way."""
    workers = {c: Worker(worker_command(case.name, c, threads), threads) for c in contenders}
    try:
        return measure_workers(workers, rounds, seconds)
    finally:
        for worker in workers.values():
            worker.close()


def measure_workers(workers: dict[str, Worker], rounds: int, seconds: float) -> list[Way]:
    """``measure`` of workers that are being prepared."""
    ways = [way for c, worker in workers.items() for way in ready(c, worker)]
    running = [way for way in ways if not way.error]
    for way in running:  # warm up, and find how many calls fill a round
        count, elapsed = 1, timed(workers, way, 1)
        while not way.error and elapsed < seconds / 4:
            count *= 2
            elapsed = timed(workers, way, count)
        way.calls = max(1, round(count * seconds / max(elapsed, 1e-9)))
    for turn in range(rounds):
        first = turn % max(len(running), 1)
        for way in running[first:] + running[:first]:
            elapsed = timed(workers, way, way.calls)
            if not way.error:
                way.times.append(elapsed / way.calls)
    return ways


def ready(contender: str, worker: Worker) -> list[Way]:
    """The ways of a contender, once all are prepared or have failed."""
    try:
        answer = worker.read(PREPARE_LIMIT)
    except WorkerDied as death:
        return [Way(contender, "plain", error=str(death))]
    return [Way(contender, name, **report) for name, report in answer["ways"].items()]


def timed(workers: dict[str, Worker], way: Way, calls: int) -> float:
    """Seconds of so many calls; a way that dies has an error and no times from then on."""
    if way.error:
        return 0.0
    try:
        return workers[way.contender].ask({"way": way.name, "calls": calls})
    except WorkerDied as death:
        way.error = str(death)
        way.times.clear()
        return 0.0
