"""Random torch modules that NNSmith draws (Liu et al., ASPLOS 2023): operators of torch whose
shapes and dtypes a solver made fit. Somebody else's idea of what a model may contain."""

from __future__ import annotations

import random
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn


@dataclass
class Drawn:
    """A module, inputs for it, and its steps as text."""

    module: nn.Module
    inputs: tuple[torch.Tensor, ...]
    text: str


class Steps(nn.Module):
    """The steps of NNSmith's module without its checks of values, which export cannot follow."""

    def __init__(self, net: Any) -> None:
        super().__init__()
        self.layers = net.mlist
        self.steps = [(f, args, outs) for f, args, outs, _ in net.instructions]
        self.names = list(net.input_map), list(net.output_map)

    def forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        values = dict(zip(self.names[0], inputs, strict=True))
        for function, args, outs in self.steps:
            made = function(*[values[a] for a in args])
            values.update(zip(outs, made if isinstance(made, list) else [made], strict=True))
        return tuple([values[name] for name in self.names[1]])


def draw_module(seed: int) -> Drawn:
    """The module of a seed. Raises ImportError where NNSmith is not installed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it would like to draw pictures
        from nnsmith.graph_gen import model_gen
        from nnsmith.materialize.torch import TorchModelCPU
    rng = random.Random(seed)
    random.seed(seed)  # its own choices come from the global generators
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)
    graph = model_gen(
        opset=TorchModelCPU.operators(),
        method="symbolic-cinit",
        seed=seed,
        max_nodes=rng.randint(2, 12),
        timeout_ms=10_000,
    ).make_concrete()
    net = TorchModelCPU.from_gir(graph).torch_model.eval()
    inputs = [_values(tuple(t.shape), t.dtype.torch()) for t in net.input_map.values()]
    return Drawn(Steps(net).eval(), tuple(inputs), graph.pretty())


def _values(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    values = torch.rand(shape) * 6 - 3
    return values > 0 if dtype == torch.bool else values.to(dtype)
