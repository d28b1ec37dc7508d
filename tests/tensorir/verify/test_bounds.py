"""What surely lies out of bounds is refused, what might not is let pass."""

from __future__ import annotations

import pytest

from burnish.support.errors import VerifyError
from burnish.tensorir.function import PrimFunc
from burnish.tensorir.text.parser import parse_func
from burnish.tensorir.verify.bounds import verify_bounds

HEADER = """
@T.prim_func
def f(A: T.Buffer((8,), "float32"), B: T.Buffer((4, 6), "float32"), S: T.Buffer(("n",), "float32")):
"""


def func(*lines: str) -> PrimFunc:
    return parse_func(HEADER + "".join([f"    {line}\n" for line in lines]))


REFUSED = {
    "a loop that leaves an element out": (
        [
            "for i in range(7):",
            '    with T.block("A"):',
            "        vi = T.axis.spatial(8, i)",
            "        A[vi] = 1.0",
        ],
        r"the axis 'vi' of 'A' runs from 0 to 6; its domain has 8 values.*Make the domain 7",
    ),
    "a sum that leaves a term out": (
        [
            "for i, k in T.grid(4, 5):",
            '    with T.block("A"):',
            "        vi = T.axis.spatial(4, i)",
            "        vk = T.axis.reduce(6, k)",
            "        with T.init():",
            "            A[vi] = 0.0",
            "        A[vi] = A[vi] + B[vi, vk]",
        ],
        r"the axis 'vk' of 'A' runs from 0 to 4; its domain has 6 values",
    ),
    "one loop for two axes": (
        [
            "for i in range(4):",
            '    with T.block("B"):',
            '        vi, vj = T.axis.remap("SS", [i, i])',
            "        B[vi, vj] = 1.0",
        ],
        r"the axes of 'B' have 16 values together, the loops that they are bound to 4 iterations",
    ),
    "every other value of an axis": (
        [
            "for i in range(4):",
            '    with T.block("A"):',
            "        vi = T.axis.spatial(7, i * 2)",
            "        A[vi] = 1.0",
        ],
        r"the axes of 'A' have 7 values together, the loops that they are bound to 4 iterations",
    ),
    "a loop that is too long": (
        ["for i in range(9):", "    A[i] = 1.0"],
        "the index i of 'A' runs from 0 to 8; this dimension has 8 elements",
    ),
    "a window": (
        ["for i, k in T.grid(6, 4):", "    A[i] = A[i + k]"],
        r"the index i \+ k of 'A' runs from 0 to 8",
    ),
    "below the start": (
        ["for i in range(8):", "    A[i - 1] = 1.0"],
        "the index i - 1 of 'A' runs from -1 to 6",
    ),
    "an index of fewer bits": (
        ["for i in range(8):", "    A[T.Cast('int32', i) + T.int32(1)] = 1.0"],
        "of 'A' runs from 1 to 8",
    ),
    "a constant": (["B[0, 6] = 1.0"], "the index 6 of 'B' is 6; this dimension has 6 elements"),
    "a column for a row": (
        ["for i, j in T.grid(6, 4):", "    B[i, j] = 1.0"],
        "the index i of 'B' runs from 0 to 5; this dimension has 4",
    ),
    "an axis that leaves its domain": (
        [
            "for i in range(8):",
            '    with T.block("A"):',
            "        vi = T.axis.spatial(4, i)",
            "        A[vi] = 1.0",
        ],
        r"the axis 'vi' of 'A' runs from 0 to 7, outside of its domain \[0, 4\)",
    ),
    "through an axis": (
        [
            "for i in range(8):",
            '    with T.block("A"):',
            "        vi = T.axis.spatial(8, i)",
            "        A[vi] = A[vi * 2]",
        ],
        r"the index vi \* 2 of 'A' runs from 0 to 14",
    ),
    "in an init": (
        [
            "for i, k in T.grid(4, 2):",
            '    with T.block("A"):',
            '        vi, vk = T.axis.remap("SR", [i, k])',
            "        with T.init():",
            "            A[vi + 5] = 0.0",
            "        A[vi] = A[vi] + 1.0",
        ],
        r"the index vi \+ 5 of 'A' runs from 5 to 8",
    ),
    "a pointer behind a buffer": (
        [
            "for i in range(4):",
            '    with T.block("p"):',
            "        vi = T.axis.spatial(4, i)",
            "        T.reads()",
            "        T.writes(B[0:4, 0:6])",
            '        T.evaluate(T.call_extern("int32", "f", B.access_ptr("w", offset=vi * 8)))',
        ],
        "a pointer to 'B' leads to elements 0 to 24; it has 24",
    ),
    "a pointer in front of a buffer": (
        [
            "for i in range(4):",
            '    with T.block("p"):',
            "        vi = T.axis.spatial(4, i)",
            "        T.reads()",
            "        T.writes(B[0:4, 0:6])",
            '        T.evaluate(T.call_extern("int32", "f", B.access_ptr("w", offset=vi - 1)))',
        ],
        "a pointer to 'B' leads to elements -1 to 2; it has 24",
    ),
}
PASSED = {
    "the last element": ["for i in range(8):", "    A[7 - i] = 1.0"],
    "under a condition": ["for i in range(9):", "    if i < 8:", "        A[i] = 1.0"],
    "a guarded load": [
        "for i in range(8):",
        "    A[i] = T.if_then_else(i > 0, A[i - 1], T.float32(0))",
    ],
    "under a predicate": [
        "for i in range(9):",
        '    with T.block("A"):',
        "        vi = T.axis.spatial(8, i)",
        "        T.where(i < 8)",
        "        A[vi] = 1.0",
    ],
    "a loop that does not run": ["for i in range(0):", "    A[9] = 1.0"],
    "a loop that may not run": ["for i in range(n):", "    A[9] = S[i]"],
    "a symbolic size": ["for i in range(8):", "    S[i] = 1.0"],
    "a quotient": ["for i in range(16):", "    A[i // 2] = 1.0"],
    "two blocks that share a domain": [
        "for i in range(3):",
        '    with T.block("A"):',
        "        vi = T.axis.spatial(8, i)",
        "        A[vi] = 1.0",
        "for i in range(5):",
        '    with T.block("rest"):',
        "        vi = T.axis.spatial(8, i + 3)",
        "        A[vi] = 1.0",
    ],
    "an update of a part": [
        "for i in range(3):",
        '    with T.block("A"):',
        "        vi = T.axis.spatial(8, i)",
        "        A[vi] = A[vi] + 1.0",
    ],
    "what a schedule made": [
        'T.func_attr({"is_scheduled": True})',
        "for i in range(3):",
        '    with T.block("A"):',
        "        vi = T.axis.spatial(8, i)",
        "        A[vi] = 1.0",
    ],
    "a buffer of its own, of which a part is read": [
        'C = T.alloc_buffer((8,), "float32")',
        "for i in range(6):",
        '    with T.block("C"):',
        "        vi = T.axis.spatial(8, i)",
        "        C[vi] = 1.0",
        "for i, j in T.grid(4, 6):",
        '    with T.block("B"):',
        '        vi, vj = T.axis.remap("SS", [i, j])',
        "        B[vi, vj] = C[vj]",
    ],
    "pointers into a buffer": [
        "for i in range(4):",
        '    with T.block("p"):',
        "        vi = T.axis.spatial(4, i)",
        "        T.reads()",
        "        T.writes(B[0:4, 0:6])",
        '        T.evaluate(T.call_extern("int32", "f", B.access_ptr("w", offset=vi * 6 + 5)))',
    ],
    "a choice of fewer bits": [
        "for i in range(8):",
        "    A[T.Select(B[0, 0] > 0.0, T.Cast('int32', i), T.int32(0))] = 1.0",
    ],
    "a quotient of fewer bits": ["for i in range(16):", "    A[T.Cast('int32', i) // 2] = 1.0"],
    "several elements an instance": [
        "for i in range(4):",
        '    with T.block("A"):',
        "        vi = T.axis.spatial(7, i * 2)",
        "        A[vi] = 1.0",
        "        A[vi + 1] = 1.0",
    ],
    "axes of one value": [
        "for i in range(8):",
        '    with T.block("A"):',
        "        vi = T.axis.spatial(8, i)",
        "        vo = T.axis.spatial(1, 0)",
        "        A[vi + vo] = 1.0",
    ],
    "one loop twice": ["for i in range(16):", "    A[i - i] = 1.0"],
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_surely_misses_its_buffer_is_refused(name: str) -> None:
    lines, found = REFUSED[name]
    with pytest.raises(VerifyError, match=found):
        verify_bounds(func(*lines))


@pytest.mark.parametrize("name", PASSED)
def test_what_may_be_in_bounds_passes(name: str) -> None:
    f = func(*PASSED[name])
    assert verify_bounds(f) is f


def test_the_message_shows_the_place() -> None:
    with pytest.raises(VerifyError) as caught:
        verify_bounds(func("for i in range(9):", "    A[i] = 1.0"))
    text = str(caught.value)
    assert "every access lies in its buffer (guard it" in text
    assert "    for i in range(9):\n        A[i] = T.float32(1)\n        ^" in text
    assert "5 |         A[i] = 1.0" in text
