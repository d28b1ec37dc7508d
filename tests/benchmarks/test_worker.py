"""What a worker makes of a contender: ways that run, and ways that fail with their reason."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from burnish.benchmarks import contenders
from burnish.benchmarks.contenders import CONTENDERS, OURS, PUBLISHED
from burnish.benchmarks.results import PEERS
from burnish.benchmarks.worker import disagreement, prepare

INPUTS = (np.ones((2, 3), np.float32),)


def wrong_values() -> object:
    return lambda: [np.zeros((2, 3), np.float32)]


def wrong_shape() -> object:
    return lambda: {"result": np.zeros((3, 2), np.float32)}


def raises() -> object:
    raise MemoryError("first line\nsecond line")


def test_ways_that_fail_are_reported_beside_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    def peer(module: object, inputs: object, threads: int) -> contenders.Ways:
        good = contenders.eager(module, INPUTS, threads)["plain"]
        return {"a": good, "b": wrong_values, "c": wrong_shape, "d": raises}

    monkeypatch.setitem(CONTENDERS, "peer", peer)
    runs, report = prepare("peer", torch.nn.ReLU(), INPUTS, torch.get_num_threads())
    assert list(runs) == ["a"]
    assert {way: r.get("error") for way, r in report.items()} == {
        "a": None,
        "b": "wrong result: 1.0e+00 off from eager PyTorch",
        "c": "wrong result: shapes [(3, 2)] where eager PyTorch has [(2, 3)]",
        "d": "MemoryError: first line",
    }


def test_a_contender_that_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    def peer(*_: object) -> contenders.Ways:
        raise ImportError("No module named 'peer'")

    monkeypatch.setitem(CONTENDERS, "peer", peer)
    runs, report = prepare("peer", torch.nn.ReLU(), INPUTS, torch.get_num_threads())
    assert (runs, report) == ({}, {"plain": {"error": "ImportError: No module named 'peer'"}})


def test_nan_is_no_agreement() -> None:
    wanted = [np.ones(3, np.float32)]
    assert disagreement(wanted, wanted) == ""
    assert "wrong result" in disagreement([np.full(3, np.nan, np.float32)], wanted)


def test_burnish_itself_runs() -> None:
    runs, report = prepare("burnish", torch.nn.ReLU(), INPUTS, torch.get_num_threads())
    assert "error" not in report["plain"], report
    np.testing.assert_array_equal(runs["plain"](), INPUTS[0])


def test_every_published_contender_has_a_column() -> None:
    assert [c for c in PUBLISHED if c not in CONTENDERS] == []
    assert [c for c in CONTENDERS if c not in OURS] == list(PEERS) == list(PUBLISHED[1:])
