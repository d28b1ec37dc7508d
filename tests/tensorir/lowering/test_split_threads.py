from __future__ import annotations

import numpy as np
import pytest

from burnish.support.errors import CodegenError
from burnish.tensorir.function import PrimFunc
from burnish.tensorir.lowering.split_threads import split_threads
from burnish.tensorir.parser import parse_func
from burnish.tensorir.verify import verify_func
from burnish.tests.native import call_native


def of(body: str, *, scope: str = "shared", size: int = 32) -> PrimFunc:
    lines = "\n".join("    " + line for line in body.strip().splitlines())
    return parse_func(f"""
@T.prim_func
def main(A: T.Buffer((4, 32), "float32"), B: T.Buffer((4, 32), "float32")):
    S = T.alloc_buffer(({size},), scope="{scope}")
    P = T.alloc_buffer((1,), scope="local")
{lines}
""")


REVERSED = """
for i in range(4):
    for t in T.thread_binding(32, thread="threadIdx.x"):
        with T.block("S"):
            vi, vt = T.axis.remap("SS", [i, t])
            S[vt] = A[vi, vt]
        with T.block("B"):
            vi, vt = T.axis.remap("SS", [i, t])
            B[vi, vt] = S[31 - vt]
"""
IN_A_SERIAL_LOOP = """
for t in T.thread_binding(32, thread="threadIdx.x"):
    for i in range(4):
        with T.block("S"):
            vi, vt = T.axis.remap("SS", [i, t])
            S[vt] = A[vi, vt]
        with T.block("B"):
            vi, vt = T.axis.remap("SS", [i, t])
            B[vi, vt] = S[31 - vt]
"""
PRIVATE = """
for t in T.thread_binding(32, thread="threadIdx.x"):
    with T.block("P"):
        vt = T.axis.spatial(32, t)
        P[0] = A[0, vt]
    for i in range(4):
        with T.block("S"):
            vi, vt = T.axis.remap("SS", [i, t])
            S[vt] = A[vi, vt]
        with T.block("B"):
            vi, vt = T.axis.remap("SS", [i, t])
            B[vi, vt] = S[31 - vt] + P[0]
"""
TWO_AXES = """
for i in range(4):
    for y in T.thread_binding(4, thread="threadIdx.y"):
        for x in T.thread_binding(8, thread="threadIdx.x"):
            with T.block("S"):
                vi, vy, vx = T.axis.remap("SSS", [i, y, x])
                S[vy * 8 + vx] = A[vi, vy * 8 + vx]
            with T.block("B"):
                vi, vy, vx = T.axis.remap("SSS", [i, y, x])
                B[vi, vy * 8 + vx] = S[31 - vy * 8 - vx]
"""
HALF_OF_THEM = """
for i in range(4):
    for t in T.thread_binding(32, thread="threadIdx.x"):
        if i < 2:
            with T.block("S"):
                vi, vt = T.axis.remap("SS", [i, t])
                S[vt] = A[vi, vt]
            with T.block("B"):
                vi, vt = T.axis.remap("SS", [i, t])
                B[vi, vt] = S[31 - vt]
        else:
            with T.block("C"):
                vi, vt = T.axis.remap("SS", [i, t])
                B[vi, vt] = A[vi, 31 - vt]
"""


@pytest.mark.parametrize("text", [REVERSED, IN_A_SERIAL_LOOP, TWO_AXES, HALF_OF_THEM])
def test_threads_see_what_others_wrote(text: str) -> None:
    func = of(text)
    verify_func(split_threads(func))
    a, b = np.random.default_rng(0).random((2, 4, 32), np.float32)
    call_native(func, a, b)
    np.testing.assert_array_equal(b, a[:, ::-1])


def test_each_thread_keeps_its_own_memory() -> None:
    func = of(PRIVATE)
    verify_func(split_threads(func))
    a, b = np.random.default_rng(0).random((2, 4, 32), np.float32)
    call_native(func, a, b)
    np.testing.assert_array_equal(b, a[:, ::-1] + a[0])


def test_the_loop_is_split_at_the_exchange(golden: object) -> None:
    golden(split_threads(of(IN_A_SERIAL_LOOP)).script())  # type: ignore[operator]


def test_without_an_exchange_nothing_changes() -> None:
    for text in (REVERSED.replace("31 - vt", "vt"), REVERSED.replace("threadIdx.x", "blockIdx.x")):
        func = of(text)
        assert split_threads(func) is func
    func = of(REVERSED.replace("31 - vt", "vt"), scope="global")
    assert split_threads(func) is func


@pytest.mark.parametrize(
    ("old", "new", "match"),
    [
        ("for i in range(4):", "for i in range(t % 2 * 2 + 2):", "the loop 'i' that differs"),
        (
            "for i in range(4):",
            'for i in range(T.cast(A[0, 0], "int64")):',
            "the loop 'i' that memory decides",
        ),
    ],
)
def test_what_cannot_be_split_is_refused(old: str, new: str, match: str) -> None:
    text = IN_A_SERIAL_LOOP.replace(old, new)
    text = text.replace(
        'vi, vt = T.axis.remap("SS", [i, t])',
        "vi = T.axis.spatial(4, i)\n            vt = T.axis.spatial(32, t)",
    )
    with pytest.raises(CodegenError, match=match):
        split_threads(of(text))


def test_an_exchange_inside_of_a_block_is_refused() -> None:
    func = of("""
for t in T.thread_binding(32, thread="threadIdx.x"):
    with T.block("O"):
        vt = T.axis.spatial(32, t)
        T.reads(A[0:4, 0:32], S[0:32])
        T.writes(S[0:32], B[0:4, 0:32])
        for i in range(4):
            with T.block("S"):
                vi = T.axis.spatial(4, i)
                S[vt] = A[vi, vt]
            with T.block("B"):
                vi = T.axis.spatial(4, i)
                B[vi, vt] = S[31 - vt]
""")
    with pytest.raises(CodegenError, match="inside of the block 'O'"):
        split_threads(func)


BARE = """
for i in range(4):
    for t in T.thread_binding(32, thread="threadIdx.x"):
        S[t] = A[i, t]
        B[i, t] = S[31 - t]
"""
UNDECLARED = """
for i in range(4):
    for t in T.thread_binding(32, thread="threadIdx.x"):
        with T.block("S"):
            vi, vt = T.axis.remap("SS", [i, t])
            T.reads()
            T.writes()
            S[vt] = A[vi, vt]
        with T.block("B"):
            vi, vt = T.axis.remap("SS", [i, t])
            T.reads()
            T.writes(B[vi, vt])
            B[vi, vt] = S[31 - vt]
"""


@pytest.mark.parametrize(
    ("text", "scope"), [(BARE, "shared"), (UNDECLARED, "shared"), (REVERSED, "global")]
)
def test_exchanges_that_nobody_declares(text: str, scope: str) -> None:
    func = of(text, scope=scope)
    verify_func(split_threads(func))
    a, b = np.random.default_rng(0).random((2, 4, 32), np.float32)
    call_native(func, a, b)
    np.testing.assert_array_equal(b, a[:, ::-1])


@pytest.mark.parametrize(
    "reader",
    [
        "if S[31 - t] > T.float32(0):\n            B[i, t] = A[i, t]",
        "for k in range(T.cast(S[31 - t] > T.float32(0), 'int64')):\n            B[i, t] = A[i, t]",
        """with T.block("B"):
            vi, vt = T.axis.remap("SS", [i, t])
            T.where(S[31 - t] > T.float32(0))
            B[vi, vt] = A[vi, vt]""",
    ],
)
def test_conditions_see_what_others_wrote(reader: str) -> None:
    func = of(BARE.replace("B[i, t] = S[31 - t]", reader))
    a = np.random.default_rng(0).normal(size=(4, 32)).astype(np.float32)
    b = np.zeros_like(a)
    call_native(func, a, b)
    np.testing.assert_array_equal(b, np.where(a[:, ::-1] > 0, a, 0))


def test_bare_statements_inside_of_a_block_are_refused() -> None:
    func = of("""
for t in T.thread_binding(32, thread="threadIdx.x"):
    with T.block("O"):
        vt = T.axis.spatial(32, t)
        T.reads(A[0, vt])
        T.writes(B[0, vt])
        S[vt] = A[0, vt]
        B[0, vt] = S[31 - vt]
""")
    with pytest.raises(CodegenError, match="inside of the block 'O'"):
        split_threads(func)
