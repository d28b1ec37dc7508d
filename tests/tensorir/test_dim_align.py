from __future__ import annotations

import pytest

from burnish.support.errors import CodegenError
from burnish.tensorir.dim_align import aligned_strides, is_compact
from burnish.tensorir.expr import IntImm
from burnish.tensorir.text.parser import parse_func
from burnish.tests.native import lower

PROGRAM = """
@T.prim_func
def main(A: T.Buffer((4, 8), "float32"), C: T.Buffer((4, 8), "float32")):
    B = T.alloc_buffer((4, 8))
    for i, j in T.grid(4, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.block_attr({"buffer_dim_align": FIRST})
            B[vi, vj] = A[vi, vj]
    for i, j in T.grid(4, 8):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.block_attr({"buffer_dim_align": SECOND})
            C[vi, vj] = B[vi, vj]
            B[vi, vj] = A[vi, vj]
"""


def lowered(first: object, second: object = ()) -> str:
    text = PROGRAM.replace("FIRST", str(first)).replace("SECOND", str(list(second)))  # type: ignore[call-overload]
    return lower(parse_func(text)).func.script()


def values(shape: list[int], alignment: dict[int, tuple[int, int]]) -> list[int]:
    strides = aligned_strides([IntImm(n) for n in shape], alignment)
    return [s.value for s in strides]  # type: ignore[attr-defined]


def test_strides() -> None:
    assert values([4, 8], {}) == [8, 1]
    assert values([4, 8], {0: (32, 8)}) == [8, 1]
    assert values([4, 8], {0: (32, 9)}) == [9, 1]
    assert values([4, 8], {0: (32, 7)}) == [39, 1]
    assert values([2, 4, 8], {1: (4, 1), 0: (16, 0)}) == [48, 9, 1]


def test_compact() -> None:
    assert is_compact([IntImm(4), IntImm(8)], [IntImm(8), IntImm(1)])
    assert not is_compact([IntImm(4), IntImm(8)], [IntImm(9), IntImm(1)])


def test_the_annotation_of_a_text_counts() -> None:
    assert "B[i * 9 + j]" in lowered([[0, 0, 4, 1]])


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ([[0, 2, 4, 1]], "with an axis of 'B' below 2; align its last layout"),
        ([[1, 0, 4, 1]], "with an index below 1, one of its writes"),
        ([[0, 0, 4, 4]], "with a factor of at least 1 and an offset below it"),
        ([[0, 0, 4]], "with a list of four integers"),
    ],
)
def test_what_the_annotation_may_not_say(entries: object, message: str) -> None:
    with pytest.raises(CodegenError, match=message):
        lowered(entries)


def test_two_blocks_that_disagree() -> None:
    with pytest.raises(CodegenError, match="The block 'C' aligns axis 0 of 'B' to 2 modulo 4, ano"):
        lowered([[0, 0, 4, 1]], [[1, 0, 4, 2]])
