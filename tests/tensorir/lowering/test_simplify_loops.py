"""Decided conditions, single iterations and empty loops disappear."""

from __future__ import annotations

from burnish.tensorir.lowering.lower_blocks import lower_blocks
from burnish.tensorir.lowering.simplify_loops import simplify_loops
from burnish.tensorir.text.parser import parse_func
from burnish.tensorir.text.printer import print_func


def simplified(body: str) -> str:
    func = parse_func(f"""
@T.prim_func
def f(A: T.Buffer((64,), "float32"), D: T.Buffer((64,), "int64")):
{body}
""")
    return "\n".join(print_func(simplify_loops(lower_blocks(func))).split("\n")[2:]).rstrip()


def test_a_predicate_that_always_holds() -> None:
    assert (
        simplified("""
    for io, ii in T.grid(8, 8):
        with T.block("A"):
            vi = T.axis.spatial(64, io * 8 + ii)
            T.where(io * 8 + ii < 64)
            A[vi] = T.float32(1)
""")
        == """\
    for io, ii in T.grid(8, 8):
        A[io * 8 + ii] = T.float32(1)"""
    )


def test_a_predicate_that_may_fail_stays() -> None:
    assert "if io * 8 + ii < 60:" in simplified("""
    for io, ii in T.grid(8, 8):
        with T.block("A"):
            vi = T.axis.spatial(60, io * 8 + ii)
            T.where(io * 8 + ii < 60)
            A[vi] = T.float32(1)
""")


def test_loops_of_one_iteration_and_of_none() -> None:
    assert (
        simplified("""
    for i in range(1):
        for j in range(0):
            A[i + j] = T.float32(1)
        for k in T.vectorized(1):
            A[i * 5 + k + 3] = T.float32(2)
""")
        == "    A[3] = T.float32(2)"
    )


def test_a_dead_branch_gives_way_to_the_other() -> None:
    assert (
        simplified("""
    for i in range(64):
        if i >= 64:
            A[i] = T.float32(1)
        else:
            A[i] = T.float32(2)
""")
        == """\
    for i in range(64):
        A[i] = T.float32(2)"""
    )


def test_arithmetic_on_loaded_data_is_left_alone() -> None:
    assert "D[i] = D[i] * 2 // 2 + 1 - 1" in simplified("""
    for i in range(64):
        D[i] = D[i] * T.int64(2) // T.int64(2) + T.int64(1) - T.int64(1)
""")


def test_nothing_is_left_of_an_empty_function() -> None:
    assert simplified("    for i in range(0):\n        A[i] = T.float32(1)") == "    T.evaluate(0)"


def test_a_guard_that_a_loop_does_not_change_moves_out_of_it() -> None:
    assert (
        simplified("""
    for i, j, k in T.grid(4, 4, 4):
        with T.block("A"):
            vi, vj, vk = T.axis.remap("SSS", [i, j, k])
            T.where(i == 0 and j * 4 + k < 13)
            A[vj * 4 + vk] = T.float32(1)
""")
        == """\
    for i in range(4):
        if i == 0:
            for j, k in T.grid(4, 4):
                if j * 4 + k < 13:
                    A[j * 4 + k] = T.float32(1)"""
    )


def test_a_guard_on_data_stays_inside() -> None:
    text = simplified("""
    for i in range(4):
        with T.block("A"):
            vi = T.axis.spatial(4, i)
            T.where(D[0] == T.int64(0))
            A[vi] = T.float32(1)
""")
    assert text.index("for i in") < text.index("if ")


def test_a_guard_bounds_what_stands_under_it() -> None:
    text = simplified("""
    for i in range(16):
        with T.block("A"):
            vi = T.axis.spatial(12, i)
            T.where(i < 12)
            A[T.min(T.abs(vi - 11), 11)] = T.float32(1)
""")
    assert "if i < 12:" in text
    assert "A[11 - i] = " in text
    text = simplified("""
    for i in range(16):
        with T.block("A"):
            vi = T.axis.spatial(16, i)
            T.where(i >= 4)
            A[T.max(vi, 4) + T.if_then_else(vi < 2, vi, 3)] = T.float32(1)
""")
    assert "A[i + 3] = " in text


def test_a_guard_says_nothing_of_what_stands_behind_it() -> None:
    text = simplified("""
    for i in range(16):
        if i < 12:
            A[T.min(i, 11)] = T.float32(1)
        A[T.min(i, 11)] = T.float32(2)
""")
    assert "A[i] = T.float32(1)" in text
    assert "A[T.min(i, 11)] = T.float32(2)" in text
