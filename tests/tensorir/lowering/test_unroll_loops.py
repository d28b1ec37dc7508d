"""Unrolled loops become copies with constants put in."""

from __future__ import annotations

import numpy as np
import pytest

from burnish.support.errors import CodegenError
from burnish.tensorir.lowering.flatten_buffers import flatten_buffers
from burnish.tensorir.lowering.lower_blocks import lower_blocks
from burnish.tensorir.lowering.simplify_loops import simplify_loops
from burnish.tensorir.lowering.unroll_loops import unroll_loops
from burnish.tensorir.text.parser import parse_func
from burnish.tensorir.text.printer import print_func
from burnish.tests.native import call_native


def unrolled(loops: str) -> str:
    text = f"""
@T.prim_func
def f(A: T.Buffer((64, 64), "float32"), C: T.Buffer((64, 64), "float32")):
    for {loops}:
                with T.block("C"):
                    vi = T.axis.spatial(64, i)
                    vj = T.axis.spatial(64, j)
                    C[vi, vj] = T.Select(vj < 2, A[vi, vj], A[vj, vi])
"""
    func = unroll_loops(flatten_buffers(simplify_loops(lower_blocks(parse_func(text)))))
    return "\n".join(print_func(func).split("\n")[2:]).rstrip()


def test_indices_and_conditions_become_constant() -> None:
    assert (
        unrolled("i in range(64):\n        for j in T.unroll(3)")
        == """\
    for i in range(64):
        C[i * 64] = A[i * 64]
        C[i * 64 + 1] = A[i * 64 + 1]
        C[i * 64 + 2] = A[i + 128]"""
    )


def test_nested_unrolled_loops() -> None:
    text = unrolled("i in T.unroll(2):\n        for j in T.unroll(2)")
    assert (
        text
        == """\
    C[0] = A[0]
    C[1] = A[1]
    C[64] = A[64]
    C[65] = A[65]"""
    )


def test_an_inner_loop_is_copied_with_variables_of_its_own() -> None:
    text = unrolled("i in T.unroll(2):\n        for j in range(64)")
    assert text.count("for j") == 2
    assert "C[j + 64]" in text or "for j_1 in range(64):" in text


def test_automatic_unrolling_respects_the_limit() -> None:
    pragma = 'annotations={"pragma_auto_unroll_max_step": 8}'
    assert "for" not in unrolled(f"i in T.serial(2, {pragma}):\n        for j in range(4)")
    assert "for i" in unrolled(f"i in T.serial(64, {pragma}):\n        for j in range(4)")
    assert "for j" not in unrolled(f"i in T.serial(64, {pragma}):\n        for j in range(4)")


def test_a_symbolic_extent_is_an_error() -> None:
    func = parse_func("""
@T.prim_func
def f(a: T.handle):
    n = T.int64()
    A = T.match_buffer(a, (n,), "float32")
    for j in T.unroll(n):
        with T.block("A"):
            vj = T.axis.spatial(n, j)
            A[vj] = T.float32(0)
""")
    with pytest.raises(
        CodegenError, match="An unrolled loop needs a constant number of iterations; j"
    ):
        unroll_loops(flatten_buffers(simplify_loops(lower_blocks(func))))


def test_an_explosion_is_an_error() -> None:
    loops = "i in T.unroll(64):\n        for j in T.unroll(64)"
    func = parse_func(f"""
@T.prim_func
def f(C: T.Buffer((64, 64, 64), "float32")):
    for k in T.unroll(64):
      for {loops}:
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSS", [i, j, k])
                C[vi, vj, vk] = T.float32(0)
""")
    with pytest.raises(CodegenError, match="makes more than 16384 copies"):
        unroll_loops(flatten_buffers(simplify_loops(lower_blocks(func))))


def test_buffers_of_unrolled_loops_stand_around_the_copies() -> None:
    func = parse_func("""
@T.prim_func
def f(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    for i in T.unroll(2):
        with T.block("row"):
            vi = T.axis.spatial(2, i)
            T.reads(A[vi * 4:vi * 4 + 4])
            T.writes(C[vi * 4:vi * 4 + 4])
            B = T.alloc_buffer((4,))
            for j in range(4):
                B[j] = A[vi * 4 + j]
            for j in range(4):
                C[vi * 4 + j] = B[3 - j]
    for i in range(8):
        with T.block("D"):
            v = T.axis.spatial(8, i)
            C[v] = C[v] + T.float32(1)
""")
    lowered = unroll_loops(flatten_buffers(simplify_loops(lower_blocks(func))))
    lines = print_func(lowered).splitlines()
    assert "T.allocate([4]" in lines[2]
    assert not any("allocate" in line for line in lines[3:])
    assert lines[-2] == "    for i in range(8):"


def test_a_loop_behind_its_own_unrolled_copies_keeps_its_variable() -> None:
    func = parse_func("""
@T.prim_func
def main(A: T.Buffer((6,), "float32"), C: T.Buffer((40,), "float32")):
    for i in T.vectorized(40):
        for k in range(6):
            with T.block("C"):
                vi = T.axis.spatial(40, i)
                vk = T.axis.reduce(6, k)
                with T.init():
                    C[vi] = 0.0
                C[vi] = C[vi] + A[vk]
""")
    a, c = np.arange(6, dtype=np.float32), np.zeros(40, np.float32)
    call_native(func, a, c)
    np.testing.assert_array_equal(c, np.full(40, 15, np.float32))
