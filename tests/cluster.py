"""A dask scheduler and machines of it, which are processes here."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def running_scheduler() -> Iterator[str]:
    """A scheduler on a free port of this machine; its address."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    command = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1"]
    process = subprocess.Popen(
        [*command, "--port", str(port), "--no-dashboard"], stderr=subprocess.DEVNULL
    )
    try:
        yield f"tcp://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


@contextmanager
def running_machines(address: str, count: int) -> Iterator[list[subprocess.Popen[str]]]:
    """So many ``burnish worker`` that know the scheduler, each building one candidate at a time."""
    machines: list[subprocess.Popen[str]] = []
    try:
        for _ in range(count):
            machines.append(_start_machine(address))
        yield machines
    finally:
        for machine in machines:
            machine.kill()
            machine.wait()
            assert machine.stdout is not None
            machine.stdout.close()


def _start_machine(address: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-m", "burnish", "worker", "--connect", address, "--builders", "1"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    assert "burnish worker at tcp://" in process.stdout.readline()
    return process
