"""A dask scheduler and machines of it, which are processes here."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory


@contextmanager
def running_scheduler() -> Iterator[str]:
    """A scheduler on a port of this machine that it finds free itself; its address."""
    command = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1"]
    with TemporaryDirectory() as folder:
        file = Path(folder) / "scheduler.json"
        process = subprocess.Popen(
            [*command, "--port", "0", "--no-dashboard", "--scheduler-file", str(file)],
            stderr=subprocess.DEVNULL,
        )
        try:
            yield _address(file, process)
        finally:
            process.kill()
            process.wait()


def _address(file: Path, process: subprocess.Popen[bytes]) -> str:
    """The scheduler's, as it writes it down."""
    deadline = time.monotonic() + 120
    while process.poll() is None and time.monotonic() < deadline:
        with suppress(FileNotFoundError, ValueError):  # not there yet, or half of it
            return str(json.loads(file.read_text())["address"])
        time.sleep(0.02)
    raise AssertionError("the scheduler does not say where it is")


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
