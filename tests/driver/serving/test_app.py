"""The application, through an HTTP client in the same process, against a saved model."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import burnish
from burnish.driver.serving.served import BatchOptions
from burnish.support.errors import ArgumentError

httpx = pytest.importorskip("httpx")
pytest.importorskip("starlette")
from burnish.driver.serving.app import Limits, Server  # noqa: E402

Use = Callable[[httpx.AsyncClient, Server], Awaitable[None]]


@pytest.fixture(scope="module")
def path(dynamic: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("serving") / "m.burnish"
    dynamic.save(file)
    return file


@pytest.fixture(scope="module")
def images(path: Path) -> np.ndarray:
    shape = [int(text) for text in burnish.load(path).inputs[0][1][1:]]
    return np.random.default_rng(0).standard_normal((6, *shape)).astype(np.float32)


@asynccontextmanager
async def served(path: Path, **options: Any) -> AsyncIterator[tuple[httpx.AsyncClient, Server]]:
    server = Server({"m": path}, threads=1, **options)
    app = server.app()
    transport = httpx.ASGITransport(app)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://test") as client,
    ):
        yield client, server


def drive(path: Path, use: Use, **options: Any) -> None:
    async def main() -> None:
        async with served(path, **options) as (client, server):
            await use(client, server)

    asyncio.run(main())


def binary(path: Path, x: np.ndarray) -> dict[str, Any]:
    """A request with binary tensors both ways."""
    size = {"binary_data_size": x.nbytes}
    name = burnish.load(path).inputs[0][0]
    item = {"name": name, "datatype": "FP32", "shape": list(x.shape), "parameters": size}
    known = {"inputs": [item], "parameters": {"binary_data_output": True}}
    head = json.dumps(known).encode()
    headers = {"inference-header-content-length": str(len(head))}
    return {"content": head + x.tobytes(), "headers": headers}


def result(response: httpx.Response) -> np.ndarray:
    assert response.status_code == 200, response.text
    length = int(response.headers["inference-header-content-length"])
    (item,) = json.loads(response.content[:length])["outputs"]
    return np.frombuffer(response.content[length:], np.float32).reshape(item["shape"])


INFER = "/v2/models/m/infer"
KEEPS = BatchOptions(max_rows=32, wait=600)
"""Requests wait until the test has seen what it wants to see: ``answer_waiting`` ends that."""


async def answer_waiting(server: Server, count: int, asked: Sequence[asyncio.Task[Any]]) -> None:
    """Have the model answer what waits, by exchanging it, once that is all of the requests that
    were ``asked`` but those that were refused: ``count`` of them."""
    async with asyncio.timeout(100):
        while sum(map(len, server.models["m"]._batcher._groups.values())) < count or (
            sum(not task.done() for task in asked) > count
        ):
            await asyncio.sleep(0.001)
    await server.models.load("m")


def test_health_metadata_and_metrics(path: Path) -> None:
    async def use(client: httpx.AsyncClient, server: Server) -> None:
        known = (await client.get("/v2")).json()
        assert known["name"] == "burnish"
        for place in ("/v2/health/live", "/v2/health/ready", "/v2/models/m/ready"):
            assert (await client.get(place)).status_code == 200
        model = (await client.get("/v2/models/m")).json()
        assert model["inputs"][0]["shape"][0] == -1
        assert model["outputs"][0]["datatype"] == "FP32"
        for place in ("/v2/models/q", "/v2/models/q/ready"):
            response = await client.get(place)
            assert response.status_code == 404
            assert "there are m" in response.json()["error"]
        assert (await client.get(INFER)).status_code == 405
        assert "burnish_requests_in_flight 0" in (await client.get("/metrics")).text

    drive(path, use)


def test_json_and_binary_give_the_bits_of_a_call(path: Path, images: np.ndarray) -> None:
    expected = burnish.load(path, threads=1)(images)
    name = burnish.load(path).inputs[0][0]

    async def use(client: httpx.AsyncClient, server: Server) -> None:
        np.testing.assert_array_equal(
            result(await client.post(INFER, **binary(path, images))), expected
        )
        item = {"name": name, "datatype": "FP32", "shape": list(images.shape)}
        item["data"] = images.tolist()
        response = await client.post(INFER, json={"id": "7", "inputs": [item]})
        known = response.json()
        assert (known["id"], known["model_name"]) == ("7", "m")
        (output,) = known["outputs"]
        found = np.array(output["data"], np.float32).reshape(output["shape"])
        np.testing.assert_array_equal(found, expected)

    drive(path, use)


def test_a_batch_gives_the_bits_of_single_calls(path: Path, images: np.ndarray) -> None:
    model = burnish.load(path, threads=1)

    async def use(client: httpx.AsyncClient, server: Server) -> None:
        asked = [client.post(INFER, **binary(path, images[i : i + 1])) for i in range(6)]
        for i, response in enumerate(await asyncio.gather(*asked)):
            np.testing.assert_array_equal(result(response), model(images[i : i + 1]))
        text = (await client.get("/metrics")).text
        assert 'burnish_batch_rows_count{model="m"} 1' in text
        assert 'burnish_batch_rows_sum{model="m"} 6.0' in text

    drive(path, use, options=BatchOptions(max_rows=6, wait=60))


def test_overload_is_refused_and_what_was_counted_is_given_back(
    path: Path, images: np.ndarray
) -> None:
    request = binary(path, images[:1])

    async def use(client: httpx.AsyncClient, server: Server) -> None:
        asked = [asyncio.create_task(client.post(INFER, **request)) for _ in range(20)]
        await answer_waiting(server, 3, asked)
        responses = await asyncio.gather(*asked)
        codes = sorted(r.status_code for r in responses)
        assert codes == [200] * 3 + [429] * 17
        refused = next(r for r in responses if r.status_code == 429)
        assert refused.headers["retry-after"] == "1"
        text = (await client.get("/metrics")).text
        assert 'status="429"} 17' in text
        assert "burnish_requests_in_flight 0" in text
        assert "burnish_bytes_in_flight 0" in text

    drive(path, use, limits=Limits(requests=3), options=KEEPS)


def test_bytes_in_flight_and_of_one_request(path: Path, images: np.ndarray) -> None:
    request = binary(path, images[:1])
    size = len(request["content"])

    async def use(client: httpx.AsyncClient, server: Server) -> None:
        asked = [asyncio.create_task(client.post(INFER, **request)) for _ in range(5)]
        await answer_waiting(server, 2, asked)
        responses = await asyncio.gather(*asked)
        assert sorted(r.status_code for r in responses) == [200, 200, 503, 503, 503]
        assert (await client.post(INFER, **binary(path, images))).status_code == 413

        async def chunks() -> AsyncIterator[bytes]:
            for _ in range(100):
                yield bytes(size)

        assert (await client.post(INFER, content=chunks())).status_code == 413
        last = asyncio.create_task(client.post(INFER, **request))
        await answer_waiting(server, 1, [last])
        assert (await last).status_code == 200
        assert "burnish_bytes_in_flight 0" in (await client.get("/metrics")).text

    limits = Limits(request_bytes=size + 10, total_bytes=2 * size + 10)
    drive(path, use, limits=limits, options=KEEPS)


def test_a_request_that_waits_too_long(path: Path, images: np.ndarray) -> None:
    async def use(client: httpx.AsyncClient, server: Server) -> None:
        response = await client.post(INFER, **binary(path, images[:1]))
        assert response.status_code == 504
        assert "burnish_requests_in_flight 0" in (await client.get("/metrics")).text

    drive(path, use, limits=Limits(seconds=0.05), options=KEEPS)


def test_bad_requests_are_told(path: Path, images: np.ndarray) -> None:
    async def use(client: httpx.AsyncClient, server: Server) -> None:
        response = await client.post(INFER, content=b"{")
        assert response.status_code == 400
        assert "no JSON" in response.json()["error"]
        response = await client.post(INFER, **binary(path, images[:, :, :1]))
        assert response.status_code == 400
        assert "expected shape" in response.json()["error"]
        response = await client.post(INFER, content=b"x", headers={"content-encoding": "gzip"})
        assert response.status_code == 400
        assert (await client.post("/v2/models/q/infer", content=b"{}")).status_code == 404
        assert 'model="q"' not in (await client.get("/metrics")).text

    drive(path, use)


def test_reloading_while_requests_run_loses_none(path: Path, images: np.ndarray) -> None:
    async def use(client: httpx.AsyncClient, server: Server) -> None:
        first = server.models["m"]
        asked = [client.post(INFER, **binary(path, images[:1])) for _ in range(20)]
        load = client.post("/v2/repository/models/m/load")
        *answers, loaded = await asyncio.gather(*asked, load)
        assert {r.status_code for r in (*answers, loaded)} == {200}
        second = server.models["m"]
        assert second is not first
        os.kill(os.getpid(), signal.SIGHUP)
        while server.models["m"] is second:
            await asyncio.sleep(0.001)
        assert (await client.post(INFER, **binary(path, images[:1]))).status_code == 200
        assert (await client.post("/v2/repository/models/q/load")).status_code == 404

    drive(path, use)


def test_limits_are_checked() -> None:
    with pytest.raises(ArgumentError, match="greater than 0"):
        Limits(requests=0)
