"""Small functions that compute something, and random schedules of them.

``CORPUS`` has a function for each shape of program that schedules are made for; ``run_random``
applies random primitives to one, with arguments that are mostly sensible and sometimes not. What a
primitive refuses with a ScheduleError is left out, anything else that it raises is a defect.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping

from burnish.support.errors import ScheduleError
from burnish.tensorir import compute as te
from burnish.tensorir.compute import Tensor
from burnish.tensorir.expr import Expr, Var, as_expr, const, logical_and, maximum
from burnish.tensorir.function import PrimFunc
from burnish.tensorir.intrinsics import call_intrin
from burnish.tensorir.parser import parse_func
from burnish.tensorir.schedule import Schedule
from burnish.tensorir.schedule.handles import BlockHandle, LoopHandle


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


# -- schedules -------------------------------------------------------------------------------------
class RandomSchedule:
    """Random primitives on one schedule; ``done`` are the names of those that were accepted."""

    def __init__(self, func: PrimFunc, seed: int) -> None:
        self.rng = random.Random(seed)
        self.sch = Schedule(func, seed=seed)
        self.done: list[str] = []
        self.steps: tuple[Callable[[], None], ...] = (
            *[self.split] * 4,
            *[self.reorder] * 3,
            *[self.fuse] * 2,
            *[self.kind] * 4,
            *[self.compute_at, self.reverse_compute_at] * 3,
            *[self.compute_inline, self.reverse_compute_inline],
            *[self.decompose_reduction] * 2,
            *[self.rfactor, self.cache_read, self.cache_write] * 2,
            *[self.loop_partition, self.transform_layout, self.set_scope, self.add_unit_loop],
            *[self.merge, self.pad_einsum, self.cache_inplace, self.reindex_cache_read],
            *[self.annotate, self.sample_compute_location],
        )

    def run(self, steps: int) -> Schedule:
        """Try ``steps`` primitives."""
        for _ in range(steps):
            step = self.rng.choice(self.steps)
            before = self.sch.func
            try:
                step()
            except ScheduleError:
                assert self.sch.func is before, "a primitive that raised changed the function"
            else:
                self.done.append(step.__name__)
        return self.sch

    # -- arguments ---------------------------------------------------------------------------------
    def block(self) -> BlockHandle:
        return self.rng.choice(self.sch.get_child_blocks("root"))

    def loops(self) -> list[LoopHandle]:
        for _ in range(8):
            loops = self.sch.get_loops(self.block())
            if loops:
                return loops
        raise ScheduleError("test", "no loop")

    def loop(self) -> LoopHandle:
        return self.rng.choice(self.loops())

    # -- primitives --------------------------------------------------------------------------------
    def split(self) -> None:
        loop = self.loop()
        match self.rng.randrange(4):
            case 0:
                self.sch.split(loop, self.sch.sample_perfect_tile(loop, self.rng.choice([2, 2, 3])))
            case 1:
                factors = [self.rng.randrange(1, 6) for _ in range(self.rng.choice([1, 1, 2]))]
                self.sch.split(loop, [None, *factors], preserve_unit_iters=self.rng.random() < 0.8)
            case 2:
                self.sch.split(loop, [self.rng.randrange(1, 6), None])
            case _:
                value = self.sch.sample_categorical([1, 2, 3, 4, 8], [0.1, 0.3, 0.2, 0.2, 0.2])
                self.sch.split(loop, [None, value])

    def reorder(self) -> None:
        loops = self.loops()
        self.sch.reorder(*self.rng.sample(loops, self.rng.randrange(1, len(loops) + 1)))

    def fuse(self) -> None:
        loops = self.loops()
        start = self.rng.randrange(len(loops))
        self.sch.fuse(*loops[start : start + self.rng.randrange(2, 4)])

    def kind(self) -> None:
        loop = self.loop()
        match self.rng.randrange(4):
            case 0:
                self.sch.parallel(loop)
            case 1:
                self.sch.unroll(loop)
            case _:
                self.sch.vectorize(self.loops()[-1])

    def annotate(self) -> None:
        self.sch.annotate(self.loop(), "pragma_auto_unroll_max_step", self.rng.choice([4, 64]))

    def compute_at(self) -> None:
        self.sch.compute_at(self.block(), self.loop(), self.rng.random() < 0.3)

    def reverse_compute_at(self) -> None:
        self.sch.reverse_compute_at(self.block(), self.loop(), self.rng.random() < 0.3)

    def sample_compute_location(self) -> None:
        block = self.block()
        self.sch.compute_at(block, self.sch.sample_compute_location(block))

    def compute_inline(self) -> None:
        self.sch.compute_inline(self.block())

    def reverse_compute_inline(self) -> None:
        self.sch.reverse_compute_inline(self.block())

    def decompose_reduction(self) -> None:
        block = self.block()
        loops = self.sch.get_loops(block)
        if loops:
            self.sch.decompose_reduction(block, self.rng.choice(loops))

    def rfactor(self) -> None:
        self.sch.rfactor(self.loop(), self.rng.randrange(0, 3))

    def scope(self) -> str:
        return self.rng.choice(["global", "global", "global", "local", "local", "register"])

    def cache_read(self) -> None:
        self.sch.cache_read(self.block(), self.rng.randrange(2), self.scope())

    def cache_write(self) -> None:
        self.sch.cache_write(self.block(), 0, self.scope())

    def cache_inplace(self) -> None:
        block = self.block()
        loops = self.sch.get_loops(block)
        loop = self.rng.choice([None, *loops])
        self.sch.cache_inplace(block, 0, self.scope(), loop)

    def reindex_cache_read(self) -> None:
        block = self.block()
        keep = self.rng.random() < 0.5

        def index_map(*i: Expr) -> tuple[Expr, ...]:
            return tuple(i) if keep else (i[-1], *i[:-1])

        self.sch.reindex_cache_read(block, 0, "global", index_map)

    def loop_partition(self) -> None:
        loop = self.loop()
        factors: list[int | None] = [self.rng.randrange(1, 8), None]
        if self.rng.random() < 0.2:
            factors.insert(0, self.rng.randrange(1, 3))
        self.sch.loop_partition(loop, factors)

    def transform_layout(self) -> None:
        block = self.block()
        factor = self.rng.choice([2, 3, 4])

        def tiled(*i: Expr) -> tuple[Expr, ...]:
            return (*i[:-1], i[-1] // factor, i[-1] % factor)

        def swapped(*i: Expr) -> tuple[Expr, ...]:
            return (i[-1], *i[:-1])

        index_map = self.rng.choice([tiled, swapped])
        pad = self.rng.choice([None, 0.0])
        where = self.rng.choice([("write", 0), ("read", 0), ("read", 1)])
        self.sch.transform_layout(block, where, index_map, pad)

    def set_scope(self) -> None:
        self.sch.set_scope(self.block(), 0, self.scope())

    def add_unit_loop(self) -> None:
        self.sch.add_unit_loop(self.rng.choice([self.block, self.loop])())

    def merge(self) -> None:
        self.sch.merge(self.loop(), self.loop())

    def pad_einsum(self) -> None:
        block = self.block()
        count = len(self.sch.get(block).iter_vars)
        self.sch.pad_einsum(block, [self.rng.choice([1, 1, 4, 5]) for _ in range(count)])


def random_schedule(func: PrimFunc, seed: int, steps: int = 12) -> Schedule:
    """A schedule of ``func`` after some random primitives."""
    return RandomSchedule(func, seed).run(steps)
