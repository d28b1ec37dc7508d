"""ResNet-18 and ResNet-50: He, Zhang, Ren and Sun, "Deep Residual Learning for Image Recognition"
(arXiv 1512.03385), with the stride of a bottleneck in its 3x3 convolution."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .seeded import seeded_module

STAGES = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3), 50: (3, 4, 6, 3)}


def _conv(inputs: int, outputs: int, kernel: int, stride: int = 1) -> nn.Sequential:
    """A convolution without bias, and its batch norm."""
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel, stride, padding=kernel // 2, bias=False),
        nn.BatchNorm2d(outputs),
    )


class Residual(nn.Module):
    """``relu(body(x) + shortcut(x))``; the shortcut is a projection where the shape changes."""

    def __init__(self, body: nn.Module, shortcut: nn.Module) -> None:
        super().__init__()
        self.body, self.shortcut = body, shortcut

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.body(x) + self.shortcut(x))


def _block(inputs: int, width: int, stride: int, *, bottleneck: bool) -> Residual:
    outputs = width * 4 if bottleneck else width
    if bottleneck:
        body = nn.Sequential(
            _conv(inputs, width, 1), nn.ReLU(),
            _conv(width, width, 3, stride), nn.ReLU(),
            _conv(width, outputs, 1),
        )  # fmt: skip
    else:
        body = nn.Sequential(_conv(inputs, width, 3, stride), nn.ReLU(), _conv(width, width, 3))
    same = stride == 1 and inputs == outputs
    return Residual(body, nn.Identity() if same else _conv(inputs, outputs, 1, stride))


def build(
    depth: int = 18, *, classes: int = 1000, size: int = 224, batch: int = 1, seed: int = 0
) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """The module in eval mode with random weights and statistics, and an image float32 [batch, 3,
    size, size]. ``depth`` is 18, 34 or 50."""
    bottleneck = depth >= 50

    def make() -> nn.Module:
        layers: list[nn.Module] = [_conv(3, 64, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, padding=1)]
        inputs = 64
        for stage, count in enumerate(STAGES[depth]):
            for i in range(count):
                stride = 2 if stage and i == 0 else 1
                layers.append(_block(inputs, 64 << stage, stride, bottleneck=bottleneck))
                inputs = (64 << stage) * (4 if bottleneck else 1)
        head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, classes)]
        return nn.Sequential(*layers, *head)

    return seeded_module(make, [(batch, 3, size, size)], seed)
