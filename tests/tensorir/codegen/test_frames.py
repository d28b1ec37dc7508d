"""Index arithmetic stands where it belongs: once, in the outermost frame that knows it."""

from __future__ import annotations

import numpy as np

from burnish.support.target import Target
from burnish.tensorir.codegen.function import FunctionEmitter
from burnish.tensorir.codegen.object import new_module
from burnish.tensorir.lowering.pipeline import lower_func
from burnish.tensorir.text.parser import parse_func
from burnish.tests.native import call_native

TARGET = Target("llvm -mcpu=haswell")


def blocks(text: str) -> list[list[str]]:
    """The instructions of each basic block of the kernel's loops, before LLVM sees them."""
    lowered = lower_func(parse_func(text), TARGET)
    module = new_module(TARGET)
    FunctionEmitter(module, lowered, TARGET).emit()
    impl = next(f for f in module.functions if f.name.endswith(".impl"))
    return [[str(i).strip() for i in b.instructions] for b in impl.blocks]


def count(block: list[str], word: str) -> int:
    return sum(f" {word} " in line for line in block)


def test_invariant_terms_stand_in_front_of_the_inner_loop() -> None:
    entry, outer, _, inner, *_ = blocks("""
@T.prim_func
def f(A: T.Buffer((32, 1024), "float32"), B: T.Buffer((32, 1024), "float32")):
    for i in range(32):
        for j in range(1024):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] + A[vi, 5]
""")
    assert count(entry, "mul") == 0
    assert count(outer, "mul") == 1, "i * 1024 is computed once for both buffers"
    assert count(inner, "mul") == 0
    assert count(inner, "load") == 2
    assert sum("getelementptr" in line for line in inner) == 3


def test_a_read_only_element_is_loaded_once() -> None:
    text = """
@T.prim_func
def f(A: T.Buffer((8,), "float32"), B: T.Buffer((8, 4), "float32")):
    for i in range(8):
        for j in T.unroll(4):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi] * A[vi]
"""
    assert count(blocks(text)[1], "load") == 1
    inplace = text.replace("    for i", '    T.func_attr({"inplace": True})\n    for i')
    assert count(blocks(inplace)[1], "load") == 4


GATHER = """
@T.prim_func
def f(P: T.Buffer((2,), "int64"), x: T.handle, y: T.handle):
    n = T.int64()
    X = T.match_buffer(x, (9, n), "float32")
    Y = T.match_buffer(y, (2, n), "float32")
    for i in range(2):
        for j in range({extent}):
            with T.block("Y"):
                vi, vj = T.axis.remap("SS", [i, j])
                Y[vi, vj] = X[T.min(P[vi], 8), vj]
"""


def test_a_loaded_index_stands_in_front_of_a_loop_that_runs() -> None:
    _, outer, _, inner, *_ = blocks(GATHER.format(extent=16))
    assert count(outer, "load") == 1
    assert count(inner, "load") == 1


def test_a_loaded_index_stays_in_a_loop_that_may_be_empty() -> None:
    _, outer, _, inner, *_ = blocks(GATHER.format(extent="n"))
    assert count(outer, "load") == 0
    assert count(inner, "load") == 2


MASKED = """
@T.prim_func
def f(p: T.handle, X: T.Buffer((9, 32), "float32"), Y: T.Buffer((8, 32), "float32")):
    T.func_attr({{"is_scheduled": True}})
    n = T.int64()
    P = T.match_buffer(p, ({size},), "int64")
    for i in range(8):
        for k in range(4):
            for j in T.vectorized(8):
                with T.block("Y"):
                    vi = T.axis.spatial(8, i)
                    vj = T.axis.spatial(32, k * 8 + j)
                    T.where(k * 8 + j < n)
                    Y[vi, vj] = X[P[vi], vj]
"""


def test_an_index_that_exists_is_loaded_whatever_the_mask_says() -> None:
    _, outer, _, inner, *_ = blocks(MASKED.format(size="n + 8"))
    assert count(outer, "load") == 1
    assert count(inner, "load") == 0, "that of X is masked"


def test_an_index_under_a_mask_is_loaded_behind_it() -> None:
    (loading,) = [b for b in blocks(MASKED.format(size="n")) if count(b, "load")]
    assert count(loading, "load") == 1
    assert sum("masked.load" in line for line in loading) == 1, "behind a branch, with the row"


def test_a_division_that_may_trap_is_not_moved() -> None:
    _, outer, _, then, *_ = blocks("""
@T.prim_func
def f(a: T.handle):
    n = T.int64()
    A = T.match_buffer(a, (n,), "float32")
    for i in range(64):
        if n > 3:
            A[i // n] = T.float32(0)
""")
    assert count(outer, "udiv") == 0
    assert count(then, "udiv") == 1


def test_accesses_of_the_workspace_are_known_to_be_aligned() -> None:
    lowered = lower_func(
        parse_func("""
@T.prim_func
def f(A: T.Buffer((64, 64), "float32"), B: T.Buffer((64, 64), "float32")):
    T.func_attr({"is_scheduled": True})
    X = T.alloc_buffer((64, 64), "float32")
    for i in range(64):
        for j in T.vectorized(8):
            with T.block("X"):
                vi, vj = T.axis.remap("SS", [i, j])
                X[vi, vj] = A[vi, vj]
    for i in range(64):
        for j in T.vectorized(8):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = X[63 - vi, vj]
"""),
        TARGET,
    )
    module = new_module(TARGET)
    FunctionEmitter(module, lowered, TARGET).emit()
    text = str(module)
    assert "align 32" in text.split("store <8 x float>")[1].split("\n")[0]
    assert "align 4" in text.split("store <8 x float>")[2].split("\n")[0]


def test_a_loaded_index_is_loaded_again_after_a_store() -> None:
    func = parse_func("""
@T.prim_func
def main(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
    place = T.alloc_buffer((1,), "int64")
    for i in T.unroll(4):
        with T.block("place"):
            vi = T.axis.opaque(4, i)
            place[0] = 3 - vi
        with T.block("copy"):
            vi = T.axis.opaque(4, i)
            B[vi] = A[place[0]]
""")
    a, b = np.arange(4, dtype=np.float32), np.zeros(4, np.float32)
    call_native(func, a, b)
    np.testing.assert_array_equal(b, a[::-1])


def test_an_index_loaded_in_a_branch_and_outside_of_it() -> None:
    func = parse_func("""
@T.prim_func
def main(P: T.Buffer((7,), "int64"), X: T.Buffer((10, 6), "float32"), Y: T.Buffer((7, 6))):
    for i, j in T.grid(7, 6):
        with T.block("Y"):
            vi, vj = T.axis.remap("SS", [i, j])
            Y[vi, vj] = T.if_then_else(P[vi] // 4 < 2, X[P[vi], vj], 0.0) + X[P[vi], vj]
""")
    p, x = np.array([1, 2, 3, 9, 0, 5, 4]), np.arange(60, dtype=np.float32).reshape(10, 6)
    y = np.zeros((7, 6), np.float32)
    call_native(func, p, x, y)
    np.testing.assert_array_equal(y, x[p] * np.where(p // 4 < 2, 2, 1)[:, None])
