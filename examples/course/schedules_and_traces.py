"""Schedules of a matrix product: fixed ones, sampled ones, their traces, and a search over them.

A schedule transforms a program step by step and writes each step down. With sampled factors one
schedule stands for a space of programs: the trace holds what was drawn.

    python examples/course/schedules_and_traces.py [--trials N]
"""

from __future__ import annotations

import argparse

import numpy as np

import burnish
from burnish.script import I, T


@I.ir_module
class MyModule:
    @T.prim_func
    def main(
        A: T.Buffer((128, 128), "float32"),
        B: T.Buffer((128, 128), "float32"),
        C: T.Buffer((128, 128), "float32"),
    ):
        T.func_attr({"global_symbol": "main", "tir.noalias": True})
        for i, j, k in T.grid(128, 128, 128):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = 0.0
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]


def schedule_mm(sch, jfactor=4):
    """Tile j, and take the initialisation out of the reduction."""
    block_c = sch.get_block("C", "main")
    i, j, k = sch.get_loops(block=block_c)
    j_0, j_1 = sch.split(loop=j, factors=[None, jfactor])
    sch.reorder(i, j_0, k, j_1)
    sch.decompose_reduction(block_c, k)
    return sch


def stochastic_schedule_mm(sch):
    """The same with tiles that are drawn at random among those that divide the loop."""
    block_c = sch.get_block("C", "main")
    i, j, k = sch.get_loops(block=block_c)
    j_factors = sch.sample_perfect_tile(loop=j, n=2)
    j_0, j_1 = sch.split(loop=j, factors=j_factors)
    sch.reorder(i, j_0, k, j_1)
    sch.decompose_reduction(block_c, k)
    return sch


def measure(mod):
    """Milliseconds that a call takes; its result is compared with NumPy's."""
    rng = np.random.default_rng(0)
    a, b = (burnish.array(rng.random((128, 128), dtype="float32")) for _ in range(2))
    c = burnish.empty((128, 128), dtype="float32")
    lib = burnish.build(mod, target="llvm")
    lib["main"](a, b, c)
    np.testing.assert_allclose(c.numpy(), a.numpy() @ b.numpy(), rtol=1e-4)
    return lib.time_evaluator("main", number=3)(a, b, c).mean * 1000


def random_search(mod, num_trials=5):
    """The fastest of some random schedules."""
    best_time, best_sch = None, None
    for i in range(num_trials):
        sch = stochastic_schedule_mm(burnish.Schedule(mod, seed=i))
        time = measure(sch.mod)
        print(f"=====Attempt {i}, time-cost: {time:.3f} ms====")
        print(sch.trace)
        if best_time is None or time < best_time:
            best_time, best_sch = time, sch
    return best_sch


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=5)
    options = parser.parse_args(argv)

    print(f"Time cost of MyModule: {measure(MyModule):.3f} ms")
    sch = schedule_mm(burnish.Schedule(MyModule))
    print(sch.mod.script())
    print(f"Time cost of MyModule => schedule_mm: {measure(sch.mod):.3f} ms")
    print(sch.trace)

    # A trace and the original program give the final one again.
    again = burnish.Schedule(MyModule)
    sch.trace.apply_to(again)
    burnish.assert_structural_equal(again.mod, sch.mod)

    # Sampled factors are variables; the trace knows what was drawn for them.
    sch = burnish.Schedule(MyModule, seed=0)
    block_c = sch.get_block("C", "main")
    i, j, k = sch.get_loops(block=block_c)
    j_factors = sch.sample_perfect_tile(loop=j, n=2)
    print(f"A factor is a {type(j_factors[0]).__name__}; drawn: {[sch.get(f) for f in j_factors]}")
    print(sch.trace)
    j_0, j_1 = sch.split(loop=j, factors=j_factors)
    sch.reorder(i, j_0, k, j_1)
    sch.decompose_reduction(block_c, k)
    print(sch.mod.script())

    best = random_search(MyModule, options.trials)
    print("The best of them:")
    print(best.trace)


if __name__ == "__main__":
    main()
