"""Sharing of workspace: bytes counted, results compared, and what must keep a place of its own."""

from __future__ import annotations

import numpy as np
import pytest

from burnish.support.node import walk
from burnish.support.target import Target
from burnish.tensorir.function import PrimFunc
from burnish.tensorir.lowering.pipeline import LoweredFunc, lower_func
from burnish.tensorir.lowering.share_allocations import share_allocations
from burnish.tensorir.stmt import Allocate
from burnish.tensorir.text.parser import parse_func
from burnish.tensorir.text.printer import print_expr
from burnish.tests.native import call_native

N = 1000
BYTES = 4032
"""Of N floats, in units of 64."""


def stages(*names: str, shape: str = "1000", dtypes: str = "", outer: str = "") -> PrimFunc:
    """A chain: each buffer is the one before it, reversed, plus one; the last goes to B."""
    kinds = {n: ("float64" if n in dtypes else "float32") for n in names}
    decls = "".join(f"    {n} = T.alloc_buffer(({shape},), '{kinds[n]}')\n" for n in names)
    body, previous = "", "A"
    for name in (*names, "B"):
        kind = kinds.get(name, "float32")
        body += f"""
    for i in T.parallel({shape}):
        with T.block("{name}"):
            vi = T.axis.spatial({shape}, i)
            {name}[vi] = T.Cast("{kind}", {previous}[{shape} - 1 - vi]) + T.{kind}(1)
"""
        previous = name
    return parse_func(f"""
@T.prim_func
def f(a: T.handle, b: T.handle):
    n = T.int64()
    A = T.match_buffer(a, ({shape},), "float32")
    B = T.match_buffer(b, ({shape},), "float32")
{decls}{body}""")


def lowered(f: PrimFunc) -> LoweredFunc:
    return lower_func(f, Target("llvm -mcpu=haswell"))


def allocated(f: LoweredFunc) -> list[str]:
    return [n.buffer.name for n in walk(f.func.body) if isinstance(n, Allocate)]


def check(
    f: PrimFunc, length: int, steps: int, dims: tuple[int, ...] = (), threads: int = 2
) -> None:
    a, b = np.random.default_rng(0).random(length, "float32"), np.zeros(length, "float32")
    call_native(f, a, b, dims=dims, threads=threads)
    expected = a
    for _ in range(steps):
        expected = expected[::-1] + np.float32(1)
    np.testing.assert_allclose(b, expected, rtol=1e-6)


def test_a_chain_needs_two_buffers_however_long_it_is() -> None:
    f = stages("P", "Q", "R", "S", "U")
    low = lowered(f)
    assert print_expr(low.shared_bytes) == str(2 * BYTES)
    assert allocated(low) == ["P", "Q"]
    check(f, N, 6)


def test_buffers_that_are_live_together_keep_their_places() -> None:
    f = parse_func(f"""
@T.prim_func
def f(A: T.Buffer(({N},), "float32"), B: T.Buffer(({N},), "float32")):
    P = T.alloc_buffer(({N},))
    Q = T.alloc_buffer(({N},))
    R = T.alloc_buffer(({N},))
    for i in range({N}):
        P[i] = A[i] + 1.0
    for i in range({N}):
        Q[i] = P[{N - 1} - i] * 2.0
    for i in range({N}):
        R[i] = P[i] + Q[i]
    for i in range({N}):
        B[i] = R[{N - 1} - i]
""")
    assert print_expr(lowered(f).shared_bytes) == str(3 * BYTES)
    a, b = np.random.default_rng(0).random(N, "float32"), np.zeros(N, "float32")
    call_native(f, a, b)
    p = a + 1
    np.testing.assert_allclose(b, (p + p[::-1] * 2)[::-1], rtol=1e-6)


def test_a_dtype_shares_with_itself_only() -> None:
    f = stages("P", "Q", "R", "S", dtypes="QS")
    low = lowered(f)
    assert print_expr(low.shared_bytes) == str(BYTES + 8000)
    check(f, N, 5)


def test_symbolic_sizes_that_are_equal_share() -> None:
    f = stages("P", "Q", "R", "S", shape="n")
    low = lowered(f)
    assert allocated(low) == ["P", "Q"]
    assert print_expr(low.shared_bytes).count("n * 4") == 2
    for n in (1, 7, 300):
        check(f, n, 5, (n,))


SIZES = """
@T.prim_func
def f(a: T.handle, b: T.handle):
    n = T.int64()
    m = T.int64()
    A = T.match_buffer(a, (n, m))
    B = T.match_buffer(b, (n, m))
    P = T.allocate([{p}], "float32", "global")
    Q = T.allocate([{q}], "float32", "global")
    for i in range(1):
        P[i] = A[0, 0]
    for i in range(1):
        B[0, 0] = P[i]
    for i in range(1):
        Q[i] = A[0, 1]
    for i in range(1):
        B[0, 1] = Q[i]
"""


@pytest.mark.parametrize(
    ("p", "q", "count"),
    [
        ("n * 4", "n * 8", 1),
        ("n * 8 + 300", "n * 4 + 300", 1),
        ("n * 4 + 300", "m * 4 + 300", 2),
        ("n * m", "n * m", 1),
        ("1000", "2000", 1),
        ("200", "2000", 2),
    ],
    ids=["grows", "smaller", "unknown", "products", "constants", "stack"],
)
def test_one_size_must_be_known_to_hold_the_other(p: str, q: str, count: int) -> None:
    flat = parse_func(SIZES.format(p=p, q=q))
    shared = share_allocations(flat)
    buffers = [n.buffer for n in walk(shared.body) if isinstance(n, Allocate)]
    assert len(buffers) == count
    if p == "n * 4" and count == 1:
        assert print_expr(buffers[0].shape[0]) == "n * 8"
    if count == 2:
        assert shared is flat


def test_a_buffer_inside_of_a_loop_keeps_its_place() -> None:
    """It may carry a value from one iteration to the next."""
    f = parse_func(f"""
@T.prim_func
def f(A: T.Buffer((4, {N}), "float32"), B: T.Buffer((4, {N}), "float32")):
    for i in range(4):
        with T.block("o"):
            vi = T.axis.opaque(4, i)
            P = T.alloc_buffer(({N},))
            Q = T.alloc_buffer(({N},))
            for j in range({N}):
                P[j] = A[vi, {N - 1} - j]
            for j in range({N}):
                B[vi, j] = P[{N - 1} - j]
            for j in range({N}):
                Q[j] = A[vi, j]
            for j in range({N}):
                B[vi, j] = B[vi, j] + Q[{N - 1} - j]
""")
    assert print_expr(lowered(f).shared_bytes) == str(2 * BYTES)
    a, b = np.random.default_rng(0).random((4, N), "float32"), np.zeros((4, N), "float32")
    call_native(f, a, b)
    np.testing.assert_allclose(b, a + a[:, ::-1], rtol=1e-6)


def test_a_function_that_shares_nothing_comes_back_itself() -> None:
    f = parse_func(
        "@T.prim_func\ndef f(A: T.Buffer((4,))):\n    for i in range(4):\n        A[i] = 1.0"
    )
    assert share_allocations(f) is f
