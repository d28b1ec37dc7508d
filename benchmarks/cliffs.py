"""The search for cliffs: small random programs beside the roofline and beside eager PyTorch.

    python -m burnish.benchmarks.cliffs [--count 225] [--seed 0] [--seeds 7 12] [--out FILE.md]

Programs are drawn from the table of operators by their seeds (``tests/strategies/cliff_cases.py``);
as many as there are rows try each row once. Each is compiled for one thread with the analytic
schedule and takes turns with eager PyTorch, which gives results in memory order as burnish does,
both by the process's own clock, in one that may hang or die: the next program goes to a new one. A
time is a cliff where it is more than ``FACTOR`` times the roofline beyond the fixed cost of a call,
or where eager takes less than ``LEAST`` of it; so are compilations of more than ``COMPILATION``
seconds, programs that do not compile, hangs, and results that differ. The exit status says whether
there were any.
"""

from __future__ import annotations

import argparse
import copy
import json
import math
import os
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import burnish
from burnish.support.errors import BurnishError
from burnish.support.host import resolve
from burnish.support.node import Node, walk
from burnish.support.target import Target
from burnish.tensorir.expr import BufferLoad, Call, Div, FloorDiv, FloorMod, IntImm
from burnish.tensorir.function import PrimFunc
from burnish.tensorir.intrinsics import is_costly
from burnish.tensorir.stmt import For
from burnish.tuner.measuring.roofline import Peaks, bytes_of, measure_peaks
from burnish.tuner.task import count_flop
from burnish.tuner.workload import blocks_in_order

from .machine import cpu_seconds
from .operators import _flat
from .run import cpu_name, versions

FACTOR, LEAST, COMPILATION = 10.0, 0.5, 5.0
LIMIT = 60.0
"""Seconds that a program may take in all."""
CALL = 5e-6
"""Seconds of a call that does nothing, and of each kernel of it a tenth."""
INTRINSIC = 100.0
"""Operations of an elementary function or a division, counted generously."""
BY_DATA = 4.0
"""Cycles of an element whose place data tell."""
SORTED = 60.0
"""Cycles of an element of what is a program of its own: sorting, selecting, scanning."""
GIGAHERTZ = 3e9


@dataclass(frozen=True)
class Found:
    """One program: seconds of a call by ``eager`` and by ``ours``, what the ``roofline`` says (0
    where sizes have names), seconds of the compilation, the rules of its kernels."""

    seed: int
    case: str
    eager: float = 0.0
    ours: float = 0.0
    roofline: float = 0.0
    compiled: float = 0.0
    kernels: int = 0
    agrees: bool = True
    rules: tuple[str, ...] = ()
    error: str = ""

    @property
    def ratio(self) -> float:
        return self.eager / self.ours if self.ours else math.inf

    @property
    def factor(self) -> float:
        """How many times the roofline a call takes, but for its fixed cost."""
        spent = max(0.0, self.ours - CALL * (1 + self.kernels / 10))
        return spent / self.roofline if self.roofline else 0.0

    @property
    def verdict(self) -> str:
        """Why it is a cliff; empty where it is none."""
        if self.error:
            return self.error
        reasons = [] if self.agrees else ["results differ"]
        if self.factor > FACTOR:
            reasons.append(f"{self.factor:.0f} times the roofline")
        if self.ratio < LEAST:
            reasons.append(f"{self.ratio:.2f} of eager")
        if self.compiled > COMPILATION:
            reasons.append(f"{self.compiled:.0f} s to compile")
        return ", ".join(reasons)


# -- the roofline ----------------------------------------------------------------------------------
def roofline(func: PrimFunc, peaks: Peaks) -> float:
    """The least seconds of a function of static sizes: its bytes, its float operations, and what
    elementary functions, lookups and sorts cost besides."""
    moved = bytes_of(func)
    widest = max([p.dtype.bits for p in func.buffers if p.dtype.is_float], default=32)
    flops = peaks.flops / max(1.0, widest / 32)
    cycles = operations = 0.0
    for block in blocks_in_order(func):
        extents = [v.dom.extent for v in block.iter_vars]
        points = math.prod([e.value for e in extents if isinstance(e, IntImm)])
        operations += INTRINSIC * points * sum(map(_is_costly, walk(block.body)))
        if any(isinstance(n, For) for n in walk(block.body)):
            cycles += SORTED * sum([math.prod(_sizes(w.buffer.shape)) for w in block.writes])
        elif any(isinstance(i, BufferLoad) for n in walk(block.body)
                 if isinstance(n, BufferLoad) for x in n.indices for i in walk(x)):  # fmt: skip
            cycles += BY_DATA * points
    work = (count_flop(func) + operations) / flops + cycles / GIGAHERTZ
    return max(work, moved / peaks.bandwidth(moved))


def _is_costly(n: Node) -> bool:
    return isinstance(n, Div | FloorDiv | FloorMod) or (isinstance(n, Call) and is_costly(n))


def _sizes(shape: Sequence[Any]) -> list[int]:
    return [d.value for d in shape if isinstance(d, IntImm)]


def _roofline_of(model: Any, target: Target) -> float:
    """The sum over the kernels of a model, each as often as it is called."""
    module = model.executable.stages["30-fused"]
    if any(f.shape_vars for f in module.prim_funcs.values()):
        return 0.0
    calls: dict[str, int] = {}
    for func in module.graph_functions.values():
        for n in walk(func):
            name = getattr(getattr(n, "func", None), "name", None)
            if isinstance(name, str):
                calls[name] = calls.get(name, 0) + 1
    peaks = measure_peaks(target)
    functions = module.prim_funcs.items()
    return sum(roofline(func, peaks) * calls.get(name, 1) for name, func in functions)


# -- one program -----------------------------------------------------------------------------------
def measure(seed: int, case: Any, seconds: float) -> Found:
    """Compile a program, compare it with eager PyTorch, and time both in turns."""
    import torch

    module, inputs = case.module(), case.inputs()
    wall, cpu = time.perf_counter(), time.process_time()
    model = burnish.compile(module, inputs, threads=1, dynamic_shapes=case.dynamic_shapes)
    compiled = min(time.perf_counter() - wall, time.process_time() - cpu)
    best = [math.inf, math.inf]

    def in_order(*inputs: Any) -> Any:
        """Eager PyTorch, whose results are to be in memory order as ours are: it hands out views,
        and keeps the order of turned operands."""
        return [x.contiguous() for x in _flat(module(*inputs))]

    with torch.inference_mode():
        results = [_flat(run(*inputs)) for run in (module, model)]
        agrees = len(results[0]) == len(results[1]) and all(map(agree, *results))
        if not agrees and len(results[0]) == len(results[1]):
            # Eager overflows and rounds where a product in a narrow dtype does: in float64.
            wide = [x.double() if x.is_floating_point() else x for x in inputs]
            exact = _flat(copy.deepcopy(module).double()(*wide))
            agrees = all(map(no_farther, results[1], results[0], exact))
        end, turns = time.perf_counter() + 2 * seconds, 0
        while time.perf_counter() < end or turns < 3:
            turns += 1
            for _ in range(min(turns, 3)):
                best[0] = min(best[0], cpu_seconds(in_order, *inputs))
            for _ in range(min(turns, 3)):
                best[1] = min(best[1], cpu_seconds(model, *inputs))
    target = resolve(Target("native -threads=1"))
    rules = tuple([str(f.attr("legalized")) for f in model.module.prim_funcs.values()])
    kernels = len(model.report.kernels)
    return Found(
        seed,
        str(case),
        best[0],
        best[1],
        _roofline_of(model, target),
        compiled,
        kernels,
        agrees,
        rules,
    )


def agree(a: Any, b: Any) -> bool:
    """Whether two tensors are the same but for roundings, of the narrower of their dtypes."""
    import torch

    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    loose = a.dtype in (torch.float16, torch.bfloat16)
    tolerance = 5e-2 if loose else 1e-3
    return torch.allclose(a.double(), b.double(), rtol=tolerance, atol=tolerance, equal_nan=True)


def no_farther(ours: Any, eager: Any, exact: Any) -> bool:
    """Whether a result is as near to that of float64 as eager's, element by element, or nearly."""
    if ours.shape != exact.shape or ours.dtype != eager.dtype:
        return False
    exact = exact.to(ours.dtype).double()  # what overflows the dtype is infinite in both
    slack = 1e-6 * exact.abs().nan_to_num()
    same = (ours.double() == exact) | (ours.isnan() & exact.isnan())
    far = (eager.double() - exact).abs().nan_to_num(nan=float("inf"))
    return bool((same | ((ours.double() - exact).abs() <= far + slack)).all())


def work(seconds: float) -> None:
    """Answer each seed on standard input with a line of JSON, after one that says what it is."""
    import torch

    from burnish.tests.strategies.cliff_cases import draw_case

    torch.set_num_threads(1)
    for line in sys.stdin:
        seed = int(line)
        case = draw_case(seed)
        if case is None:
            print(json.dumps({"seed": seed, "case": "", "none": True}), flush=True)
            continue
        print(json.dumps({"seed": seed, "case": str(case), "begun": True}), flush=True)
        try:
            found = measure(seed, case, seconds)
        except (BurnishError, AssertionError, LookupError, TypeError, ValueError) as error:
            # Whatever a compilation raises is a finding, and the search goes on.
            found = Found(seed, str(case), error=f"{type(error).__name__}: {error}"[:500])
        print(json.dumps(asdict(found)), flush=True)


# -- the search ------------------------------------------------------------------------------------
class _Worker:
    """A process that is asked about seeds, and replaced where it hangs or dies."""

    def __init__(self, seconds: float) -> None:
        self.command = [sys.executable, "-m", "burnish.benchmarks.cliffs", "--work", str(seconds)]
        self.process: subprocess.Popen[str] | None = None

    def ask(self, seed: int) -> Found | None:
        """What a seed gave; None where it stands for no program."""
        if self.process is None:
            environment = dict(os.environ, OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")
            with tempfile.TemporaryFile() as errors:
                self.process = subprocess.Popen(
                    self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors,
                    text=True, env=environment,
                )  # fmt: skip
        sent, said = self.process.stdin, self.process.stdout
        assert sent is not None
        assert said is not None
        sent.write(f"{seed}\n")
        sent.flush()
        case, end = "", time.monotonic() + LIMIT
        while True:
            ready, _, _ = select.select([said], [], [], max(0.0, end - time.monotonic()))
            line = said.readline() if ready else ""
            if not line:
                self.close()
                return Found(seed, case, error="the process died" if ready else f"over {LIMIT} s")
            answer = json.loads(line)
            case = answer["case"]
            if answer.get("none"):
                return None
            if not answer.pop("begun", False):
                return Found(**answer | {"rules": tuple(answer["rules"])})

    def close(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


def search(seeds: Sequence[int], seconds: float) -> Iterator[Found]:
    """What each seed that stands for a program gave."""
    worker = _Worker(seconds)
    try:
        for seed in seeds:
            found = worker.ask(seed)
            if found is not None:
                yield found
    finally:
        worker.close()


def line_of(found: Found) -> str:
    """One program as a line: seed, ratio to eager, factor over the roofline, times, verdict."""
    figures = "" if found.error else (
        f"{found.ratio:6.2f} {found.factor:6.1f} {found.eager * 1e6:10.1f} {found.ours * 1e6:10.1f}"
    )  # fmt: skip
    kernels = f"  {', '.join(found.rules)}" if found.verdict and found.rules else ""
    return f"{found.seed:8} {figures:36} {found.case}  {found.verdict}{kernels}"


def summary(everything: Sequence[Found], worst: int) -> str:
    """Counts, and the worst programs beside eager and beside the roofline."""
    timed = [f for f in everything if not f.error]
    cliffs = [f for f in everything if f.verdict]
    lines = [f"{len(everything)} programs, {len(cliffs)} cliffs"]
    heads = "   seed  ratio factor   eager us    ours us  program"
    for title, key in (("eager", lambda f: f.ratio), ("the roofline", lambda f: -f.factor)):
        lines += ["", f"Worst beside {title}:", heads]
        lines += [line_of(f) for f in sorted(timed, key=key)[:worst]]
    errors = [line_of(f) for f in everything if f.error]
    return "\n".join([*lines, *(["", "Without a time:"] if errors else []), *errors])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=225, help="programs drawn")
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--seeds", type=int, nargs="+", help="these seeds alone")
    parser.add_argument("--seconds", type=float, default=0.03, help="for each of the two")
    parser.add_argument("--worst", type=int, default=20, help="programs listed at the end")
    parser.add_argument("--out", type=Path, metavar="FILE.md", help="where the end is written too")
    parser.add_argument("--work", type=float, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work is not None:
        work(options.work)
        return 0
    print(cpu_name(), versions(), sep="\n")
    everything: list[Found] = []
    for found in search(
        options.seeds or range(options.seed, options.seed + options.count), options.seconds
    ):
        everything.append(found)
        if found.verdict or options.seeds:
            print(line_of(found), flush=True)
    text = summary(everything, options.worst)
    print("\n" + text)
    if options.out is not None:
        options.out.write_text(f"{cpu_name()}; {versions()}\n\n{text}\n", encoding="utf-8")
    return int(any(f.verdict for f in everything))


if __name__ == "__main__":
    sys.exit(main())
