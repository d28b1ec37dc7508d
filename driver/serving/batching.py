"""Dynamic batching: requests whose other sizes are equal run together, and each gets its rows.

A ``Batcher`` belongs to one model and runs one call at a time in a thread of its own, which the
interpreter's lock does not hold. While a call runs, requests gather; one that is alone waits at
most ``wait`` seconds. A call that fails is repeated for each of its requests alone, so that one
request's fault is never another's.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from ...support.errors import BurnishError

Arrays = tuple[np.ndarray, ...]
Run = Callable[[Arrays], Arrays]
Key = tuple[tuple[int, ...], ...]


@dataclass(eq=False)
class _Waiting:
    arrays: Arrays
    rows: int
    until: float
    answer: asyncio.Future[Arrays]


class Batcher:
    """Runs requests; ``max_rows`` is the limit of a batch, 1 where the model joins none."""

    def __init__(
        self, run: Run, *, max_rows: int, wait: float, seen: Callable[[int], None] = lambda n: None
    ) -> None:
        self._run, self._max_rows, self._wait, self._seen = run, max_rows, wait, seen
        self._groups: dict[Key, list[_Waiting]] = {}
        self._news = asyncio.Event()
        self._closing = False
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="burnish-serve")
        self._task = asyncio.get_running_loop().create_task(self._work())

    async def submit(self, arrays: Arrays) -> Arrays:
        """The outputs for these inputs. Raises what the model raises for them."""
        joins = self._max_rows > 1
        answer: asyncio.Future[Arrays] = asyncio.get_running_loop().create_future()
        until = time.monotonic() + (self._wait if joins else 0.0)
        rows = arrays[0].shape[0] if joins else 1
        self._groups.setdefault(self._key(arrays), []).append(_Waiting(arrays, rows, until, answer))
        self._news.set()
        return await answer

    def _key(self, arrays: Arrays) -> Key:
        """What requests have in common that run together: all sizes but that of the batch."""
        return tuple([a.shape[1:] if self._max_rows > 1 else a.shape for a in arrays])

    async def close(self) -> None:
        """Answer what waits, then end."""
        self._closing = True
        self._news.set()
        await self._task
        self._thread.shutdown()

    async def _work(self) -> None:
        while True:
            self._news.clear()
            batch = self._take(time.monotonic())
            if batch:
                self._seen(sum(w.rows for w in batch))
                await self._answer(batch)
                continue
            if self._closing and not self._groups:
                return
            ends = [group[0].until for group in self._groups.values()]
            pause = max(0.0, min(ends) - time.monotonic()) if ends else None
            with suppress(TimeoutError):
                await asyncio.wait_for(self._news.wait(), pause)

    def _take(self, now: float) -> list[_Waiting]:
        """The requests to run now: of the groups that are full or whose time has come, that which
        waits longest."""
        best: Key | None = None
        for key, group in list(self._groups.items()):
            group[:] = [w for w in group if not w.answer.done()]
            if not group:
                del self._groups[key]
                continue
            full = sum(w.rows for w in group) >= self._max_rows
            if (full or self._closing or group[0].until <= now) and (
                best is None or group[0].until < self._groups[best][0].until
            ):
                best = key
        if best is None:
            return []
        group, count, rows = self._groups[best], 0, 0
        while count < len(group) and (not count or rows + group[count].rows <= self._max_rows):
            rows += group[count].rows
            count += 1
        taken, self._groups[best] = group[:count], group[count:]
        return taken

    async def _answer(self, batch: Sequence[_Waiting]) -> None:
        loop = asyncio.get_running_loop()
        try:
            results = await loop.run_in_executor(self._thread, self._together, batch)
        except (BurnishError, MemoryError) as error:
            if len(batch) > 1:
                for one in batch:
                    await self._answer([one])
            elif not batch[0].answer.done():
                batch[0].answer.set_exception(error)
            return
        except BaseException as error:
            # A defect must not leave its requests, and those to come, without an answer.
            for one in batch:
                if not one.answer.done():
                    one.answer.set_exception(error)
            return
        for one, result in zip(batch, results, strict=True):
            if not one.answer.done():
                one.answer.set_result(result)

    def _together(self, batch: Sequence[_Waiting]) -> list[Arrays]:
        if len(batch) == 1:
            return [self._run(batch[0].arrays)]
        columns = zip(*[w.arrays for w in batch], strict=True)
        outputs = self._run(tuple([np.concatenate(column) for column in columns]))
        ends = np.cumsum([w.rows for w in batch])[:-1]
        parts = [np.split(output, ends) for output in outputs]
        return [tuple([part[i] for part in parts]) for i in range(len(batch))]


__all__ = ["Arrays", "Batcher"]
