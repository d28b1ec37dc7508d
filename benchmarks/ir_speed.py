"""How fast the machine itself is: printing, parsing, primitives, replays, lowering and emission.

    python -m burnish.benchmarks.ir_speed [--repeat N]

The subject is a 1024 x 1024 x 1024 product with its bias and relu, scheduled by hand the packed way
(some 30 instructions). Printed are the least and the median milliseconds of each step; nothing is
asserted. LLVM's own time stands apart.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

from llvmlite import binding

from burnish.support.host import resolve
from burnish.support.target import Target
from burnish.tensorir.codegen.function import FunctionEmitter
from burnish.tensorir.codegen.object import emit_object, new_module
from burnish.tensorir.expr import const, maximum
from burnish.tensorir.function import PrimFunc
from burnish.tensorir.lowering import lower_func
from burnish.tensorir.schedule import Schedule, Trace
from burnish.tensorir.te import compute as te
from burnish.tensorir.text.parser import parse_func
from burnish.tensorir.text.printer import print_func

SIZE = 1024


def product() -> PrimFunc:
    """``relu(A @ B + bias)``."""
    a, b = te.placeholder((SIZE, SIZE), name="A"), te.placeholder((SIZE, SIZE), name="B")
    bias = te.placeholder((SIZE,), name="bias")
    k = te.reduce_axis((0, SIZE), "k")
    c = te.compute((SIZE, SIZE), lambda i, j: te.sum(a[i, k] * b[k, j], axis=[k]), name="C")
    d = te.compute(
        (SIZE, SIZE), lambda i, j: maximum(c[i, j] + bias[j], const(0.0, "float32")), name="D"
    )
    return te.create_prim_func([a, b, bias, d])


def schedule(sch: Schedule) -> None:
    """Register tiles over packed panels."""
    block = sch.get_block("C")
    i, j, k = sch.get_loops(block)
    i0, i1, i2 = sch.split(i, sch.sample_perfect_tile(i, 3, 8, decision=[8, 16, 8]))
    j0, j1, j2, j3 = sch.split(j, [None, 2, 2, 16])
    k0, k1 = sch.split(k, sch.sample_perfect_tile(k, 2, 4, decision=[256, 4]))
    sch.reorder(i0, j0, i1, j1, k0, k1, i2, j2, j3)
    tile = sch.cache_write(block, 0, "register")
    sch.reverse_compute_at(tile, j1)
    panel = sch.pack(block, 1, j0, lambda y, x: (x // 32, y, x % 32))
    row, column = sch.get_loops(panel)[-2:]
    _, lane = sch.split(column, [None, 16])
    sch.vectorize(lane)
    sch.annotate(row, "prefetch_distance", 16)
    sch.reverse_compute_inline("D")
    init = sch.decompose_reduction(block, k0)
    for name in (init, block):
        sch.vectorize(sch.get_loops(name)[-1])
        sch.unroll(sch.get_loops(name)[-2])
        sch.unroll(sch.get_loops(name)[-3])
    sch.unroll(k1)
    row, column = sch.get_loops(tile)[-2:]
    vector, lane = sch.split(column, [None, 16])
    sch.unroll(row)
    sch.unroll(vector)
    sch.vectorize(lane)
    sch.parallel(i0)


def milliseconds(call: Callable[[], object], repeat: int) -> tuple[float, float]:
    """The least and the median time of a call."""
    times = []
    for _ in range(repeat):
        begin = time.perf_counter()
        call()
        times.append(1e3 * (time.perf_counter() - begin))
    return min(times), statistics.median(times)


def main(argv: list[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=20)
    repeat = parser.parse_args(argv).repeat
    func = product()
    sch = Schedule(func, seed=0)
    schedule(sch)
    text = print_func(sch.func)
    json = sch.trace.as_json()
    target = resolve(Target("native -threads=1"))
    lowered = lower_func(sch.func, target)

    def replay(*, checks: bool) -> None:
        Trace.from_json(json).apply_to(Schedule(func, seed=0, enable_checks=checks))

    def split() -> None:
        fresh = Schedule(func, seed=0)
        fresh.split(fresh.get_loops("C")[0], [None, 8])

    def compute_at() -> None:
        fresh = Schedule(func, seed=0)
        fresh.compute_at("C", fresh.get_loops("D")[0])

    def emit() -> str:
        module = new_module(target)
        FunctionEmitter(module, lowered, target).emit()
        return str(module)

    ir = emit()
    steps: list[tuple[str, Callable[[], object]]] = [
        (f"print ({text.count(chr(10))} lines)", lambda: print_func(sch.func)),
        ("parse", lambda: parse_func(text)),
        ("split", split),
        ("compute_at", compute_at),
        (f"replay of {len(sch.trace.instructions)} instructions", lambda: replay(checks=True)),
        ("the same without checks", lambda: replay(checks=False)),
        ("lowering", lambda: lower_func(sch.func, target)),
        ("emission of LLVM IR", emit),
        (f"LLVM reads {len(ir) // 1024} KiB", lambda: binding.parse_assembly(ir)),
        ("emission, LLVM and machine code", lambda: emit_object([lowered], target)),
    ]
    print(f"{'step':34s} {'least':>9s} {'median':>9s}   milliseconds")
    for name, call in steps:
        least, median = milliseconds(call, repeat)
        print(f"{name:34s} {least:9.3f} {median:9.3f}")


if __name__ == "__main__":
    main()
