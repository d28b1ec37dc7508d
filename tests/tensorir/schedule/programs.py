"""Small programs to schedule, and the check that a schedule keeps what they compute."""

from __future__ import annotations

import textwrap

import numpy as np

from burnish.tensorir.expr import Var, const, maximum
from burnish.tensorir.function import PrimFunc
from burnish.tensorir.te import compute as te
from burnish.tensorir.text.parser import parse_func
from burnish.tensorir.text.printer import print_func
from burnish.tests.tensorir.interpreter import run, unwritten

Size = int | Var


def matmul(m: Size = 8, n: Size = 8, k: Size = 8) -> PrimFunc:
    """``C[i, j] = sum_k A[i, k] * B[k, j]``, one block."""
    a, b = te.placeholder((m, k), name="A"), te.placeholder((k, n), name="B")
    rk = te.reduce_axis((0, k), "k")
    c = te.compute((m, n), lambda i, j: te.sum(a[i, rk] * b[rk, j], axis=[rk]), name="C")
    return te.create_prim_func([a, b, c])


def linear_relu(m: Size, n: Size, k: Size) -> PrimFunc:
    """``Z = relu(X @ W.T + B)``: the blocks Y (sum), T (bias) and Z (relu)."""
    x, w = te.placeholder((m, k), name="X"), te.placeholder((n, k), name="W")
    b = te.placeholder((n,), name="B")
    rk = te.reduce_axis((0, k), "k")
    y = te.compute((m, n), lambda i, j: te.sum(x[i, rk] * w[j, rk], axis=[rk]), name="Y")
    t = te.compute((m, n), lambda i, j: y[i, j] + b[j], name="T")
    z = te.compute((m, n), lambda i, j: maximum(t[i, j], const(0.0, "float32")), name="Z")
    return te.create_prim_func([x, w, b, z])


def chain(m: Size = 8, n: Size = 6) -> PrimFunc:
    """``B = A + 1; C = B * 2``: two elementwise blocks."""
    a = te.placeholder((m, n), name="A")
    b = te.compute((m, n), lambda i, j: a[i, j] + 1.0, name="B")
    c = te.compute((m, n), lambda i, j: b[i, j] * 2.0, name="C")
    return te.create_prim_func([a, c])


def blur(n: int = 16) -> PrimFunc:
    """``B = A * 2; C[i] = B[i] + B[i + 1] + B[i + 2]``: a consumer that reads a window."""
    a = te.placeholder((n + 2,), name="A")
    b = te.compute((n + 2,), lambda i: a[i] * 2.0, name="B")
    c = te.compute((n,), lambda i: b[i] + b[i + 1] + b[i + 2], name="C")
    return te.create_prim_func([a, c])


def row_sum(m: Size = 4, n: Size = 12) -> PrimFunc:
    """``B[i] = sum_j A[i, j]``."""
    a = te.placeholder((m, n), name="A")
    j = te.reduce_axis((0, n), "j")
    b = te.compute((m,), lambda i: te.sum(a[i, j], axis=[j]), name="B")
    return te.create_prim_func([a, b])


def assert_same(before: PrimFunc, after: PrimFunc, *sizes: int) -> None:
    """Both functions write the same outputs from the same random inputs.

    ``sizes`` are the values of the symbolic dimensions, in order.
    """
    dims = dict(zip(before.shape_vars, sizes, strict=True))
    results: list[list[np.ndarray]] = []
    for func in (before, after):
        rng = np.random.default_rng(7)
        written = before.written
        arrays = []
        for old in before.buffers:
            shape = tuple([dims[d] if isinstance(d, Var) else d.value for d in old.shape])
            if old in written:
                arrays.append(unwritten(shape, str(old.dtype)))
            else:
                arrays.append(rng.integers(-8, 9, shape).astype(str(old.dtype)))
        run(func, *arrays)
        results.append([a for a, b in zip(arrays, before.buffers, strict=True) if b in written])
    for x, y in zip(*results, strict=True):
        assert not np.isnan(x).any()
        np.testing.assert_array_equal(x, y)


def body(func: PrimFunc) -> str:
    """The text of a function without its header."""
    lines = print_func(func).splitlines()
    start = next(i for i, line in enumerate(lines) if 'T.block("root")' in line)
    return "\n".join([line[4:] for line in lines[start + 1 :]]).strip()


def program(text: str, **shapes: str) -> PrimFunc:
    """A function of float32 buffers of these shapes, with this body."""
    buffers = ", ".join(f'{name}: T.Buffer({s}, "float32")' for name, s in shapes.items())
    lines = textwrap.indent(textwrap.dedent(text).strip(), "    ")
    return parse_func(f"@T.prim_func\ndef main({buffers}):\n{lines}\n")


ROWS = """
@T.prim_func
def main(P: T.Buffer((9,), "int64"), X: T.Buffer((64,), "float32"), Y: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("rows"):
            vi = T.axis.spatial(8, i)
            T.reads(P[vi:vi + 2], X[0:64])
            T.writes(Y[vi])
            for k in range(P[vi + 1] - P[vi]):
                with T.block("Y"):
                    vk = T.axis.reduce(P[vi + 1] - P[vi], k)
                    with T.init():
                        Y[vi] = T.float32(0)
                    Y[vi] += X[vk]
"""


COPY_B = """
for i in range(8):
    with T.block("B"):
        vi = T.axis.spatial(8, i)
        B[vi] = A[vi] + T.float32(1)
"""


B_OF_A = """
B = T.alloc_buffer((8,))
for i in range(8):
    with T.block("B"):
        vi = T.axis.spatial(8, i)
        B[vi] = A[vi] + T.float32(1)
"""


REWRITTEN = """
@T.prim_func
def main(A: T.Buffer((6, 6), "float32"), O: T.Buffer((6, 6), "float32")):
    S = T.alloc_buffer((6,))
    U = T.alloc_buffer((6, 6))
    X = T.alloc_buffer((6, 6))
    for i, j in T.grid(6, 6):
        with T.block("X"):
            vi, vj = T.axis.remap("SS", [i, j])
            X[vi, vj] = A[vi, vj] + T.float32(1)
    for i in range(6):
        for t in range(6):
            with T.block("S"):
                vi, vt = T.axis.remap("SS", [i, t])
                S[vt] = X[vi, vt]
        for t in range(6):
            with T.block("U"):
                vi, vt = T.axis.remap("SS", [i, t])
                U[vi, vt] = S[5 - vt]
    for i, j in T.grid(6, 6):
        with T.block("O"):
            vi, vj = T.axis.remap("SS", [i, j])
            O[vi, vj] = U[vi, vj]
"""


def summed(loops: str, where: str = "") -> PrimFunc:
    """``B[i] = sum_k A[i, k]`` in these loops."""
    lines = loops.strip("\n").splitlines()
    pad = " " * (len(lines[-1]) - len(lines[-1].lstrip()) + 4)
    block = f"""
with T.block("B"):
    vi, vk = T.axis.remap("SR", [i, k])
{f"    T.where({where})" if where else ""}
    with T.init():
        B[vi] = T.float32(0)
    B[vi] = B[vi] + A[vi, vk]
"""
    text = "\n".join([*lines, *(pad + line for line in block.splitlines() if line)])
    return program(text, A="(4, 4)", B="(4,)")
