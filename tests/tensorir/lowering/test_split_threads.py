from __future__ import annotations

import re

import numpy as np
import pytest

from burnish.support.errors import CodegenError
from burnish.tensorir.analysis.paths import all_buffers, walk_paths
from burnish.tensorir.function import PrimFunc
from burnish.tensorir.lowering.split_threads import split_threads
from burnish.tensorir.stmt import For
from burnish.tensorir.text.parser import parse_func
from burnish.tensorir.verify.laws import verify_func
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


@pytest.mark.parametrize("text", [REVERSED, IN_A_SERIAL_LOOP, TWO_AXES, HALF_OF_THEM])
def test_virtual_threads_see_what_others_wrote(text: str) -> None:
    text = text.replace("threadIdx.x", "vthread").replace("threadIdx.y", "vthread")
    func = of(text)
    verify_func(split_threads(func))
    a, b = np.random.default_rng(0).random((2, 4, 32), np.float32)
    call_native(func, a, b)
    np.testing.assert_array_equal(b, a[:, ::-1])


PRIVATE_OF_TWO_AXES = """
for y in T.thread_binding(4, thread="vthread"):
    for x in T.thread_binding(8, thread="vthread"):
        with T.block("P"):
            vy, vx = T.axis.remap("SS", [y, x])
            P[0] = A[0, vy * 8 + vx]
        with T.block("S"):
            vy, vx = T.axis.remap("SS", [y, x])
            S[vy * 8 + vx] = A[1, vy * 8 + vx]
        with T.block("B"):
            vy, vx = T.axis.remap("SS", [y, x])
            B[2, vy * 8 + vx] = S[31 - vy * 8 - vx] + P[0]
"""


def test_nested_virtual_threads_keep_their_own_memory() -> None:
    func = of(PRIVATE_OF_TWO_AXES)
    verify_func(split_threads(func))
    a, b = np.random.default_rng(0).random((2, 4, 32), np.float32)
    call_native(func, a, b)
    np.testing.assert_array_equal(b[2], a[1, ::-1] + a[0])


BETWEEN_BLOCKS_INSIDE_OF_ONE = """
for t in T.thread_binding(32, thread="blockIdx.x"):
    with T.block("O"):
        vt = T.axis.spatial(32, t)
        T.reads(A[0:4, 0:32], S[0:32])
        T.writes(S[0:32], B[0:4, 0:32])
        with T.block("S"):
            S[vt] = A[0, vt]
        with T.block("B"):
            B[0, vt] = S[31 - vt]
"""


@pytest.mark.parametrize(
    ("text", "scope"),
    [
        (REVERSED.replace("threadIdx", "blockIdx"), "shared"),
        (REVERSED.replace("threadIdx", "blockIdx"), "global"),
        (TWO_AXES.replace("threadIdx", "blockIdx"), "shared"),
        (TWO_AXES.replace("threadIdx.y", "blockIdx.x"), "shared"),
        (BETWEEN_BLOCKS_INSIDE_OF_ONE, "shared"),
    ],
)
def test_blocks_of_threads_that_exchange_values_are_refused(text: str, scope: str) -> None:
    with pytest.raises(CodegenError, match="no block waits for another"):
        split_threads(of(text, scope=scope))


TILES = """
for y in T.thread_binding(4, thread="blockIdx.x"):
    for t in T.thread_binding(32, thread="threadIdx.x"):
        with T.block("S"):
            vy, vt = T.axis.remap("SS", [y, t])
            S[vt] = A[vy, vt]
        with T.block("B"):
            vy, vt = T.axis.remap("SS", [y, t])
            B[vy, vt] = S[31 - vt]
"""


def test_blocks_of_threads_may_use_the_same_memory_one_after_the_other() -> None:
    a, b = np.random.default_rng(0).random((2, 4, 32), np.float32)
    call_native(of(TILES), a, b)
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
    for thread in ("threadIdx.x", "vthread", "blockIdx.x"):
        func = of(REVERSED.replace("31 - vt", "vt").replace("threadIdx.x", thread))
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


INSIDE_OF_A_BLOCK = """
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
"""


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


BARE_INSIDE_OF_A_BLOCK = """
for t in T.thread_binding(32, thread="threadIdx.x"):
    with T.block("O"):
        vt = T.axis.spatial(32, t)
        T.reads(A[0:4, vt])
        T.writes(B[0:4, vt])
        for i in range(4):
            S[vt] = A[i, vt]
            B[i, vt] = S[31 - vt]
"""


@pytest.mark.parametrize("text", [INSIDE_OF_A_BLOCK, BARE_INSIDE_OF_A_BLOCK])
def test_exchanges_inside_of_a_block(text: str) -> None:
    func = of(text)
    verify_func(split_threads(func))
    a, b = np.random.default_rng(0).random((2, 4, 32), np.float32)
    call_native(func, a, b)
    np.testing.assert_array_equal(b, a[:, ::-1])


def test_an_exchange_inside_of_a_block_with_memory_of_its_own_is_refused() -> None:
    own = "    Q = T.alloc_buffer((1,))\n        Q[0] = A[0, vt]\n        for i in range(4):"
    func = of(INSIDE_OF_A_BLOCK.replace("    for i in range(4):", own))
    with pytest.raises(CodegenError, match="inside of the block 'O'"):
        split_threads(func)


# -- statements that read what others write with them ----------------------------------------------
STEPS = {
    "serial loop outside": """
for k in range(5):
    for t in T.thread_binding(32, thread="threadIdx.x"):
        STEP
""",
    "serial loop inside": """
for t in T.thread_binding(32, thread="threadIdx.x"):
    for k in range(5):
        STEP
""",
    "inside of a block": """
for t in T.thread_binding(32, thread="threadIdx.x"):
    for k in range(5):
        with T.block("sum"):
            vk, vt = T.axis.remap("SS", [k, t])
            STEP
""",
}
SUMS = {
    "tree": (
        "if t < T.shift_right(16, k):\n    S[t] = S[t] + S[t + T.shift_right(16, k)]",
        lambda s, k: np.r_[s[: 16 >> k] + s[16 >> k : 32 >> k], s[16 >> k :]],
    ),
    "ring": ("S[t] = S[t] + S[(t + 1) % 32]", lambda s, k: s + np.roll(s, -1)),
    "ring back": ("S[t] = S[t] + S[(t + 31) % 32]", lambda s, k: s + np.roll(s, 1)),
    "reversed": ("S[t] = S[31 - t]", lambda s, k: s[::-1]),
    "of a let": ("x: T.float32 = S[31 - t]\nS[t] = S[t] - x", lambda s, k: s - s[::-1]),
    "of a condition": (
        "if S[31 - t] > S[t]:\n    S[t] = S[31 - t]",
        lambda s, k: np.where(s[::-1] > s, s[::-1], s),
    ),
    "else": (
        "if t < 16:\n    S[t] = S[31 - t]\nelse:\n    S[t] = S[t] + S[31 - t]",
        lambda s, k: np.r_[s[:15:-1], s[16:] + s[:15:-1][::-1]],
    ),
    "a covering write before": (
        "for j in range(32):\n    S[j] = A[2, j]\nS[t] = A[3, t]\nS[t] = S[31 - t]",
        lambda s, k: None,
    ),
}


@pytest.mark.parametrize("scope", ["shared", "global"])
@pytest.mark.parametrize("around", STEPS)
@pytest.mark.parametrize("name", SUMS)
def test_each_turn_sees_what_others_wrote_in_the_turn_before(
    name: str, around: str, scope: str
) -> None:
    step, expected = SUMS[name]
    if "block" in around:
        step = re.sub(r"\bt\b", "vt", re.sub(r"\bk\b", "vk", step))
    indent = " " * (12 if "block" in around else 8)
    body = STEPS[around].replace("STEP", step.replace("\n", "\n" + indent))
    load = 'for t in T.thread_binding(32, thread="threadIdx.x"):\n    '
    func = of(f"{load}S[t] = A[0, t]\n{body.strip()}\n{load}B[0, t] = S[t]", scope=scope)
    verify_func(split_threads(func))
    a = np.random.default_rng(0).random((4, 32), np.float32)
    b = np.zeros_like(a)
    call_native(func, a, b)
    s = a[0]
    for k in range(5):
        s = a[3, ::-1] if name.startswith("a covering") else expected(s, k)
    np.testing.assert_array_equal(b[0], s)


HIDDEN = """
for t in T.thread_binding(32, thread="threadIdx.x"):
    for j in range(32):
        with T.block("zero"):
            vt, vj = T.axis.remap("SS", [t, j])
            S[vj] = T.float32(0)
    with T.block("S"):
        vt = T.axis.spatial(32, t)
        S[vt] = A[0, vt]
    with T.block("B"):
        vt = T.axis.spatial(32, t)
        B[0, vt] = S[31 - vt]
"""


def test_a_covering_write_before_hides_no_exchange() -> None:
    func = of(HIDDEN)
    verify_func(split_threads(func))
    a, b = np.random.default_rng(0).random((2, 4, 32), np.float32)
    call_native(func, a, b)
    np.testing.assert_array_equal(b[0], a[0, ::-1])


def test_the_last_write_of_an_element_may_be_another_threads() -> None:
    """Nothing reads inside of the loop; what stands there afterwards is as if all had waited."""
    func = of("""
for t in T.thread_binding(32, thread="threadIdx.x"):
    S[t] = A[0, t]
    S[31 - t] = A[1, t]
for t in T.thread_binding(32, thread="threadIdx.x"):
    B[0, t] = S[t]
""")
    a, b = np.random.default_rng(0).random((2, 4, 32), np.float32)
    call_native(func, a, b)
    np.testing.assert_array_equal(b[0], a[1, ::-1])


def test_a_sum_that_threads_share_is_refused_only_where_others_change_what_it_adds() -> None:
    shared = 'for t in T.thread_binding(31, thread="threadIdx.x"):\n    S[0] = S[0] + '
    func = of(f"S[0] = T.float32(0)\n{shared}A[0, t]\nB[0, 0] = S[0]")
    assert split_threads(func) is func
    with pytest.raises(CodegenError, match="inside of a sum of several of them"):
        split_threads(of(f"{shared}S[t + 1]\nB[0, 0] = S[0]"))


@pytest.mark.parametrize(
    "body",
    [
        "S[t] = A[0, t]\nB[0, t] = S[t]",
        "for k in range(4):\n    S[t] = A[k, t]\n    B[k, t] = S[t] + S[t]",
        "S[t] = A[0, t]\nS[t] = S[t] * S[t]\nB[0, t] = S[t]",
        "for j in range(32):\n    S[j] = A[0, j]\nB[0, t] = S[31 - t]",
    ],
)
def test_own_elements_are_no_exchange(body: str) -> None:
    lines = body.replace("\n", "\n    ")
    func = of(f'for t in T.thread_binding(32, thread="threadIdx.x"):\n    {lines}')
    assert split_threads(func) is func


SHARED_WORK = """
for i in range(4):
    for t in T.thread_binding(32, thread="threadIdx.x"):
        for s in T.thread_binding(32, thread="threadIdx.x"):
            with T.block("S"):
                vi, vs = T.axis.remap("SS", [i, s])
                S[vs] = A[vi, vs]
        with T.block("B"):
            vi, vt = T.axis.remap("SS", [i, t])
            B[vi, vt] = S[31 - vt]
"""


def test_a_copy_that_threads_share_runs_once() -> None:
    split = split_threads(of(SHARED_WORK))
    (copy,) = [p for p in walk_paths(split.body) if getattr(p[-1], "name", "") == "S"]
    assert [n.var.name for n in copy if isinstance(n, For)] == ["i", "s"]
    a, b = np.arange(128, dtype=np.float32).reshape(4, 32), np.zeros((4, 32), np.float32)
    call_native(of(SHARED_WORK), a, b)
    np.testing.assert_array_equal(b, a[:, ::-1])


def test_what_goes_on_from_what_it_left_runs_for_each_thread() -> None:
    func = of("""
with T.block("zero"):
    T.reads()
    T.writes(B[0, 0])
    B[0, 0] = T.float32(0)
for t in T.thread_binding(32, thread="threadIdx.x"):
    with T.block("count"):
        T.reads(B[0, 0])
        T.writes(B[0, 0])
        B[0, 0] = B[0, 0] + T.float32(1)
    with T.block("S"):
        vt = T.axis.spatial(32, t)
        S[vt] = A[0, vt]
    with T.block("last"):
        vt = T.axis.spatial(32, t)
        B[1, vt] = S[31 - vt]
""")
    a, b = np.ones((4, 32), np.float32), np.zeros((4, 32), np.float32)
    call_native(func, a, b)
    assert b[0, 0] == 32


def test_a_sum_over_threads_is_no_threads_own() -> None:
    """Also where nobody reads it, as random schedules left one: its elements got a dimension of
    threads, and were cleared outside of their loop."""
    func = of("""
for i, x in T.grid(4, 8):
    for t in T.thread_binding(4, thread="threadIdx.x"):
        with T.block("S"):
            vi, vx, vt = T.axis.remap("SSS", [i, x, t])
            S[vt * 8 + vx] = A[vi, vt * 8 + vx]
        with T.block("copy"):
            vi, vx, vt = T.axis.remap("SSS", [i, x, t])
            B[vi, vt * 8 + vx] = S[(3 - vt) * 8 + vx]
        with T.block("total"):
            vi, vx, vt = T.axis.remap("SSR", [i, x, t])
            with T.init():
                P[0] = T.float32(0)
            P[0] = P[0] + A[vi, vt * 8 + vx]
""")
    split = split_threads(func)
    verify_func(split)
    assert {b.shape for b in all_buffers(split) if b.name == "P"} == {
        b.shape for b in all_buffers(func) if b.name == "P"
    }
    a, b = np.random.default_rng(0).random((2, 4, 32), np.float32)
    call_native(func, a, b)
    np.testing.assert_array_equal(b, a.reshape(4, 4, 8)[:, ::-1].reshape(4, 32))
