"""A reference is computed once, whoever asks for it."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from burnish.support.worker_pool import WorkerPool
from burnish.tuner.measuring import measure
from burnish.tuner.measuring.reference_pool import ReferencePool


@pytest.fixture
def jobs(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Jobs run here: a reference is a file with the workload's text."""
    ran: list[dict[str, Any]] = []

    def submit_within(
        self: WorkerPool, limit: float, fn: Callable[..., Any], /, **kwargs: Any
    ) -> Future[Any]:
        ran.append(kwargs)
        future: Future[Any] = Future()
        if kwargs.get("text") == "bad":
            future.set_exception(ValueError("bad"))
        else:
            if "path" in kwargs:
                Path(kwargs["path"]).write_text(kwargs["text"])
            future.set_result("done")
        return future

    monkeypatch.setattr(WorkerPool, "submit_within", submit_within)
    return ran


def ask(pool: ReferencePool, path: Path, text: str = "f", seed: int = 0) -> Future[Any]:
    return pool.submit_within(
        1.0, measure.save_reference, text=text, target="t", seed=seed, path=str(path)
    )


def test_a_reference_is_made_once(tmp_path: Path, jobs: list[dict[str, Any]]) -> None:
    with ReferencePool() as pool:
        ask(pool, tmp_path / "one")
        (tmp_path / "one").unlink()  # a session takes its folder with it
        assert ask(pool, tmp_path / "two").result() is None
        assert (tmp_path / "two").read_text() == "f"
        ask(pool, tmp_path / "three", text="g")
        ask(pool, tmp_path / "four", seed=1)
        assert len(jobs) == 3
        folder = Path(pool._folder.name)
        assert len(list(folder.iterdir())) == 3
    assert not folder.exists()


def test_failures_are_not_kept(tmp_path: Path, jobs: list[dict[str, Any]]) -> None:
    with ReferencePool() as pool:
        for _ in range(2):
            assert ask(pool, tmp_path / "x", text="bad").exception() is not None
    assert len(jobs) == 2


def test_other_jobs_pass_through(jobs: list[dict[str, Any]]) -> None:
    pool = ReferencePool()
    pool.submit(measure.measure_candidate, text="f")
    pool.submit(measure.measure_candidate, text="f")
    assert len(jobs) == 2
    pool.kill()
