"""Contenders that round: their ways run, and how far they are off stands beside their times."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from burnish.benchmarks.cases import CASES
from burnish.benchmarks.contenders import CONTENDERS, Inputs, Ways
from burnish.benchmarks.processes import Way
from burnish.benchmarks.reduced import PRECISIONS, REDUCED, SHOWN, show
from burnish.benchmarks.worker import difference, in_float64, prepare

INPUTS = (np.random.default_rng(0).standard_normal((16, 64), dtype=np.float32),)


def module() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(64, 96), torch.nn.ReLU(), torch.nn.Linear(96, 32))


@pytest.mark.parametrize(
    ("name", "ways", "least", "most"),
    [
        ("burnish", ["plain"], 0, 1e-6),
        ("burnish bfloat16", ["plain"], 1e-5, 1e-2),
        ("burnish float16", ["plain", "module"], 1e-5, 2e-3),
        ("burnish int8", ["plain", "and bfloat16", "dynamic", "weights"], 1e-5, 5e-2),
    ],
)
def test_our_ways_and_their_errors(name: str, ways: list[str], least: float, most: float) -> None:
    runs, report = prepare(name, module().eval(), INPUTS, 1, rounds=True)
    assert list(runs) == ways
    for way in ways:
        assert least <= report[way]["difference"] <= most


def test_what_is_far_off_has_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    def peer(module: object, inputs: Inputs, threads: int) -> Ways:
        return {
            "zeros": lambda: lambda: np.zeros((16, 32), np.float32),
            "lost": lambda: lambda: np.full((16, 32), np.nan, np.float32),
        }

    monkeypatch.setitem(CONTENDERS, "peer", peer)
    runs, report = prepare("peer", module().eval(), INPUTS, 1, rounds=True)
    assert runs == {}
    assert all("wrong result" in r["error"] for r in report.values())


def test_the_difference_is_relative_to_the_largest() -> None:
    assert difference([np.array([1.0, 4.0])], [np.array([2.0, 4.0])]) == 0.25
    assert np.isnan(difference([np.array([np.nan, 1.0])], [np.ones(2)]))
    assert in_float64(torch.nn.ReLU(), INPUTS)[0].dtype == np.float64


def test_every_precision_has_us_and_peers_on_known_cases() -> None:
    assert set(REDUCED) == set(PRECISIONS)
    for names in map(list, REDUCED.values()):
        assert names[0].startswith("burnish")
        assert len(names) > 2
    assert set(SHOWN) <= set(CASES)


def test_the_ratio_is_of_the_best_that_rounds(capsys: pytest.CaptureFixture[str]) -> None:
    ways = [
        Way("burnish", "plain", times=[1e-9]),
        Way("burnish int8", "plain", times=[2e-3, 3e-3], difference=0.01),
        Way("openvino int8", "plain", times=[5e-3]),
        Way("onnxruntime int8", "QDQ", times=[4e-3]),
        Way("onnxruntime int8", "dynamic", error="the process died"),
    ]
    assert show(CASES[SHOWN[0]], ways, 1) == pytest.approx(2.0)
    text = capsys.readouterr().out
    assert "failed: the process died" in text
    assert "1.0e-02" in text
