"""``burnish worker --connect``: what it refuses. That it works is in test_remote."""

from __future__ import annotations

import sys

import pytest

from burnish.driver.cli import main
from burnish.support.errors import TuningError
from burnish.tuner.measuring import remote_worker
from burnish.tuner.measuring.remote_worker import serve_cluster


def test_without_dask_the_extra_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    assert main(["worker", "--connect", "tcp://127.0.0.1:1"]) == 2
    assert "pip install 'burnish[distributed]'" in capsys.readouterr().err


def test_where_no_scheduler_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr(remote_worker, "CONNECT_SECONDS", 1.0)
    with pytest.raises(TuningError, match="No dask scheduler answers at 'tcp://127"):
        serve_cluster("tcp://127.0.0.1:1")
    with pytest.raises(TuningError, match="builds or times at least one"):
        serve_cluster("tcp://127.0.0.1:1", builders=0, runners=0)
