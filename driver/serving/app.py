"""The ASGI application: routes, limits and timeouts. What requests mean is in ``protocol``."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from ...support.errors import ArgumentError, BurnishError, RequestError
from .metrics import Metrics
from .protocol import format_response, parse_request
from .served import BatchOptions, Repository

_HEADER = "inference-header-content-length"


@dataclass(frozen=True)
class Limits:
    """Requests in flight, bytes of one request and of all in flight, seconds of a request."""

    requests: int = 256
    request_bytes: int = 64_000_000
    total_bytes: int = 512_000_000
    seconds: float = 30.0

    def __post_init__(self) -> None:
        if min(self.requests, self.request_bytes, self.total_bytes, self.seconds) <= 0:
            raise ArgumentError(f"limits are greater than 0; found {self}.")


class Server:
    """What the routes share. Lives within one event loop."""

    def __init__(
        self,
        paths: Mapping[str, Path],
        *,
        threads: int | None = None,
        limits: Limits | None = None,
        options: BatchOptions | None = None,
    ) -> None:
        self.limits, self.metrics = limits or Limits(), Metrics()
        self.models = Repository(
            paths,
            threads=threads,
            options=options,
            seen=lambda name, rows: self.metrics.rows[name].add(rows),
        )
        self.is_ready = False
        self._requests = self._bytes = 0
        self._reload: asyncio.Task[None] | None = None

    def app(self) -> Starlette:
        """The application."""
        name, post = "/v2/models/{name}", ["POST"]
        return Starlette(
            lifespan=self._lifespan,
            routes=[
                Route("/v2", _answered(self._about)),
                Route("/v2/health/live", _answered(self._live)),
                Route("/v2/health/ready", _answered(self._ready)),
                Route(name, _answered(self._model)),
                Route(f"{name}/ready", _answered(self._model_ready)),
                Route(f"{name}/infer", _answered(self._infer), methods=post),
                Route("/v2/repository/models/{name}/load", _answered(self._load), methods=post),
                Route("/metrics", _answered(self._metrics)),
            ],
        )

    @asynccontextmanager
    async def _lifespan(self, app: Starlette) -> AsyncIterator[None]:
        await self.models.load_all()
        self.is_ready = True
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGHUP, self._begin_reload)
        try:
            yield
        finally:
            loop.remove_signal_handler(signal.SIGHUP)
            self.is_ready = False
            await self.models.close()

    def _begin_reload(self) -> None:
        if self._reload is None or self._reload.done():
            self._reload = asyncio.get_running_loop().create_task(self._reload_all())

    async def _reload_all(self) -> None:
        for name in self.models.names:
            try:
                await self.models.load(name)
            except (BurnishError, OSError) as error:
                print(f"burnish: {name} stays as it was: {error}", file=sys.stderr, flush=True)

    async def _about(self, request: Request) -> Response:
        known = {"name": "burnish", "version": metadata.version("burnish")}
        return JSONResponse(known | {"extensions": ["binary_tensor_data", "model_repository"]})

    async def _live(self, request: Request) -> Response:
        return JSONResponse({"live": True})

    async def _ready(self, request: Request) -> Response:
        return JSONResponse({"ready": self.is_ready}, 200 if self.is_ready else 503)

    async def _model(self, request: Request) -> Response:
        model = self.models[request.path_params["name"]]
        return JSONResponse(
            {
                "name": model.name,
                "versions": ["1"],
                "platform": "burnish",
                "inputs": [form.describe() for form in model.inputs],
                "outputs": [form.describe() for form in model.outputs],
            }
        )

    async def _model_ready(self, request: Request) -> Response:
        model = self.models[request.path_params["name"]]
        return JSONResponse({"name": model.name, "ready": True})

    async def _load(self, request: Request) -> Response:
        name = request.path_params["name"]
        await self.models.load(name)
        return JSONResponse({"name": name, "state": "READY"})

    async def _metrics(self, request: Request) -> Response:
        text = self.metrics.text(self._requests, self._bytes)
        return Response(text, media_type="text/plain; version=0.0.4")

    async def _infer(self, request: Request) -> Response:
        name = self.models[request.path_params["name"]].name
        start, status = time.monotonic(), 500
        try:
            response = await self._limited(request, name)
            status = response.status_code
        except RequestError as error:
            status = error.status
            raise
        except BurnishError:
            status = 400
            raise
        else:
            return response
        finally:
            self.metrics.requests[name, status] += 1
            self.metrics.seconds[name].add(time.monotonic() - start)

    async def _limited(self, request: Request, name: str) -> Response:
        """The answer within the limits; what was counted is given back however it ends."""
        if self._requests >= self.limits.requests:
            raise RequestError(
                f"{self._requests} requests are in flight, the limit: try again later.", status=429
            )
        self._requests += 1
        held = _Held(self)
        try:
            async with asyncio.timeout(self.limits.seconds):
                return await self._answer(request, name, held)
        except TimeoutError:
            raise RequestError(
                f"no answer within the limit of {self.limits.seconds} s.", status=504
            ) from None
        finally:
            self._requests -= 1
            held.release()

    async def _answer(self, request: Request, name: str, held: _Held) -> Response:
        body = await self._body(request, held)
        model = self.models[name]
        asked = parse_request(body, request.headers.get(_HEADER), model.inputs, model.outputs)
        del body
        results = await model.infer(asked.arrays)
        content, headers = format_response(name, asked, results, model.outputs)
        return Response(content, headers=headers)

    async def _body(self, request: Request, held: _Held) -> bytes:
        if request.headers.get("content-encoding", "identity") != "identity":
            raise RequestError("bodies are read uncompressed: send none of a content-encoding.")
        told = request.headers.get("content-length", "0")
        if told.isascii() and told.isdecimal():
            self._check_size(int(told))
        chunks, size = [], 0
        try:
            async for chunk in request.stream():
                size += len(chunk)
                self._check_size(size)
                held.take(len(chunk))
                chunks.append(chunk)
        except ClientDisconnect:
            raise RequestError("the client went away before its request was read.") from None
        return b"".join(chunks)

    def _check_size(self, size: int) -> None:
        if size > self.limits.request_bytes:
            raise RequestError(
                f"a request has at most {self.limits.request_bytes} bytes here.", status=413
            )

    def take(self, count: int) -> None:
        """Count bytes as in flight; raises RequestError (503) beyond the limit."""
        if self._bytes + count > self.limits.total_bytes:
            raise RequestError(
                f"requests in flight hold {self._bytes} bytes, and the limit is "
                f"{self.limits.total_bytes}: try again later.",
                status=503,
            )
        self._bytes += count

    def release(self, count: int) -> None:
        """Bytes are no longer in flight."""
        self._bytes -= count


class _Held:
    """The bytes of one request that are counted."""

    def __init__(self, server: Server) -> None:
        self._server, self._count = server, 0

    def take(self, count: int) -> None:
        self._server.take(count)
        self._count += count

    def release(self) -> None:
        self._server.release(self._count)
        self._count = 0


def _answered(
    handler: Callable[[Request], Awaitable[Response]],
) -> Callable[[Request], Awaitable[Response]]:
    """A handler whose errors are answers: our message, without a stack."""

    async def answer(request: Request) -> Response:
        try:
            return await handler(request)
        except RequestError as error:
            headers = {"retry-after": "1"} if error.status in (429, 503) else None
            return JSONResponse({"error": str(error)}, error.status, headers)
        except BurnishError as error:
            return JSONResponse({"error": str(error)}, 400)

    return answer


__all__ = ["Limits", "Server"]
