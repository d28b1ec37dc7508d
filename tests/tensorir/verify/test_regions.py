"""Declared regions that surely differ from the accesses are refused, larger ones pass."""

from __future__ import annotations

import pytest

from burnish.support.errors import VerifyError
from burnish.tensorir.function import PrimFunc
from burnish.tensorir.text.parser import parse_func
from burnish.tensorir.verify.regions import verify_regions


def func(reads: str, writes: str, store: str = "B[vi] = A[vi]", extent: int = 8) -> PrimFunc:
    return parse_func(f"""
@T.prim_func
def f(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for i in range({extent}):
        with T.block("B"):
            vi = T.axis.spatial({extent}, i)
            T.reads({reads})
            T.writes({writes})
            {store}
""")


@pytest.mark.parametrize(
    ("reads", "writes", "store", "found"),
    [
        ("", "B[vi]", "B[vi] = A[vi]", r"'B' reads A\[vi\]; declared: none of it"),
        ("A[vi]", "A[vi]", "B[vi] = A[vi]", r"'B' writes B\[vi\]; declared: none of it"),
        ("A[vi]", "B[vi]", "B[vi] = A[7 - vi]", r"'B' reads A\[7 - vi\]; declared: A\[vi\]"),
        ("A[vi + 1]", "B[vi]", "B[vi] = A[vi]", r"reads A\[vi\]; declared: A\[vi \+ 1\]"),
        ("A[vi]", "B[0]", "B[vi] = A[vi]", r"writes B\[vi\]; declared: B\[0\]"),
    ],
)
def test_what_is_surely_not_declared(reads: str, writes: str, store: str, found: str) -> None:
    with pytest.raises(VerifyError, match=found) as caught:
        verify_regions(func(reads, writes, store))
    assert "(leave it out, and it is found)" in str(caught.value)
    assert 'with T.block("B"):\n        ^' in str(caught.value)


@pytest.mark.parametrize(
    ("reads", "writes", "store"),
    [
        ("A[vi]", "B[vi]", "B[vi] = A[vi]"),
        ("A[0:8]", "B[vi]", "B[vi] = A[7 - vi]"),
        ("A[vi * 2 // 2]", "B[vi]", "B[vi] = A[vi]"),
        ("A[vi], B[vi]", "B[vi]", "B[vi] = B[vi] + A[vi]"),
    ],
)
def test_what_is_declared_passes(reads: str, writes: str, store: str) -> None:
    f = func(reads, writes, store)
    assert verify_regions(f) is f


def test_an_axis_of_one_value_is_that_value() -> None:
    verify_regions(func("A[0]", "B[vi]", extent=1))


def test_reductions_nested_blocks_and_views() -> None:
    f = parse_func("""
@T.prim_func
def f(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4,), "float32")):
    for i in range(4):
        with T.block("outer"):
            vi = T.axis.spatial(4, i)
            T.reads(A[vi, 0:8])
            T.writes(B[vi])
            C = T.alloc_buffer((8,))
            row = T.match_buffer(A[vi, 0:8], (8,), "float32")
            for j in range(8):
                with T.block("C"):
                    vj = T.axis.spatial(8, j)
                    C[vj] = row[vj]
            for j in range(8):
                with T.block("B"):
                    vk = T.axis.reduce(8, j)
                    T.reads(C[vk])
                    T.writes(B[vi])
                    with T.init():
                        B[vi] = T.float32(0)
                    B[vi] = B[vi] + C[vk]
""")
    assert verify_regions(f) is f
