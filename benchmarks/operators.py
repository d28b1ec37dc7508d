"""Operators one by one beside eager PyTorch: which of them are slower?

    python -m burnish.benchmarks.operators [--only conv ...] [--seconds 0.15] [--out FILE.md]

One thread, untuned. Each operator is compiled alone, with the layout its inputs come in, and takes
turns with eager PyTorch on the same tensors; both by the process's own clock, whole calls from
tensors to tensors. What PyTorch answers with a view of its input (``split``) is a copy here.
Results are compared too. Nothing is asserted.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import burnish

from .cases import _Function
from .machine import cpu_seconds
from .run import cpu_name, versions
from .tune_model import geometric_mean

_PLANE, _IMAGE = (512, 512), (1, 64, 56, 56)


@dataclass(frozen=True)
class Outcome:
    """Seconds a call, and whether the results agree."""

    name: str
    torch: float
    burnish: float
    agrees: bool

    @property
    def ratio(self) -> float:
        return self.torch / self.burnish


def _elementwise(torch: Any) -> Iterator[tuple[str, Any, tuple[Any, ...]]]:
    functional = torch.nn.functional
    x, y = torch.randn(_PLANE), torch.randn(_PLANE)
    positive, inside = torch.rand(_PLANE) + 0.1, torch.rand(_PLANE) * 1.8 - 0.9
    anywhere = "abs neg floor round sign reciprocal exp exp2 expm1 sin cos tan tanh sinh cosh erf"
    for name in (*anywhere.split(), "atan", "sigmoid", "relu", "isnan", "asinh"):
        yield name, getattr(torch, name), (x,)
    for name in ("log", "log2", "log1p", "sqrt", "rsqrt"):
        yield name, getattr(torch, name), (positive,)
    for name in ("asin", "acos", "atanh"):
        yield name, getattr(torch, name), (inside,)
    for name in ("gelu", "silu", "mish", "elu", "hardswish", "leaky_relu", "softplus"):
        yield name, getattr(functional, name), (x,)
    for name in ("add", "mul", "div", "maximum", "atan2", "fmod", "remainder", "lt", "hypot"):
        yield name, getattr(torch, name), (x, y)
    yield "pow", torch.pow, (positive, y)
    yield "where", lambda a, b: torch.where(a > 0, a, b), (x, y)
    for name in ("uint8", "int32", "int64", "bool", "float16", "bfloat16", "float64"):
        yield f"float32 to {name}", lambda a, t=name: a.to(getattr(torch, t)), (positive,)
    numbers = torch.randint(-100, 100, _PLANE)
    yield "int64 mul", torch.mul, (numbers, numbers)
    yield "int64 floor_divide", lambda a, b: a // b, (numbers, numbers.abs() + 1)
    yield "bfloat16 gelu", functional.gelu, (x.bfloat16(),)
    yield "float64 exp", torch.exp, (x.double(),)


def _reductions(torch: Any) -> Iterator[tuple[str, Any, tuple[Any, ...]]]:
    functional = torch.nn.functional
    x, image, rows = torch.randn(_PLANE), torch.randn(_IMAGE), torch.randn(64, 1000)
    names = ("sum", "mean", "amax", "prod", "std", "logsumexp", "argmax", "cumsum", "cumprod")
    for name in names:
        for axis in (-1, 0):
            yield f"{name} {axis}", lambda a, f=name, d=axis: getattr(torch, f)(a, d), (x,)
    yield "sum of all", torch.sum, (x,)
    yield "any", lambda a: (a > 3).any(-1), (x,)
    yield "topk", lambda a: torch.topk(a, 10)[0], (rows,)
    yield "sort", lambda a: torch.sort(a)[0], (rows,)
    for axis in (-1, 0):
        yield f"softmax {axis}", lambda a, d=axis: functional.softmax(a, d), (x,)
    yield "log_softmax", lambda a: functional.log_softmax(a, -1), (x,)
    yield "layer_norm", lambda a: functional.layer_norm(a, (512,)), (x,)
    yield "group_norm", lambda a: functional.group_norm(a, 8), (image,)
    yield "batch_norm", torch.nn.BatchNorm2d(64), (image,)


def _moves(torch: Any) -> Iterator[tuple[str, Any, tuple[Any, ...]]]:
    functional = torch.nn.functional
    x, y, image = torch.randn(_PLANE), torch.randn(_PLANE), torch.randn(_IMAGE)
    yield "transpose", lambda a: a.t().contiguous(), (x,)
    yield "permute 0231", lambda a: a.permute(0, 2, 3, 1).contiguous(), (image,)
    yield "flip", lambda a: a.flip(-1), (x,)
    yield "roll", lambda a: a.roll(3, -1), (x,)
    yield "cat 0", lambda a, b: torch.cat([a, b], 0), (x, y)
    yield "cat 1", lambda a, b: torch.cat([a, b], 1), (x, y)
    yield "split", lambda a: torch.split(a, 128, 1), (x,)
    yield "repeat", lambda a: a.repeat(2, 2), (torch.randn(256, 256),)
    for mode in ("constant", "reflect", "replicate"):
        yield f"pad {mode}", lambda a, m=mode: functional.pad(a, (1, 1, 1, 1), mode=m), (image,)
    places = torch.randint(0, 512, _PLANE)
    yield "gather", lambda a, i: torch.gather(a, 1, i), (x, places)
    yield "index_select 1", lambda a, i: torch.index_select(a, 1, i), (x, places[0])
    yield "embedding", functional.embedding, (places[0], x)
    yield "scatter_add", lambda a, i, b: a.scatter_add(1, i, b), (x[:64], places[:64], y[:64])
    for name, pool in (("max", functional.max_pool2d), ("avg", functional.avg_pool2d)):
        yield f"{name}_pool 2", partial(_pool, pool, (2,)), (image,)
        yield f"{name}_pool 3 stride 2", partial(_pool, pool, (3, 2, 1)), (image,)
    yield "max_pool1d", lambda a: functional.max_pool1d(a, 2), (torch.randn(8, 64, 1000),)
    for mode in ("nearest", "bilinear"):
        yield f"interpolate {mode}", _upsampled(functional, mode), (image,)


def _pool(pool: Any, options: tuple[int, ...], image: Any) -> Any:
    return pool(image, *options)


def _upsampled(functional: Any, mode: str) -> Callable[[Any], Any]:
    return lambda a: functional.interpolate(a, scale_factor=2, mode=mode)


def _products(torch: Any) -> Iterator[tuple[str, Any, tuple[Any, ...]]]:
    nn, image = torch.nn, torch.randn(_IMAGE)
    for m, k, n in ((64, 64, 64), (500, 500, 500), (16, 4096, 16), (1, 1024, 1024)):
        yield f"matmul {m}x{k}x{n}", torch.matmul, (torch.randn(m, k), torch.randn(k, n))
    yield "bmm", torch.bmm, (torch.randn(12, 128, 64), torch.randn(12, 64, 128))
    for rows in (1, 4, 16, 256):
        yield f"linear {rows}", nn.Linear(768, 768), (torch.randn(rows, 768),)
    heads = tuple([torch.randn(1, 12, 128, 64) for _ in range(3)])
    yield "attention", nn.functional.scaled_dot_product_attention, heads
    yield "conv 3x3", nn.Conv2d(64, 64, 3, padding=1), (image,)
    yield "conv 3x3 stride 2", nn.Conv2d(64, 64, 3, 2, 1), (image,)
    yield "conv 3x3 dilated", nn.Conv2d(64, 64, 3, padding=2, dilation=2), (image,)
    yield "conv 1x1", nn.Conv2d(64, 256, 1), (image,)
    yield "conv 5x5", nn.Conv2d(16, 32, 5, padding=2), (torch.randn(1, 16, 32, 32),)
    yield "conv 7x7 first", nn.Conv2d(3, 64, 7, 2, 3), (torch.randn(1, 3, 224, 224),)
    yield "conv 4 groups", nn.Conv2d(64, 64, 3, padding=1, groups=4), (image,)
    yield "conv depthwise", nn.Conv2d(64, 64, 3, padding=1, groups=64), (image,)
    yield "conv depthwise 7x7", nn.Conv2d(64, 64, 7, padding=3, groups=64), (image,)
    small = torch.randn(1, 64, 28, 28)
    yield "conv transposed 2x2", nn.ConvTranspose2d(64, 32, 2, 2), (small,)
    yield "conv transposed 4x4", nn.ConvTranspose2d(64, 32, 4, 2, 1), (small,)
    yield "conv1d 3", nn.Conv1d(64, 64, 3, padding=1), (torch.randn(1, 64, 500),)
    yield "conv1d 7", nn.Conv1d(32, 64, 7, padding=3), (torch.randn(1, 32, 800),)
    yield "conv3d", nn.Conv3d(16, 16, 3, padding=1), (torch.randn(1, 16, 8, 28, 28),)
    yield "lstm", nn.LSTM(64, 64, batch_first=True), (torch.randn(1, 20, 64),)


FAMILIES = (_elementwise, _reductions, _moves, _products)


def _flat(result: Any) -> list[Any]:
    if isinstance(result, (tuple, list)):
        return [tensor for part in result for tensor in _flat(part)]
    return [result]


def measure(name: str, made: Any, arguments: tuple[Any, ...], seconds: float) -> Outcome:
    """Time an operator and eager PyTorch in turns for ``seconds`` each."""
    import torch

    module = made if isinstance(made, torch.nn.Module) else _Function(made)
    module = module.eval()
    model = burnish.compile(module, arguments, threads=1)
    best = [math.inf, math.inf]
    with torch.inference_mode():
        results = [_flat(f(*arguments)) for f in (module, model)]
        agrees = all(
            torch.allclose(a.double(), b.double(), rtol=1e-2, atol=1e-3, equal_nan=True)
            for a, b in zip(*results, strict=True)
        )
        end = time.perf_counter() + 2 * seconds
        while time.perf_counter() < end:
            for i, run in enumerate((module, model)):
                for _ in range(3):
                    best[i] = min(best[i], cpu_seconds(run, *arguments))
    return Outcome(name, best[0], best[1], agrees)


def table(outcomes: Sequence[Outcome]) -> str:
    """The outcomes as Markdown, the smallest ratios first."""
    lines = ["| operator | PyTorch us | burnish us | ratio |", "|---|---|---|---|"]
    for o in sorted(outcomes, key=lambda o: o.ratio):
        wrong = "" if o.agrees else " (results differ)"
        lines.append(
            f"| {o.name}{wrong} | {o.torch * 1e6:.1f} | {o.burnish * 1e6:.1f} | {o.ratio:.2f} |"
        )
    mean = geometric_mean([o.ratio for o in outcomes])
    return "\n".join([*lines, "", f"Geometric mean of {len(outcomes)} ratios: {mean:.2f}"])


def main() -> None:
    import torch

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", metavar="WORD", help="of these names")
    parser.add_argument("--seconds", type=float, default=0.15, help="for each of the two")
    parser.add_argument("--out", type=Path, metavar="FILE.md", help="where the table is written")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    print(cpu_name(), versions(), sep="\n")
    outcomes: list[Outcome] = []
    for family in FAMILIES:
        for name, made, arguments in family(torch):
            if options.only and not any(word in name for word in options.only):
                continue
            found = measure(name, made, arguments, options.seconds)
            outcomes.append(found)
            mark = "  <" if found.ratio < 1 else ""
            print(
                f"{name:24}{found.torch * 1e6:12.1f}{found.burnish * 1e6:12.1f}"
                f"{found.ratio:8.2f}{mark}{'' if found.agrees else '  results differ'}",
                flush=True,
            )
    text = table(outcomes)
    print("\n" + text.splitlines()[-1])
    if options.out is not None:
        options.out.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
