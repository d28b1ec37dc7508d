"""The whole of lowering on one function, as text."""

from __future__ import annotations

from collections.abc import Callable

from burnish.support.target import Target
from burnish.tensorir.lowering.pipeline import lower_func
from burnish.tensorir.text.parser import parse_func
from burnish.tensorir.text.printer import print_expr, print_func

TILE = """
@T.prim_func
def tile(a: T.handle, B: T.Buffer((64, 16), "float32"), c: T.handle):
    T.func_attr({"is_scheduled": True})
    m = T.int64()
    A = T.match_buffer(a, (m, 64), "float32")
    C = T.match_buffer(c, (m, 16), "float32")
    with T.block("root"):
        acc = T.alloc_buffer((m, 16), "float32", scope="register")
        for io in T.parallel((m + 1) // 2):
            for ii in T.unroll(2):
                for j in T.vectorized(16):
                    with T.block("init"):
                        vi = T.axis.spatial(m, io * 2 + ii)
                        vj = T.axis.spatial(16, j)
                        acc[vi, vj] = T.float32(0)
            for k in range(64):
                for ii in T.unroll(2):
                    for j in T.vectorized(16):
                        with T.block("update"):
                            vi = T.axis.spatial(m, io * 2 + ii)
                            vj = T.axis.spatial(16, j)
                            vk = T.axis.reduce(64, k)
                            T.where(io * 2 + ii < m)
                            acc[vi, vj] = acc[vi, vj] + A[vi, vk] * B[vk, vj]
            for ii in T.unroll(2):
                for j in T.vectorized(16):
                    with T.block("C"):
                        vi = T.axis.spatial(m, io * 2 + ii)
                        vj = T.axis.spatial(16, j)
                        T.where(io * 2 + ii < m)
                        C[vi, vj] = T.max(acc[vi, vj], T.float32(0))
"""


def test_a_register_tile_of_a_symbolic_matmul(golden: Callable[..., None]) -> None:
    lowered = lower_func(parse_func(TILE), Target("llvm -mcpu=skylake-avx512"))
    golden(print_func(lowered.func))
    assert [v.name for v in lowered.dims] == ["m"]
    assert (print_expr(lowered.shared_bytes), print_expr(lowered.thread_bytes)) == ("0", "0")


def test_lowering_leaves_its_input_alone() -> None:
    func = parse_func(TILE)
    before = print_func(func)
    lower_func(func, Target("llvm -mcpu=haswell"))
    assert print_func(func) == before
