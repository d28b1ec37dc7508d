from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from burnish.support.errors import (
    DependenceError,
    NotCompleteBlockError,
    NotReductionBlockError,
    ScheduleError,
    ScheduleValueError,
)
from burnish.tensorir.expr import Expr, Var, const, maximum, minimum
from burnish.tensorir.function import PrimFunc
from burnish.tensorir.schedule import Schedule
from burnish.tensorir.te import compute as te
from burnish.tensorir.te.compute import Tensor
from burnish.tensorir.text.parser import parse_func
from burnish.tests.native import call_native
from burnish.tests.tensorir.schedule.programs import assert_same, body, linear_relu
from burnish.tests.tensorir.schedule.replaying import assert_replays, assert_same_natively

Epilogue = Callable[[Tensor, Tensor, Expr, Expr], Expr]


def linear(epilogue: Epilogue, m: int | Var = 4, dtype: str = "float32") -> PrimFunc:
    """``C = X @ W``, then ``D = epilogue(C, bias, i, j)``."""
    x, w = te.placeholder((m, 5), dtype, name="X"), te.placeholder((5, 8), dtype, name="W")
    b = te.placeholder((8,), dtype, name="bias")
    k = te.reduce_axis((0, 5), "k")
    c = te.compute((m, 8), lambda i, j: te.sum(x[i, k] * w[k, j], axis=[k]), name="C")
    d = te.compute((m, 8), lambda i, j: epilogue(c, b, i, j), name="D")
    return te.create_prim_func([x, w, b, d])


def finish(func: PrimFunc, sch: Schedule, *sizes: int) -> None:
    assert_same(func, sch.func, *sizes)
    assert_replays(func, sch)
    assert_same_natively(func, sch.func, *sizes)


# -- what is fused ---------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("epilogue", "init"),
    [
        (lambda c, b, i, j: c[i, j] + b[j], "bias[v_j]"),
        (lambda c, b, i, j: b[j] * b[j] + c[i, j], "bias[v_j] * bias[v_j]"),
        (lambda c, b, i, j: c[i, j] - b[j], "-bias[v_j]"),
        (lambda c, b, i, j: c[i, j] + 2.0, "T.float32(2)"),
        (lambda c, b, i, j: c[i, j] + b[j] + b[7 - j], "bias[v_j] + bias[7 - v_j]"),
        (lambda c, b, i, j: b[0] + (c[i, j] - b[j]), "-bias[v_j] + bias[0]"),
        (lambda c, b, i, j: c[i, j] - b[j] - 1.0, "-bias[v_j] - T.float32(1)"),
    ],
)
def test_a_bias_becomes_the_init(epilogue: Epilogue, init: str) -> None:
    func = linear(epilogue)
    sch = Schedule(func, seed=0)
    sch.fuse_reduction_epilogue("C", "D")
    text = body(sch.func)
    assert f"D[v_i, v_j] = {init}\n" in text
    assert "D[v_i, v_j] = D[v_i, v_j] + X[v_i, v_k] * W[v_k, v_j]" in text
    assert [sch.get(b).name for b in sch.get_child_blocks("root")] == ["C"]
    assert "C = T.alloc_buffer" not in text
    finish(func, sch)


def test_a_transposed_epilogue() -> None:
    x = te.placeholder((4, 6, 5), name="X")
    b = te.placeholder((6, 4), name="B")
    k = te.reduce_axis((0, 5), "k")
    c = te.compute((4, 6), lambda i, j: te.sum(x[i, j, k], axis=[k]), name="C")
    d = te.compute((6, 4), lambda i, j: c[j, i] + b[i, j], name="D")
    func = te.create_prim_func([x, b, d])
    sch = Schedule(func, seed=0)
    sch.fuse_reduction_epilogue("C", "D")
    assert "D[v_j, v_i] = B[v_j, v_i]" in body(sch.func)
    finish(func, sch)


def test_a_residual_is_the_second_term() -> None:
    x, r = te.placeholder((4, 5), name="X"), te.placeholder((4,), name="Y")
    k = te.reduce_axis((0, 5), "k")
    c = te.compute((4,), lambda i: te.sum(x[i, k], axis=[k]), name="C")
    d = te.compute((4,), lambda i: c[i] + 1.0, name="D")
    e = te.compute((4,), lambda i: r[i] + d[i], name="E")
    func = te.create_prim_func([x, r, e])
    sch = Schedule(func, seed=0)
    sch.fuse_reduction_epilogue("C", "D")
    sch.fuse_reduction_epilogue("C", "E")
    assert "E[v_i] = T.float32(1) + Y[v_i]" in body(sch.func)
    finish(func, sch)


@pytest.mark.parametrize(("name", "limit"), [("max", maximum), ("min", minimum)])
def test_a_limit_of_a_maximum_or_minimum(name: str, limit: Callable[..., Expr]) -> None:
    x = te.placeholder((4, 5), name="X")
    k = te.reduce_axis((0, 5), "k")
    combine = {"max": te.max, "min": te.min}[name]
    c = te.compute((4,), lambda i: combine(x[i, k], axis=[k]), name="C")
    d = te.compute((4,), lambda i: limit(c[i], const(0.0, "float32")), name="D")
    func = te.create_prim_func([x, d])
    sch = Schedule(func, seed=0)
    sch.fuse_reduction_epilogue("C", "D")
    assert "D[v_i] = T.float32(0)" in body(sch.func)
    finish(func, sch)


def test_a_tile_with_its_epilogue() -> None:
    func = linear(lambda c, b, i, j: c[i, j] + b[j])
    sch = Schedule(func, seed=0)
    i, j, k = sch.get_loops("C")
    j0, j1 = sch.split(j, [None, 3])
    sch.reorder(j0, i, k, j1)
    sch.reverse_compute_at("D", j0)
    sch.fuse_reduction_epilogue("C", "D")
    assert "T.where(j_0 * 3 + j_1 < 8)" in body(sch.func)
    sch.decompose_reduction("C", k)
    sch.vectorize(j1)
    sch.parallel(j0)
    finish(func, sch)


@pytest.mark.parametrize("size", [0, 1, 7])
def test_symbolic_rows(size: int) -> None:
    func = linear(lambda c, b, i, j: c[i, j] + b[j], Var("m"))
    sch = Schedule(func, seed=0)
    sch.fuse_reduction_epilogue("C", "D")
    finish(func, sch, size)


def test_after_rfactor() -> None:
    func = linear(lambda c, b, i, j: c[i, j] + b[j])
    sch = Schedule(func, seed=0)
    sch.rfactor(sch.get_loops("C")[2], 0)
    sch.fuse_reduction_epilogue("C", "D")
    finish(func, sch)


def test_integers_are_exact() -> None:
    func = linear(lambda c, b, i, j: c[i, j] + b[j], dtype="int32")
    sch = Schedule(func, seed=0)
    sch.fuse_reduction_epilogue("C", "D")
    rng = np.random.default_rng(0)
    x, w, b = (rng.integers(-(2**30), 2**30, s).astype("int32") for s in ((4, 5), (5, 8), (8,)))
    results = [np.zeros((4, 8), "int32") for _ in range(2)]
    for f, result in zip((func, sch.func), results, strict=True):
        call_native(f, x, w, b, result)
    np.testing.assert_array_equal(*results)


def test_floats_are_rounded_in_another_order() -> None:
    """The bias comes first: what it absorbs is lost before, not after, the sum is complete."""
    x = te.placeholder((1, 2), name="X")
    k = te.reduce_axis((0, 2), "k")
    c = te.compute((1,), lambda i: te.sum(x[i, k], axis=[k]), name="C")
    d = te.compute((1,), lambda i: c[i] + 1.0, name="D")
    func = te.create_prim_func([x, d])
    sch = Schedule(func, seed=0)
    sch.fuse_reduction_epilogue("C", "D")
    tiny = np.full((1, 2), 2.0**-24, "float32")
    results = [np.zeros(1, "float32") for _ in range(2)]
    for f, result in zip((func, sch.func), results, strict=True):
        call_native(f, tiny, result)
    assert results[0][0] == np.float32(1 + 2.0**-23)
    assert results[1][0] == np.float32(1)


# -- refusals --------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "epilogue",
    [
        lambda c, b, i, j: maximum(c[i, j] + b[j], const(0.0, "float32")),
        lambda c, b, i, j: c[i, j] * b[j],
        lambda c, b, i, j: b[j] - c[i, j],
        lambda c, b, i, j: c[i, j] + c[i, j],
    ],
)
def test_an_epilogue_that_is_no_step_of_the_sum(epilogue: Epilogue) -> None:
    sch = Schedule(linear(epilogue), seed=0)
    before = sch.func
    with pytest.raises(
        DependenceError, match="'D' does not combine the sum 'C' with another value"
    ):
        sch.fuse_reduction_epilogue("C", "D")
    assert sch.func is before


def test_a_bias_and_a_relu() -> None:
    func = linear_relu(4, 6, 5)
    sch = Schedule(func, seed=0)
    sch.fuse_reduction_epilogue("Y", "T")
    with pytest.raises(DependenceError, match="move it under the loops of the reduction with rev"):
        sch.fuse_reduction_epilogue("Y", "Z")
    sch.reverse_compute_at("Z", sch.get_loops("Y")[1])
    finish(func, sch)


def test_blocks_of_other_kinds() -> None:
    sch = Schedule(linear_relu(4, 6, 5), seed=0)
    with pytest.raises(NotReductionBlockError, match="'T' is not: it has no init"):
        sch.fuse_reduction_epilogue("T", "Z")
    with pytest.raises(NotCompleteBlockError, match="'Y' is not: its axis 'v_k' is reduce"):
        sch.fuse_reduction_epilogue("Y", "Y")
    with pytest.raises(DependenceError, match="'Z' does not read 'Y'"):
        sch.fuse_reduction_epilogue("Y", "Z")
    sch.decompose_reduction("Y", sch.get_loops("Y")[0])
    with pytest.raises(NotReductionBlockError, match="'Y_update' is not: it has no init"):
        sch.fuse_reduction_epilogue("Y_update", "T")


def test_a_result_that_others_use() -> None:
    x = te.placeholder((4, 5), name="X")
    k = te.reduce_axis((0, 5), "k")
    c = te.compute((4,), lambda i: te.sum(x[i, k], axis=[k]), name="C")
    d = te.compute((4,), lambda i: c[i] + 1.0, name="D")
    e = te.compute((4,), lambda i: c[i] + d[i], name="E")
    with pytest.raises(DependenceError, match="'E' uses 'C' too"):
        Schedule(te.create_prim_func([x, e]), seed=0).fuse_reduction_epilogue("C", "D")
    with pytest.raises(DependenceError, match="'C' is not allocated in this block"):
        Schedule(te.create_prim_func([x, c, d]), seed=0).fuse_reduction_epilogue("C", "D")


PROGRAM = """
@T.prim_func
def main(
    A: T.Buffer((4, 8), "float32"), b: T.Buffer((4,), "float32"), D: T.Buffer((4,), "float32")
):
    C = T.alloc_buffer((4,))
    E = T.alloc_buffer((4,))
    F = T.alloc_buffer((4,))
    for i in range(4):
        with T.block("first"):
            vi = T.axis.spatial(4, i)
            FIRST
    for i, k in T.grid(4, 8):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = T.float32(0)
            C[vi] = C[vi] + A[vi, vk]
    for i in range(4):
        with T.block("between"):
            vi = T.axis.spatial(4, i)
            BETWEEN
    for i in range(4):
        with T.block("D"):
            vi = T.axis.spatial(4, i)
            LAST
"""


@pytest.mark.parametrize(
    ("first", "between", "last", "error", "message"),
    [
        ("E[vi] = b[vi]", "E[vi] = b[vi] + T.float32(1)", "D[vi] = C[vi] + E[vi]",
         DependenceError, "'between' writes what 'D' reads, and not in a nest before 'C' begins"),
        ("D[vi] = b[vi]", "E[vi] = b[vi]", "D[vi] = C[vi] + E[vi]",
         DependenceError, "'first' uses 'D', which the reduction would write"),
        ("E[vi] = b[vi]", "E[vi] = b[vi]\n            F[vi] = b[vi]", "D[vi] = C[vi] + E[vi]",
         DependenceError, "'between' writes what 'D' reads, and not in a nest before 'C' begins"),
        ("E[vi] = b[vi]", "D[vi] = b[vi]", "D[vi] = C[vi] + E[vi]",
         DependenceError, "'between' uses 'D', which the reduction would write"),
        ("E[vi] = b[vi]", "E[vi] = b[vi]", "T.where(i < 3)\n            D[vi] = C[vi] + b[vi]",
         NotCompleteBlockError, "'D' runs under a condition"),
        ("E[vi] = b[vi]", "E[vi] = b[vi]", "D[vi] = C[3 - vi] + b[vi]",
         NotCompleteBlockError, "'D' does not read 'C' at exactly its own axes"),
    ],
)  # fmt: skip
def test_what_happens_between(
    first: str, between: str, last: str, error: type[ScheduleError], message: str
) -> None:
    text = PROGRAM.replace("FIRST", first).replace("BETWEEN", between).replace("LAST", last)
    with pytest.raises(error, match=message):
        Schedule(parse_func(text), seed=0).fuse_reduction_epilogue("C", "D")


def test_what_is_written_before_may_be_read() -> None:
    text = PROGRAM.replace("FIRST", "E[vi] = b[vi] * b[vi]").replace(
        "LAST", "D[vi] = C[vi] + E[vi]"
    )
    start = text.index('    for i in range(4):\n        with T.block("between")')
    end = text.index('    for i in range(4):\n        with T.block("D")')
    func = parse_func(text[:start] + text[end:])
    sch = Schedule(func, seed=0)
    sch.fuse_reduction_epilogue("C", "D")
    finish(func, sch)


def test_blocks_of_two_functions() -> None:
    func = linear(lambda c, b, i, j: c[i, j] + b[j])
    sch = Schedule(func, seed=0)
    other = sch.get_block("D")
    object.__setattr__(other, "func_name", "elsewhere")
    with pytest.raises(ScheduleValueError, match="found the block 'D' of 'elsewhere'"):
        sch.fuse_reduction_epilogue("C", other)


def test_the_init_that_is_split_off_says_what_it_reads() -> None:
    sch = Schedule(linear(lambda c, b, i, j: c[i, j] + b[j]), seed=0)
    sch.fuse_reduction_epilogue("C", "D")
    init = sch.decompose_reduction("C", sch.get_loops("C")[0])
    assert [r.buffer.name for r in sch.get(init).reads] == ["bias"]
