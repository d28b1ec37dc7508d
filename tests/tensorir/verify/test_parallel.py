"""Parallel loops whose iterations surely clash are refused; what cannot be told passes."""

from __future__ import annotations

import textwrap

import numpy as np
import pytest

import burnish
from burnish.support.errors import VerifyError
from burnish.tensorir.function import PrimFunc
from burnish.tensorir.text.parser import parse_func
from burnish.tensorir.verify.parallel import verify_parallel

PARAMS = (
    'A: T.Buffer((64,)), C: T.Buffer((64,)), I: T.Buffer((64,), "int32"), M: T.Buffer((64, 64)), '
    'U: T.Buffer((64,), "uint64"), H: T.Buffer((8589934592, 8589934592, 2))'
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
    "an else that runs": (
        """
        for s in range(2):
            if s > 0:
                C[s] = A[s]
            else:
                for i in T.parallel(64):
                    C[s] = C[s] + A[i]
        """,
        "both write C[0]",
    ),
    "a block around that runs later": (
        """
        for o in range(4):
            with T.block("o"):
                vo = T.axis.spatial(4, o)
                T.where(vo > 2)
                T.reads(A[0:64])
                T.writes(C[0:64])
                for i in T.parallel(16):
                    C[i // vo] = A[i]
        """,
        "i = 0 and i = 1 both write C[0]",
    ),
    "a mask around, whatever it is": (
        "for o in range(4):\n  if A[o] > 0.0:\n    for i in T.parallel(64):\n      C[o] = A[i]",
        "both write C[0]",
    ),
    "two values": (
        "for i in T.parallel(64):\n  if i < 32:\n    C[0] = 0.0\n  else:\n    C[0] = 1.0",
        "i = 0 and i = 32 both write C[0]",
    ),
    "two elements' values": (
        "for i in T.parallel(64):\n  if i < 32:\n    C[0] = A[0]\n  else:\n    C[0] = A[1]",
        "i = 0 and i = 32 both write C[0]",
    ),
    "far elements": (
        "for i in T.parallel(4):\n  H[i % 2 * 4294967296, 4294967296 * (i % 2), i % 2] = 1.0 + i",
        "i = 0 and i = 2 both write H[0, 0, 0]",
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
    "never": "for i in T.parallel(64):\n  if 1 >= 3:\n    C[0] = A[i]",
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
    "a large unsigned condition": """
        for i in T.parallel(64):
            if U[i] != T.max_value("uint64"):
                U[i] = U[i] + T.uint64(1)
        """,
    "a large unsigned value": "for i in T.parallel(64):\n  U[0] = T.uint64(18446744073709551615)",
    "an unsigned index that wraps": """
        for i in T.parallel(64):
            x: T.uint64 = T.Cast("uint64", i) * T.uint64(11400714819323198485)
            C[T.Cast("int64", x % T.uint64(64))] = A[i]
        """,
    "a product that wraps": """
        for i in T.parallel(64):
            x: T.uint64 = T.Cast("uint64", i) * T.uint64(9223372036854775807)
            C[T.Cast("int64", x % T.uint64(64))] = A[i]
        """,
    "a narrow index that wraps": """
        for i in T.parallel(T.int32(4)):
            C[(i * T.int32(1073741825)) // 1073741824 + 2] = A[i]
        """,
    "a narrow conversion": """
        for i in T.parallel(64):
            C[T.Cast("int64", T.Cast("uint8", i * 255)) % 64] = A[i]
        """,
    "an else that does not run with it": """
        for s in range(2):
            if s == 0:
                C[0] = A[0]
            else:
                for i in T.parallel(64):
                    C[s * i] = A[i]
        """,
    "a block around that does not run at first": """
        for o in range(4):
            with T.block("o"):
                vo = T.axis.spatial(4, o)
                T.where(vo > 0)
                T.reads(A[0:64])
                T.writes(C[0:64])
                for i in T.parallel(16):
                    C[vo * i] = A[i]
        """,
    "a mask around that may leave it out": """
        for o in range(4):
            if A[o] > 0.0:
                for i in T.parallel(16):
                    C[o * i] = A[i]
        """,
    "one value of two stores": """
        for i in T.parallel(64):
            if i < 32:
                C[0] = 0.0
            else:
                C[0] = 0.0
        """,
    "one value of two stores and lets": """
        for i in T.parallel(64):
            if i % 2 == 0:
                x = T.exp(A[0]) + M[i // 64, 3]
                C[0] = x
            else:
                y = T.exp(A[i - i]) + M[0, 3]
                C[0] = y
        """,
    "a store written twice": "for i in T.parallel(64):\n  C[0] = A[0]\n  C[0] = A[0]",
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
        ("for i in T.parallel(16):\n  C[(n - 16 + i) % n] = A[i]", False),
        ("for i in T.parallel(n):\n  C[i % m] = C[(i + m // 2) % m]", True),
        ("for i in T.parallel(n // 2):\n  A[i] = A[i + n // 2]", False),
        ("for i in T.parallel(n):\n  for j in range(m):\n    A[i] = A[(i + n // 2) % n]", True),
        ("for i in T.parallel(n // 16):\n  C[0] = A[i]", True),
        ("if n >= 5:\n  C[0] = 0.0\nelse:\n  for i in T.parallel(n):\n    C[i % 4] = A[i]", False),
        ("if n >= 5:\n  for i in T.parallel(n):\n    C[i // 2] = A[i]\nelse:\n  C[0] = 1.0", True),
    ],
)
def test_symbolic_sizes_clash_where_they_do_at_all_sizes(body: str, clashes: bool) -> None:
    f = func("n = T.int64()\nm = T.int64()\nA = T.match_buffer(a, (n,))\n"
             "C = T.match_buffer(c, (m,))\n" + body, "a: T.handle, c: T.handle")  # fmt: skip
    if clashes:
        with pytest.raises(VerifyError, match=r"both write|which the iteration i = 4 reads"):
            verify_parallel(f)
    else:
        assert verify_parallel(f) is f


def test_a_clash_tells_its_sizes() -> None:
    f = func("n = T.int64()\nA = T.match_buffer(a, (n,))\nfor i in T.parallel(n):\n  A[0] = i",
             "a: T.handle")  # fmt: skip
    with pytest.raises(
        VerifyError,
        match=r"both write A\[0\] \(with n = 8; others clash with n = 6; n = 9; n = 4096; ",
    ):
        verify_parallel(f)


def test_every_store_of_a_large_body_is_looked_at() -> None:
    lines = [
        f"  for j, k in T.grid(8, 8):\n    M[i, {q}] = M[i, {q}] + A[j] * A[k]" for q in range(63)
    ]
    body = "for i in T.parallel(64):\n" + "\n".join(lines)
    good = func(body)
    assert verify_parallel(good) is good
    with pytest.raises(VerifyError, match=r"i = 0 and i = 1 both write M\[0, 63\]"):
        verify_parallel(func(body + "\n  M[i // 2, 63] = A[i]"))


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
