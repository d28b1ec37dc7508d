"""``burnish serve``: saved models over HTTP, until it is told to end."""

from __future__ import annotations

import argparse
import errno
import math
import signal
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from ..support.errors import ArgumentError, MissingExtraError


def run_serve(options: argparse.Namespace) -> int:
    """Serve. SIGTERM ends it with status 0, when what is in flight has been answered.

    Raises MissingExtraError without starlette and uvicorn, ArgumentError for bad limits or names
    and where nothing can listen, and as ``burnish.load`` does; all of it before there is a server.
    """
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
    listening = bound_sockets(options.host, options.port)
    running = uvicorn.Server(
        uvicorn.Config(
            server.app(),
            options.host,
            options.port,
            access_log=False,
            log_level="warning",
            # No request outlives its own limit, so that what is cut off here is a client that
            # does not read its answer.
            timeout_graceful_shutdown=math.ceil(options.timeout) + 1,
        )
    )
    # uvicorn takes the signal while it runs, and raises it again when it has drained.
    before = signal.signal(signal.SIGTERM, _end)
    try:
        server.models.prepare()
        for each in listening:
            each.listen(_BACKLOG)
        names = ", ".join(server.models.names)
        print(
            f"burnish: serving {names} at {_address(options.host, listening[0])}; Ctrl-C ends it",
            file=sys.stderr,
            flush=True,
        )
        running.run(sockets=listening)
    finally:
        signal.signal(signal.SIGTERM, before)
        for each in listening:
            each.close()
    return 0 if running.started else 2


def _end(signum: int, frame: FrameType | None) -> None:
    raise SystemExit(0)


def bound_sockets(host: str, port: int) -> list[socket.socket]:
    """Sockets for every address of a host; 0 is any free port, the same for all. Raises
    ArgumentError where there is none."""
    found: list[socket.socket] = []
    try:
        for family, kind, protocol, _, address in socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        ):
            one = socket.socket(family, kind, protocol)
            found.append(one)
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            one.bind((address[0], port or found[0].getsockname()[1], *address[2:]))
    except (OSError, UnicodeError) as error:
        for one in found:
            one.close()
        number = error.errno if isinstance(error, OSError) else None
        raise ArgumentError(
            f"nothing can listen at --host {host} --port {port}: "
            f"{getattr(error, 'strerror', None) or error}. {_ADVICE.get(number, _OTHER_HOST)}"
        ) from error
    return found


def _address(host: str, listening: socket.socket) -> str:
    port = listening.getsockname()[1]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


_BACKLOG = 2048
"""Connections that may wait."""
_OTHER_HOST = "Give an address of this machine: 127.0.0.1, or 0.0.0.0 for all of them."
_ADVICE: dict[int | None, str] = {
    errno.EADDRINUSE: "Something else listens there: end it, or give another port, 0 for any that "
    "is free.",
    errno.EACCES: "Ports below 1024 are the system's: give another one.",
}


def model_paths(given: Sequence[str]) -> dict[str, Path]:
    """Files by the names they are served under: ``NAME=FILE``, or the file's own name without its
    ending. Raises ArgumentError for a name twice or one that no URL has."""
    found: dict[str, Path] = {}
    for text in given:
        name, separator, path = text.partition("=")
        if not separator:
            name, path = Path(text).stem, text
        if not name or not path or "/" in name:
            raise ArgumentError(f"{text!r}: expected FILE or NAME=FILE, without / in the name.")
        if name in found:
            raise ArgumentError(
                f"two models are called {name!r}: name them, {name}-1={found[name]} and so on."
            )
        found[name] = Path(path)
    return found


__all__ = ["bound_sockets", "model_paths", "run_serve"]
