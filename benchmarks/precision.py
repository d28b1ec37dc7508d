"""What a precision costs and gives: time and error of models, as the table of docs/precision.md.

    python -m burnish.benchmarks.precision --models bert,vit
    python -m burnish.benchmarks.precision --mlp mlp.npz --images images.npz

Every model is compiled once for each precision; calls are interleaved, and the shortest of each is
shown; with ``--layer`` also those of one row times a layer that exceeds the caches. The error is
the largest difference to the module in float64, relative to the largest result. ``--auto`` shows
what ``precision="auto"`` chooses for the models and products of ``make bench``. With the parameters
of an MLP (``w0``, ``b0``, ``w1``, ``b1``) and images with labels (``images``, ``labels``), its
correct answers are counted too.
"""

from __future__ import annotations

import argparse
import copy
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

import burnish

from ..driver.quantize import quantize
from ..models import resnet, transformer
from ..support.host import native_target
from .cases import case_named


def _linear(rows: int) -> tuple[Any, list[Any]]:
    import torch

    torch.manual_seed(0)
    return torch.nn.Linear(768, 3072), [torch.randn(rows, 768)]


MODELS: dict[str, Callable[[], tuple[Any, Sequence[Any]]]] = {
    **{f"linear-{rows}": partial(_linear, rows) for rows in (1, 4, 32, 128)},
    "bert": transformer.bert,
    "gpt2": transformer.gpt2,
    "vit": transformer.vit,
    "resnet18": lambda: resnet.build(18),
    "resnet50": lambda: resnet.build(50),
}
QUANTIZE = {"quantize": "float32", "quantize, bfloat16": "bfloat16"}
"""``burnish.quantize`` with the ranges of the inputs, and what its other products compute in."""
SHOWN = (
    *("float32", "bfloat16", "float16", "int8", *QUANTIZE, "int8-weights", "int4-weights"),
    "int4-weights:128",
)
"""Words of ``precision=``, and those."""
AUTO = (
    *("mlp-784x128x10-1", "mlp-784x128x10-256", "bert-6x384-128", "gpt2-6x768-64", "resnet18-224"),
    *("resnet50-224", "mobilenetv2-224", "vit-12x192-224", "matmul-exp-matmul-1024x2048x3072"),
    *("matmul-add-1024", "linear-gelu-128x768x3072"),
)
"""Cases of ``make bench`` whose layers ``"auto"`` chooses for."""
LAYER = (4096, 11008)
"""Terms and columns of the layer that one row is multiplied with."""


def error_of(found: Any, expected: Any) -> float:
    """The largest difference, relative to the largest of the expected values."""
    found, expected = (np.asarray(x, np.float64) for x in (found, expected))
    return float(np.abs(found - expected).max() / np.abs(expected).max())


def models_of(module: Any, inputs: Sequence[Any], threads: int | None = 1) -> dict[str, Any]:
    """The module compiled in each way."""
    made = {}
    for p in SHOWN:
        if p in QUANTIZE:
            made[p] = quantize(module, [tuple(inputs)], precision=QUANTIZE[p], threads=threads)
        else:
            made[p] = burnish.compile(module, tuple(inputs), precision=p, threads=threads)
    return made


def rows_of(name: str, module: Any, inputs: Sequence[Any], rounds: int) -> list[str]:
    """A row of the table for each precision."""
    import torch

    with torch.no_grad():
        wide = [x.double() if x.is_floating_point() else x for x in inputs]
        expected = copy.deepcopy(module).double()(*wide).numpy()
    models = models_of(module, inputs)
    errors = {p: error_of(m(*inputs).numpy(), expected) for p, m in models.items()}
    best = dict.fromkeys(models, float("inf"))
    for _ in range(rounds):
        for p, model in models.items():
            start = time.perf_counter()
            model(*inputs)
            best[p] = min(best[p], time.perf_counter() - start)
    return [
        f"| {name} | `{p}` | {best[p] * 1e3:.3g} | {best['float32'] / best[p]:.2f} | "
        f"{errors[p]:.1e} |"
        for p in models
    ]


def layer_rows(rounds: int, sizes: tuple[int, int] = LAYER) -> list[str]:
    """A row for each precision: one row times a layer whose weights exceed the caches."""
    import torch

    torch.manual_seed(0)
    layer, x = torch.nn.Linear(*sizes, bias=False), torch.randn(1, sizes[0])
    models = models_of(layer, (x,))
    best = dict.fromkeys(models, float("inf"))
    for _ in range(rounds):
        for p, model in models.items():
            start = time.perf_counter()
            model(x)
            best[p] = min(best[p], time.perf_counter() - start)
    megabytes = {p: m.report.constant_bytes / 1e6 for p, m in models.items()}
    return [
        f"| `{p}` | {megabytes[p]:.1f} | {best[p] * 1e3:.2f} | {best['float32'] / best[p]:.2f} | "
        f"{megabytes['float32'] / megabytes[p]:.2f} |"
        for p in models
    ]


def auto_row(name: str, max_error: float, rounds: int) -> str:
    """A row for what ``"auto"`` makes of a case within a bound, as errors are on its input."""
    import torch

    module, arrays = case_named(name).build()
    inputs = tuple([torch.from_numpy(a) for a in arrays])
    with torch.no_grad():
        wide = [x.double() if x.is_floating_point() else x for x in inputs]
        expected = copy.deepcopy(module).double()(*wide).numpy()
    plain = burnish.compile(module, inputs, threads=1)
    auto = burnish.compile(module, inputs, precision="auto", max_error=max_error, threads=1)
    best = {plain: float("inf"), auto: float("inf")}
    for _ in range(rounds):
        for model in best:
            start = time.perf_counter()
            model(*inputs)
            best[model] = min(best[model], time.perf_counter() - start)
    chosen = auto.precision if isinstance(auto.precision, dict) else {"*": auto.precision}
    words = ", ".join(f"{n} `{word}`" for word, n in Counter(chosen.values()).most_common())
    error = error_of(auto(*inputs).numpy(), expected)
    return (
        f"| {name} | {max_error:g} | {error:.1e} | {words} | {best[auto] * 1e3:.3g} | "
        f"{best[plain] / best[auto]:.2f} |"
    )


def correct_answers(mlp: str, images: str) -> list[str]:
    """A row for each precision: how many images an MLP gets right."""
    import torch

    known, data = np.load(mlp), np.load(images)
    layers = [torch.nn.Linear(*known[f"w{n}"].shape[::-1]) for n in (0, 1)]
    for n, layer in enumerate(layers):
        layer.load_state_dict(
            {"weight": torch.tensor(known[f"w{n}"]), "bias": torch.tensor(known[f"b{n}"])}
        )
    module = torch.nn.Sequential(torch.nn.Flatten(), layers[0], torch.nn.ReLU(), layers[1]).eval()
    x = torch.tensor(data["images"].astype("float32") / 255)
    answers = {p: m(x).numpy().argmax(axis=1) for p, m in models_of(module, (x,), None).items()}
    return [
        f"| `{p}` | {int((found == data['labels']).sum())} of {len(x)} |"
        for p, found in answers.items()
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--layer", action="store_true", help="one row times a large layer")
    parser.add_argument("--auto", metavar="BOUNDS", help='"auto" with these, as 1e-3,1e-2')
    parser.add_argument("--mlp")
    parser.add_argument("--images")
    given = parser.parse_args(arguments)
    print(f"{native_target().cpu}, one thread\n")
    print("| model | precision | ms | speedup | error |\n|---|---|---|---|---|")
    for name in filter(None, given.models.split(",")):
        module, inputs = MODELS[name]()
        print("\n".join(rows_of(name, module.eval(), inputs, given.rounds)), flush=True)
    if given.layer:
        print("\n| precision | MB | ms | speedup | bytes of float32 |\n|---|---|---|---|---|")
        print("\n".join(layer_rows(given.rounds)))
    if given.auto:
        print("\n| model | bound | error | layers | ms | speedup |\n|---|---|---|---|---|---|")
        for name in AUTO:
            for bound in given.auto.split(","):
                print(auto_row(name, float(bound), given.rounds), flush=True)
    if given.mlp and given.images:
        print("\n| precision | correct |\n|---|---|")
        print("\n".join(correct_answers(given.mlp, given.images)))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
