"""A tensor program as text: what it says, the same in plain Python, and the same as expressions.

A primitive tensor function is loops over buffers around blocks. A block names its axes, spatial or
reduce, so that a compiler knows which loops it may reorder without looking further.

    python examples/course/tensor_programs.py
"""

from __future__ import annotations

import numpy as np

import burnish
from burnish import te
from burnish.script import I, T

SIZE = 32


@I.ir_module
class MyModule:
    @T.prim_func
    def mm_relu(
        A: T.Buffer((32, 32), "float32"),
        B: T.Buffer((32, 32), "float32"),
        C: T.Buffer((32, 32), "float32"),
    ):
        T.func_attr({"global_symbol": "mm_relu", "tir.noalias": True})
        Y = T.alloc_buffer((32, 32), "float32")
        for i, j, k in T.grid(32, 32, 32):
            with T.block("Y"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    Y[vi, vj] = T.float32(0)
                Y[vi, vj] = Y[vi, vj] + A[vi, vk] * B[vk, vj]
        for i, j in T.grid(32, 32):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = T.max(Y[vi, vj], T.float32(0))


def loops_mm_relu(a, b, c):
    """The same loops in plain Python."""
    y = np.empty((SIZE, SIZE), dtype="float32")
    for i in range(SIZE):
        for j in range(SIZE):
            y[i, j] = 0
            for k in range(SIZE):
                y[i, j] = y[i, j] + a[i, k] * b[k, j]
    for i in range(SIZE):
        for j in range(SIZE):
            c[i, j] = max(y[i, j], 0)


def mm_relu_expressions():
    """The same function from two definitions, one of each tensor."""
    a = te.placeholder((SIZE, SIZE), name="A")
    b = te.placeholder((SIZE, SIZE), name="B")
    k = te.reduce_axis((0, SIZE), name="k")
    y = te.compute((SIZE, SIZE), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="Y")
    c = te.compute((SIZE, SIZE), lambda i, j: te.max(y[i, j], te.const(0, "float32")), name="C")
    return te.create_prim_func([a, b, c])


def largest_error(c, a, b):
    """How far ``c`` is from what NumPy computes."""
    return float(np.abs(c - np.maximum(a @ b, 0)).max())


def main():
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((SIZE, SIZE)).astype("float32") for _ in range(2))

    by_hand = np.empty((SIZE, SIZE), "float32")
    loops_mm_relu(a, b, by_hand)
    print(f"Python loops: largest error {largest_error(by_hand, a, b):.1e}")

    print(MyModule.script())
    lib = burnish.build(MyModule, target="llvm")
    c = burnish.empty((SIZE, SIZE), dtype="float32")
    lib["mm_relu"](burnish.array(a), burnish.array(b), c)
    print(f"Compiled: largest error {largest_error(c.numpy(), a, b):.1e}")

    burnish.assert_structural_equal(mm_relu_expressions(), MyModule["mm_relu"])
    print("The tensor expressions give the same program.")

    parsed = burnish.parse(MyModule.script())
    burnish.assert_structural_equal(parsed, MyModule)
    print("The printed text is the same program.")


if __name__ == "__main__":
    main()
