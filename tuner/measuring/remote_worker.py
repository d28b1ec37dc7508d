"""``burnish worker --connect ADDRESS``: this machine builds and times candidates for others.

The process is a dask worker with the tags of ``remote``; it serves until it is told to end. Jobs
run in worker processes below it.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress

from ...support.errors import TuningError
from .remote import CONNECT_SECONDS, import_distributed, worker_tags


def serve_cluster(address: str, *, builders: int | None = None, runners: int = 1) -> None:
    """Serve the scheduler at an address. By default one candidate is timed at once, and as many
    built as there are CPUs beside that. Raises TuningError where dask is not installed, or no
    scheduler answers."""
    distributed = import_distributed()
    if builders is None:
        builders = max(1, len(os.sched_getaffinity(0)) - runners)
    tags = worker_tags(builders, runners)

    async def serve() -> None:
        async with distributed.Worker(
            address,
            nthreads=builders + runners,
            resources=tags,
            death_timeout=CONNECT_SECONDS,
            dashboard=False,
            memory_limit=0,
        ) as worker:
            print(f"burnish worker at {worker.address}: {sorted(tags)}", flush=True)
            await worker.finished()

    try:
        with suppress(KeyboardInterrupt):
            asyncio.run(serve())
    except (OSError, ValueError, TimeoutError, RuntimeError) as error:
        # distributed wraps what is wrong with an address in a RuntimeError of no words.
        problem = (str(error.__cause__ or "") or str(error)).rstrip(".")
        raise TuningError(
            f"No dask scheduler answers at {address!r}: {problem}. Start one with `dask "
            "scheduler`, which prints its address, such as tcp://host:8786."
        ) from error


__all__ = ["serve_cluster"]
