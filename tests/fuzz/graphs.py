"""The command behind ``make random-graphs``: random graphs, compiled and run.

Three families. ``operators`` and ``control`` are graphs of ours (``strategies/graph_modules.py``;
the second with environment functions, branches and calls): each is compiled as users compile it and
again with one kernel an operator, for one or two batches where a dim has a name, and both must give
what eager torch (for ``control`` the interpreter in NumPy) gives in float64; every tenth of the
first goes through torch.export. ``nnsmith`` are torch modules that NNSmith draws, of all dtypes,
with roundings and comparisons of inexact values: both builds must give what eager gives, to what
eager's own results move when inputs move by a few roundings. Graphs go to worker processes in
chunks, as the programs of ``fuzz/programs.py`` do.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

import burnish
from burnish.driver.kernels import resolve_target
from burnish.driver.stages import compile_through
from burnish.graphir.module import IRModule
from burnish.graphir.passes.pipeline import stages
from burnish.graphir.weights import forked
from burnish.tests.fuzz.schedules import ending_of, lines_of, run_worker
from burnish.tests.fuzz.worker import arm_watchdog, watch
from burnish.tests.graphir import reference
from burnish.tests.strategies.graph_environment import environment_functions
from burnish.tests.strategies.graph_modules import RandomModule, build_random
from burnish.tests.strategies.graph_torch import GraphModule
from burnish.tests.strategies.graph_values import check_values, flat
from burnish.tests.strategies.nnsmith_graphs import draw_module

FAMILIES = ("operators", "control", "nnsmith")
CHUNK = 50
LIMIT = 120.0
"""Seconds of the processor that a graph may take."""
NATIVE = resolve_target("native")
EXPORTED = 10
"""One in so many graphs of operators goes through torch.export."""
ROUNDINGS = (2.0, 8.0, 24.0, 8.0, 24.0, 1.0)
"""By how many roundings numbers are moved to see what eager's results owe to rounding."""
ERRORS = {torch.float16: 4e-3, torch.float32: 2e-5, torch.float64: 1e-10}
"""What a graph of NNSmith may be off where no rounding matters, of the largest element."""


@dataclass
class Checked:
    """What became of a graph."""

    seed: int
    family: str
    ending: str = ""
    """``same``, or why there was nothing to compare; empty where it failed."""
    failure: str = ""


def check_graph(seed: int, family: str) -> Checked:
    """Compile and run the graph of a seed, in this process."""
    checked = Checked(seed, family)
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"), torch.no_grad():
            warnings.simplefilter("ignore")
            match family:
                case "operators":
                    checked.ending = _check_operators(seed)
                case "control":
                    with environment_functions():
                        checked.ending = _check_control(seed)
                case _:
                    checked.ending = _check_drawn(seed)
    except Exception:
        checked.failure = traceback.format_exc(limit=-4)
    return checked


def _unfused(module: IRModule) -> Any:
    """One kernel an operator, no rewriting before."""
    return compile_through(module, NATIVE, stages("debug")).vm["main"]


def _batches(graph: RandomModule, seed: int) -> Sequence[int]:
    return ((0, 1, 5)[seed % 3], 3) if graph.is_dynamic else (1,)


def _check_operators(seed: int) -> str:
    graph = build_random(seed)
    module = GraphModule(graph.module).eval()
    double = GraphModule(build_random(seed).module).eval().double()
    builds = [burnish.compile(graph.module), _unfused(build_random(seed).module)]
    if seed % EXPORTED == 0:
        examples = tuple([torch.from_numpy(x) for x in graph.inputs(seed, 4)])
        dims = tuple([{i: n for i, n in enumerate(s) if isinstance(n, str)} for s in graph.shapes])
        named = {"dynamic_shapes": dims} if graph.is_dynamic else {}
        builds.append(burnish.compile(module, examples, **named))
    for batch in _batches(graph, seed):
        inputs = graph.inputs(seed + batch, batch)
        expected = flat(double(*[torch.from_numpy(x).double() for x in inputs]))
        for build in builds:
            check_values(flat(build(*inputs)), expected, graph.depth)
    return "same"


def _check_control(seed: int) -> str:
    graph, double = build_random(seed, control=True), build_random(seed, "float64", control=True)
    builds = [
        burnish.compile(graph.module),
        _unfused(build_random(seed, control=True).module),
    ]
    for batch in _batches(graph, seed):
        inputs = graph.inputs(seed + batch, batch)
        wide = [x.astype(np.float64) for x in inputs]
        expected = flat(reference.run(double.module, "main", *wide))
        for build in builds:
            check_values(flat(build(*inputs)), expected, graph.depth)
    return "same"


# -- NNSmith's -------------------------------------------------------------------------------------
def _check_drawn(seed: int) -> str:
    drawn = draw_module(seed)
    try:
        with SaturatingCasts():
            expected = drawn.module(*drawn.inputs)
    except (RuntimeError, TypeError) as error:
        return f"eager refuses: {str(error).split(chr(10), 1)[0][:80]}"
    if any(x.is_complex() for x in (*drawn.inputs, *expected)):
        return "complex numbers"
    spread = _spread(drawn.module, drawn.inputs, expected)
    model = burnish.compile(drawn.module, drawn.inputs)
    known = model.executable.stages["00-import"]
    (weights,) = forked([known.weights])
    builds = [model, _unfused(IRModule(known.functions, known.attrs, weights))]
    for build in builds:
        found = [torch.as_tensor(np.asarray(x)) for x in flat(build(*drawn.inputs))]
        for index, (got, want, moved) in enumerate(zip(found, expected, spread, strict=True)):
            if wrong := _difference(got, want, moved):
                raise AssertionError(f"output {index}: {wrong}\n{drawn.text}")
    return "same"


class SaturatingCasts(TorchDispatchMode):
    """Eager torch, but for what a number that is none or too large becomes as an integer: torch
    leaves that to the CPU, the IR's Cast says 0 and the nearest."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        made = func(*args, **(kwargs or {}))
        if func is not torch.ops.aten._to_copy.default or not args[0].is_floating_point():
            return made
        if made.is_floating_point() or made.is_complex() or made.dtype == torch.bool:
            return made
        x, limits = args[0].double(), torch.iinfo(made.dtype)
        made[x.isnan()] = 0
        made[x >= float(limits.max)] = limits.max
        made[x <= float(limits.min)] = limits.min
        return made


class Moving(SaturatingCasts):
    """Eager torch as others could have rounded it: each operator is worked out in float64, and its
    result moved by some roundings of its type."""

    def __init__(self, size: float) -> None:
        super().__init__()
        self.size = size

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if func is torch.ops.aten.gelu.default and not kwargs:
            with self:  # what is left of 1 + erf has the roundings of a number around 1
                return args[0] * 0.5 * (1 + torch.erf(args[0] * 0.5**0.5))
        made = super().__torch_dispatch__(func, types, args, kwargs)
        if func.is_view or func._schema.is_mutable or func is torch.ops.aten._to_copy.default:
            return made
        try:
            wide_args, wide_kwargs = tree_map(_widened, (args, kwargs or {}))
            wide = func(*wide_args, **wide_kwargs)
        except (RuntimeError, TypeError):  # one that takes no float64
            wide = made
        return tree_map(self._narrowed, wide, made)

    def _narrowed(self, wide: Any, made: Any) -> Any:
        if not isinstance(made, torch.Tensor) or not made.is_floating_point():
            return made
        return _moved(wide.to(made.dtype), self.size)


def _widened(x: Any) -> Any:
    return x.double() if isinstance(x, torch.Tensor) and x.is_floating_point() else x


def _spread(
    module: torch.nn.Module, inputs: Sequence[torch.Tensor], expected: Sequence[torch.Tensor]
) -> list[torch.Tensor]:
    """How far each element of eager's results moves when the inputs, the module's own numbers and
    all between them do; huge where it stops being a number."""
    spread = [torch.zeros(x.shape, dtype=torch.float64) for x in expected]
    # In place: what a module keeps of its layers by other ways than as parts is no copy's.
    held = [x.data for x in (*module.parameters(), *module.buffers())]
    kept = [x.clone() for x in held]
    for size in ROUNDINGS:
        for x, original in zip(held, kept, strict=True):
            x.copy_(_moved(original, size))
        with Moving(size):
            others = module(*[_moved(x, size) for x in inputs])
        for most, x, other in zip(spread, expected, others, strict=True):
            apart = (x.double() - other.double()).abs()
            apart[_alike(x, other)] = 0
            torch.maximum(most, torch.nan_to_num(apart, nan=1e300, posinf=1e300), out=most)
    for x, original in zip(held, kept, strict=True):
        x.copy_(original)
    return spread


def _moved(x: torch.Tensor, size: float) -> torch.Tensor:
    """``x``, moved by this many roundings of its type."""
    if not x.is_floating_point():
        return x
    return x * (1 + size * torch.finfo(x.dtype).eps * torch.randn_like(x))


def _alike(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return (a == b) | (a.isnan() & b.isnan())


def _difference(got: torch.Tensor, want: torch.Tensor, spread: torch.Tensor) -> str:
    """What is wrong with a result; empty if nothing is."""
    if (got.dtype, got.shape) != (want.dtype, want.shape):
        return f"{got.dtype} {tuple(got.shape)}, not {want.dtype} {tuple(want.shape)}"
    usual = want[torch.isfinite(want)].double().abs()
    largest = max(1.0, float(usual.max())) if usual.numel() else 1.0
    allowed = ERRORS.get(want.dtype, 0.0) * largest + 8 * spread
    same = _alike(got, want) | ((got.double() - want.double()).abs() <= allowed) | (spread > 1e299)
    if bool(same.all()):
        return ""
    at = tuple((~same).nonzero()[0].tolist())
    return (
        f"{int((~same).sum())} of {want.numel()} elements differ: {got[at].item()} at {at}, not "
        f"{want[at].item()} ({want.dtype}, largest {largest:.3g}, moves by {float(spread[at]):.2g})"
    )


# -- all of them -----------------------------------------------------------------------------------
def run_chunk(family: str, first: int, count: int) -> Iterator[Checked]:
    """The graphs of a range of seeds, each checked in some process."""
    last = first + count
    while first < last:
        done = run_worker("burnish.tests.fuzz.graphs", "--work", family, first, last - first)
        said = lines_of(done)
        yield from [Checked(**line) for line in said if "family" in line]
        if done.returncode == 0:
            return
        begun = [line["begin"] for line in said if "begin" in line]
        seed = begun[-1] if begun else first
        yield Checked(seed, family, "", f"{ending_of(done)}\n{done.stderr[-1500:]}")
        first = seed + 1


def work(family: str, first: int, count: int) -> None:
    """What a worker process does: a line of JSON for each graph, and one before it."""
    torch.set_num_threads(1)
    for seed in range(first, first + count):
        print(json.dumps({"begin": seed}), flush=True)
        watch(LIMIT)
        print(json.dumps(asdict(check_graph(seed, family))), flush=True)


def report(checked: Sequence[Checked]) -> str:
    """Counts by family, and the failures."""
    lines = []
    for family in FAMILIES:
        own = [c for c in checked if c.family == family]
        endings = Counter(c.ending for c in own if not c.failure)
        words = [f"{count} {ending}" for ending, count in endings.most_common()]
        words.append(f"{sum(bool(c.failure) for c in own)} failures")
        if own:
            lines.append(f"{family}: {len(own)} graphs: {', '.join(words)}")
    for c in checked:
        if c.failure:
            lines.append(f"FAILED {c.family}, seed {c.seed}\n{c.failure.rstrip()}")
    return "\n".join(lines)


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1000, help="graphs; 3 of 20 are NNSmith's")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--family", choices=FAMILIES, action="append")
    parser.add_argument("--work", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        arm_watchdog()
        work(options.work[0], int(options.work[1]), int(options.work[2]))
        return
    begin = time.perf_counter()
    families = options.family or FAMILIES
    weights = {"operators": 13, "control": 4, "nnsmith": 3}
    total = sum(weights[f] for f in families)
    chunks = []
    for family in families:
        count = options.count * weights[family] // total
        for at in range(0, count, CHUNK):
            chunks.append((family, options.seed + at, min(CHUNK, count - at)))
    checked: list[Checked] = []
    with ThreadPoolExecutor(options.jobs) as pool:
        for (family, first, count), found in zip(
            chunks, pool.map(lambda a: list(run_chunk(*a)), chunks), strict=True
        ):
            failures = [c.seed for c in found if c.failure]
            print(f"{family} {first} to {first + count - 1}: failures {failures}", flush=True)
            checked += found
    print(report(checked))
    print(f"{time.perf_counter() - begin:.0f} s")
    sys.exit(any(c.failure for c in checked))


if __name__ == "__main__":
    main()
