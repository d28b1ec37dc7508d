"""ReferencePool: a worker pool that runs each unscheduled function once.

Every session begins by running its workload unscheduled, to have something to compare with. Where
many short sessions take turns (``task_scheduler``) that would be most of the time: this pool keeps
the files and gives a later session a link to the first one's.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Collection
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ...support.worker_pool import WorkerPool, job_name
from .measure import save_reference


class ReferencePool(WorkerPool):
    """A WorkerPool that answers a ``save_reference`` it has answered before from what it kept."""

    def __init__(
        self, workers: int = 1, *, limit: float = 30.0, cpus: Collection[int] = ()
    ) -> None:
        super().__init__(workers, limit=limit, cpus=cpus)
        self._folder = TemporaryDirectory(prefix="burnish-references-")
        self._kept: dict[tuple[Any, ...], str] = {}

    def submit_within(
        self, limit: float, fn: Callable[..., Any] | str, /, *args: Any, **kwargs: Any
    ) -> Future[Any]:
        if job_name(fn) != job_name(save_reference):
            return super().submit_within(limit, fn, *args, **kwargs)
        path = kwargs["path"]
        key = tuple(sorted([(k, v) for k, v in kwargs.items() if k != "path"]))
        kept = self._kept.get(key)
        if kept is not None:
            _link(kept, path)
            done: Future[Any] = Future()
            done.set_result(None)
            return done
        future = super().submit_within(limit, fn, *args, **kwargs)

        def keep(answered: Future[Any]) -> None:
            if answered.cancelled() or answered.exception() is not None:
                return
            place = str(Path(self._folder.name) / f"{len(self._kept)}.npz")
            # The session, or the pool, may be over by now: then there is nothing to keep.
            with suppress(OSError):
                _link(path, place)
                self._kept[key] = place

        future.add_done_callback(keep)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        super().shutdown(wait, cancel_futures=cancel_futures)
        self._folder.cleanup()

    def kill(self) -> None:
        super().kill()
        self._folder.cleanup()


def _link(source: str, target: str) -> None:
    """The same file under a second name; a copy where the file system has no links."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)
