"""What a compilation costs: seconds by part, kernels, and memory beside the weights.

    python -m benchmarks.compile_time --models mlp,bert,resnet50 --repeat 3 [--warm]

Each measurement is a process of its own: a cold compilation of a torch module to the first result;
with ``--warm`` one that finds its code in a cache, which an earlier process has filled.
``torch.export`` is not ours and stands apart, and so does loading the compiler (``package``), once
a process. ``ours`` is the rest: the import of the exported program, all stages, and the first call,
which links. ``beside`` are processor seconds of build workers, which work while ours passes. Memory
is what a compilation adds to a process that holds the exported program, in MB and in multiples of
the weights: at most, and after the first call (``workers``: what the build workers hold until they
end).
"""

from __future__ import annotations

import argparse
import gc
import importlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any

GRAPH = ("00-import", "10-canonical", "20-legalized", "30-fused")
MODELS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "mlp": ("mlp", lambda m: m.build()),
    "bert": ("transformer", lambda m: m.bert()),
    "gpt2": ("transformer", lambda m: m.gpt2()),
    "resnet18": ("resnet", lambda m: m.build(18)),
    "resnet50": ("resnet", lambda m: m.build(50)),
    "mobilenetv2": ("mobilenet", lambda m: m.build()),
    "vit-tiny": ("transformer", lambda m: m.vit()),
}
"""Module of ``burnish.models`` and what makes the model."""
COLUMNS = (
    *("package", "export", "import", "graph", "schedule", "packing", "lower", "codegen", "llvm"),
    *("program", "first", "ours", "beside"),
)
"""Seconds."""


def parts_of(report: Any) -> dict[str, float]:
    """The seconds of a CompileReport by the columns it can fill."""
    stages = report.stages
    return {
        "import": report.frontend.get("import", 0.0),
        "graph": sum(stages.get(s, 0.0) for s in GRAPH),
        "schedule": stages.get("40-scheduled", 0.0),
        "packing": stages.get("45-packed", 0.0),
        "lower": stages.get("50-lowered", 0.0),
        "codegen": stages.get("60-llvm", 0.0) - report.llvm_seconds,
        "llvm": report.llvm_seconds,
        "program": stages.get("70-bytecode", 0.0),
        "beside": report.worker_seconds,
    }


def measure(name: str) -> dict[str, Any]:
    """Compile one model in this process and call it; a row of the table."""
    import torch

    import burnish

    folder, make = MODELS[name]
    module, inputs = make(importlib.import_module(f"burnish.models.{folder}"))
    held = [*module.parameters(), *module.buffers()]
    weights = sum(t.numel() * t.element_size() for t in held)
    begin = time.perf_counter()
    program = torch.export.export(module, inputs)
    exported = time.perf_counter()
    for part in ("driver.compile", "frontend.torch"):
        importlib.import_module(f"burnish.{part}")
    gc.collect()
    before = resident()
    start = time.perf_counter()
    model = burnish.compile(program)
    compiled = time.perf_counter()
    model(*inputs)
    end = time.perf_counter()
    peak, workers = resident(peak=True), sum(resident(pid) for pid in children())
    gc.collect()
    report = model.report
    parts = parts_of(report)
    parts |= {"export": exported - begin, "package": start - exported}
    parts |= {"first": end - compiled, "ours": end - start}
    return {
        "model": name,
        "weights": weights,
        "seconds": parts,
        "calls": report.calls,
        "kernels": len(report.kernels),
        "distinct": report.distinct,
        "objects": report.compilations,
        "peak": peak - before,
        "kept": resident() - before,
        "workers": workers,
    }


def resident(pid: int | str = "self", *, peak: bool = False) -> int:
    """Bytes of memory a process has now, or had at most."""
    field = "VmHWM:" if peak else "VmRSS:"
    with open(f"/proc/{pid}/status") as status:
        line = next(line for line in status if line.startswith(field))
    return int(line.split()[1]) * 1024


def children() -> list[int]:
    """The processes that this one has started and that live."""
    found: list[int] = []
    for task in os.listdir("/proc/self/task"):
        with open(f"/proc/self/task/{task}/children") as file:
            found += [int(pid) for pid in file.read().split()]
    return found


def in_process(name: str, cache: str | None) -> dict[str, Any]:
    """``measure`` in a fresh interpreter, with its cache in a folder, or without one."""
    command = [sys.executable, "-m", "benchmarks.compile_time", "--measure", name]
    flags = {"BURNISH_CACHE_DIR": cache} if cache else {"BURNISH_CACHE": "0"}
    env = os.environ | flags
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=env)
    row: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return row


def table(rows: Sequence[dict[str, Any]]) -> str:
    """The rows as text, seconds first, then counts and memory."""
    head = f"{'model':12}" + "".join(f"{c:>9}" for c in COLUMNS)
    head += f"{'calls':>7}{'kernels':>8}{'distinct':>9}{'objects':>8}"
    head += f"{'weights':>10}{'peak':>17}{'kept':>17}{'workers':>10}"
    lines = [head]
    for row in rows:
        line = f"{row['model']:12}" + "".join(f"{row['seconds'][c]:9.3f}" for c in COLUMNS)
        line += f"{row['calls']:7}{row['kernels']:8}{row['distinct']:9}{row['objects']:8}"
        line += f"{row['weights'] / 1e6:7.1f} MB"
        for size in (row["peak"], row["kept"]):
            line += f"{size / 1e6:7.1f} MB{size / row['weights']:6.1f}x"
        lines.append(line + f"{row['workers'] / 1e6:7.0f} MB")
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure the models in turns and print the fastest run of each."""
    parser = argparse.ArgumentParser(prog="benchmarks.compile_time", description=__doc__)
    parser.add_argument("--models", default=",".join(MODELS), help="names separated by commas")
    parser.add_argument("--repeat", type=int, default=1, help="processes a model")
    parser.add_argument("--warm", action="store_true", help="let it find what it compiled before")
    parser.add_argument("--json", action="store_true", help="a line of JSON a run, all of them")
    parser.add_argument("--measure", choices=tuple(MODELS), help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.measure:
        print(json.dumps(measure(options.measure)))
        return 0
    names = options.models.split(",")
    unknown = [n for n in names if n not in MODELS]
    if unknown:
        parser.error(f"there is no model {unknown[0]!r}; there are {', '.join(MODELS)}.")
    best: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as folder:
        cache = folder if options.warm else None
        if options.warm:
            for name in names:
                in_process(name, cache)
        for name in names * options.repeat:
            row = in_process(name, cache)
            if options.json:
                print(json.dumps(row), flush=True)
            known = best.get(name)
            if known is None or row["seconds"]["ours"] < known["seconds"]["ours"]:
                best[name] = row
    print(table([best[n] for n in names]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
