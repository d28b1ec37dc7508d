"""Kernels that move more than they compute: GB/s, and how much of the bandwidth of copies that is.

    python -m burnish.benchmarks.memory_bound [--kernels softmax,gelu] [--seconds 0.5]

One thread, float32, untuned, at two sizes: what a kernel reads and writes together is four times
the L2 cache, and three times the L3 cache. Counted are the bytes that have to be moved: each
operand once. Kernel and copy take turns in one process, and the copy (``numpy.copyto``) moves as
many bytes; each has its best time by the process's own clock, so that what else the machine does
counts little. Both read a tensor of PyTorch's and write an array as the runtime makes them; it is
memory that is there: what it costs to get memory from the system is not measured. Those that
compute much (``gelu``) say how far the bandwidth is from being the limit.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import burnish
from burnish.support.aligned import aligned_empty
from burnish.support.errors import InternalError
from burnish.support.host import resolve
from burnish.vm.storage import data_pointer

from .machine import cpu_seconds
from .run import cpu_name, versions

WIDTH = 1024
"""Elements of a row."""


@dataclass(frozen=True)
class Kernel:
    """``make(torch)`` gives a function of tensors or a module; ``shapes(rows)`` are those of its
    arguments for so many rows of ``WIDTH`` elements."""

    name: str
    make: Callable[[Any], Any]
    shapes: Callable[[int], list[tuple[int, ...]]] = lambda rows: [(rows, WIDTH)]


def _images(rows: int) -> list[tuple[int, ...]]:
    """As many elements as 64 channels of square images."""
    side = max(4, int((rows * WIDTH / 64) ** 0.5) // 4 * 4)
    return [(1, 64, side, side)]


def _two(rows: int) -> list[tuple[int, ...]]:
    return [(rows, WIDTH)] * 2


KERNELS = {
    k.name: k
    for k in (
        Kernel("relu", lambda torch: torch.relu),
        Kernel("add", lambda torch: torch.add, _two),
        Kernel("exp", lambda torch: torch.exp),
        Kernel("log", lambda torch: lambda x: torch.log(x * x)),
        Kernel("tanh", lambda torch: torch.tanh),
        Kernel("erf", lambda torch: torch.erf),
        Kernel("sigmoid", lambda torch: torch.sigmoid),
        Kernel("silu", lambda torch: torch.nn.SiLU()),
        Kernel("gelu", lambda torch: torch.nn.GELU()),
        Kernel("softmax", lambda torch: torch.nn.Softmax(-1)),
        Kernel("layer_norm", lambda torch: torch.nn.LayerNorm(WIDTH)),
        Kernel("sum-rows", lambda torch: lambda x: x.sum(-1)),
        Kernel("sum-columns", lambda torch: lambda x: x.sum(0)),
        Kernel("max-rows", lambda torch: lambda x: x.amax(-1)),
        Kernel("argmax", lambda torch: lambda x: x.argmax(-1)),
        Kernel("cumsum", lambda torch: lambda x: x.cumsum(-1)),
        Kernel("transpose", lambda torch: lambda x: x.t().contiguous()),
        Kernel("concat", lambda torch: lambda x, y: torch.cat((x, y), 1), _two),
        Kernel("pad", lambda torch: lambda x: torch.nn.functional.pad(x, (3, 3))),
        Kernel("max-pool", lambda torch: torch.nn.MaxPool2d(2), _images),
        Kernel("avg-pool", lambda torch: torch.nn.AvgPool2d(2), _images),
        Kernel("embedding", lambda torch: torch.nn.Embedding(1, WIDTH)),
    )
}


def _prepared(kernel: Kernel, rows: int) -> tuple[Callable[[], None], int]:
    """A call of the compiled kernel on memory of its own, and the bytes that it moves."""
    import torch

    from .cases import _Function

    made = kernel.make(torch)
    rng = np.random.default_rng(0)
    arrays: list[np.ndarray[Any, Any]]
    if kernel.name == "embedding":
        made = torch.nn.Embedding(2 * rows, WIDTH)
        arrays = [rng.permutation(2 * rows)[:rows]]
    else:
        arrays = [rng.standard_normal(s, dtype=np.float32) for s in kernel.shapes(rows)]
    module = made if isinstance(made, torch.nn.Module) else _Function(made)
    model = burnish.compile(module.eval(), tuple([torch.from_numpy(a) for a in arrays]), threads=1)
    entry = model.executable.vm.fast_entry("main", lambda *arguments: None)
    if entry is None:
        raise InternalError(f"{kernel.name} is no single kernel")
    inputs = [torch.from_numpy(a).clone().numpy() for a in arrays]
    outputs = []
    for spec in entry.outputs:
        out = aligned_empty([int(text) for text in spec.shape], np.dtype(spec.dtype))
        out[...] = 0
        outputs.append(out)
    moved = sum([a.nbytes for a in (*inputs, *outputs)])
    if kernel.name == "embedding":
        moved += outputs[0].nbytes  # the rows that are looked up
    pointers = [data_pointer(a) for a in inputs], [data_pointer(a) for a in outputs]
    keep = (inputs, outputs, model)

    def call(_keep: object = keep) -> None:
        entry.call_pointers(*pointers)

    return call, moved


def measure(kernel: Kernel, rows: int, seconds: float) -> tuple[float, float]:
    """GB/s of the kernel and of copies of as many bytes, in turns for ``seconds``."""
    import torch

    call, moved = _prepared(kernel, rows)
    source = torch.ones(moved // 8).numpy()
    target = aligned_empty(source.shape, source.dtype)
    target[...] = 0

    def copy() -> None:
        np.copyto(target, source)

    best = [float("inf")] * 2
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for i, function in enumerate((call, copy)):
            for _ in range(2):  # the second call finds in the caches what the first one left
                best[i] = min(best[i], cpu_seconds(function))
    return moved / best[0] / 1e9, 2 * source.nbytes / best[1] / 1e9


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kernels", default=",".join(KERNELS))
    parser.add_argument("--seconds", type=float, default=0.5, help="length of a measurement")
    options = parser.parse_args()
    target = resolve(burnish.Target("native"))
    sizes = {"beyond L2": 4 * target.l2_bytes, "beyond L3": 3 * target.l3_bytes}
    print(cpu_name(), versions(), sep="\n")
    heads = "".join([f"{name + ' MB':>16}{'GB/s':>8}{'copy':>8}{'':>8}" for name in sizes])
    print(f"\n{'kernel':12}{heads}")
    for name in options.kernels.split(","):
        cells = []
        for total in sizes.values():
            rows = max(16, total // (2 * 4 * WIDTH) // 16 * 16)
            own, copied = measure(KERNELS[name], rows, options.seconds)
            cells.append(f"{total / 1e6:16.1f}{own:8.1f}{copied:8.1f}{own / copied:8.0%}")
        print(f"{name:12}{''.join(cells)}", flush=True)


if __name__ == "__main__":
    main()
