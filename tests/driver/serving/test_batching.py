"""Requests that run together: by their other sizes, up to the limit, each with its own rows."""

from __future__ import annotations

import asyncio
import threading

import numpy as np
import pytest

from burnish.driver.serving.batching import Arrays, Batcher
from burnish.support.errors import ArgumentError


def row(value: float, width: int = 2, rows: int = 1) -> Arrays:
    return (np.full((rows, width), value, np.float32),)


def test_requests_of_equal_sizes_run_together_and_get_their_rows() -> None:
    calls: list[tuple[int, ...]] = []

    def run(arrays: Arrays) -> Arrays:
        calls.append(arrays[0].shape)
        return (arrays[0] * 2,)

    async def main() -> list[Arrays]:
        batcher = Batcher(run, max_rows=4, wait=60)
        asked = [row(0), row(1, 3), row(2), row(3, rows=2), row(4), row(5, 3)]
        tasks = [asyncio.create_task(batcher.submit(a)) for a in asked]
        while len(calls) < 1:
            await asyncio.sleep(0.001)
        await batcher.close()
        return [await t for t in tasks]

    results = asyncio.run(main())
    assert sorted(calls) == [(1, 2), (2, 3), (4, 2)]
    expected = [row(0), row(2, 3), row(4), row(6, rows=2), row(8), row(10, 3)]
    for found, wanted in zip(results, expected, strict=True):
        np.testing.assert_array_equal(found[0], wanted[0])


def test_one_request_alone_is_answered_after_the_wait() -> None:
    async def main() -> Arrays:
        batcher = Batcher(lambda arrays: arrays, max_rows=8, wait=0.001)
        result = await batcher.submit(row(1))
        await batcher.close()
        return result

    np.testing.assert_array_equal(asyncio.run(main())[0], row(1)[0])


def test_a_fault_stays_with_its_request() -> None:
    def run(arrays: Arrays) -> Arrays:
        if (arrays[0] < 0).any():
            raise ArgumentError("negative")
        return arrays

    async def main() -> list[Arrays | BaseException]:
        batcher = Batcher(run, max_rows=3, wait=60)
        tasks = [batcher.submit(row(v)) for v in (1, -1, 2)]
        found = await asyncio.gather(*tasks, return_exceptions=True)
        await batcher.close()
        return found

    first, second, third = asyncio.run(main())
    assert isinstance(second, ArgumentError)
    assert not isinstance(first, BaseException)
    assert not isinstance(third, BaseException)


def test_a_defect_answers_and_the_next_request_runs() -> None:
    def run(arrays: Arrays) -> Arrays:
        if arrays[0][0, 0] == 0:
            raise ZeroDivisionError
        return arrays

    async def main() -> None:
        batcher = Batcher(run, max_rows=1, wait=0)
        with pytest.raises(ZeroDivisionError):
            await batcher.submit(row(0))
        await batcher.submit(row(1))
        await batcher.close()

    asyncio.run(main())


def test_a_request_that_was_given_up_does_not_run() -> None:
    calls: list[float] = []
    go = threading.Event()

    def run(arrays: Arrays) -> Arrays:
        calls.append(float(arrays[0][0, 0]))
        go.wait(30)
        return arrays

    async def main() -> None:
        batcher = Batcher(run, max_rows=1, wait=0)
        tasks = [asyncio.create_task(batcher.submit(row(v))) for v in (1, 2, 3)]
        while not calls:
            await asyncio.sleep(0.001)
        tasks[1].cancel()
        await asyncio.sleep(0)
        go.set()
        await asyncio.gather(tasks[0], tasks[2])
        await batcher.close()

    asyncio.run(main())
    assert calls == [1, 3]
