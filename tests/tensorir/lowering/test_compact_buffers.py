"""Intermediate buffers shrink to what one iteration of their loop uses, and no further."""

from __future__ import annotations

from burnish.tensorir.lowering.compact_buffers import compact_buffers
from burnish.tensorir.lowering.lower_blocks import lower_blocks
from burnish.tensorir.lowering.simplify_loops import simplify_loops
from burnish.tensorir.text.parser import parse_func
from burnish.tensorir.text.printer import print_func


def compacted(loops: str, head: str = "n: T.int64") -> str:
    del head
    text = f"""
@T.prim_func
def f(A: T.Buffer((64, 64), "float32"), B: T.Buffer((64, 64), "float32")):
    with T.block("root"):
        X = T.alloc_buffer((64, 64), "float32")
{loops}
"""
    func = compact_buffers(simplify_loops(lower_blocks(parse_func(text))))
    return print_func(func).split("\n", 2)[2].rstrip()


def block(indent: int, name: str, i: str, j: str, store: str) -> str:
    pad = " " * indent
    return f"""\
{pad}with T.block("{name}"):
{pad}    vi = T.axis.spatial(64, {i})
{pad}    vj = T.axis.spatial(64, {j})
{pad}    {store}
"""


def test_a_buffer_of_one_row_at_a_time() -> None:
    assert (
        compacted(
            "        for i in range(64):\n"
            "            for j in range(64):\n"
            + block(16, "X", "i", "j", "X[vi, vj] = A[vi, vj]")
            + "            for j in range(64):\n"
            + block(16, "B", "i", "j", "B[vi, vj] = X[vi, 63 - vj]")
        )
        == """\
    for i in range(64):
        X = T.allocate([1, 64], "float32", "global")
        for j in range(64):
            X[0, j] = A[i, j]
        for j in range(64):
            B[i, j] = X[0, 63 - j]"""
    )


def test_a_tile_with_a_halo() -> None:
    text = compacted(
        "        for io in range(8):\n"
        "            for ii, j in T.grid(10, 64):\n"
        + block(16, "X", "io * 7 + ii", "j", "X[vi, vj] = A[vi, vj]")
        + "            for ii, j in T.grid(7, 64):\n"
        + block(16, "B", "io * 7 + ii", "j", "B[vi, vj] = X[vi, vj] + X[vi + 2, vj]")
    )
    assert "X = T.allocate([10, 64]" in text
    assert "X[ii + 2, j]" in text


def test_a_sliding_window_keeps_what_later_iterations_read() -> None:
    text = compacted(
        "        for i in range(64):\n"
        "            for j in range(64):\n"
        + block(16, "X", "i", "j", "X[vi, vj] = A[vi, vj]")
        + "            for j in range(64):\n"
        + block(
            16,
            "B",
            "i",
            "j",
            "B[vi, vj] = X[vi, vj] + T.if_then_else(0 < vi, X[vi - 1, vj], T.float32(0))",
        )
    )
    assert text.startswith(
        '    X = T.allocate([64, 64], "float32", "global")\n    for i in range(64):'
    )


def test_an_accumulator_survives_its_reduce_loop() -> None:
    text = compacted(
        "        for i in range(64):\n            for k in range(64):\n"
        "                with T.block('X'):\n"
        "                    vi = T.axis.spatial(64, i)\n"
        "                    vk = T.axis.reduce(64, k)\n"
        "                    with T.init():\n"
        "                        X[vi, 0] = T.float32(0)\n"
        "                    X[vi, 0] = X[vi, 0] + A[vi, vk]\n"
        + block(12, "B", "i", "0", "B[vi, vj] = X[vi, 0]")
    )
    assert "for i in range(64):\n        X = T.allocate([1, 1]" in text


def test_separate_loop_nests_keep_the_whole_buffer() -> None:
    text = compacted(
        "        for i, j in T.grid(64, 64):\n"
        + block(12, "X", "i", "j", "X[vi, vj] = A[vi, vj]")
        + "        for i, j in T.grid(64, 64):\n"
        + block(12, "B", "i", "j", "B[vi, vj] = X[vi, vj]")
    )
    assert text.startswith('    X = T.allocate([64, 64], "float32", "global")')


def test_never_inside_a_vectorized_loop() -> None:
    text = compacted(
        "        for i in range(64):\n            for j in T.vectorized(64):\n"
        + block(16, "X", "i", "j", "X[vi, vj] = A[vi, vj]")
        + block(16, "B", "i", "j", "B[vi, vj] = X[vi, vj]")
    )
    assert "for i in range(64):\n        X = T.allocate([1, 64]" in text


def test_a_gathered_dimension_stays_whole() -> None:
    text = compacted(
        "        for i in range(64):\n            for j in range(64):\n"
        + block(16, "X", "i", "j", "X[vi, vj] = A[vi, vj]")
        + "            for j in range(64):\n"
        + block(16, "B", "i", "j", 'B[vi, vj] = X[vi, T.cast(A[vi, vj], "int64")]')
    )
    assert "X = T.allocate([1, 64]" in text


def test_what_is_written_at_one_value_of_a_loop_outlives_it() -> None:
    def rows(where: str) -> str:
        return compacted(
            "        for i, j in T.grid(64, 64):\n"
            + block(12, "X", "0", "j", f"{where}\n                X[vi, vj] = A[vi, vj]")
            + block(12, "B", "i", "j", "B[vi, vj] = X[0, vj]")
        )

    every, first = rows("T.where(i < 64)"), rows("T.where(i == 0)")
    assert "for i, j in T.grid(64, 64):\n        X = T.allocate([1, 1]" in every
    assert first.startswith('    X = T.allocate([1, 64], "float32", "global")\n    for i, j in')


def test_a_lifted_buffer_stays_around_its_loop() -> None:
    nest = (
        "            for j in range(64):\n"
        + block(16, "X", "i", "j", "X[vi, vj] = A[vi, vj]")
        + "            for j in range(64):\n"
        + block(16, "B", "i", "j", "B[vi, vj] = X[vi, vj]")
    )
    lifted = 'T.serial(64, annotations={"lift_allocation": ["X"]})'
    assert "        X = T.allocate([1, 64]" in compacted("        for i in range(64):\n" + nest)
    text = compacted(f"        for i in {lifted}:\n" + nest)
    assert text.startswith("    X = T.allocate([64, 64]")
