"""MobileNetV2: Sandler, Howard, Zhu, Zhmoginov and Chen, "Inverted Residuals and Linear
Bottlenecks" (arXiv 1801.04381)."""

from __future__ import annotations

from torch import Tensor, nn

from .seeded import seeded_module

SETTINGS = (
    (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2),
    (6, 320, 1, 1),
)  # fmt: skip
"""Of each stage: expansion, output channels, blocks, stride of the first."""


def _conv(
    inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1, *, active: bool = True
) -> nn.Sequential:
    layers: list[nn.Module] = [
        nn.Conv2d(inputs, outputs, kernel, stride, padding=kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(outputs),
    ]
    return nn.Sequential(*layers, nn.ReLU6()) if active else nn.Sequential(*layers)


class InvertedResidual(nn.Module):
    """Expand, filter each channel, project; added to the input where shapes allow."""

    def __init__(self, inputs: int, outputs: int, stride: int, expansion: int) -> None:
        super().__init__()
        width = inputs * expansion
        layers = [] if expansion == 1 else [_conv(inputs, width, 1)]
        layers += [
            _conv(width, width, 3, stride, groups=width),
            _conv(width, outputs, 1, active=False),
        ]
        self.body = nn.Sequential(*layers)
        self.adds = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.body(x)
        return x + y if self.adds else y


def build(
    *, classes: int = 1000, size: int = 224, batch: int = 1, seed: int = 0
) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """The module in eval mode with random weights, and an image float32 [batch, 3, size, size]."""

    def make() -> nn.Module:
        layers: list[nn.Module] = [_conv(3, 32, 3, 2)]
        inputs = 32
        for expansion, outputs, count, stride in SETTINGS:
            for i in range(count):
                step = stride if i == 0 else 1
                layers.append(InvertedResidual(inputs, outputs, step, expansion))
                inputs = outputs
        layers += [_conv(inputs, 1280, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
        return nn.Sequential(*layers, nn.Linear(1280, classes))

    return seeded_module(make, [(batch, 3, size, size)], seed)
