"""Indices become element numbers: row-major, strided, offset."""

from __future__ import annotations

from burnish.tensorir.lowering.flatten_buffers import flatten_buffers
from burnish.tensorir.lowering.lower_blocks import lower_blocks
from burnish.tensorir.lowering.simplify_loops import simplify_loops
from burnish.tensorir.text.parser import parse_func
from burnish.tensorir.text.printer import print_func


def flat(text: str) -> str:
    return print_func(flatten_buffers(simplify_loops(lower_blocks(parse_func(text)))))


def test_row_major_and_scalar_buffers() -> None:
    text = flat("""
@T.prim_func
def f(A: T.Buffer((4, 5, 6), "float32"), S: T.Buffer((), "float32")):
    for i, j, k in T.grid(4, 5, 6):
        with T.block("S"):
            vi, vj, vk = T.axis.remap("SSS", [i, j, k])
            A[vi, vj, vk] = S[()]
""")
    assert "A[i * 30 + j * 6 + k] = S[0]" in text
    assert 'T.Buffer((120,), "float32")' in text


def test_symbolic_strides_are_products() -> None:
    text = flat("""
@T.prim_func
def f(a: T.handle, b: T.handle):
    n = T.int64()
    m = T.int64()
    A = T.match_buffer(a, (n, m, 4), "float32")
    B = T.match_buffer(b, (n, m, 4), "float32")
    for i, j, k in T.grid(n, m, 4):
        with T.block("B"):
            vi, vj, vk = T.axis.remap("SSS", [i, j, k])
            B[vi, vj, vk] = A[vi, vj, vk]
""")
    assert "B[i * m * 4 + j * 4 + k]" in text or "B[m * i * 4 + j * 4 + k]" in text


def test_strides_and_offset_of_a_parameter() -> None:
    text = flat("""
@T.prim_func
def f(a: T.handle, B: T.Buffer((4, 6), "float32")):
    A = T.match_buffer(a, (4, 6), "float32", strides=[10, 1], elem_offset=3)
    for i, j in T.grid(4, 6):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj]
""")
    assert "B[i * 6 + j] = A[i * 10 + j + 3]" in text


def test_a_reshape_of_divisions_folds() -> None:
    text = flat("""
@T.prim_func
def f(A: T.Buffer((8, 6), "float32"), B: T.Buffer((48,), "float32")):
    for i in range(48):
        with T.block("B"):
            vi = T.axis.spatial(48, i)
            B[vi] = A[vi // 6, vi % 6]
""")
    assert "B[i] = A[i]" in text
