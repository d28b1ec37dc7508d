"""Places of intermediate buffers: registers, stack, shared and thread workspace."""

from __future__ import annotations

from burnish.support.node import walk
from burnish.support.target import Target
from burnish.tensorir.lowering.pipeline import LoweredFunc, lower_func
from burnish.tensorir.lowering.plan_allocations import STORAGE
from burnish.tensorir.stmt import Allocate, annotation
from burnish.tensorir.text.parser import parse_func
from burnish.tensorir.text.printer import print_expr


def lowered(size: str, outer: str, scope: str = "global") -> LoweredFunc:
    text = f"""
@T.prim_func
def f(a: T.handle, b: T.handle):
    n = T.int64()
    A = T.match_buffer(a, (n, {size}), "float32")
    B = T.match_buffer(b, (n, {size}), "float32")
    with T.block("root"):
        X = T.alloc_buffer((n, {size}), "float32", scope="{scope}")
        Y = T.alloc_buffer((n, {size}), "float32", scope="{scope}")
        for i in {outer}:
            for j in range({size}):
                with T.block("X"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    X[vi, vj] = A[vi, vj]
            for j in range({size}):
                with T.block("Y"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    Y[vi, vj] = X[vi, {size} - 1 - vj]
            for j in range({size}):
                with T.block("B"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    B[vi, vj] = Y[vi, {size} - 1 - vj]
"""
    return lower_func(parse_func(text), Target("llvm -mcpu=haswell"))


def storage(f: LoweredFunc) -> dict[str, str]:
    return {
        n.buffer.name: annotation(n, STORAGE) for n in walk(f.func.body) if isinstance(n, Allocate)
    }


def test_small_buffers_live_on_the_stack() -> None:
    f = lowered("16", "range(n)")
    assert storage(f) == {"X": "stack", "Y": "stack"}
    assert (print_expr(f.shared_bytes), print_expr(f.thread_bytes)) == ("0", "0")


def test_larger_buffers_take_workspace_in_units_of_64_bytes() -> None:
    f = lowered("1001", "range(n)")
    assert storage(f) == {"X": "shared", "Y": "shared"}
    assert print_expr(f.shared_bytes) == str(2 * 4032)
    offsets = [
        print_expr(n.buffer.elem_offset) for n in walk(f.func.body) if isinstance(n, Allocate)
    ]
    assert offsets == ["0", str(4032 // 4)]


def test_inside_a_parallel_loop_each_thread_has_its_own() -> None:
    f = lowered("1024", "T.parallel(n)")
    assert storage(f) == {"X": "thread", "Y": "thread"}
    assert print_expr(f.thread_bytes) == "8192"


def test_registers_are_no_memory() -> None:
    text = lowered("16", "range(n)", "register")
    assert storage(text) == {"X": "register", "Y": "register"}
    assert print_expr(text.shared_bytes) == "0"


def test_the_stack_has_a_limit() -> None:
    assert set(storage(lowered("256", "range(n)")).values()) == {"stack"}
    assert set(storage(lowered("257", "range(n)")).values()) == {"shared"}


def test_symbolic_sizes_give_symbolic_workspace() -> None:
    func = parse_func("""
@T.prim_func
def f(a: T.handle, b: T.handle):
    n = T.int64()
    A = T.match_buffer(a, (n,), "float32")
    B = T.match_buffer(b, (n,), "float32")
    X = T.alloc_buffer((n,), "float32")
    for i in range(n):
        with T.block("X"):
            vi = T.axis.spatial(n, i)
            X[vi] = A[vi]
    for i in range(n):
        with T.block("B"):
            vi = T.axis.spatial(n, i)
            B[vi] = X[n - 1 - vi]
""")
    f = lower_func(func, Target("llvm -mcpu=haswell"))
    assert print_expr(f.shared_bytes) == "(n * 4 + 63) // 64 * 64"
