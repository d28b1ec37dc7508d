"""What is measured: models of ``burnish.models`` at fixed batches, and kernels alone, with seeded
inputs. Names say sizes: layers x width and tokens, widths and rows, the side of an image."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Built = tuple[Any, tuple[np.ndarray, ...]]


@dataclass(frozen=True)
class Case:
    """``build()`` gives an evaluated torch module and its NumPy inputs."""

    name: str
    flop: float
    """Floating-point operations of one call: those of products, or one an element moved."""
    build: Callable[[], Built]
    group: str = "models"


def _mlp(batch: int) -> Case:
    def build() -> Built:
        from burnish.models import mlp

        module, _ = mlp.build(seed=0)
        rng = np.random.default_rng(0)
        return module, (rng.random((batch, 1, 28, 28), dtype=np.float32),)

    return Case(f"mlp-784x128x10-{batch}", 2.0 * batch * (784 * 128 + 128 * 10), build)


def _model(name: str, gflop: float, make: Callable[[Any], Any]) -> Case:
    """A model of ``burnish.models``: ``make`` is handed the package."""

    def build() -> Built:
        import importlib

        parts = ("resnet", "mobilenet", "transformer")
        models = {p: importlib.import_module(f"burnish.models.{p}") for p in parts}
        module, inputs = make(models)
        return module, tuple([x.numpy() for x in inputs])

    return Case(name, gflop * 1e9, build)


def _function(
    name: str, flop: float, shapes: Sequence[Sequence[int]], make: Callable[[Any], Any]
) -> Case:
    """A function of torch tensors, or a module of torch.nn: ``make`` is handed torch."""

    def build() -> Built:
        import torch

        torch.manual_seed(0)
        made = make(torch)
        if not isinstance(made, torch.nn.Module):
            made = _Function(made)
        rng = np.random.default_rng(0)
        return made.eval(), tuple([rng.standard_normal(s, dtype=np.float32) for s in shapes])

    return Case(name, flop, build, "kernels")


def _Function(function: Callable[..., Any]) -> Any:  # noqa: N802
    """A function as a module."""
    import torch

    class Function(torch.nn.Module):
        def forward(self, x: Any, y: Any = None, z: Any = None) -> Any:
            return function(*[t for t in (x, y, z) if t is not None])

    return Function()


def _embedding() -> Case:
    def build() -> Built:
        import torch

        torch.manual_seed(0)
        ids = np.random.default_rng(0).integers(0, 30522, (1, 512))
        return torch.nn.Embedding(30522, 768).eval(), (ids,)

    return Case("embedding-512-30522x768", 512 * 768, build, "kernels")


def _linear_gelu(torch: Any) -> Any:
    return torch.nn.Sequential(torch.nn.Linear(768, 3072), torch.nn.GELU())


def _depthwise(torch: Any) -> Any:
    """Between pointwise convolutions, so that every contender keeps its own layout inside."""
    nn = torch.nn
    return nn.Sequential(
        nn.Conv2d(16, 96, 1), nn.Conv2d(96, 96, 3, padding=1, groups=96), nn.Conv2d(96, 16, 1)
    )


def _matmul_add(a: Any, b: Any, c: Any) -> Any:
    return a @ b + c


PRODUCTS: dict[str, Callable[[Any, int], Any]] = {
    "constant": lambda torch, n: torch.nn.Linear(n, n, bias=False),
    "ab": lambda torch, n: lambda a, b: a @ b,
    "abt": lambda torch, n: lambda a, b: a @ b.transpose(0, 1),
    "atb": lambda torch, n: lambda a, b: a.transpose(0, 1) @ b,
}
"""Square products by what is known of their operands."""


def product(kind: str, n: int) -> Case:
    """``product-KIND-N``: a product of two n x n matrices, one of ``PRODUCTS``."""
    shapes = [(n, n)] * (1 if kind == "constant" else 2)
    make = PRODUCTS[kind]
    return _function(f"product-{kind}-{n}", 2.0 * n**3, shapes, lambda torch: make(torch, n))


def case_named(name: str) -> Case:
    """A case of ``CASES``, or a product by its name."""
    if name in CASES:
        return CASES[name]
    _, kind, size = name.split("-")
    return product(kind, int(size))


M = 1024
CASES = {
    c.name: c
    for c in (
        _mlp(1),
        _mlp(256),
        _model("bert-6x384-128", 2.87, lambda m: m["transformer"].bert()),
        _model("gpt2-6x768-64", 10.2, lambda m: m["transformer"].gpt2()),
        _model("resnet18-224", 3.63, lambda m: m["resnet"].build(18)),
        _model("resnet50-224", 8.2, lambda m: m["resnet"].build(50)),
        _model("mobilenetv2-224", 0.6, lambda m: m["mobilenet"].build()),
        _model("vit-12x192-224", 2.5, lambda m: m["transformer"].vit()),
        _function(
            "matmul-exp-matmul-1024x2048x3072", 2.0 * M * M * (2048 + 3072),
            [(M, 2048), (2048, M), (M, 3072)],
            lambda torch: lambda a, b, e: torch.exp(a @ b * 0.01) @ e,
        ),
        _function(
            "matmul-add-1024", 2.0 * M**3, [(M, M)] * 3,
            lambda torch: _matmul_add,
        ),
        _function("matmul-256", 2.0 * 256**3, [(256, 256)] * 2, lambda torch: lambda a, b: a @ b),
        product("atb", 256),
        _function("linear-gelu-128x768x3072", 2.0 * 128 * 768 * 3072, [(128, 768)], _linear_gelu),
        _function("softmax-128x1000", 128e3, [(128, 1000)], lambda torch: torch.nn.Softmax(-1)),
        _function(
            "layer_norm-128x768", 128 * 768, [(128, 768)],
            lambda torch: torch.nn.LayerNorm(768),
        ),
        _function("gelu-128x3072", 128 * 3072, [(128, 3072)], lambda torch: torch.nn.GELU()),
        _function("sum-1024x1024", M * M, [(M, M)], lambda torch: lambda x: x.sum(-1)),
        _function(
            "transpose-1024x1024", M * M, [(M, M)],
            lambda torch: lambda x: x.t().contiguous(),
        ),
        _function(
            "depthwise-96x112x112", 2.0 * 112 * 112 * 96 * (9 + 32), [(1, 16, 112, 112)],
            _depthwise,
        ),
        _embedding(),
    )
}  # fmt: skip
