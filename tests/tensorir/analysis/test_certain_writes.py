from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

from burnish.support.errors import DependenceError, ScheduleError
from burnish.support.node import walk
from burnish.tensorir.analysis.certain_writes import covered_within, writes_whole
from burnish.tensorir.analysis.nested_blocks import Nested, blocks_below
from burnish.tensorir.analysis.paths import find_block, realize_of
from burnish.tensorir.function import PrimFunc
from burnish.tensorir.schedule import Schedule
from burnish.tensorir.stmt import For
from burnish.tensorir.text.parser import parse_func
from burnish.tests.native import call_native

FIRST_ITERATION = """
@T.prim_func
def main(A: T.Buffer((4,), "float32"), C: T.Buffer((3, 4), "float32")):
    P = T.alloc_buffer((4,))
    for n, m in T.grid(4, 3):
        with T.block("P"):
            v = T.axis.spatial(4, n)
            T.where({where})
            P[v] = A[v]
        with T.block("C"):
            vm, vn = T.axis.remap("SS", [m, n])
            C[vm, vn] = P[vn]
"""


def test_what_the_first_iteration_writes_is_there_in_all() -> None:
    for where, covered in (("m == 0", True), ("m == 1", False), ("n == 0", False)):
        func = parse_func(FIRST_ITERATION.format(where=where))
        n, m = [s for s in walk(func.body) if isinstance(s, For)]
        nested = [Nested(b.realize, [m, *b.loops[2:]], []) for b in blocks_below(n)]
        assert (covered_within(nested, [n]) is None) == covered, where
        inside = [Nested(b.realize, [], []) for b in blocks_below(m)]
        assert covered_within(inside, [n, m]) is not None, "another iteration of the guard"


CUT = """
@T.prim_func
def main(A: T.Buffer((30,), "float32"), C: T.Buffer((24,), "float32")):
    P = T.alloc_buffer((30,))
    for t in range(3):
        for i, j in T.grid(2, 8):
            with T.block("P"):
                v = T.axis.spatial(30, {value})
                T.where({where})
                P[v] = A[v]
        for i in range(8):
            with T.block("C"):
                v = T.axis.spatial(24, t * 8 + i)
                C[v] = P[v] + P[v + 2]
"""


@pytest.mark.parametrize(
    ("value", "where", "covered"),
    [
        ("t * 8 + i * 8 + j", "i * 8 + j < 10", True),
        ("t * 8 + i * 8 + j", "i * 8 + j < 9", False),
        ("t * 8 + i * 8 + j", "i + j < 9", False),
        ("t * 8 + i + j * 2", "i * 8 + j < 10", False),
        ("t * 8 + i * 7 + j", "i * 7 + j < 10", True),
        ("t * 8 + i * 9 + j", "i * 9 + j < 10", False),
        ("t * 8 + (i * 8 + j) % 5 + (i * 8 + j) // 5 * 5", "i * 8 + j < 10", True),
    ],
)
def test_loops_that_a_condition_cuts_are_counted(value: str, where: str, covered: bool) -> None:
    func = parse_func(CUT.format(value=value, where=where))
    t = next(s for s in walk(func.body) if isinstance(s, For))
    nested = [Nested(b.realize, b.loops[1:], []) for b in blocks_below(t)]
    assert (covered_within(nested, [t]) is None) == covered


GAPS = """
@T.prim_func
def main(A: T.Buffer((36,), "float32"), C: T.Buffer((3, 8), "float32")):
    P = T.alloc_buffer((36,))
    for t in range(3):
        for b in range(2):
            for i in range({written}):
                with T.block("P"):
                    v = T.axis.spatial(36, t * 12 + b * 6 + i)
                    P[v] = A[v]
            for i in range(4):
                with T.block("C"):
                    v, w = T.axis.spatial(3, t), T.axis.spatial(8, b * 4 + i)
                    C[v, w] = P[v * 12 + w // 4 * 6 + w % 4 + {beyond}]
"""


@pytest.mark.parametrize(
    ("written", "beyond", "covered"),
    [(4, 0, True), (5, 1, True), (5, 2, False), (4, 1, False), (6, 2, True), (6, 3, False)],
)
def test_tiles_with_gaps_between_them(written: int, beyond: int, covered: bool) -> None:
    """Each is read by what stands below the same loop; what other tiles wrote is not there."""
    func = parse_func(GAPS.format(written=written, beyond=beyond))
    t = next(s for s in walk(func.body) if isinstance(s, For))
    nested = [Nested(b.realize, b.loops[1:], []) for b in blocks_below(t)]
    assert (covered_within(nested, [t]) is None) == covered


def of(body: str, *, whole: str = "T.writes(C[vi, 0:8])") -> PrimFunc:
    """A function with a block ``O`` over the rows of C, with this body."""
    lines = "\n".join(" " * 12 + line for line in body.strip().splitlines())
    return parse_func(f"""
@T.prim_func
def main(A: T.Buffer((6, 8), "float32"), C: T.Buffer((6, 8), "float32")):
    for i in range(6):
        with T.block("O"):
            vi = T.axis.spatial(6, i)
            T.reads(A[vi, 0:8])
            {whole}
{lines}
""")


WHOLE = {
    "a loop": "for j in range(8):\n    C[vi, j] = A[vi, j]",
    "two halves": (
        "for j in range(4):\n    C[vi, j] = A[vi, j]\n"
        "for j in range(4):\n    C[vi, j + 4] = A[vi, j]"
    ),
    "even and odd places in one loop": (
        "for j in range(4):\n    for k in range(2):\n        C[vi, j * 2 + k] = A[vi, j]"
    ),
    "both branches": (
        "for j in range(8):\n    if A[vi, j] > T.float32(0):\n        C[vi, j] = A[vi, j]\n"
        "    else:\n        C[vi, j] = T.float32(0)"
    ),
    "a block": (
        'for j in range(8):\n    with T.block("I"):\n        vj = T.axis.spatial(8, j)\n'
        "        C[vi, vj] = A[vi, vj]"
    ),
    "a block of a split loop": (
        'for j, k in T.grid(3, 3):\n    with T.block("I"):\n'
        "        vj = T.axis.spatial(8, j * 3 + k)\n        T.where(j * 3 + k < 8)\n"
        "        C[vi, vj] = A[vi, vj]"
    ),
    "a view": ("M = T.match_buffer(C[vi, 0:8], (8,))\nfor j in range(8):\n    M[j] = A[vi, j]"),
    "a reduction": (
        'for j, k in T.grid(8, 3):\n    with T.block("I"):\n'
        '        vj, vk = T.axis.remap("SR", [j, k])\n        with T.init():\n'
        "            C[vi, vj] = T.float32(0)\n        C[vi, vj] = C[vi, vj] + A[vi, vj]"
    ),
}
PARTS = {
    "a condition": "for j in range(8):\n    if j < 4:\n        C[vi, j] = A[vi, j]",
    "one branch": (
        "for j in range(8):\n    if A[vi, j] > T.float32(0):\n        C[vi, j] = A[vi, j]\n"
        "    else:\n        C[vi, 0] = T.float32(0)"
    ),
    "too few iterations": "for j in range(7):\n    C[vi, j] = A[vi, j]",
    "every second place": "for j in range(4):\n    C[vi, j * 2] = A[vi, j]",
    "a loop that may not run": (
        'for k in range(T.cast(A[vi, 0], "int64")):\n    for j in range(8):\n'
        "        C[vi, j] = A[vi, j]"
    ),
    "a predicate": (
        'for j in range(8):\n    with T.block("I"):\n        vj = T.axis.spatial(8, j)\n'
        "        T.where(j < 4)\n        C[vi, vj] = A[vi, vj]"
    ),
    "a domain that ends early": (
        'for j in range(8):\n    with T.block("I"):\n        vj = T.axis.spatial(4, j)\n'
        "        T.where(j < 4)\n        C[vi, vj] = A[vi, vj]"
    ),
    "a condition in a block": (
        'for j in range(8):\n    with T.block("I"):\n        vj = T.axis.spatial(8, j)\n'
        "        if vj < 4:\n            C[vi, vj] = A[vi, vj]"
    ),
    "half of a view": (
        "M = T.match_buffer(C[vi, 0:8], (8,))\nfor j in range(4):\n    M[j] = A[vi, j]"
    ),
}


@pytest.mark.parametrize("name", [*WHOLE, *PARTS])
def test_what_is_written_for_certain(name: str) -> None:
    block = realize_of(find_block(of({**WHOLE, **PARTS}[name]), "O", "test")).block
    assert writes_whole(block, block.writes[0]) == (name in WHOLE)


@pytest.mark.parametrize("name", [*WHOLE, *PARTS])
def test_copies_back_keep_what_was_not_written(name: str) -> None:
    """Every element that the function leaves alone stays as it is."""
    func = of({**WHOLE, **PARTS}[name])
    tried = [("O", "cache_write"), ("I", "cache_write")]
    for block, primitive in tried:
        sch = Schedule(func, seed=0)
        try:
            getattr(sch, primitive)(block, 0, "global")
        except ScheduleError:
            assert name in PARTS or block == "I"
            continue
        a = np.arange(48, dtype=np.float32).reshape(6, 8) % 5 - 1
        found, expected = np.full((2, 6, 8), 7, np.float32)
        call_native(func, a, expected)
        call_native(sch.func, a, found)
        np.testing.assert_array_equal(found, expected)
        assert name in WHOLE or block == "I"


CONDITION = """
@T.prim_func
def main(A: T.Buffer((12, 24), "float32"), C: T.Buffer((12, 24), "float32")):
    for i, j in T.grid(12, 24):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            if vi < 8:
                C[vi, vj] = A[vi, vj] * T.float32(2)
"""


def test_no_copy_back_of_elements_behind_a_condition() -> None:
    sch = Schedule(parse_func(CONDITION), seed=0)
    with pytest.raises(DependenceError, match="leaves as it was"):
        sch.cache_write("C", 0, "global")
    with pytest.raises(DependenceError, match="writes all that the copy back would store"):
        sch.reindex("C", ("write", 0))
    with pytest.raises(DependenceError, match="writes all that the copy back would store"):
        sch.reindex_cache_write("C", 0, "global", lambda i, j: (j, i))


BRANCH = """
@T.prim_func
def main(A: T.Buffer((12, 24), "float32"), C: T.Buffer((12, 24), "float32")):
    for i, j in T.grid(12, 24):
        if i < 3:
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = A[vi, vj] * T.float32(2)
"""


def test_no_copy_back_behind_a_branch_around_the_block() -> None:
    sch = Schedule(parse_func(BRANCH), seed=0)
    with pytest.raises(DependenceError, match="leaves as it was"):
        sch.cache_write("C", 0, "global")


def test_what_is_known_keeps_no_program() -> None:
    func = of("for j in range(4):\n    C[vi, j] = A[vi, j]")
    block = realize_of(find_block(func, "O", "test")).block
    assert not writes_whole(block, block.writes[0])
    gone = weakref.ref(block)
    del func, block
    gc.collect()
    assert gone() is None
