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
    errors = {p: float(row.split("|")[5]) for p, row in zip(precision.SHOWN, rows, strict=True)}
    assert errors["float32"] < 1e-5 < errors["float16"] < errors["bfloat16"] < 1e-2
    assert 1e-4 < errors["int8-weights"] < errors["int4-weights"] < 0.3
    assert 1e-4 < errors["int8"] < 0.1
    assert 1e-4 < errors["quantize"] < 0.1


def test_a_row_for_each_precision_of_a_layer() -> None:
    rows = [row.split("|") for row in precision.layer_rows(1, (64, 48))]
    assert [row[1].strip() for row in rows] == [f"`{p}`" for p in precision.SHOWN]
    ratios = dict(zip(precision.SHOWN, [float(row[5]) for row in rows], strict=True))
    assert ratios["float32"] == 1 < ratios["bfloat16"] == ratios["float16"]
    assert ratios["bfloat16"] < ratios["int8"] < ratios["int4-weights"] < ratios["int4-weights:128"]


def test_correct_answers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(0)
    sizes = {"w0": (8, 16), "b0": 8, "w1": (10, 8), "b1": 10}
    np.savez(tmp_path / "m.npz", **{n: rng.random(s, np.float32) for n, s in sizes.items()})
    images, labels = rng.integers(0, 256, (5, 4, 4)).astype("uint8"), np.zeros(5, "uint8")
    np.savez(tmp_path / "i.npz", images=images, labels=labels)
    given = ["--models", "", "--mlp", str(tmp_path / "m.npz"), "--images", str(tmp_path / "i.npz")]
    assert precision.main(given) == 0
    assert capsys.readouterr().out.count(" of 5 |") == len(precision.SHOWN)


def test_what_auto_chooses_keeps_its_bound() -> None:
    row = precision.auto_row("mlp-784x128x10-256", 1e-2, 1).split("|")
    assert (row[1].strip(), float(row[2])) == ("mlp-784x128x10-256", 1e-2)
    assert float(row[3]) <= 1e-2
