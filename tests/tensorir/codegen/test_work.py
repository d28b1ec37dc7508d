"""The work of lowered functions, and the places where long ones look whether they should stop."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from burnish.support.abi import LONG_WORK, POLLED_WORK, UNBOUNDED_WORK
from burnish.support.host import native_target
from burnish.support.node import walk
from burnish.support.target import Target
from burnish.tensorir.codegen.object import emit_object
from burnish.tensorir.codegen.work import STRIP_WORK, THREAD_WORK, Work, evaluate, sum_of
from burnish.tensorir.expr import INDEX, IntImm, Var, add, maximum, minimum, mul
from burnish.tensorir.stmt import For, SeqStmt
from burnish.tensorir.text.parser import parse_func
from burnish.tests.native import Native, lower, prepare


def function(body: str, *, size: int = 64, scheduled: bool = False) -> str:
    return f"""
@T.prim_func
def f(d: T.handle, A: T.Buffer(({size},), "float32")):
    T.func_attr({{"is_scheduled": {scheduled}}})
    n = T.int64()
    D = T.match_buffer(d, (n,), "float32")
{body}
"""


NAIVE = """
    for i in {kind}(n):
        for j in range(n):
            for k in range(n):
                A[(i * 7 + j) % 64] = A[(i * 7 + j) % 64] + D[k]
"""
ONE_LOOP = """
    for i in {kind}(n * 65536):
        A[i % 64] = A[i % 64] + T.float32(1)
"""


WIDE = Target("llvm -mcpu=skylake-avx512")
"""Lowering leaves vectors of 512 bits whole for it."""


def work_of(body: str, bits: int = 512) -> Work:
    lowered = lower(parse_func(function(body)), WIDE)
    return Work(lowered.func.body, lowered.dims, bits)


def strips(body: str) -> list[int | None]:
    """Of each loop, outermost first, after how many iterations it looks."""
    return _strips_of(function(body))


def _strips_of(text: str) -> list[int | None]:
    lowered = lower(parse_func(text))
    work = Work(lowered.func.body, lowered.dims, 512)
    return [work.strip(n) for n in walk(lowered.func.body) if isinstance(n, For)]


def test_work_counts_vector_operations() -> None:
    # A load, an addition and a store; a function counts several.
    assert evaluate(work_of("    for i in range(10):\n        A[i] = A[i] + D[0]\n").total, 5) == 40
    exp = work_of("    for i in range(10):\n        A[i] = T.exp(A[i])\n")
    assert evaluate(exp.total, 5) == 10 * (1 + 12 + 1)


def test_vectors_count_by_the_registers_they_take() -> None:
    body = "    for i in T.vectorized(32):\n        A[i] = A[i] + A[i]\n"
    assert [evaluate(work_of(body, bits).total, 1) for bits in (512, 256, 128)] == [8, 16, 32]


def test_bounds_of_outer_loops_count_at_their_worst() -> None:
    up = "    for i in range(8):\n        for j in range(i + 1):\n            A[j] = D[0]\n"
    down = "    for i in range(8):\n        for j in range(8 - i):\n            A[j] = D[0]\n"
    assert evaluate(work_of(up).total, 1) == evaluate(work_of(down).total, 1) == 8 * 8 * 2


READ_EXTENT = """
    for i in range(T.Cast("int64", D[0])):
        A[i % 64] = D[0]
"""


def test_a_loop_whose_extent_is_read_looks_and_makes_calls_long() -> None:
    work = work_of(READ_EXTENT)
    assert evaluate(work.total, 1) == UNBOUNDED_WORK
    assert work.is_polled
    assert strips(READ_EXTENT) == [STRIP_WORK // 2]
    in_rows = """
    for i in range(n):
        for j in range(T.Cast("int64", D[i]), T.Cast("int64", D[i + 1])):
            A[j % 64] = A[j % 64] + D[j]
"""
    outer, inner = strips(in_rows)
    assert outer is not None
    assert inner is not None
    assert min(outer, inner) >= STRIP_WORK // 8


def test_what_is_read_may_have_a_bound() -> None:
    """That no iteration exceeds."""
    body = """
    for i in range(T.min(T.Cast("int64", D[0]), 64)):
        A[i] = D[0]
"""
    assert not work_of(body).is_polled
    assert evaluate(work_of(body).total, 1) == 64 * 2


@pytest.mark.parametrize("mask", ["63", "n * 4 - 1"])
def test_bits_that_are_read_are_at_most_those_of_a_mask(mask: str) -> None:
    body = f"""
    with T.LetStmt(T.bitwise_and(T.Cast("int64", D[0]), {mask})) as part:
        for i in range(part):
            A[i % 64] = D[0]
"""
    assert evaluate(work_of(body).total, 16) < 64 * 5
    unmasked = body.replace(mask, "T.Cast('int64', D[1])")
    assert evaluate(work_of(unmasked).total, 16) == UNBOUNDED_WORK


def test_places_that_memory_tells_count_as_what_a_miss_costs() -> None:
    random = "    for i in range(64):\n        A[i] = D[T.Cast('int64', A[i])]\n"
    rows = """
    for i in range(8):
        for j in range(8):
            A[j] = D[T.Cast("int64", A[i]) * 8 + j]
"""
    assert evaluate(work_of(random).total, 1) > 64 * 50
    assert evaluate(work_of(rows).total, 1) < 64 * 10  # in order, row after row


def test_lanes_that_are_apart_are_stored_one_after_another() -> None:
    apart, row = (
        f"    for i in T.vectorized(8):\n        A[i * {stride}] = D[0]\n" for stride in (8, 1)
    )
    assert evaluate(work_of(apart).total, 1) == evaluate(work_of(row).total, 1) + 7


def test_registers_that_are_put_together_of_two_count() -> None:
    def body(first: int) -> str:
        return f"""
    R = T.alloc_buffer((16,), scope="register")
    for i in T.vectorized(16):
        R[i] = A[i]
    for i in T.vectorized(8):
        A[i] = R[i + {first}] + R[i] + R[i + 8]
"""

    whole, shuffled = (evaluate(work_of(body(first)).total, 1) for first in (8, 7))
    assert shuffled == whole + 1


def test_large_buffers_count_as_far() -> None:
    body = "    for i in range(64):\n        A[i] = D[i]\n"
    near, far = (evaluate(work_of(body).total, n) for n in (1, 1 << 25))
    assert near == 64 * 2
    assert far > 5 * near


def test_the_larger_branch_counts() -> None:
    body = """
    if n > 4:
        for i in range(64):
            A[i] = D[0]
    else:
        A[0] = D[0]
"""
    assert evaluate(work_of(body).total, 1) == 64 * 2 + 1


def test_small_functions_do_not_look() -> None:
    body = "    for i in range(64):\n        for k in range(64):\n            A[i] = A[i] + D[0]\n"
    assert not work_of(body).is_polled
    assert strips(body) == [None, None]


def test_loops_that_write_rows_of_a_large_buffer_look_more_often() -> None:
    """Each row may be on a page that nobody has written yet."""
    rows = """
    for j in range(4000):
        for i in range(40000):
            A[i * 4000 + j] = A[i * 4000 + j] + D[0]
"""
    assert _strips_of(function(rows, size=4000 * 40000))[1] is not None
    assert strips(rows.replace("i * 4000 + j", "(i * 4000 + j) % 64")) == [1, None]


def test_the_outermost_loops_of_much_work_look() -> None:
    """Each iteration, where one is not short, and the loops below one that takes long; strips of
    what is short, or may be."""
    for n, looking in ((200, [None] * 3), (2000, [1, None, None]), (8000, [1, 1, None])):
        assert strips(NAIVE.format(kind="range").replace("(n)", f"({n})")) == looking
    assert strips(NAIVE.format(kind="range")) == [128, 128, None]
    (only,) = strips(ONE_LOOP.format(kind="range"))
    assert only is not None
    assert 3 * only <= STRIP_WORK < 5 * (only + 1)


def test_parts_of_a_sequence_look_before_they_begin() -> None:
    """Many loops, none of which takes long."""
    part = "    for i in range(2000000):\n        A[i % 64] = A[i % 64] + D[0]\n"
    for parts, looks in ((10, False), (20, True)):
        work = work_of(part * parts)
        sequence = work.body
        assert isinstance(sequence, SeqStmt)
        assert {work.looks_before(s) for s in sequence.stmts} == {looks}
        assert {work.strip(s) for s in sequence.stmts if isinstance(s, For)} == {None}


def test_expressions_are_evaluated() -> None:
    n = Var("n")
    e = maximum((n + 3) // 4 * 2 - 1, n % 5)
    assert [evaluate(e, k) for k in (1, 9, 14)] == [1, 5, 7]
    assert evaluate(IntImm(7), 1) == 7


@pytest.mark.parametrize("divided", ["64 // n", "64 % n", "T.truncdiv(T.int64(64), n)"])
def test_sizes_of_zero_are_not_divided_by(divided: str) -> None:
    """The kernel does not come to the division."""
    body = f"""
    for i in range(n):
        for j in range({divided}):
            A[j] = A[j] + D[i]
"""
    func = parse_func(function(body))
    native = Native([emit_object([lower(func)], native_target()).image], ["f", "f.work"])
    work = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(native.tracker["f.work"])
    for n in (0, 3):
        d, a = np.ones(n, "float32"), np.zeros(64, "float32")
        sizes = (ctypes.c_int64 * 1)(n)
        assert (work(sizes) > 0) is (n > 0)
        prepare(native.tracker["f"], [d, a], [n], 0, 1)()
        assert a.any() == (n > 0)


@pytest.mark.parametrize("scheduled", [True, False])
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("body", [NAIVE, ONE_LOOP])
@pytest.mark.parametrize("kind", ["range", "T.parallel"])
def test_a_kernel_that_is_cancelled_returns(
    body: str, kind: str, threads: int, scheduled: bool
) -> None:
    """Before its first iteration, where it is so from the beginning; then it runs as ever."""
    func = parse_func(function(body.format(kind=kind), scheduled=scheduled))
    native = Native([emit_object([lower(func)], native_target()).image], ["f", "f.work"])
    work = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(native.tracker["f.work"])
    count = 24 if kind == "range" else 0
    d, a = np.ones(24, "float32"), np.zeros(64, "float32")
    call = prepare(native.tracker["f"], [d, a], [24], 0, threads)
    call.runtime.cancel = 1
    call()
    assert not a.any()
    if count:
        call.runtime.cancel = 0
        call()
        assert a.sum() == (count**3 if body is NAIVE else count * 65536)
    sizes = (ctypes.c_int64 * 1)(24)
    assert 0 < work(sizes) < POLLED_WORK
    sizes[0] = 1 << 12
    assert work(sizes) > LONG_WORK


def test_the_work_of_many_statements_is_a_short_sum() -> None:
    """Once it was as deep as the statements are many, and Python's stack is not."""
    m = Var("m", INDEX)
    parts = [add(mul(m, IntImm(3)), IntImm(i)) for i in range(3000)]
    total = sum_of(parts)
    assert evaluate(total, 10) == 3000 * 30 + sum(range(3000))
    assert len(list(walk(total))) < 12000
    far = minimum(m, IntImm(1))
    total = sum_of([mul(far, IntImm(16)), IntImm(2)] * 3000)
    assert len(list(walk(total))) == 7
    assert evaluate(total, 10) == 3000 * 18
    assert evaluate(sum_of([]), 10) == 0


# -- threads --------------------------------------------------------------------------------------
def grain_of(rows: int, columns: int, operation: str, bits: int = 256) -> int:
    """Of a loop over rows that are computed in vectors."""
    lanes = bits // 32
    lowered = lower(
        parse_func(f"""
@T.prim_func
def f(A: T.Buffer(({rows}, {columns}), "float32"), C: T.Buffer(({rows}, {columns}), "float32")):
    T.func_attr({{"is_scheduled": True}})
    for i in T.parallel({rows}):
        for j in range({columns // lanes}):
            for l in T.vectorized({lanes}):
                with T.block("C"):
                    vi = T.axis.spatial({rows}, i)
                    vj = T.axis.spatial({columns}, j * {lanes} + l)
                    C[vi, vj] = {operation.format("A[vi, vj]")}
"""),
        Target("llvm -mcpu=haswell"),
    )
    loop = next(n for n in walk(lowered.func.body) if isinstance(n, For) and n.kind == "parallel")
    return Work(lowered.func.body, lowered.dims, bits).grain(loop)


def test_a_thread_has_enough_to_do() -> None:
    assert grain_of(64, 64, "{} + T.float32(1)") == -(-THREAD_WORK // (8 * 3))
    light, long = (grain_of(64, n, "{} + T.float32(1)") for n in (8, 4096))
    assert light > 64 > long >= 1
    assert grain_of(64, 64, "T.exp({})") * 4 < grain_of(64, 64, "{} + T.float32(1)")
    assert grain_of(4, 1 << 18, "T.exp({})") == 1


def test_a_function_of_c_is_worth_a_thread() -> None:
    lowered = lower(
        parse_func("""
@T.prim_func
def f(A: T.Buffer((64,), "float32"), C: T.Buffer((64,), "float32")):
    for i in T.parallel(64):
        C[i] = T.call_extern("float32", "slow", A[i])
    for j in T.parallel(64):
        C[j] = C[j] + T.float32(1)
    for k in T.parallel(8):
        for l in range(8):
            T.evaluate(T.call_extern("handle", "draw", k, l))
""")
    )
    work = Work(lowered.func.body, lowered.dims, 256)
    loops = [n for n in walk(lowered.func.body) if isinstance(n, For) and n.kind == "parallel"]
    one, none, nested = [work.grain(loop) for loop in loops]
    assert (one, nested) == (1, 1)
    assert none > 64


def test_symbolic_rows_count_as_some() -> None:
    lowered = lower(parse_func(function(NAIVE.format(kind="T.parallel"))), WIDE)
    loop = next(n for n in walk(lowered.func.body) if isinstance(n, For) and n.kind == "parallel")
    assert 1 <= Work(lowered.func.body, lowered.dims, 512).grain(loop) < THREAD_WORK
