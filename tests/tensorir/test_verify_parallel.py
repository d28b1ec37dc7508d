"""Parallel loops whose iterations surely clash are refused; what cannot be told passes."""

from __future__ import annotations

import textwrap

import numpy as np
import pytest

import burnish
from burnish.support.errors import VerifyError
from burnish.tensorir.function import PrimFunc
from burnish.tensorir.parser import parse_func
from burnish.tensorir.verify_parallel import verify_parallel

PARAMS = (
    'A: T.Buffer((64,)), C: T.Buffer((64,)), I: T.Buffer((64,), "int32"), M: T.Buffer((64, 64))'
)
SYMBOLIC = 'A: T.Buffer(("n",)), C: T.Buffer(("m",))'


def func(body: str, params: str = PARAMS) -> PrimFunc:
    text = textwrap.indent(textwrap.dedent(body).strip(), "    ")
    return parse_func(f"@T.prim_func\ndef f({params}):\n{text}\n")


CLASHES = {
    "a sum": ("for i in T.parallel(64):\n  C[0] = C[0] + A[i]", "i = 0 and i = 1 both write C[0]"),
    "the last one": ("for i in T.parallel(64):\n  C[0] = A[i]", "both write C[0]"),
    "a reduce axis": (
        """
        for k in T.parallel(64):
            for i in range(64):
                with T.block("C"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    with T.init():
                        C[vi] = T.float32(0)
                    C[vi] = C[vi] + M[vi, vk]
        """,
        "k = 0 and k = 1 both write C[0]",
    ),
    "an axis that two iterations share": (
        """
        for i in T.parallel(64):
            with T.block("C"):
                vi = T.axis.spatial(32, i // 2)
                C[vi] = A[i]
        """,
        "i = 0 and i = 1 both write C[0]",
    ),
    "a remainder": ("for i in T.parallel(64):\n  C[i % 8] = A[i]", "i = 0 and i = 8 both write"),
    "windows": (
        "for i in T.parallel(60):\n  for j in range(3):\n    C[i + j] = C[i + j] + A[i]",
        "both write C[1]",
    ),
    "a prefix": (
        "for i in T.parallel(63):\n  C[i + 1] = C[i] + A[i]",
        "the iteration i = 0 writes C[1], which the iteration i = 1 reads",
    ),
    "an exchange": (
        "for i in T.parallel(64):\n  C[i] = A[i]\n  M[0, i] = C[63 - i]",
        "the iteration i = 0 writes C[0], which the iteration i = 63 reads",
    ),
    "some of the iterations": (
        "for i in T.parallel(64):\n  if i < 2:\n    C[0] = A[i]",
        "i = 0 and i = 1 both write C[0]",
    ),
    "a triangle": (
        "for i in T.parallel(64):\n  for j in range(i):\n    C[j] = C[j] + A[i]",
        "i = 1 and i = 2 both write C[0]",
    ),
    "a let": ("for i in T.parallel(64):\n  x = i // 2\n  C[x] = A[i]", "both write C[0]"),
    "a chain of lets": (
        "for i in T.parallel(64):\n  x0 = i // 2\n"
        + "".join(f"  x{n + 1} = x{n} + x{n}\n" for n in range(40))
        + "  C[x40 % 64] = A[i]",
        "both write C[0]",
    ),
    "loops around": (
        "for o in range(2):\n  for i in T.parallel(64):\n    C[o] = C[o] + A[i]",
        "both write C[0]",
    ),
    "the ends of long loops": (
        "for i in T.parallel(1000):\n  for j in range(1000):\n"
        "    C[T.min(i, 1) * 32 + T.min(999 - i, 0)] = A[j % 64] + i",
        "i = 1 and i = 2 both write C[32]",
    ),
}


@pytest.mark.parametrize("case", CLASHES)
def test_a_clash_is_refused(case: str) -> None:
    body, found = CLASHES[case]
    with pytest.raises(VerifyError) as caught:
        verify_parallel(func(body))
    assert found in caught.value.found
    assert "Make the loop serial (range)" in caught.value.found
    assert "^^^" in caught.value.context


PASSES = {
    "own elements": "for i in T.parallel(64):\n  C[i] = C[i] + A[i]",
    "own rows": "for i in T.parallel(64):\n  for j in range(64):\n    C[i] = C[i] + M[i, j]",
    "one iteration": "for i in T.parallel(1):\n  C[0] = C[0] + A[i]",
    "memory decides the place": "for i in T.parallel(64):\n  C[I[i]] = A[i]",
    "memory decides whether": "for i in T.parallel(64):\n  if A[i] > 1.0:\n    C[0] = A[i]",
    "one value": "for i in T.parallel(64):\n  C[0] = A[0] + 1.0",
    "one value twice": """
        for i in T.parallel(64):
            with T.block("C"):
                vi = T.axis.spatial(32, i // 2)
                C[vi] = A[vi]
        """,
    "one of them": "for i in T.parallel(64):\n  if i == 0:\n    C[0] = A[i]",
    "a guarded neighbour": """
        for i in T.parallel(64):
            C[i] = T.if_then_else(i > 64, C[i - 1], A[i])
        """,
    "an odd neighbour": "for i in T.parallel(32):\n  C[2 * i] = C[2 * i + 1]",
    "memory of each iteration": """
        B = T.alloc_buffer((64,))
        for i in T.parallel(64):
            for j in range(64):
                B[j] = M[i, j]
            C[i] = B[i]
        """,
    "recomputed halos": """
        B = T.alloc_buffer((64,))
        for i in T.parallel(15):
            for j in range(5):
                B[i * 4 + j] = A[i * 4 + j] * 2.0
            for j in range(4):
                C[i * 4 + j] = B[i * 4 + j] + B[i * 4 + j + 1]
        for j in range(4):
            C[60 + j] = B[j]
        """,
    "serial": "for i in range(64):\n  C[0] = C[0] + A[i]",
    "threads": 'for i in T.thread_binding(64, thread="threadIdx.x"):\n  C[0] = C[0] + A[i]',
    "lanes": "for i in T.vectorized(64):\n  C[0] = C[0] + A[i]",
}


@pytest.mark.parametrize("case", PASSES)
def test_what_does_not_clash_or_cannot_be_told_passes(case: str) -> None:
    f = func(PASSES[case])
    assert verify_parallel(f) is f


@pytest.mark.parametrize(
    ("body", "clashes"),
    [
        ("for i in T.parallel(n):\n  C[0] = C[0] + A[i]", True),
        ("for i in T.parallel(n):\n  C[i // 2] = A[i]", True),
        ("for i in T.parallel(n):\n  C[i] = A[i]", False),
        ("for i in T.parallel(n):\n  C[i % m] = A[i]", False),
        ("for i in T.parallel(n):\n  if n == 1:\n    C[0] = A[i]", False),
        ("for i in T.parallel(n):\n  if i < m - n:\n    C[0] = A[i]", False),
    ],
)
def test_symbolic_sizes_clash_where_they_do_at_all_sizes(body: str, clashes: bool) -> None:
    f = func("n = T.int64()\nm = T.int64()\nA = T.match_buffer(a, (n,))\n"
             "C = T.match_buffer(c, (m,))\n" + body, "a: T.handle, c: T.handle")  # fmt: skip
    if clashes:
        with pytest.raises(VerifyError, match="both write"):
            verify_parallel(f)
    else:
        assert verify_parallel(f) is f


def test_a_scalar_is_one_element() -> None:
    with pytest.raises(VerifyError, match=r"both write C\[\]"):
        verify_parallel(
            func("for i in T.parallel(4):\n  C[()] = A[i]", "A: T.Buffer(4), C: T.Buffer(())")
        )


def test_build_refuses_and_a_serial_loop_is_right() -> None:
    racy = func("for i in T.parallel(64):\n  C[0] = C[0] + A[i]", "A: T.Buffer(64), C: T.Buffer(1)")
    with pytest.raises(VerifyError, match="write elements of their own"):
        burnish.build(racy)
    serial = func("for i in range(64):\n  C[0] = C[0] + A[i]", "A: T.Buffer(64), C: T.Buffer(1)")
    a, c = np.arange(64, dtype=np.float32), np.zeros(1, np.float32)
    burnish.build(serial)["f"](a, c)
    assert c[0] == a.sum()


def test_what_schedules_make_parallel_passes() -> None:
    f = func(
        """
        for i, k in T.grid(64, 64):
            with T.block("C"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    C[vi] = T.float32(0)
                C[vi] = C[vi] + M[vi, vk]
        """
    )
    sch = burnish.Schedule(f)
    _, inner = sch.split(sch.get_loops("C")[1], [None, 8])
    partial = sch.rfactor(inner, 1)
    sch.parallel(sch.get_loops(partial)[0])
    sch.parallel(sch.get_loops(partial)[2])
    assert verify_parallel(sch.func) is sch.func
