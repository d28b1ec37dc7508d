"""Kernels end to end: text in, machine code called under the ABI, NumPy as the judge."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from burnish.support.errors import CodegenError, InternalError
from burnish.support.host import native_target
from burnish.support.target import Target
from burnish.tensorir.codegen.object import emit_object
from burnish.tensorir.lowering.pipeline import lower_func
from burnish.tensorir.text.parser import parse_func
from burnish.tests.native import call_native, load_native, lower

RNG = np.random.default_rng(0)
AVX512 = Target("llvm -mcpu=skylake-avx512")


def random(*shape: int, dtype: str = "float32") -> np.ndarray:
    return RNG.standard_normal(shape).astype(dtype)


MATMUL = """
@T.prim_func
def matmul(
    A: T.Buffer((7, 48), "float32"),
    B: T.Buffer((48, 33), "float32"),
    C: T.Buffer((7, 33), "float32"),
):
    for i, j, k in T.grid(7, 33, 48):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""


def test_unscheduled_matmul() -> None:
    a, b = random(7, 48), random(48, 33)
    c = np.empty((7, 33), "float32")
    call_native(parse_func(MATMUL), a, b, c)
    np.testing.assert_allclose(c, a @ b, rtol=1e-5, atol=1e-5)


def test_symbolic_shapes_and_scalar_parameters() -> None:
    func = parse_func("""
@T.prim_func
def scale(a: T.handle, b: T.handle, alpha: T.float32):
    n = T.int64()
    m = T.int64()
    A = T.match_buffer(a, (n, m), "float32")
    B = T.match_buffer(b, (m, n), "float32")
    for i, j in T.grid(n, m):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vj, vi] = A[vi, vj] * alpha
""")
    for n, m in ((5, 3), (1, 1), (0, 4), (17, 40)):
        a, b = random(n, m), np.full((m, n), np.nan, "float32")
        call_native(func, a, b, np.array([2.5], "float32"), dims=(n, m))
        np.testing.assert_array_equal(b, a.T * np.float32(2.5))


def test_vectorized_with_predicate_on_the_vector_axis() -> None:
    func = parse_func("""
@T.prim_func
def add(a: T.handle, b: T.handle, c: T.handle):
    T.func_attr({"is_scheduled": True})
    n = T.int64()
    A = T.match_buffer(a, (n,), "float32")
    B = T.match_buffer(b, (n,), "float32")
    C = T.match_buffer(c, (n,), "float32")
    for io in range((n + 31) // 32):
        for ii in T.vectorized(32):
            with T.block("C"):
                vi = T.axis.spatial(n, io * 32 + ii)
                T.where(io * 32 + ii < n)
                C[vi] = A[vi] + B[vi]
""")
    for n in (0, 1, 31, 32, 33, 100):
        a, b = random(n), random(n)
        c = np.full(n + 16, 7, "float32")
        call_native(func, a, b, c, dims=(n,))
        np.testing.assert_array_equal(c[:n], a + b)
        np.testing.assert_array_equal(c[n:], np.full(16, 7, "float32"))
    text = emit_object([lower_func(func, AVX512)], AVX512, keep_text=True)
    assert "masked.load" in text.ir
    assert "icmp sgt <16 x i32>" in text.ir or "icmp slt <16 x i32>" in text.ir


REGISTER_TILE = """
@T.prim_func
def tile(
    A: T.Buffer((16, 64), "float32"),
    B: T.Buffer((64, 96), "float32"),
    C: T.Buffer((16, 96), "float32"),
):
    T.func_attr({"is_scheduled": True})
    with T.block("root"):
        acc = T.alloc_buffer((16, 96), "float32", scope="register")
        for io, jo in T.grid(2, 2):
            for m in T.unroll(8):
                for n in T.vectorized(48):
                    with T.block("init"):
                        vi = T.axis.spatial(16, io * 8 + m)
                        vj = T.axis.spatial(96, jo * 48 + n)
                        acc[vi, vj] = T.float32(0)
            for k in range(64):
                for m in T.unroll(8):
                    for n in T.vectorized(48):
                        with T.block("update"):
                            vi = T.axis.spatial(16, io * 8 + m)
                            vj = T.axis.spatial(96, jo * 48 + n)
                            vk = T.axis.reduce(64, k)
                            acc[vi, vj] = acc[vi, vj] + A[vi, vk] * B[vk, vj]
            for m in T.unroll(8):
                for n in T.vectorized(48):
                    with T.block("write"):
                        vi = T.axis.spatial(16, io * 8 + m)
                        vj = T.axis.spatial(96, jo * 48 + n)
                        C[vi, vj] = acc[vi, vj]
"""


def test_register_tile_is_right_and_stays_in_registers() -> None:
    func = parse_func(REGISTER_TILE)
    a, b = random(16, 64), random(64, 96)
    c = np.empty((16, 96), "float32")
    call_native(func, a, b, c)
    np.testing.assert_allclose(c, a @ b, rtol=1e-4, atol=1e-4)
    lines = emit_object([lower_func(func, AVX512)], AVX512, keep_text=True).assembly.splitlines()
    loop = inner_loop(lines, "vfmadd")
    kinds = {line.split()[0] for line in loop}
    assert sum(line.split()[0].startswith("vfmadd") for line in loop) == 24
    moves = {"vmovups", "vbroadcastss", "vmovaps"}
    assert kinds <= {k for k in kinds if k.startswith("vfmadd")} | moves | {
        "addq",
        "cmpq",
        "jne",
        "jb",
        "jl",
        "incq",
        "leaq",
    }
    assert not any("Spill" in line or "Reload" in line or "rsp" in line for line in loop)


def inner_loop(lines: list[str], mark: str) -> list[str]:
    """The instructions of the innermost loop with the first ``mark``: from its label to the jump
    back."""
    at = next(i for i, line in enumerate(lines) if mark in line)
    start = max(i for i in range(at) if lines[i].startswith(".L"))
    label = lines[start].split(":")[0]
    end = next(
        i for i in range(at, len(lines)) if lines[i].strip().startswith("j") and label in lines[i]
    )
    return [
        line.split("#")[0].strip()
        for line in lines[start + 1 : end + 1]
        if line.startswith("\t") and not line.strip().startswith(("#", "."))
    ]


def test_register_index_that_is_not_constant_is_an_error() -> None:
    func = parse_func(REGISTER_TILE.replace("T.unroll(8)", "range(8)"))
    with pytest.raises(
        CodegenError, match=r"Register buffer acc of tile is indexed by .*m.*not constant"
    ):
        emit_object([lower(func)], native_target())


def test_too_many_registers_is_an_error() -> None:
    func = parse_func("""
@T.prim_func
def big(A: T.Buffer((8192,), "float32"), B: T.Buffer((8192,), "float32")):
    with T.block("root"):
        r = T.alloc_buffer((8192,), "float32", scope="register")
        for i in T.vectorized(8192):
            with T.block("r"):
                vi = T.axis.spatial(8192, i)
                r[vi] = A[vi]
        for i in T.vectorized(8192):
            with T.block("B"):
                vi = T.axis.spatial(8192, i)
                B[vi] = r[vi]
""")
    with pytest.raises(
        CodegenError, match="needs 32768 bytes of registers and stack; a kernel has 16384"
    ):
        emit_object([lower(func)], native_target())


def test_scalar_and_vector_accesses_of_one_register_slot() -> None:
    func = parse_func("""
@T.prim_func
def mixed(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
    T.func_attr({"is_scheduled": True})
    with T.block("root"):
        r = T.alloc_buffer((16,), "float32", scope="register")
        for i in T.unroll(16):
            with T.block("r"):
                vi = T.axis.spatial(16, i)
                r[vi] = A[15 - vi]
        for j in T.unroll(2):
            for i in T.vectorized(8):
                with T.block("B"):
                    vi = T.axis.spatial(16, j * 8 + i)
                    B[vi] = r[vi] * T.float32(2)
""")
    a, b = random(16), np.empty(16, "float32")
    call_native(func, a, b)
    np.testing.assert_array_equal(b, a[::-1] * 2)


def test_workspace_of_symbolic_size() -> None:
    func = parse_func("""
@T.prim_func
def two(a: T.handle, b: T.handle):
    n = T.int64()
    A = T.match_buffer(a, (n, 100), "float32")
    B = T.match_buffer(b, (n, 100), "float32")
    X = T.alloc_buffer((n, 100), "float32")
    Y = T.alloc_buffer((n, 100), "float32")
    for i, j in T.grid(n, 100):
        with T.block("X"):
            vi, vj = T.axis.remap("SS", [i, j])
            X[vi, vj] = A[vi, vj] + T.float32(1)
    for i, j in T.grid(n, 100):
        with T.block("Y"):
            vi, vj = T.axis.remap("SS", [i, j])
            Y[vi, vj] = X[vi, 99 - vj]
    for i, j in T.grid(n, 100):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = Y[vi, vj] * X[vi, vj]
""")
    a, b = random(9, 100), np.empty((9, 100), "float32")
    call_native(func, a, b, dims=(9,))
    x = a + np.float32(1)
    np.testing.assert_array_equal(b, x[:, ::-1] * x)


PARALLEL = """
@T.prim_func
def par(a: T.handle, b: T.handle):
    T.func_attr({"is_scheduled": True})
    n = T.int64()
    A = T.match_buffer(a, (n, 512), "float32")
    B = T.match_buffer(b, (n, 512), "float32")
    S = T.alloc_buffer((n, 512), "float32")
    T_ = T.alloc_buffer((n, 512), "float32")
    for i in T.parallel(n):
        for j in range(512):
            with T.block("S"):
                vi, vj = T.axis.remap("SS", [i, j])
                S[vi, vj] = A[vi, vj] * T.float32(3)
    for i in T.parallel(n):
        for j in range(512):
            with T.block("T"):
                vi, vj = T.axis.remap("SS", [i, j])
                T_[vi, vj] = S[vi, 511 - vj] + T.float32(1)
        for j in range(512):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = T_[vi, 511 - vj] + S[vi, vj]
"""


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("n", [0, 1, 50])
def test_parallel_loops_with_shared_and_thread_workspace(n: int, threads: int) -> None:
    a, b = random(n, 512), np.empty((n, 512), "float32")
    call = load_native(parse_func(PARALLEL), a, b, dims=(n,), threads=threads)
    call()
    np.testing.assert_array_equal(b, (a * np.float32(3) + np.float32(1)) + a * np.float32(3))
    assert len(call.launches) == (2 if threads > 1 and n == 50 else 0)


def test_thread_workspace_is_per_thread_and_shared_is_not() -> None:
    lowered = lower(parse_func(PARALLEL))
    assert lowered.thread_bytes.value == 512 * 4
    assert [v.name for v in lowered.dims] == ["n"]


@pytest.mark.parametrize("threads", [1, 2])
def test_thread_workspace_of_symbolic_size(threads: int) -> None:
    func = parse_func("""
@T.prim_func
def par(a: T.handle, b: T.handle):
    T.func_attr({"is_scheduled": True})
    m = T.int64()
    A = T.match_buffer(a, (200, m), "float32")
    B = T.match_buffer(b, (200, m), "float32")
    X = T.alloc_buffer((200, m), "float32")
    Y = T.alloc_buffer((200, m), "float32")
    for i in T.parallel(200):
        for j in range(m):
            with T.block("X"):
                vi, vj = T.axis.remap("SS", [i, j])
                X[vi, vj] = A[vi, vj] + T.float32(1)
        for j in range(m):
            with T.block("Y"):
                vi, vj = T.axis.remap("SS", [i, j])
                Y[vi, vj] = X[vi, m - 1 - vj]
        for j in range(m):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = Y[vi, m - 1 - vj] * X[vi, vj]
""")
    for m in (1, 77):
        a, b = random(200, m), np.empty((200, m), "float32")
        call = load_native(func, a, b, dims=(m,), threads=threads)
        call()
        np.testing.assert_array_equal(b, (a + np.float32(1)) ** 2)
        assert bool(call.launches) is (threads > 1)


def test_register_buffer_across_a_parallel_loop_is_an_error() -> None:
    func = parse_func("""
@T.prim_func
def across(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
    with T.block("root"):
        r = T.alloc_buffer((1,), "float32", scope="register")
        with T.block("r"):
            r[0] = A[0]
        for i in T.parallel(4):
            with T.block("B"):
                vi = T.axis.spatial(4, i)
                B[vi] = r[0] + A[vi]
""")
    with pytest.raises(CodegenError, match="Register buffer r is used inside the parallel loop i"):
        emit_object([lower(func)], native_target())


def test_inplace_functions_carry_no_noalias() -> None:
    func = parse_func(MATMUL)
    plain = emit_object([lower(func)], native_target(), keep_text=True).ir
    inplace = emit_object(
        [lower(func.with_attr("inplace", True))], native_target(), keep_text=True
    ).ir
    assert "noalias" in plain
    assert "noalias" not in inplace


def test_an_undeclared_buffer_is_an_error() -> None:
    func = parse_func(MATMUL)
    broken = type(func)(func.params[1:], func.body, func.attrs, func.name)
    with pytest.raises(
        CodegenError, match="Buffer A of matmul is neither a parameter nor allocated"
    ):
        emit_object([lower(broken)], native_target())


def test_an_unbound_dim_is_a_defect() -> None:
    text = MATMUL.replace("(7, 48)", '("n", 48)').replace("(7, 33)", '("n", 33)')
    lowered = lower(parse_func(text.replace("T.grid(7", "T.grid(n")))
    with pytest.raises(InternalError, match="variable n of matmul is unbound"):
        emit_object([replace(lowered, dims=())], native_target())
