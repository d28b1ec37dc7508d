"""torchvision's models: all that classify, segment and detect, and those of videos."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from .case import Case, Inputs
from .libraries import torchvision

_SIDES = {"inception_v3": 96, "maxvit_t": 224, "alexnet": 96}
_OPTIONS: dict[str, dict[str, Any]] = {
    "inception_v3": {"init_weights": False},
    "googlenet": {"init_weights": False},
    **{name: {"image_size": 64} for name in ("vit_b_16", "vit_b_32", "vit_l_16", "vit_l_32")},
    "vit_h_14": {"image_size": 56},
}
_SIDES["vit_h_14"] = 56


def images(side: int) -> Callable[[torch.Generator, int, int], Inputs]:
    """Images of three channels."""

    def draw(generator: torch.Generator, batch: int, length: int) -> Inputs:
        return (torch.randn(batch, 3, side, side, generator=generator),)

    return draw


def _model(name: str, **options: Any) -> Callable[[], nn.Module]:
    return lambda: torchvision.models.get_model(name, weights=None, **options)


class BeforeSelection(nn.Module):
    """Of a detector what stands before boxes are selected: the backbone and the dense heads."""

    def __init__(self, detector: nn.Module) -> None:
        super().__init__()
        self.backbone = detector.backbone
        self.head = detector.rpn.head if hasattr(detector, "rpn") else detector.head

    def forward(self, x: torch.Tensor) -> Any:
        features = self.backbone(x)
        maps = [features] if isinstance(features, torch.Tensor) else list(features.values())
        return self.head(maps)


def _detector(name: str) -> Callable[[], nn.Module]:
    return lambda: BeforeSelection(_model(name, weights_backbone=None)())


def _video(side: int, frames: int) -> Callable[[torch.Generator, int, int], Inputs]:
    def draw(generator: torch.Generator, batch: int, length: int) -> Inputs:
        return (torch.randn(batch, 3, frames, side, side, generator=generator),)

    return draw


def _cases() -> list[Case]:
    models = torchvision.models
    found: list[Case] = []
    for name in models.list_models(module=models):
        draw = images(_SIDES.get(name, 64))
        build = _model(name, **_OPTIONS.get(name, {}))
        found.append(Case(f"torchvision/{name}", build, draw))
    for name in models.list_models(module=models.segmentation):
        build = _model(name, weights_backbone=None)
        found.append(Case(f"torchvision/{name}", build, images(64)))
    for name in models.list_models(module=models.detection):
        side = 300 if name.startswith("ssd300") else 320 if name.startswith("ssd") else 64
        found.append(Case(f"torchvision/{name}", _detector(name), images(side)))
    for name in models.list_models(module=models.video):
        side, frames = (224, 16) if name.startswith(("mvit", "s3d")) else (64, 8)
        found.append(Case(f"torchvision/{name}", _model(name), _video(side, frames)))
    return found


CASES = _cases()
