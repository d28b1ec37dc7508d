"""Whole programs lowered and run: tiles that do not divide, predicates, tails, views, scopes."""

from __future__ import annotations

import textwrap

import numpy as np
import pytest

from burnish.support.structural import assert_structural_equal
from burnish.tensorir.function import PrimFunc
from burnish.tensorir.text.parser import parse_func
from burnish.tests.native import call_native

RNG = np.random.default_rng(0)
WIDE = RNG.random((8, 32), "float32")
SQUARE = 'A: T.Buffer((8, 32), "float32"), C: T.Buffer((8, 32), "float32")'
SUMS = 'A: T.Buffer((8, 32), "float32"), C: T.Buffer((8,), "float32")'


def func(params: str, body: str) -> PrimFunc:
    text = f"@T.prim_func\ndef main({params}):\n" + textwrap.indent(
        textwrap.dedent(body).strip(), "    "
    )
    made = parse_func(text)
    again = parse_func(made.script())
    assert_structural_equal(again, made)
    assert again.script() == made.script()
    return made


def result(
    params: str, body: str, *arrays: np.ndarray, dims: tuple[int, ...] = (), threads: int = 2
) -> np.ndarray:
    """What the function writes into the last array."""
    call_native(func(params, body), *arrays, dims=dims, threads=threads)
    return arrays[-1]


MATMUL = 'a: T.handle, B: T.Buffer((9, 13), "float32"), c: T.handle'
SYMBOLIC = """
m = T.int64()
A = T.match_buffer(a, (m, 9))
C = T.match_buffer(c, (m, 13))
"""
UPDATE = """
                        with T.init():
                            C[vi, vj] = 0.0
                        C[vi, vj] += A[vi, vk] * B[vk, vj]
"""
TILED = (
    SYMBOLIC
    + """
for i0 in T.parallel((m + 3) // 4):
    for j0 in range(2):
        for i1 in T.unroll(4):
            for j1 in T.vectorized(8):
                for k in range(9):
                    with T.block("C"):
                        vi = T.axis.spatial(m, i0 * 4 + i1)
                        vj = T.axis.spatial(13, j0 * 8 + j1)
                        vk = T.axis.reduce(9, k)
                        T.where(i0 * 4 + i1 < m and j0 * 8 + j1 < 13)
"""
    + UPDATE
)
SPLIT_REDUCTION = (
    SYMBOLIC
    + """
for j0, i0 in T.grid(2, (m + 3) // 4):
    for k0 in range(3):
        for i1 in T.vectorized(4):
            for j1 in T.serial(8):
                for k1 in T.unroll(4):
                    with T.block("C"):
                        vi = T.axis.spatial(m, i0 * 4 + i1)
                        vj = T.axis.spatial(13, j0 * 8 + j1)
                        vk = T.axis.reduce(9, k0 * 4 + k1)
                        T.where(i0 * 4 + i1 < m and j0 * 8 + j1 < 13 and k0 * 4 + k1 < 9)
"""
    + UPDATE
)


@pytest.mark.parametrize("body", [TILED, SPLIT_REDUCTION], ids=["tiled", "split reduction"])
@pytest.mark.parametrize("m", [1, 5, 8, 37])
def test_tiles_that_do_not_divide(body: str, m: int) -> None:
    a, b = RNG.random((m, 9), "float32"), RNG.random((9, 13), "float32")
    out = result(MATMUL, body, a, b, np.zeros((m, 13), "float32"), dims=(m,))
    np.testing.assert_allclose(out, a @ b, rtol=1e-5)


@pytest.mark.parametrize("m", [1, 7, 8, 21])
def test_vector_tails_of_a_symbolic_size(m: int) -> None:
    body = """
    m = T.int64()
    A = T.match_buffer(a, (m,))
    C = T.match_buffer(c, (m,))
    for i0 in T.parallel((m + 7) // 8):
        for i1 in T.vectorized(8):
            with T.block("C"):
                vi = T.axis.spatial(m, i0 * 8 + i1)
                T.where(i0 * 8 + i1 < m)
                C[vi] = T.exp(A[vi]) + A[m - 1 - vi]
    """
    x = RNG.random(m).astype("float32")
    out = result("a: T.handle, c: T.handle", body, x, np.zeros(m, "float32"), dims=(m,))
    np.testing.assert_allclose(out, np.exp(x) + x[::-1], rtol=1e-6)


@pytest.mark.parametrize("scope", ["global", "shared", "local", "warp", "register"])
def test_every_scope_and_parallel_loops_in_parallel_loops(scope: str) -> None:
    loop = "T.unroll" if scope == "register" else "T.parallel"
    body = f"""
    t = T.alloc_buffer((8, 32), scope="{scope}")
    for i in T.parallel(8):
        for j in {loop}(32):
            with T.block("t"):
                vi, vj = T.axis.remap("SS", [i, j])
                t[vi, vj] = A[vi, vj] * 2.0
        for j in {loop}(32):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = t[vi, 31 - vj] + 1.0
    """
    out = result(SQUARE, body, WIDE, np.zeros_like(WIDE))
    np.testing.assert_array_equal(out, WIDE[:, ::-1] * 2 + 1)


PARTIAL = """
R = T.alloc_buffer((4, 8), scope="{scope}")
for i in T.thread_binding(8, thread="blockIdx.x"):
    for t in T.thread_binding(4, thread="threadIdx.x"):
        for k in T.serial(8):
            with T.block("R"):
                vt, vi, vk = T.axis.remap("SSR", [t, i, k])
                with T.init():
                    R[vt, vi] = 0.0
                R[vt, vi] += A[vi, vk * 4 + vt]
"""
FINAL = """
    for t in T.thread_binding(4, thread="threadIdx.x"):
        with T.block("C"):
            vt, vi = T.axis.remap("RS", [t, i])
            with T.init():
                C[vi] = 0.0
            C[vi] += R[vt, vi]
"""


@pytest.mark.parametrize(
    "body",
    [
        PARTIAL.format(scope="shared") + FINAL,
        PARTIAL.format(scope="local") + "\n".join(FINAL.splitlines()[2:]),
        """
        for i in T.thread_binding(8, thread="blockIdx.x"):
            for k0 in T.thread_binding(4, thread="threadIdx.x"):
                for k1 in T.serial(8):
                    with T.block("C"):
                        vi = T.axis.spatial(8, i)
                        vk = T.axis.reduce(32, k0 * 8 + k1)
                        with T.init():
                            C[vi] = 0.0
                        C[vi] += A[vi, vk]
        """,
        """
        bx = T.launch_thread("blockIdx.x", 8)
        C[bx] = 0.0
        for k in range(32):
            C[bx] += A[bx, k]
        """,
    ],
    ids=["two loops", "one loop", "direct", "launch_thread"],
)
def test_thread_loops_run_as_loops(body: str) -> None:
    out = result(SUMS, body, WIDE, np.zeros(8, "float32"))
    np.testing.assert_allclose(out, WIDE.sum(1), rtol=1e-6)


NESTED = """
for i0, k0 in T.grid(2, 4):
    with T.block("outer"):
        vi, vk = T.axis.remap("SR", [i0, k0])
        with T.init():
            for i1 in range(4):
                with T.block("init"):
                    vii = T.axis.spatial(4, i1)
                    T.where(vi * 4 + i1 < {rows})
                    C[vi * 4 + vii] = 0.0
        for i1, k1 in T.grid(4, 8):
            with T.block("inner"):
                vii, vkk = T.axis.remap("SR", [i1, k1])
                T.where(vi * 4 + i1 < {rows} and vk * 8 + k1 < {columns})
                C[vi * 4 + vii] += A[vi * 4 + vii, vk * 8 + vkk]
"""


@pytest.mark.parametrize(("rows", "columns"), [(8, 32), (7, 30), (5, 25)])
def test_nested_blocks_with_init_and_predicates(rows: int, columns: int) -> None:
    a = np.ascontiguousarray(WIDE[:rows, :columns])
    params = f"A: T.Buffer(({rows}, {columns})), C: T.Buffer(({rows},))"
    body = NESTED.format(rows=rows, columns=columns)
    out = result(params, body, a, np.zeros(rows, "float32"))
    np.testing.assert_allclose(out, a.sum(1), rtol=1e-6)


def test_an_opaque_block_with_memory_of_its_own() -> None:
    body = """
    for i in T.parallel(8):
        with T.block("opaque"):
            T.reads(A[i, 0:32])
            T.writes(C[i, 0:32])
            t = T.alloc_buffer((32,), scope="local")
            for j in range(32):
                t[j] = A[i, j]
            for j in range(32):
                C[i, j] = t[31 - j]
    """
    out = result(SQUARE, body, WIDE, np.zeros_like(WIDE))
    np.testing.assert_array_equal(out, WIDE[:, ::-1])


def test_strides_of_parameters_and_of_intermediates() -> None:
    body = """
    t = T.alloc_buffer((8, 16), strides=(17, 1))
    for i, j in T.grid(8, 16):
        t[i, j] = A[i, j]
    for i, j in T.grid(8, 16):
        C[i, j] = t[i, 15 - j]
    """
    params = "A: T.Buffer((8, 16), strides=(32, 2)), C: T.Buffer((8, 16))"
    out = result(params, body, WIDE, np.zeros((8, 16), "float32"))
    np.testing.assert_array_equal(out, WIDE[:, ::2][:, ::-1])


@pytest.mark.parametrize(
    ("loops", "mask"),
    [
        (
            """
            for i in T.serial(8, annotations={"pragma_auto_unroll_max_step": 64}):
                for j in T.serial(32):
                    if (i + j) % 3 == 0:
                        C[i, j] = A[i, j]
            """,
            (np.arange(8)[:, None] + np.arange(32)) % 3 == 0,
        ),
        (
            """
            for i in T.unroll(2, 6):
                for j in T.vectorized(4, 20):
                    C[i, j] = A[i, j]
            """,
            (np.arange(8)[:, None] // 2 % 3 > 0) & (np.arange(32) >= 4) & (np.arange(32) < 20),
        ),
        (
            """
            for i in T.parallel(8):
                for j in range(i, 32):
                    C[i, j] = A[i, j]
            """,
            np.arange(32) >= np.arange(8)[:, None],
        ),
        (
            """
            for i in range(8):
                for j in range(i + 1):
                    for k in T.vectorized(4):
                        if j * 4 + k < 31:
                            C[i, j * 4 + k] = A[i, j * 4 + k]
            """,
            (np.arange(32) < 4 * (np.arange(8)[:, None] + 1)) & (np.arange(32) < 31),
        ),
        (
            """
            for i in range(8):
                C[i, i * 2:i * 2 + 16:2] = A[i, i * 2:i * 2 + 16:2]
            """,
            (np.arange(32) % 2 == 0)
            & (np.arange(32) >= 2 * np.arange(8)[:, None])
            & (np.arange(32) < 2 * np.arange(8)[:, None] + 16),
        ),
        (
            """
            for i, j in T.grid(8, 4):
                lanes = T.Ramp(T.int64(0), 1, 8)
                C.vstore([i, T.Ramp(j * 8, 1, 8)],
                         A.vload([i, T.Ramp(j * 8, 1, 8)], predicate=lanes < T.Broadcast(i, 8)),
                         predicate=lanes < T.Broadcast(i, 8))
            """,
            np.arange(32) % 8 < np.arange(8)[:, None],
        ),
        (
            """
            t = T.alloc_buffer((8, 32))
            row = T.alloc_buffer((32,))
            for i, j in T.grid(8, 4):
                t[i, j * 8:j * 8 + 8] = A[i, j * 8:j * 8 + 8]
            for i in range(8):
                row[0:32] = t[i, 0:32]
                C[i, 0:32] = row[0:32]
            """,
            np.ones((8, 32), bool),
        ),
    ],
    ids=[
        "limit",
        "starts",
        "triangle",
        "guarded vectors",
        "strided vectors",
        "masked vectors",
        "vectors in memory",
    ],
)
def test_loops_of_every_kind(loops: str, mask: np.ndarray) -> None:
    out = result(SQUARE, loops, WIDE, np.zeros_like(WIDE))
    np.testing.assert_array_equal(out, np.where(mask, WIDE, 0))
