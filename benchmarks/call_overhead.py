"""What a call costs beyond its work: an empty model, one of ten inputs, and the MLP.

    python -m benchmarks.call_overhead [--rounds 21]

burnish (NumPy in and out, torch in and out) beside ONNX Runtime (plain, and with its inputs and
outputs bound), torch.compile and eager PyTorch, in one process and in turns, on one thread. Printed
are the minimum and the median of the rounds, in microseconds. A contender that is not installed, or
cannot compile here, is left out with the reason.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import Any

from burnish.driver.timing import time_interleaved

from .contenders import CONTENDERS

PEERS = ("onnxruntime", "torch.compile", "eager")


def cases() -> dict[str, tuple[Any, tuple[Any, ...]]]:
    """(module, inputs) by name."""
    import torch

    from burnish.models import mlp

    class Empty(torch.nn.Module):
        """One operation of four numbers."""

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + 1

    class Ten(torch.nn.Module):
        """The sum of ten inputs of four numbers."""

        def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
            total = inputs[0]
            for x in inputs[1:]:
                total = total + x
            return total

    network, images = mlp.build()[:2]
    return {
        "empty": (Empty().eval(), (torch.ones(4),)),
        "ten inputs": (Ten().eval(), tuple(torch.full((4,), float(n)) for n in range(10))),
        "mlp": (network, tuple(images)),
    }


def contenders(module: Any, inputs: tuple[Any, ...]) -> tuple[dict[str, Callable[[], Any]], str]:
    """Calls by name, and why some are missing."""
    import burnish

    arrays = tuple(x.numpy() for x in inputs)
    for_arrays = burnish.compile(module, inputs, threads=1)
    for_tensors = burnish.compile(module, inputs, threads=1)
    found: dict[str, Callable[[], Any]] = {
        "burnish, numpy": lambda: for_arrays(*arrays),
        "burnish, torch": lambda: for_tensors(*inputs),
    }
    missing = []
    for name in PEERS:
        try:
            for way, prepare in CONTENDERS[name](module, arrays, 1).items():
                found[f"{name}, {way}"] = prepare()
        except Exception as error:  # whatever a peer raises where it cannot run
            missing.append(f"{name}: {type(error).__name__}: {str(error).splitlines()[0]}")
    return found, "; ".join(missing)


def main(argv: Sequence[str] | None = None) -> int:
    """Time all cases and print a table for each."""
    parser = argparse.ArgumentParser(prog="benchmarks.call_overhead", description=__doc__)
    parser.add_argument("--rounds", type=int, default=21, help="turns of each contender")
    options = parser.parse_args(argv)
    for name, (module, inputs) in cases().items():
        calls, missing = contenders(module, inputs)
        times = time_interleaved(calls, rounds=options.rounds)
        print(f"{name:24}{'minimum':>10}{'median':>10}  us a call")
        for who, timing in times.items():
            print(f"  {who:22}{timing.minimum * 1e6:10.2f}{timing.median * 1e6:10.2f}")
        if missing:
            print(f"  left out: {missing}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
