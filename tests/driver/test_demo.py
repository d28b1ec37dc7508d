"""burnish demo on drawn garments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from burnish.driver import demo
from burnish.driver.cli import main
from burnish.driver.compiled_model import CompiledModel
from burnish.driver.timing import Timing
from burnish.models import fashion_mnist


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """A small data set, and no time spent on timing."""
    draw = fashion_mnist.draw_garments

    def draw_few(count: int, *, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
        return draw(count // 10, seed=seed)

    monkeypatch.setattr(fashion_mnist, "draw_garments", draw_few)

    def timed(contenders: dict[str, Any], **_: Any) -> dict[str, Timing]:
        for run in contenders.values():
            run()
        return {name: Timing(2e-6, 3e-6) for name in contenders}

    monkeypatch.setattr(demo, "time_interleaved", timed)


@pytest.mark.usefixtures("few")
def test_the_demo_tells_the_whole_story(capsys: pytest.CaptureFixture[str]) -> None:
    threads = torch.get_num_threads()
    try:
        assert main(["demo", "--trials", "0"]) == 0
    finally:
        torch.set_num_threads(threads)
    out = capsys.readouterr().out
    story = [
        "Data: garments drawn by burnish itself (no --data was given)",
        "Training the MLP on 400 images",
        "The module as imported:",
        "R.linear(",
        "After fusion:",
        "R.call_dps(cls.fused_linear_relu",
        "2 kernels: fused_linear_relu, linear_1.",
        "of 90 images classified correctly.",
        "Every prediction is the same as PyTorch's.",
        "Before tuning: one image",
        "One image takes 2 us; PyTorch takes 2 us, which is 1.0 times as long.",
    ]
    places = [out.index(line) for line in story]
    assert places == sorted(places)
    assert "After tuning" not in out


def test_a_different_prediction_fails(
    static: CompiledModel, module: torch.nn.Module, capsys: pytest.CaptureFixture[str]
) -> None:
    images = torch.rand(1, 1, 28, 28)
    labels = torch.zeros(1).numpy()
    wrong = torch.nn.Sequential(module, torch.nn.Flatten()).eval()
    assert demo._classify(static, wrong, images, labels) == 0
    negated: Any = lambda x: -module(x)  # noqa: E731
    assert demo._classify(static, negated, images, labels) == 1
    assert "1 predictions differ from PyTorch's." in capsys.readouterr().out
