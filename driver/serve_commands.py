"""``burnish serve``: saved models over HTTP, until it is told to end."""

from __future__ import annotations

import argparse
import math
import signal
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from ..support.errors import ArgumentError, MissingExtraError


def run_serve(options: argparse.Namespace) -> int:
    """Serve. SIGTERM ends it with status 0, when what is in flight has been answered.

    Raises MissingExtraError without starlette and uvicorn, ArgumentError for bad limits or names,
    and as ``burnish.load`` does."""
    try:
        import uvicorn

        from .serving.app import Limits, Server
        from .serving.served import BatchOptions
    except ImportError as error:
        raise MissingExtraError(error.name or "starlette", "serve", "burnish serve") from error
    server = Server(
        model_paths(options.models),
        threads=options.threads,
        limits=Limits(
            options.max_requests,
            int(options.max_mb * 1e6),
            int(options.max_total_mb * 1e6),
            options.timeout,
        ),
        options=BatchOptions(options.batch, options.max_batch, options.batch_ms / 1e3),
    )
    running = uvicorn.Server(
        uvicorn.Config(
            server.app(),
            options.host,
            options.port,
            access_log=False,
            # No request outlives its own limit, so that what is cut off here is a client that
            # does not read its answer.
            timeout_graceful_shutdown=math.ceil(options.timeout) + 1,
        )
    )
    # uvicorn takes the signal while it runs, and raises it again when it has drained.
    before = signal.signal(signal.SIGTERM, _end)
    try:
        running.run()
    finally:
        signal.signal(signal.SIGTERM, before)
    return 0 if running.started else 2


def _end(signum: int, frame: FrameType | None) -> None:
    raise SystemExit(0)


def model_paths(given: Sequence[str]) -> dict[str, Path]:
    """Files by the names they are served under: ``NAME=FILE``, or the file's own name without its
    ending. Raises ArgumentError for a name twice or one that no URL has."""
    found: dict[str, Path] = {}
    for text in given:
        name, separator, path = text.partition("=")
        if not separator:
            name, path = Path(text).stem, text
        if not name or "/" in name:
            raise ArgumentError(f"{text!r}: expected FILE or NAME=FILE, without / in the name.")
        if name in found:
            raise ArgumentError(
                f"two models are called {name!r}: name them, {name}-1={found[name]} and so on."
            )
        found[name] = Path(path)
    return found


__all__ = ["model_paths", "run_serve"]
