"""Small functions, one for each shape of program that schedules are made for, by name.

``CORPUS`` has those written with the compute language, which the tuner's rules are tried on too;
``PROGRAMS`` adds what only text can say (recurrences, tuple reductions, opaque and nested blocks,
views, predicates) and what schedules alone are tried on; ``program`` also knows random ones. Sizes
are small and mostly prime to each other. Every function is defined for inputs of any value:
indirect indices are clamped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from burnish.tensorir.expr import Expr, Var, as_expr, const, logical_and, maximum
from burnish.tensorir.function import PrimFunc
from burnish.tensorir.intrinsics import call_intrin
from burnish.tensorir.te import compute as te
from burnish.tensorir.te.compute import Tensor
from burnish.tensorir.text.parser import parse_func
from burnish.tests.strategies.corpus_texts import TEXTS
from burnish.tests.strategies.random_programs import PREFIX, random_program


# -- functions -------------------------------------------------------------------------------------
def _sum(shape: tuple[int | Var, ...], depth: int | Var, term: Callable[..., Expr]) -> Tensor:
    """``C[...] = sum over k of term(..., k)``."""
    k = te.reduce_axis((0, depth), "k")
    return te.compute(shape, lambda *i: te.sum(term(*i, k), axis=[k]), name="C")


def matmul(m: int | Var = 6, n: int = 12, k: int = 10) -> PrimFunc:
    a, b = te.placeholder((m, k), name="A"), te.placeholder((k, n), name="B")
    return te.create_prim_func([a, b, _sum((m, n), k, lambda i, j, r: a[i, r] * b[r, j])])


def batched_matmul() -> PrimFunc:
    a, b = te.placeholder((2, 4, 6), name="A"), te.placeholder((2, 6, 8), name="B")
    product = _sum((2, 4, 8), 6, lambda g, i, j, r: a[g, i, r] * b[g, r, j])
    return te.create_prim_func([a, b, product])


def integer_matmul_transposed() -> PrimFunc:
    a, b = te.placeholder((6, 9), name="A", dtype="int8"), te.placeholder((8, 9), "int8", "B")

    def term(i: Expr, j: Expr, r: Expr) -> Expr:
        return a[i, r].astype("int32") * b[j, r].astype("int32")

    return te.create_prim_func([a, b, _sum((6, 8), 9, term)])


def linear_relu(m: int | Var = 5, n: int = 8, k: int = 6) -> PrimFunc:
    x, w = te.placeholder((m, k), name="X"), te.placeholder((n, k), name="W")
    b = te.placeholder((n,), name="B")
    y = _sum((m, n), k, lambda i, j, r: x[i, r] * w[j, r])
    t = te.compute((m, n), lambda i, j: y[i, j] + b[j], name="T")
    z = te.compute((m, n), lambda i, j: maximum(t[i, j], const(0.0, "float32")), name="Z")
    return te.create_prim_func([x, w, b, z])


def two_matmuls() -> PrimFunc:
    a, b = te.placeholder((6, 4), name="A"), te.placeholder((4, 8), name="B")
    e = te.placeholder((8, 5), name="E")
    c = _sum((6, 8), 4, lambda i, j, r: a[i, r] * b[r, j])
    d = te.compute((6, 8), lambda i, j: call_intrin("exp", c[i, j] * 0.0625), name="D")
    k = te.reduce_axis((0, 8), "k")
    f = te.compute((6, 5), lambda i, j: te.sum(d[i, k] * e[k, j], axis=[k]), name="F")
    return te.create_prim_func([a, b, e, f])


def softmax() -> PrimFunc:
    x = te.placeholder((5, 9), name="X")
    j, k = te.reduce_axis((0, 9), "j"), te.reduce_axis((0, 9), "k")
    top = te.compute((5,), lambda i: te.max(x[i, j], axis=[j]), name="top")
    e = te.compute((5, 9), lambda i, c: call_intrin("exp", x[i, c] - top[i]), name="e")
    total = te.compute((5,), lambda i: te.sum(e[i, k], axis=[k]), name="total")
    return te.create_prim_func([x, te.compute((5, 9), lambda i, c: e[i, c] / total[i], name="y")])


def layer_norm() -> PrimFunc:
    x, w = te.placeholder((4, 12), name="X"), te.placeholder((12,), name="W")
    j, k = te.reduce_axis((0, 12), "j"), te.reduce_axis((0, 12), "k")
    total = te.compute((4,), lambda i: te.sum(x[i, j], axis=[j]), name="total")
    mean = te.compute((4,), lambda i: total[i] / 12.0, name="mean")

    def square(i: Expr, c: Expr) -> Expr:
        return (x[i, c] - mean[i]) * (x[i, c] - mean[i])

    spread = te.compute((4,), lambda i: te.sum(square(i, k), axis=[k]), name="spread")

    def scaled(i: Expr, c: Expr) -> Expr:
        return (x[i, c] - mean[i]) / call_intrin("sqrt", spread[i] / 12.0 + 0.5) * w[c]

    return te.create_prim_func([x, w, te.compute((4, 12), scaled, name="y")])


def row_sums(m: int | Var = 6, n: int | Var = 13) -> PrimFunc:
    a = te.placeholder((m, n), name="A")
    return te.create_prim_func([a, _sum((m,), n, lambda i, r: a[i, r])])


def column_sums() -> PrimFunc:
    a = te.placeholder((13, 6), name="A")
    return te.create_prim_func([a, _sum((6,), 13, lambda i, r: a[r, i])])


def chain(m: int | Var = 6, n: int = 10) -> PrimFunc:
    a = te.placeholder((m, n), name="A")
    b = te.compute((m, n), lambda i, j: a[i, j] + 1.0, name="B")
    c = te.compute((m, n), lambda i, j: maximum(b[i, j] * 2.0, a[i, j]), name="C")
    d = te.compute((m, n), lambda i, j: c[i, j] - b[i, j], name="D")
    return te.create_prim_func([a, d])


def transpose() -> PrimFunc:
    a = te.placeholder((6, 10), name="A")
    b = te.compute((10, 6), lambda i, j: a[j, i], name="B")
    c = te.compute((10, 6), lambda i, j: b[i, j] * 2.0, name="C")
    return te.create_prim_func([a, c])


def _padded(x: Tensor, n: int, i: Expr) -> Expr:
    inside = logical_and(i >= 1, i < n + 1)
    return call_intrin("if_then_else", inside, x[i - 1], const(0.0, "float32"))


def padding() -> PrimFunc:
    a = te.placeholder((7,), name="A")
    b = te.compute((9,), lambda i: _padded(a, 7, as_expr(i)), name="B")
    c = te.compute((7,), lambda i: b[i] + b[i + 1] * 3.0 + b[i + 2], name="C")
    return te.create_prim_func([a, c])


def convolution() -> PrimFunc:
    x, w = te.placeholder((3, 8), name="X"), te.placeholder((4, 3, 3), name="W")

    def pad(c: Expr, i: Expr) -> Expr:
        inside = call_intrin("if_then_else", i >= 1, i < 9, const(False, "bool"))
        return call_intrin("if_then_else", inside, x[c, i - 1], const(0.0, "float32"))

    p = te.compute((3, 10), pad, name="P")
    c, r = te.reduce_axis((0, 3), "c"), te.reduce_axis((0, 3), "r")
    y = te.compute((4, 8), lambda o, i: te.sum(p[c, i + r] * w[o, c, r], axis=[c, r]), name="C")
    return te.create_prim_func([x, w, te.compute((4, 8), lambda o, i: y[o, i] * 2.0, name="Z")])


def max_pool() -> PrimFunc:
    x = te.placeholder((3, 11), name="X")
    r = te.reduce_axis((0, 3), "r")
    y = te.compute((3, 5), lambda c, i: te.max(x[c, i * 2 + r], axis=[r]), name="C")
    return te.create_prim_func([x, te.compute((3, 5), lambda c, i: y[c, i] + 1.0, name="Z")])


def running_sum() -> PrimFunc:
    """Each row depends on the one above: the order of the loop over rows may not change."""
    return parse_func("""
@T.prim_func
def main(A: T.Buffer((6, 8), "float32"), B: T.Buffer((6, 8), "float32")):
    for i, j in T.grid(6, 8):
        with T.block("B"):
            vi = T.axis.opaque(6, i)
            vj = T.axis.spatial(8, j)
            B[vi, vj] = A[vi, vj] + T.if_then_else(vi > 0, B[vi - 1, vj], T.float32(0))
""")


def in_place_update() -> PrimFunc:
    """A buffer that is written twice, with a reader between."""
    return parse_func("""
@T.prim_func
def main(
    A: T.Buffer((6, 8), "float32"),
    B: T.Buffer((6, 8), "float32"),
    C: T.Buffer((6, 8), "float32"),
):
    D = T.alloc_buffer((6, 8))
    for i, j in T.grid(6, 8):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = A[vi, vj] * T.float32(2)
    for i, j in T.grid(6, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = D[vi, vj] + T.float32(1)
    for i, j in T.grid(6, 8):
        with T.block("D_again"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = A[vi, 7 - vj] - T.float32(1)
    for i, j in T.grid(6, 8):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = D[vi, vj] + B[vi, vj]
""")


CORPUS: Mapping[str, Callable[[], PrimFunc]] = {
    "matmul": matmul,
    "batched_matmul": batched_matmul,
    "integer_matmul_transposed": integer_matmul_transposed,
    "linear_relu": linear_relu,
    "two_matmuls": two_matmuls,
    "softmax": softmax,
    "layer_norm": layer_norm,
    "row_sums": row_sums,
    "column_sums": column_sums,
    "chain": chain,
    "transpose": transpose,
    "padding": padding,
    "convolution": convolution,
    "max_pool": max_pool,
    "running_sum": running_sum,
    "in_place_update": in_place_update,
    "symbolic_matmul": lambda: matmul(Var("n")),
    "symbolic_linear_relu": lambda: linear_relu(Var("n")),
    "symbolic_row_sums": lambda: row_sums(Var("m"), Var("n")),
    "symbolic_chain": lambda: chain(Var("n")),
}


PROGRAMS: Mapping[str, Callable[[], PrimFunc]] = {**CORPUS, **TEXTS}
"""Every function."""


def program(name: str) -> PrimFunc:
    """A function of ``PROGRAMS``, or the random one that a name such as ``random_17`` means."""
    number = name.removeprefix(PREFIX)
    return random_program(int(number)) if number.isdecimal() else PROGRAMS[name]()
