"""``torch.compile(module, backend="burnish")`` beside Inductor, on models that others wrote.

    python -m burnish.benchmarks.torch_backend [--models timm/resnet18 ...] [--seconds 900]

Each model (of ``tests/models_of_others``, which name it) is taken in a process of its own: both
backends compile the same module on one thread, Inductor with frozen weights, and are called in
turns under ``inference_mode``. A result agrees as ``make coverage`` says. The first call compiles:
its seconds stand beside. What fails or takes longer than ``--seconds`` stands as such.
"""

from __future__ import annotations

import argparse
import copy
import json
import math
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from .run import cpu_name, versions

MODELS = (
    *("torchvision/" + n for n in ("alexnet", "resnet18", "squeezenet1_1", "mobilenet_v2")),
    *("torchvision/" + n for n in ("mobilenet_v3_small", "shufflenet_v2_x1_0", "mnasnet1_0")),
    *("torchvision/" + n for n in ("regnet_y_400mf", "googlenet")),
    *("timm/" + n for n in ("test_vit", "visformer_tiny", "efficientvit_m0", "mobilevit_xxs")),
    *("timm/" + n for n in ("ghostnet_050", "levit_128s", "poolformer_s12")),
    *("transformers/" + n for n in ("bert", "roberta", "distilbert", "albert", "electra")),
    *("transformers/" + n for n in ("gpt2", "opt", "llama", "mistral", "qwen2", "gemma")),
    *("transformers/" + n for n in ("vit", "swin", "convnext", "clip", "wav2vec2")),
)
ROUNDS = 15
BACKENDS = ("inductor", "burnish")


def measure(name: str) -> dict[str, Any]:
    """Both backends on one model, in this process."""
    import torch

    from burnish.tests.models_of_others.case import call, disagreement, prepared
    from burnish.tests.models_of_others.cases import BY_NAME

    torch.set_num_threads(1)
    case = BY_NAME[name]
    module, inputs = prepared(case), case.draw()
    runs: dict[str, Callable[[], Any]] = {}
    found: dict[str, Any] = {"name": name}
    import torch._inductor.config as config

    config.freezing = True
    with torch.inference_mode():
        runs["eager"] = partial(call, module, inputs)
        for backend in BACKENDS:
            # A copy of its own: frozen weights are given up.
            compiled = torch.compile(copy.deepcopy(module), backend=backend)
            run: Callable[[], Any] = partial(call, compiled, inputs)
            begin = time.perf_counter()
            try:
                result = run()
            except Exception as error:  # a backend that fails is a line of the table
                found[f"{backend}_error"] = f"{type(error).__name__}: {error}"[:200]
                continue
            found[f"{backend}_seconds"] = time.perf_counter() - begin
            found[f"{backend}_error"] = disagreement(module, inputs, result)
            runs[backend] = run
        best = dict.fromkeys(runs, math.inf)
        for _ in range(ROUNDS):
            for which, run in runs.items():
                begin = time.perf_counter()
                run()
                best[which] = min(best[which], time.perf_counter() - begin)
    return found | {f"{which}_ms": 1e3 * seconds for which, seconds in best.items()}


def line_of(found: dict[str, Any]) -> str:
    """A model in a line of the table."""
    theirs, ours = found.get("inductor_ms"), found.get("burnish_ms")
    ratio = f"{theirs / ours:.2f}" if theirs and ours else "-"
    numbers = [found.get(f"{b}_{u}") for u in ("ms", "seconds") for b in BACKENDS]
    shown = ["-" if n is None else f"{n:.2f}" for n in (*numbers[:2], found.get("eager_ms"))]
    compiled = ["-" if n is None else f"{n:.0f}" for n in numbers[2:]]
    errors = [f"{b}: {found[f'{b}_error']}" for b in BACKENDS if found.get(f"{b}_error")]
    cells = (found["name"], *shown, ratio, *compiled, found.get("error") or "; ".join(errors))
    return "| " + " | ".join(cells) + " |"


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", nargs="*", default=list(MODELS))
    parser.add_argument("--seconds", type=float, default=900)
    parser.add_argument("--one", help="measure this model here, and print JSON")
    given = parser.parse_args(argv)
    if given.one:
        print(json.dumps(measure(given.one)))
        return 0
    print(f"{cpu_name()}, one thread; {versions()}\n")
    print("| model | inductor, ms | burnish, ms | eager, ms | inductor / burnish |", end="")
    print(" first call, s: inductor | burnish | differs |")
    print("|---|---:|---:|---:|---:|---:|---:|---|")
    ratios = []
    for name in given.models:
        command = [sys.executable, "-m", "burnish.benchmarks.torch_backend", "--one", name]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=given.seconds)
            lines = done.stdout.strip().splitlines()
            ended = {"name": name, "error": f"ended with {done.returncode}"}
            found = json.loads(lines[-1]) if done.returncode == 0 and lines else ended
        except subprocess.TimeoutExpired:
            found = {"name": name, "error": f"took over {given.seconds:.0f} s"}
        print(line_of(found), flush=True)
        if "inductor_ms" in found and "burnish_ms" in found:
            ratios.append(found["inductor_ms"] / found["burnish_ms"])
    if ratios:
        print(f"\nGeometric mean of {len(ratios)}: {statistics.geometric_mean(ratios):.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
