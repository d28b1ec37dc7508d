"""One level of parallel loops."""

from __future__ import annotations

from burnish.support.node import walk
from burnish.tensorir.lowering.lower_blocks import lower_blocks
from burnish.tensorir.lowering.lower_parallel import lower_parallel
from burnish.tensorir.lowering.simplify_loops import simplify_loops
from burnish.tensorir.stmt import For
from burnish.tensorir.text.parser import parse_func


def loops(first: str, second: str) -> dict[str, For]:
    text = f"""
@T.prim_func
def f(A: T.Buffer((64, 64), "float32"), C: T.Buffer((64, 64), "float32")):
    for i in {first}:
        for j in {second}:
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = A[vi, vj]
"""
    func = lower_parallel(simplify_loops(lower_blocks(parse_func(text))))
    return {n.var.name: n for n in walk(func.body) if isinstance(n, For)}


def test_the_outermost_stays_parallel() -> None:
    found = loops("T.parallel(64)", "T.parallel(64)")
    assert (found["i"].kind, found["j"].kind) == ("parallel", "serial")


def test_a_parallel_loop_below_a_serial_one_stays() -> None:
    found = loops("range(64)", "T.parallel(64)")
    assert (found["i"].kind, found["j"].kind) == ("serial", "parallel")


def test_gpu_threads_are_plain_loops() -> None:
    found = loops(
        'T.thread_binding(64, thread="blockIdx.x")', 'T.thread_binding(64, thread="threadIdx.x")'
    )
    assert [x.kind for x in found.values()] == ["serial", "serial"]
    assert found["i"].thread == ""
