"""Strided, gathered, masked and uniform accesses, with and without hardware for them."""

from __future__ import annotations

import re

import numpy as np
import pytest

from burnish.support.errors import CodegenError
from burnish.support.target import Target
from burnish.tensorir.codegen.loads import column_elements, slot_elements
from burnish.tensorir.codegen.object import emit_object
from burnish.tensorir.expr import INDEX, IntImm, Ramp, Var
from burnish.tensorir.lowering.pipeline import lower_func
from burnish.tensorir.text.parser import parse_func
from burnish.tests.native import call_native

TARGETS = ("native", "llvm -mcpu=haswell", "llvm -mcpu=x86-64-v2")
RNG = np.random.default_rng(0)


@pytest.fixture(params=TARGETS)
def target(request: pytest.FixtureRequest) -> Target:
    return Target(request.param)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "float16"])
def test_transpose_reads_and_writes_with_a_stride(dtype: str, target: Target) -> None:
    func = parse_func(f"""
@T.prim_func
def transpose(
    A: T.Buffer((24, 40), "{dtype}"),
    B: T.Buffer((40, 24), "{dtype}"),
    C: T.Buffer((40, 24), "{dtype}"),
):
    T.func_attr({{"is_scheduled": True}})
    for i in range(40):
        for j in T.vectorized(24):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vj, vi]
    for j in range(24):
        for i in T.vectorized(40):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = A[vj, vi]
""")
    a = (RNG.standard_normal((24, 40)) * 50).astype(dtype)
    b, c = np.zeros((40, 24), dtype), np.zeros((40, 24), dtype)
    if dtype == "float16" and "v2" in str(target):
        with pytest.raises(CodegenError, match="is float16, which x86-64-v2 cannot convert"):
            call_native(func, a, b, c, target=target)
        return
    call_native(func, a, b, c, target=target)
    np.testing.assert_array_equal(b, a.T)
    np.testing.assert_array_equal(c, a.T)


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
def test_masked_stores_whose_lanes_are_all_on_are_plain(dtype: str) -> None:
    """Without registers for masks any other takes as long as a dozen, or is a store a lane."""
    func = parse_func(f"""
@T.prim_func
def f(A: T.Buffer(("n",), "{dtype}"), B: T.Buffer(("n",), "{dtype}")):
    T.func_attr({{"is_scheduled": True}})
    for i in range((n + 7) // 8):
        for j in T.vectorized(8):
            with T.block("B"):
                v = T.axis.spatial(n, i * 8 + j)
                T.where(i * 8 + j < n)
                B[v] = A[v]
""")
    for cpu in TARGETS:
        target = Target(cpu)
        if dtype == "float16" and "v2" in cpu:
            continue
        a, b = np.arange(100).astype(dtype), np.zeros(100, dtype)
        call_native(func, a, b, dims=[100], target=target)  # between guards
        np.testing.assert_array_equal(b, a)
    for cpu, is_plain in (("haswell", True), ("skylake-avx512", False)):
        target = Target(f"llvm -mcpu={cpu}")
        text = emit_object([lower_func(func, target)], target, keep_text=True).ir
        assert ("store <8 x" in text) is is_plain


def test_gather_by_loaded_indices(target: Target) -> None:
    func = parse_func("""
@T.prim_func
def take(
    A: T.Buffer((50, 3), "float32"),
    I: T.Buffer((37,), "int64"),
    B: T.Buffer((37, 3), "float32"),
):
    T.func_attr({"is_scheduled": True})
    for k in range(3):
        for i in T.vectorized(37):
            with T.block("B"):
                vi, vk = T.axis.remap("SS", [i, k])
                B[vi, vk] = A[I[vi], vk]
""")
    a, index = RNG.standard_normal((50, 3)).astype("float32"), RNG.integers(0, 50, 37)
    b = np.zeros((37, 3), "float32")
    call_native(func, a, index, b, target=target)
    np.testing.assert_array_equal(b, a[index])


def test_padding_never_reads_outside(target: Target) -> None:
    func = parse_func("""
@T.prim_func
def pad(A: T.Buffer((5, 9), "float32"), B: T.Buffer((9, 32), "float32")):
    T.func_attr({"is_scheduled": True})
    for i in range(9):
        for j in T.vectorized(32):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = T.if_then_else(
                    2 <= vi and vi < 7 and 3 <= vj and vj < 12, A[vi - 2, vj - 3], T.float32(0))
""")
    page = np.full(4096 // 4 * 3, np.nan, "float32")
    a = page[1024 : 1024 + 45].reshape(5, 9)
    a[:] = RNG.standard_normal((5, 9))
    b = np.empty((9, 32), "float32")
    call_native(func, a, b, target=target)
    expected = np.zeros((9, 32), "float32")
    expected[2:7, 3:12] = a
    np.testing.assert_array_equal(b, expected)


def test_strided_access_under_a_predicate(target: Target) -> None:
    func = parse_func("""
@T.prim_func
def odd(a: T.handle, b: T.handle):
    T.func_attr({"is_scheduled": True})
    n = T.int64()
    A = T.match_buffer(a, (n * 2,), "float32")
    B = T.match_buffer(b, (n * 2,), "float32")
    for io in range((n + 15) // 16):
        for ii in T.vectorized(16):
            with T.block("B"):
                vi = T.axis.spatial(n, io * 16 + ii)
                T.where(io * 16 + ii < n)
                B[vi * 2 + 1] = A[vi * 2]
""")
    for n in (1, 16, 21):
        a, b = RNG.standard_normal(2 * n).astype("float32"), np.zeros(2 * n, "float32")
        call_native(func, a, b, dims=(n,), target=target)
        np.testing.assert_array_equal(b[1::2], a[::2])
        np.testing.assert_array_equal(b[::2], np.zeros(n, "float32"))


def test_uniform_load_under_a_mask_is_read_only_if_a_lane_wants_it(target: Target) -> None:
    func = parse_func("""
@T.prim_func
def some(A: T.Buffer((4,), "float32"), K: T.Buffer((1,), "int64"), B: T.Buffer((8, 16), "float32")):
    T.func_attr({"is_scheduled": True})
    for i in range(8):
        for j in T.vectorized(16):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = T.if_then_else(vi * 16 + vj < 64, A[vi * K[0]], T.float32(-1))
""")
    a, b = RNG.standard_normal(4).astype("float32"), np.empty((8, 16), "float32")
    # From row 4 on no lane wants the element, whose address is far outside.
    call_native(func, a, np.array([1], "int64"), b, target=target)
    np.testing.assert_array_equal(b[:4], np.repeat(a[:, None], 16, axis=1))
    np.testing.assert_array_equal(b[4:], np.full((4, 16), -1, "float32"))


def test_bool_vectors_are_bytes_in_memory(target: Target) -> None:
    func = parse_func("""
@T.prim_func
def where(
    M: T.Buffer((37,), "bool"),
    A: T.Buffer((37,), "float32"),
    B: T.Buffer((37,), "float32"),
    O: T.Buffer((37,), "bool"),
):
    T.func_attr({"is_scheduled": True})
    for i in T.vectorized(37):
        with T.block("B"):
            vi = T.axis.spatial(37, i)
            B[vi] = T.Select(M[vi], A[vi], T.float32(0))
            O[vi] = T.Not(M[vi])
""")
    m, a = RNG.random(37) < 0.5, RNG.standard_normal(37).astype("float32")
    b, o = np.empty(37, "float32"), np.empty(37, "bool")
    call_native(func, m, a, b, o, target=target)
    np.testing.assert_array_equal(b, np.where(m, a, np.float32(0)))
    np.testing.assert_array_equal(o, ~m)


def test_a_load_is_not_reused_across_a_store_to_its_buffer(target: Target) -> None:
    func = parse_func("""
@T.prim_func
def twice(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
    T.func_attr({"is_scheduled": True})
    for i in range(4):
        with T.block("B"):
            vi = T.axis.spatial(4, i)
            B[vi] = A[vi] + T.float32(1)
            A[vi] = B[vi] * T.float32(2)
            B[vi] = A[vi] + B[vi]
""")
    a = np.arange(4, dtype="float32")
    b = np.empty(4, "float32")
    call_native(func, a, b, target=target)
    np.testing.assert_array_equal(b, (np.arange(4) + 1) * 3)


def test_in_place_arguments_may_overlap() -> None:
    func = parse_func("""
@T.prim_func
def f(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32"), C: T.Buffer((4,), "float32")):
    T.func_attr({"is_scheduled": True, "inplace": True})
    for i in range(4):
        with T.block("B"):
            vi = T.axis.spatial(4, i)
            B[vi] = A[vi] + T.float32(1)
            C[vi] = A[vi] + T.float32(1)
""")
    a, c = np.zeros(4, "float32"), np.empty(4, "float32")
    call_native(func, a, a, c)
    np.testing.assert_array_equal(c, np.full(4, 2, "float32"))


def test_prefetch_is_one_instruction() -> None:
    func = parse_func("""
@T.prim_func
def f(A: T.Buffer((400,), "float32"), B: T.Buffer((400,), "float32")):
    T.func_attr({"is_scheduled": True})
    for i in range(400):
        with T.block("B"):
            vi = T.axis.spatial(400, i)
            T.evaluate(T.prefetch(A[vi + 16]))
            B[vi] = A[vi]
""")
    target = Target("llvm -mcpu=haswell")
    assert "prefetcht0" in emit_object([lower_func(func, target)], target, keep_text=True).assembly


def columns(dtype: str, rows: int, width: int, *, stored: bool) -> str:
    """A tile that is read by columns from registers, or written by columns into them."""
    tile = f"""
    for r in T.unroll({rows}):
        for c in T.vectorized({width}):
            with T.block("R"):
                v, w = T.axis.remap("SS", [r, c])
                {{rows}}
    for c in T.unroll({width}):
        for r in T.vectorized({rows}):
            with T.block("C"):
                v, w = T.axis.remap("SS", [r, c])
                {{columns}}
"""
    if stored:
        first, second = tile.split("    for c in T.unroll")
        body = ("\n    for c in T.unroll" + second).format(columns="R[v, w] = A[w, v]")
        body += first.format(rows="B[v, w] = R[v, w]").replace('"R"', '"B"')
        shapes = (width, rows), (rows, width)
    else:
        body = tile.format(rows="R[v, w] = A[v, w]", columns="B[w, v] = R[v, w]")
        shapes = (rows, width), (width, rows)
    return f"""
@T.prim_func
def f(A: T.Buffer({shapes[0]}, "{dtype}"), B: T.Buffer({shapes[1]}, "{dtype}")):
    T.func_attr({{"is_scheduled": True}})
    R = T.alloc_buffer(({rows}, {width}), "{dtype}", scope="register"){body}"""


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "bool"])
@pytest.mark.parametrize(("rows", "width"), [(4, 4), (16, 16), (2, 5), (7, 3), (16, 1), (3, 16)])
@pytest.mark.parametrize("stored", [False, True])
def test_columns_of_registers(
    dtype: str, rows: int, width: int, stored: bool, target: Target
) -> None:
    func = parse_func(columns(dtype, rows, width, stored=stored))
    shape = (width, rows) if stored else (rows, width)
    a = (RNG.standard_normal(shape) * 50).astype(dtype)
    b = np.zeros(shape[::-1], dtype)
    call_native(func, a, b, target=target)
    np.testing.assert_array_equal(b, a.T)


def test_a_column_after_a_row_is_stored_again(target: Target) -> None:
    func = parse_func("""
@T.prim_func
def f(A: T.Buffer((4, 4), "float32"), B: T.Buffer((2, 4), "float32")):
    T.func_attr({"is_scheduled": True})
    R = T.alloc_buffer((4, 4), "float32", scope="register")
    for r in T.unroll(4):
        for c in T.vectorized(4):
            with T.block("R"):
                v, w = T.axis.remap("SS", [r, c])
                R[v, w] = A[v, w]
    for r in T.vectorized(4):
        with T.block("B0"):
            v = T.axis.spatial(4, r)
            B[0, v] = R[v, 2]
    for c in T.vectorized(4):
        with T.block("again"):
            v = T.axis.spatial(4, c)
            R[1, v] = T.float32(7)
    for r in T.vectorized(4):
        with T.block("B1"):
            v = T.axis.spatial(4, r)
            B[1, v] = R[v, 2]
""")
    a = RNG.standard_normal((4, 4)).astype("float32")
    b = np.zeros((2, 4), "float32")
    call_native(func, a, b, target=target)
    np.testing.assert_array_equal(b[0], a[:, 2])
    np.testing.assert_array_equal(b[1], [a[0, 2], 7, a[2, 2], a[3, 2]])


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "bool"])
@pytest.mark.parametrize(("stride", "width"), [(2, 16), (2, 7), (3, 8), (5, 4), (16, 16), (2, 1)])
def test_every_other_element_of_registers(
    dtype: str, stride: int, width: int, target: Target
) -> None:
    size = stride * width + 1
    func = parse_func(f"""
@T.prim_func
def f(A: T.Buffer(({size},), "{dtype}"), B: T.Buffer(({stride + 1}, {width}), "{dtype}")):
    T.func_attr({{"is_scheduled": True}})
    R = T.alloc_buffer(({size},), "{dtype}", scope="register")
    for i in T.vectorized({size}):
        with T.block("R"):
            v = T.axis.spatial({size}, i)
            R[v] = A[v]
    for k in T.unroll({stride + 1}):
        for j in T.vectorized({width}):
            with T.block("B"):
                w, v = T.axis.remap("SS", [k, j])
                B[w, v] = R[v * {stride} + w]
""")
    a = (RNG.standard_normal(size) * 50).astype(dtype)
    b = np.zeros((stride + 1, width), dtype)
    call_native(func, a, b, target=target)
    wanted = [a[k : k + stride * (width - 1) + 1 : stride] for k in range(stride + 1)]
    np.testing.assert_array_equal(b, wanted)


GUARDED = """
@T.prim_func
def f(p: T.handle, X: T.Buffer((8, 16), "float32"), Y: T.Buffer((8, 16), "float32")):
    T.func_attr({{"is_scheduled": True}})
    n = T.int64()
    P = T.match_buffer(p, (n,), "int64")
    for i in range(8):
        for j in T.vectorized(16):
            with T.block("Y"):
                vi, vj = T.axis.remap("SS", [i, j])
                {body}
"""
FAR = "1000000000"
"""Elements from one row of ``P`` to the next: those of all rows but the first lie far outside."""


@pytest.mark.parametrize(
    ("body", "otherwise"),
    [
        ("Y[vi, vj] = T.if_then_else(vi * {far} + vj < n, X[P[vi * {far}], vj], T.float32(1))", 1),
        ("Y[vi, vj] = T.if_then_else(vi * {far} + vj < n, X[P[vi * {far}], vj], T.float32(0))", 0),
        ("Y[vi, vj] = T.if_then_else(vi * {far} + vj < n, X[P[vi * {far}], 3], T.float32(1))", 1),
        (
            "Y[vi, vj] = T.if_then_else("
            "vi * {far} + vj < n, X[T.max(T.min(P[vi * {far}], 7), 0), 3], T.float32(1))",
            1,
        ),
        (
            "Y[vi, vj] = T.if_then_else("
            "vi * {far} + vj < n, X[P[vi * {far}], vj * 2 % 16], T.float32(1))",
            1,
        ),
        (
            "Y[vi, vj] = T.if_then_else(vi * {far} + vj < n, T.if_then_else("
            "vj < P[vi * {far}] + 2, X[2, vj], T.float32(1)), T.float32(1))",
            1,
        ),
        ("T.where(i * {far} + j < n)\n                Y[vi, vj] = X[P[vi * {far}], vj]", 9),
        ("T.where(i * {far} + j < n)\n                Y[P[vi * {far}], vj] = X[2, vj]", 9),
    ],
)
def test_an_index_is_not_loaded_where_no_lane_is_on(
    body: str, otherwise: int, target: Target
) -> None:
    """Lanes of the first row alone are on: the loaded row of the others is far outside."""
    func = parse_func(GUARDED.format(body=body.format(far=FAR)))
    p, x = np.full(5, 2), RNG.standard_normal((8, 16)).astype("float32")
    y = np.full((8, 16), 9, "float32")
    call_native(func, p, x, y, dims=(5,), target=target)
    wanted = np.full((8, 16), otherwise, "float32")
    row = 2 if "Y[P[" in body else 0
    wanted[row, :5] = x[2, :5]
    if "vj < P[" in body:
        wanted[0, 4] = otherwise
    elif "% 16" in body:
        wanted[0, :5] = x[2, :10:2]
    elif ", 3]" in body:
        wanted[0, :5] = x[2, 3]
    np.testing.assert_array_equal(y, wanted)


def test_lanes_that_are_off_do_not_divide_an_index_by_zero(target: Target) -> None:
    func = parse_func("""
@T.prim_func
def f(p: T.handle, X: T.Buffer((8, 16), "float32"), Y: T.Buffer((8, 16), "float32")):
    T.func_attr({"is_scheduled": True})
    n = T.int64()
    P = T.match_buffer(p, (n,), "int64")
    for i in range(8):
        for j in T.vectorized(16):
            with T.block("Y"):
                vi, vj = T.axis.remap("SS", [i, j])
                Y[vi, vj] = T.if_then_else(vj < n, X[vi // n, vj], T.float32(1))
""")
    x = RNG.standard_normal((8, 16)).astype("float32")
    for n in (0, 3):
        y = np.zeros((8, 16), "float32")
        call_native(func, np.zeros(n, "int64"), x, y, dims=(n,), target=target)
        wanted = np.ones((8, 16), "float32")
        if n:
            wanted[:, :n] = x[np.arange(8) // n, :n]
        np.testing.assert_array_equal(y, wanted)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "bool"])
@pytest.mark.parametrize(
    "index",
    ["v * 2", "v * 2 + 1", "v * 3 + 5", "31 - v", "62 - v * 2", "v // 2", "v // 4 + 3", "v % 2",
     "v * 2 - v % 2", "v // 3 + v % 3", "v * 9"],
)  # fmt: skip
def test_lanes_near_each_other(index: str, dtype: str, target: Target) -> None:
    """At the very end of a buffer, too: nothing behind the last element is read."""
    wanted = np.array([eval(index, {"v": v}) for v in range(32)])
    size = int(wanted.max()) + 1
    func = parse_func(f"""
@T.prim_func
def f(A: T.Buffer(({size},), "{dtype}"), B: T.Buffer((32,), "{dtype}")):
    T.func_attr({{"is_scheduled": True}})
    for io in range(2):
        for ii in T.vectorized(16):
            with T.block("B"):
                v = T.axis.spatial(32, io * 16 + ii)
                B[v] = A[{index}]
""")
    a = (RNG.standard_normal(size) * 50).astype(dtype)
    b = np.zeros(32, dtype)
    call_native(func, a, b, target=target)
    np.testing.assert_array_equal(b, a[wanted])


@pytest.mark.parametrize(
    ("index", "reads"), [("v * 2", 2), ("v * 4 + 1", 4), ("15 - v", 1), ("v // 2", 1), ("v * 9", 0)]
)
def test_near_lanes_are_read_in_vectors(index: str, reads: int) -> None:
    func = parse_func(f"""
@T.prim_func
def f(A: T.Buffer((400,), "float32"), B: T.Buffer((16,), "float32")):
    T.func_attr({{"is_scheduled": True}})
    for i in T.vectorized(16):
        with T.block("B"):
            v = T.axis.spatial(16, i)
            B[v] = A[{index}]
""")
    target = Target("llvm -mcpu=skylake-avx512")
    text = emit_object([lower_func(func, target)], target, keep_text=True).assembly
    assert ("gather" in text) == (not reads)
    assert len(re.findall(r"\(%r(?!ip)\w+\), %[yz]mm", text.split("f.impl:")[1])) == reads


def test_column_elements() -> None:
    assert column_elements(Ramp(IntImm(8), IntImm(2), 4)) == range(8, 16, 2)
    assert column_elements(Ramp(IntImm(8), IntImm(1), 4)) is None
    assert column_elements(IntImm(3)) is None


def test_slot_elements() -> None:
    assert slot_elements(IntImm(3)) == (3, 1)
    assert slot_elements(Ramp(IntImm(8), IntImm(1), 4)) == (8, 4)
    assert slot_elements(Ramp(IntImm(8), IntImm(2), 4)) is None
    assert slot_elements(Var("i", INDEX)) is None


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "int64", "bool"])
def test_a_row_that_is_read_backwards(dtype: str, target: Target) -> None:
    func = parse_func(f"""
@T.prim_func
def flip(A: T.Buffer((5, 37), "{dtype}"), B: T.Buffer((5, 37), "{dtype}")):
    T.func_attr({{"is_scheduled": True}})
    for i in range(5):
        for j0 in range(3):
            for j1 in T.vectorized(16):
                with T.block("B"):
                    vi = T.axis.spatial(5, i)
                    vj = T.axis.spatial(37, j0 * 16 + j1)
                    T.where(j0 * 16 + j1 < 37)
                    B[vi, vj] = A[vi, 36 - vj]
""")
    a = (RNG.standard_normal((5, 37)) * 50).astype(dtype)
    b = np.zeros((5, 37), dtype)
    call_native(func, a, b, target=target)
    np.testing.assert_array_equal(b, a[:, ::-1])


def test_backwards_is_one_load_and_a_shuffle() -> None:
    func = parse_func("""
@T.prim_func
def flip(A: T.Buffer((64,), "int8"), B: T.Buffer((64,), "int8")):
    T.func_attr({"is_scheduled": True})
    for j in T.vectorized(64):
        with T.block("B"):
            vj = T.axis.spatial(64, j)
            B[vj] = A[63 - vj]
""")
    skylake = Target("llvm -mcpu=skylake-avx512")
    found = emit_object([lower_func(func, skylake)], skylake, keep_text=True).assembly
    assert "vpshufb" in found
    assert "vpinsrb" not in found


def test_places_in_memory_are_loaded_one_by_one() -> None:
    func = parse_func("""
@T.prim_func
def look_up(
    A: T.Buffer((9, 50), "float32"),
    I: T.Buffer((32,), "int64"),
    B: T.Buffer((9, 32), "float32"),
):
    T.func_attr({"is_scheduled": True})
    for k in range(9):
        for i in T.vectorized(32):
            with T.block("B"):
                vk, vi = T.axis.remap("SS", [k, i])
                B[vk, vi] = A[vk, I[vi]]
""")
    a, index = RNG.standard_normal((9, 50)).astype("float32"), RNG.integers(0, 50, 32)
    b = np.zeros((9, 32), "float32")
    call_native(func, a, index, b)
    np.testing.assert_array_equal(b, a[:, index])
    skylake = Target("llvm -mcpu=skylake-avx512")
    found = emit_object([lower_func(func, skylake)], skylake, keep_text=True).assembly
    assert "vinsertps" in found
    assert "gather" not in found
