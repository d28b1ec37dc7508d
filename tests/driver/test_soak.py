"""Many callers and many calls: the bits of one caller, and no memory that stays behind."""

from __future__ import annotations

import asyncio
import gc
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import burnish

CALLERS = 32
SIZES = (1, 2, 3, 7, 16, 33)


@pytest.fixture(scope="module")
def varying() -> Any:
    """A model of any number of rows, large enough for two threads of its own."""
    torch.manual_seed(0)
    layers = [nn.Linear(48, 96), nn.GELU(), nn.LayerNorm(96), nn.Linear(96, 10), nn.Softmax(-1)]
    net = nn.Sequential(*layers).eval()
    return burnish.compile(net, (torch.rand(4, 48),), dynamic_shapes=({0: "rows"},), threads=2)


@pytest.fixture(scope="module", params=["compiled", "loaded"])
def model(varying: Any, request: pytest.FixtureRequest, tmp_path_factory: Any) -> Any:
    if request.param == "compiled":
        return varying
    path = tmp_path_factory.mktemp("soak") / "m.burnish"
    return burnish.load(varying.save(path).path, threads=2)


def inputs() -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.random((n, 48), np.float32) for n in SIZES]


def test_many_threads_at_once_get_the_bits_of_one(model: Any) -> None:
    given = inputs()
    wanted = [model(x).tobytes() for x in given]
    start, wrong = threading.Barrier(CALLERS), []

    def call(caller: int) -> None:
        start.wait(60)
        for i in range(60):
            n = (caller + i) % len(given)
            x = given[n]
            y = model(torch.from_numpy(x)).numpy() if caller % 2 else model(x)
            if y.tobytes() != wanted[n]:
                wrong.append((caller, i))

    with ThreadPoolExecutor(CALLERS) as pool:
        for done in [pool.submit(call, n) for n in range(CALLERS)]:
            done.result()
    assert wrong == []


def test_signatures_that_many_threads_ask_for_are_compiled_once() -> None:
    torch.manual_seed(0)
    net = nn.Linear(6, 3).eval()
    lazy = burnish.compile(net, threads=1)
    start = threading.Barrier(8)

    def call(caller: int) -> torch.Tensor:
        start.wait(60)
        return lazy(torch.ones(1 + caller % 2, 6))

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(call, range(8)))
    assert lazy.compilations == 2
    for n, y in enumerate(found):
        assert torch.equal(y, found[n % 2])


def test_memory_is_flat_over_calls_of_changing_shapes(model: Any) -> None:
    rng = np.random.default_rng(1)
    data = rng.random((200, 48), np.float32)

    def calls(count: int) -> None:
        for i in range(count):
            x = data[: 1 + i * 37 % 199]
            model(torch.from_numpy(x) if i % 3 == 0 else x)

    def growth() -> int:
        gc.collect()
        before = resident()
        calls(10_000)
        gc.collect()
        return resident() - before

    calls(2000)
    # What is left behind makes each round grow; what else this process touches anew, a few.
    assert any(growth() < 4 << 20 for _ in range(4))


def test_asyncio(model: Any) -> None:
    given = inputs()
    wanted = [model(x) for x in given]

    async def serve() -> list[np.ndarray]:
        return await asyncio.gather(*[asyncio.to_thread(model, x) for x in given])

    for y, expected in zip(asyncio.run(serve()), wanted, strict=True):
        np.testing.assert_array_equal(y, expected)


def resident() -> int:
    """Bytes of this process's memory."""
    line = next(x for x in Path("/proc/self/status").read_text().splitlines() if "VmRSS" in x)
    return int(line.split()[1]) * 1024
