"""The table of precisions: a row each, with errors in their order."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from burnish.benchmarks import precision


def test_a_row_for_each_precision() -> None:
    torch.manual_seed(0)
    rows = precision.rows_of("mlp", torch.nn.Linear(40, 30).eval(), [torch.randn(3, 40)], 1)
    assert [row.split("|")[2].strip() for row in rows] == [f"`{p}`" for p in precision.SHOWN]
    errors = [float(row.split("|")[5]) for row in rows]
    assert errors[0] < 1e-5 < errors[1] < 1e-2
    assert 1e-4 < errors[2] < errors[3] < 0.3


def test_a_row_for_each_precision_of_a_layer() -> None:
    rows = [row.split("|") for row in precision.layer_rows(1, (64, 48))]
    assert [row[1].strip() for row in rows] == [f"`{p}`" for p in precision.SHOWN]
    ratios = [float(row[5]) for row in rows]
    assert ratios == sorted(ratios)


def test_correct_answers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(0)
    sizes = {"w0": (8, 16), "b0": 8, "w1": (10, 8), "b1": 10}
    np.savez(tmp_path / "m.npz", **{n: rng.random(s, np.float32) for n, s in sizes.items()})
    images, labels = rng.integers(0, 256, (5, 4, 4)).astype("uint8"), np.zeros(5, "uint8")
    np.savez(tmp_path / "i.npz", images=images, labels=labels)
    given = ["--models", "", "--mlp", str(tmp_path / "m.npz"), "--images", str(tmp_path / "i.npz")]
    assert precision.main(given) == 0
    assert capsys.readouterr().out.count(" of 5 |") == len(precision.SHOWN)
