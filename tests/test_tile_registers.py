"""Whole models for CPUs with tile registers, which the CPU at hand emulates."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import burnish
from burnish.driver import precision
from burnish.support.host import native_target, resolve
from burnish.support.target import Target


def emulated() -> Target:
    """Without dot products of pairs, so that tiles alone are fast at bfloat16."""
    host = resolve(native_target())
    kept = [f for f in host.features if f != "+avx512bf16"]
    return host.with_options(features=(*kept, "-avx512bf16", "+emulated-tiles"))


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(8, 24, 3, padding=1)
        self.second = nn.Conv2d(24, 40, 3, stride=2, padding=1)
        self.third = nn.Conv2d(40, 16, 1)
        self.head = nn.Linear(16 * 36, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.second(torch.relu(self.first(x))))
        return self.head(torch.relu(self.third(x)).flatten(1))


MODELS = {
    "mlp": (nn.Sequential(nn.Linear(100, 72), nn.GELU(), nn.Linear(72, 10)), (37, 100)),
    "convolutions": (Block(), (6, 8, 12, 12)),
}


def error(found: torch.Tensor, module: nn.Module, x: torch.Tensor) -> float:
    with torch.no_grad():
        expected = module.double()(x.double())
    module.float()
    return float((found.double() - expected).abs().max() / expected.abs().max())


@pytest.mark.parametrize("name", MODELS)
def test_models_in_bfloat16(name: str) -> None:
    torch.manual_seed(0)
    module, shape = MODELS[name]
    x = torch.randn(shape)
    model = burnish.compile(module, (x,), target=emulated(), precision="bfloat16")
    assert error(model(x), module, x) < 1e-2
    assert "tiles (" in str(model.report)


def test_any_batch() -> None:
    torch.manual_seed(0)
    module, shape = MODELS["mlp"]
    x = torch.randn(shape)
    batch = torch.export.Dim("batch", max=64)
    model = burnish.compile(
        module, (x,), target=emulated(), precision="bfloat16", dynamic_shapes=({0: batch},)
    )
    for rows in (1, 5, 16, 50):
        part = torch.randn(rows, shape[1])
        assert error(model(part), module, part) < 1e-2


def test_bytes_are_exact_in_tiles_too() -> None:
    torch.manual_seed(0)
    module, shape = MODELS["mlp"]
    x = torch.randn(shape)
    found = []
    for target in (emulated(), native_target()):
        model = burnish.quantize(module, [(x,)], target=target)
        found.append(np.asarray(model(x)))
        assert ("tiles (" in str(model.report)) == (target.instructions.tiles is not None)
    assert np.array_equal(*found)


def test_report_says_what_tiles_would_gain() -> None:
    module = nn.Linear(2048, 2048)
    x = torch.randn(512, 2048)
    target = Target("sapphirerapids").with_options(cores=1)
    report = str(burnish.compile(module, (x,), target=target).report)
    assert "AMX of this CPU multiplies bfloat16 at 16 times" in report


def test_a_c_library_asks_for_tiles(tmp_path: object) -> None:
    module = nn.Linear(64, 64)
    x = torch.randn(32, 64)
    target = Target("sapphirerapids").with_options(cores=1)
    model = burnish.compile(module, (x,), target=target, precision="bfloat16")
    model.export_library(tmp_path, name="m")
    source = "".join(path.read_text() for path in sorted(tmp_path.glob("*.c")))  # type: ignore[attr-defined]
    assert "syscall(158L, 0x1023L, 18L)" in source


@pytest.mark.parametrize("name", MODELS)
def test_float32_of_three_terms_is_as_exact_as_eager(name: str) -> None:
    torch.manual_seed(0)
    module, shape = MODELS[name]
    x = torch.randn(shape)
    model = burnish.compile(module, (x,), target=emulated(), precision="float32-split")
    with torch.no_grad():
        eager = module(x)
    assert error(model(x), module, x) <= 1.5 * error(eager, module, x)
    assert "sum six products of bfloat16" in str(model.report)
    assert "tiles (" in str(model.report)


def test_without_tiles_three_terms_are_float32() -> None:
    torch.manual_seed(0)
    module, shape = MODELS["mlp"]
    x = torch.randn(shape)
    host = resolve(native_target())
    target = host.with_options(features=(*host.features, "-amx-tile"))
    split = burnish.compile(module, (x,), target=target, precision="float32-split")
    plain = burnish.compile(module, (x,), target=target)
    assert torch.equal(split(x), plain(x))
    assert "has no tile registers for bfloat16" in str(split.report)


def test_report_says_why_tiles_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precision, "why_no_tiles", lambda: "the system refuses tile registers")
    module, shape = MODELS["mlp"]
    for word, said in (("bfloat16", True), ("fast", False)):
        model = burnish.compile(module, (torch.zeros(shape),), precision=word)
        assert ("tiles (AMX), but the system refuses" in str(model.report)) == said
