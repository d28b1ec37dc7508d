"""Vectorized loops become vectors, and what cannot be one stays a loop."""

from __future__ import annotations

import numpy as np
import pytest

from burnish.support.errors import CodegenError
from burnish.support.target import Target
from burnish.tensorir.lowering.flatten_buffers import flatten_buffers
from burnish.tensorir.lowering.lower_blocks import lower_blocks
from burnish.tensorir.lowering.pipeline import lower_func
from burnish.tensorir.lowering.simplify_loops import simplify_loops
from burnish.tensorir.lowering.vectorize_loops import vectorize_loops
from burnish.tensorir.text.parser import parse_func
from burnish.tensorir.text.printer import print_func
from burnish.tests.native import call_native

AVX2 = Target("llvm -mcpu=haswell")


def vectorized(
    store: str,
    extent: int = 8,
    dtypes: str = "float32 float32 float32",
    before: str = "range(4)",
    target: Target = AVX2,
) -> str:
    a, b, c = dtypes.split()
    text = f"""
@T.prim_func
def f(A: T.Buffer((64, 64), "{a}"), B: T.Buffer((64, 64), "{b}"), C: T.Buffer((64, 64), "{c}")):
    for i in {before}:
        for j in T.vectorized({extent}):
            with T.block("C"):
                vi = T.axis.spatial(64, i)
                vj = T.axis.spatial(64, j)
                {store}
"""
    func = vectorize_loops(flatten_buffers(simplify_loops(lower_blocks(parse_func(text)))), target)
    return "\n".join(print_func(func).split("\n")[2:]).rstrip()


def test_contiguous_uniform_and_strided() -> None:
    assert (
        vectorized("C[vi, vj] = A[vi, vj] + B[vi, 3] * A[vj, vi]")
        == """\
    for i in range(4):
        C[T.Ramp(i * 64, 1, 8)] = A[T.Ramp(i * 64, 1, 8)] + T.Broadcast(B[i * 64 + 3], 8) * \
A[T.Ramp(i, 64, 8)]"""
    )


def test_a_long_loop_is_cut_into_machine_vectors_and_a_rest() -> None:
    text = vectorized("C[vi, vj] = A[vi, vj]", extent=21)
    assert "for j_v in T.unroll(2):" in text
    assert "C[T.Ramp(i * 64 + j_v * 8, 1, 8)]" in text
    assert "C[T.Ramp(i * 64 + 16, 1, 5)]" in text


def test_lanes_follow_the_widest_element() -> None:
    assert "T.Ramp(i * 64 + j_v * 4, 1, 4)" in vectorized(
        'C[vi, vj] = T.cast(A[vi, vj], "float64")', dtypes="float32 float32 float64"
    )
    assert "T.Ramp(i * 64, 1, 32)" in vectorized("C[vi, vj] = A[vi, vj]", 32, "int8 int8 int8")


def test_a_loaded_row_is_no_vector() -> None:
    text = vectorized("C[vi, vj] = A[B[vi, 0], vj]", 16, "float32 int64 float32")
    assert "C[T.Ramp(i * 64 + j_v * 8, 1, 8)]" in text
    text = vectorized("C[vi, vj] = A[vi, B[vi, vj]]", 16, "float32 int64 float32")
    assert "C[T.Ramp(i * 64 + j_v * 4, 1, 4)]" in text


def test_vectors_of_an_elementary_function_stand_side_by_side() -> None:
    store = "C[vi, vj] = T.exp(A[vi, vj])"
    assert "C[T.Ramp(i * 64, 1, 16)] = T.exp(A[T.Ramp(i * 64, 1, 16)])" in vectorized(store, 16)
    text = vectorized(store, 64)
    assert "for j_v in T.unroll(2):" in text
    assert "C[T.Ramp(i * 64 + j_v * 32, 1, 32)]" in text
    assert "1, 16)" in vectorized(store, 64, "float64 float64 float64")


def test_a_function_of_many_values_has_fewer_vectors_side_by_side() -> None:
    text = vectorized("C[vi, vj] = T.exp(A[vi, vj]) + T.erf(A[vi, vj])", 64)
    assert "C[T.Ramp(i * 64 + j_v * 16, 1, 16)]" in text


def test_what_keeps_the_vectors_of_an_elementary_function_apart() -> None:
    store = "C[vi, vj] = T.exp(A[vi, vj])"
    many = vectorized(store, 32, target=Target("llvm -mcpu=skylake-avx512"))
    assert "C[T.Ramp(i * 64 + j_v * 16, 1, 16)]" in many, "registers for all constants"
    masked = vectorized("T.where(j < 9)\n                " + store, 32)
    assert "C.vstore([T.Ramp(i * 64 + j_v * 8, 1, 8)]" in masked


def test_a_varying_condition_becomes_a_predicate() -> None:
    text = vectorized("C[vi, vj] = T.if_then_else(vi + vj < 9, A[vi, vj], T.float32(0))")
    assert "predicate=" in text
    assert "T.Ramp(0, 1, 8) < T.Broadcast(9 - i, 8)" in text
    assert "Select" not in text


def test_a_condition_that_does_not_vary_stays_scalar() -> None:
    text = vectorized("C[vi, vj] = T.if_then_else(vi < 2, A[vi, vj], T.float32(0))")
    assert "T.if_then_else(i < 2, A[T.Ramp(i * 64, 1, 8)], T.Broadcast(T.float32(0), 8))" in text


def test_a_reduction_stays_a_loop() -> None:
    text = vectorized("C[vi, 0] = C[vi, 0] + A[vi, vj]")
    assert "for i, j in T.grid(4, 8):" in text
    assert "Ramp" not in text


def test_reading_what_another_iteration_writes_stays_a_loop() -> None:
    assert "Ramp" not in vectorized("C[vi, vj + 1] = C[vi, vj] + A[vi, vj]")


def test_a_nested_vectorized_loop_wins() -> None:
    text = vectorized("C[vi, vj] = A[vi, vj]", before="T.vectorized(4)")
    assert "for i in range(4):" in text
    assert "T.Ramp(i * 64, 1, 8)" in text


def test_one_iteration_is_no_vector() -> None:
    assert (
        vectorized("C[vi, vj] = A[vi, vj]", extent=1)
        == """\
    for i in range(4):
        C[i * 64] = A[i * 64]"""
    )


def test_a_symbolic_extent_is_an_error() -> None:
    func = parse_func("""
@T.prim_func
def f(a: T.handle):
    n = T.int64()
    A = T.match_buffer(a, (n,), "float32")
    for j in T.vectorized(n):
        with T.block("A"):
            vj = T.axis.spatial(n, j)
            A[vj] = T.float32(0)
""")
    with pytest.raises(
        CodegenError, match="needs a constant number of iterations; j has a symbolic extent"
    ):
        vectorize_loops(flatten_buffers(simplify_loops(lower_blocks(func))), AVX2)


def test_what_may_fault_under_a_mask_is_masked_too() -> None:
    store = "A[vi, vj] = T.if_then_else(vj < vi, {}, 0)"
    dtypes = "int64 int64 int64"
    text = vectorized(store.format("B[C[vi * 99, 0], vj]"), extent=4, dtypes=dtypes)
    assert "B.vload([T.Ramp(C[i * 6336] * 64, 1, 4)], predicate=" in text, "still one vector"
    inner = "T.if_then_else(vj < C[vi * {}, 0] + 1, B[vi, vj], 0)"
    text = vectorized(store.format(inner.format(99)), extent=4, dtypes=dtypes)
    assert "C.vload([T.Broadcast(i * 6336, 4)], predicate=" in text
    text = vectorized(store.format(inner.format(9)), extent=4, dtypes=dtypes)
    assert "C[i * 576]" in text, "an element that exists needs no mask"


def nested_conditions(depth: int) -> str:
    """A value that elements choose: those of the deepest condition are read under all others."""
    value = "B[vi, vj]"
    for n in range(depth):
        asked = f"T.if_then_else(A[vi, vj] < {n}, B[vi, vj], A[vj, vi])"
        value = f"T.if_then_else({asked} < {n} and {asked} > -9, A[vi, vj], {value})"
    return f"C[vi, vj] = {value}"


def test_masks_of_conditions_that_read_memory_grow_by_steps() -> None:
    sizes = [len(vectorized(nested_conditions(n), 8, "int64 int64 int64")) for n in (3, 6)]
    assert sizes[1] < 5 * sizes[0]


def test_nested_conditions_that_read_memory_choose_as_loops_do() -> None:
    text = f"""
@T.prim_func
def f(A: T.Buffer((8, 8), "int64"), B: T.Buffer((8, 8), "int64"), C: T.Buffer((8, 8), "int64")):
    for i in range(8):
        for j in T.vectorized(8):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                {nested_conditions(4)}
"""
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 6, (8, 8)) for _ in range(2))
    found = np.zeros((8, 8), np.int64)
    call_native(parse_func(text), a, b, found)
    expected = b
    for n in range(4):
        asked = np.where(a < n, b, a.T)
        expected = np.where((asked < n) & (asked > -9), a, expected)
    assert np.array_equal(found, expected)


def test_statements_under_a_condition_that_reads_memory_choose_as_loops_do() -> None:
    text = """
@T.prim_func
def f(A: T.Buffer((64,), "int32"), B: T.Buffer((64,), "int32"), C: T.Buffer((64,), "int32")):
    for i in range(8):
        for j in T.vectorized(8):
            if A[i * 8 + j] > 2:
                C[i * 8 + j] = B[i * 8 + j]
            else:
                C[i * 8 + j] = A[i * 8 + j]
"""
    lowered = print_func(vectorize_loops(simplify_loops(parse_func(text)), AVX2))
    assert lowered.count("predicate=not asked") == 2
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 6, 64).astype(np.int32) for _ in range(2))
    found = np.zeros(64, np.int32)
    call_native(parse_func(text), a, b, found)
    assert np.array_equal(found, np.where(a > 2, b, a))


def test_the_vectors_of_a_symbolic_tail_need_no_predicate() -> None:
    """The tail after whole blocks of 8 has ``m // 4 % 2`` whole vectors of 4."""
    func = parse_func("""
@T.prim_func
def f(a: T.handle, c: T.handle):
    m = T.int64()
    A = T.match_buffer(a, (m,))
    C = T.match_buffer(c, (m,))
    for i in range(m // 4 % 2):
        for j in T.vectorized(4):
            with T.block("C"):
                vi = T.axis.spatial(m, m // 8 * 8 + i * 4 + j)
                T.where(m // 8 * 8 + i * 4 + j < m)
                C[vi] = A[vi]
""")
    made = vectorize_loops(flatten_buffers(simplify_loops(lower_blocks(func))), AVX2)
    text = print_func(made)
    assert "predicate" not in text
    assert "if " not in text
    assert "T.Ramp(" in text


def test_a_row_that_data_chooses_is_read_as_vectors() -> None:
    func = parse_func("""
@T.prim_func
def main(X: T.Buffer((9, 8), "float32"), P: T.Buffer((4,), "int64"), Y: T.Buffer((4, 8))):
    for i in range(4):
        for j in T.vectorized(8):
            with T.block("Y"):
                vi, vj = T.axis.remap("SS", [i, j])
                Y[vi, vj] = X[P[vi], vj]
""")
    lowered = lower_func(func, Target("llvm -mcpu=skylake-avx512")).func
    assert "X[T.Ramp(P[i] * 8, 1, 8)]" in print_func(lowered)


def test_places_that_are_further_apart_than_the_loop_goes_are_independent() -> None:
    """Rows that are exchanged, of one buffer; a row and the same one some elements on are not."""
    rows = "C[vi, vj] = T.min(C[vi, vj], C[vi + 4, vj])"
    text = vectorized(rows)
    assert "C[T.Ramp(i * 64, 1, 8)] = T.min(C[T.Ramp(i * 64, 1, 8)]" in text
    assert "C[T.Ramp(i * 64 + 256, 1, 8)]" in text
    assert "T.Ramp" in vectorized("C[vi, vj] = C[vi, vj + 8]")
    assert "T.Ramp" not in vectorized("C[vi, vj] = C[vi, vj + 7]")
    assert "T.Ramp" not in vectorized("C[vi, vj] = C[vi, vj + vi * 64]")


def chosen(condition: str) -> str:
    return f"""
@T.prim_func
def f(A: T.Buffer((8, 64), "int32"), B: T.Buffer((8, 64), "int32"), C: T.Buffer((8, 64), "int32")):
    T.func_attr({{"is_scheduled": True}})
    for i in range(8):
        for j in T.vectorized(64):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = T.if_then_else({condition}, A[vi, vj], B[vi, vj])
"""


def check_chosen(condition: str) -> str:
    """The text for AVX2; the result of every target is that of NumPy."""
    func = parse_func(chosen(condition))
    a, b = np.arange(512, dtype="int32").reshape(8, 64), np.full((8, 64), -1, "int32")
    vi, vj = np.indices((8, 64))
    expected = np.where(eval(condition, {"vi": vi, "vj": vj}), a, b)
    for name in ("native", "llvm -mcpu=haswell", "llvm -mcpu=x86-64-v2"):
        result = np.zeros((8, 64), "int32")
        call_native(func, a, b, result, target=Target(name))
        np.testing.assert_array_equal(result, expected)
    flat = flatten_buffers(simplify_loops(lower_blocks(func)))
    return print_func(vectorize_loops(flat, AVX2))


@pytest.mark.parametrize(
    "condition",
    [
        "vj < vi * 8 + 16",
        "vi * 8 + 16 > vj",
        "vj >= vi * 8",
        "vi * 16 <= vj",
        "vj <= vi * 8 + 7",
        "vi * 8 + 7 >= vj",
        "vj > vi * 8 - 1",
        "vi * 8 - 1 < vj",
    ],
)
def test_a_condition_that_no_vector_crosses_is_scalar(condition: str) -> None:
    text = check_chosen(condition)
    assert "T.if_then_else(" in text
    assert "T.Select" not in text
    assert "predicate" not in text


@pytest.mark.parametrize(
    "condition",
    ["vj < vi * 8 + 15", "vj <= vi * 8", "vj < vi * 4", "vi * 8 >= vj", "vj == vi * 8"],
)
def test_a_condition_that_a_vector_may_cross_is_a_mask(condition: str) -> None:
    assert "T.Select" in check_chosen(condition)


def test_a_side_that_all_vectors_of_an_unrolled_loop_are_on_is_taken_alone() -> None:
    assert "if_then_else" not in check_chosen("vj < 64")
