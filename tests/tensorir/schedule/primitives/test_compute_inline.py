from __future__ import annotations

import pytest

from burnish.support.errors import DependenceError, NotCompleteBlockError
from burnish.tensorir.expr import Let, Var
from burnish.tensorir.function import PrimFunc
from burnish.tensorir.schedule import Schedule
from burnish.tensorir.te import compute as te
from burnish.tensorir.text.parser import parse_func
from burnish.tensorir.verify.laws import verify_func
from burnish.tensorir.verify.regions import verify_regions
from burnish.tests.tensorir.schedule.programs import (
    B_OF_A,
    REWRITTEN,
    assert_same,
    blur,
    body,
    chain,
    linear_relu,
    program,
)


def test_inline_into_a_consumer() -> None:
    func = chain()
    sch = Schedule(func, seed=0)
    sch.compute_inline("B")
    assert (
        body(sch.func)
        == """\
for i, j in T.grid(8, 6):
    with T.block("C"):
        v_i, v_j = T.axis.remap("SS", [i, j])
        T.reads(A[v_i, v_j])
        T.writes(C[v_i, v_j])
        C[v_i, v_j] = (A[v_i, v_j] + T.float32(1)) * T.float32(2)"""
    )
    assert_same(func, sch.func)


def test_inline_at_several_loads() -> None:
    func = blur(8)
    sch = Schedule(func, seed=0)
    sch.compute_inline("B")
    assert "T.reads(A[v_i:v_i + 3])" in body(sch.func)
    assert_same(func, sch.func)


COLUMN = """
@T.prim_func
def main(A: T.Buffer((4, 1), "float32"), C: T.Buffer((4, 6), "float32")):
    B = T.alloc_buffer((4, 1))
    for i in range(4):
        with T.block("B"):
            vi = T.axis.spatial(4, i)
            B[vi, 0] = A[vi, 0] * T.float32(2)
    for i, j in T.grid(4, 6):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, 0] + T.float32(1)
"""


def test_inline_of_a_column_that_is_written_without_an_axis() -> None:
    func = parse_func(COLUMN)
    sch = Schedule(func, seed=0)
    sch.compute_inline("B")
    assert "C[vi, vj] = A[vi, 0] * T.float32(2) + T.float32(1)" in body(sch.func)
    assert_same(func, sch.func)
    wider = COLUMN.replace("B = T.alloc_buffer((4, 1))", "B = T.alloc_buffer((4, 2))")
    with pytest.raises(NotCompleteBlockError):
        Schedule(parse_func(wider), seed=0).compute_inline("B")


def test_inline_into_a_reduction_and_after_scheduling() -> None:
    func = linear_relu(8, 4, 3)
    sch = Schedule(func, seed=0)
    i, j = sch.get_loops("T")
    i0, i1 = sch.split(i, [None, 3])
    sch.reorder(j, i0, i1)
    sch.compute_inline("T")
    assert "T.max(Y[v_i, v_j] + B[v_j], T.float32(0))" in body(sch.func)
    assert_same(func, sch.func)


def test_inlined_lets_bind_fresh_variables() -> None:
    a = te.placeholder((4,), name="A")
    x = Var("x", a.dtype)
    b = te.compute((4,), lambda i: Let(x, a[i] + 1.0, x * x), name="B")
    c = te.compute((4,), lambda i: b[i] + b[3 - i], name="C")
    func = te.create_prim_func([a, c])
    sch = Schedule(func, seed=0)
    sch.compute_inline("B")
    assert_same(func, sch.func)


def test_outputs_are_stored() -> None:
    sch = Schedule(chain(), seed=0)
    with pytest.raises(DependenceError, match="'C' writes an output of the function"):
        sch.compute_inline("C")


REVERSED = """
@T.prim_func
def main(A: T.Buffer((4,), "float32"), C: T.Buffer((4,), "float32")):
    B = T.alloc_buffer((4,), "float32")
    for i in range(4):
        with T.block("B"):
            vi = T.axis.spatial(4, i)
            B[3 - vi] = A[vi]
    for i in range(4):
        with T.block("C"):
            vi = T.axis.spatial(4, i)
            C[vi] = B[vi]
"""


def test_stores_at_computed_indices_are_not_inlined() -> None:
    sch = Schedule(parse_func(REVERSED, {}), seed=0)
    with pytest.raises(NotCompleteBlockError, match="'B' does not store at distinct axes"):
        sch.compute_inline("B")


PARTIAL = REVERSED.replace("B[3 - vi]", "B[vi]").replace(
    "vi = T.axis.spatial(4, i)\n            B",
    "vi = T.axis.spatial(4, i)\n            T.where(i < 2)\n            B",
)


def test_a_conditional_value_is_not_inlined() -> None:
    sch = Schedule(parse_func(PARTIAL, {}), seed=0)
    with pytest.raises(NotCompleteBlockError, match="'B' runs under a condition"):
        sch.compute_inline("B")


OVERWRITTEN = """
@T.prim_func
def main(A: T.Buffer((4,), "float32"), C: T.Buffer((4,), "float32")):
    B = T.alloc_buffer((4,), "float32")
    for i in range(4):
        with T.block("B"):
            vi = T.axis.spatial(4, i)
            B[vi] = A[vi]
    for i in range(4):
        with T.block("A"):
            vi = T.axis.spatial(4, i)
            A[vi] = T.float32(0)
    for i in range(4):
        with T.block("C"):
            vi = T.axis.spatial(4, i)
            C[vi] = B[vi]
"""


def test_an_overwritten_source_is_not_inlined() -> None:
    sch = Schedule(parse_func(OVERWRITTEN, {}), seed=0)
    with pytest.raises(DependenceError, match="'A' overwrites what 'B' reads"):
        sch.compute_inline("B")


NESTED = """
@T.prim_func
def main(A: T.Buffer((4, 6), "float32"), C: T.Buffer((4, 6), "float32")):
    B = T.alloc_buffer((4, 6), "float32")
    for i, j in T.grid(4, 6):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] + T.float32(1)
    for i in range(2):
        with T.block("tile"):
            vi = T.axis.spatial(2, i)
            T.reads(B[vi * 2:vi * 2 + 2, 0:6])
            T.writes(C[vi * 2:vi * 2 + 2, 0:6])
            for x, y in T.grid(2, 6):
                with T.block("C"):
                    vx, vy = T.axis.remap("SS", [x, y])
                    C[vi * 2 + vx, vy] = B[vi * 2 + vx, vy] * T.float32(2)
"""


def test_blocks_inside_the_consumer_declare_what_is_inlined() -> None:
    func = parse_func(NESTED)
    sch = Schedule(func, seed=0)
    sch.compute_inline("B")
    verify_func(sch.func)
    assert [r.buffer.name for r in sch.get(sch.get_block("C")).reads] == ["A"]
    assert_same(func, sch.func)


def test_what_is_read_through_a_view_is_not_inlined() -> None:
    view = NESTED.replace(
        "            for x, y",
        "            V = T.match_buffer(B[vi * 2:vi * 2 + 2, 0:6], (2, 6))\n            for x, y",
    ).replace("B[vi * 2 + vx, vy] * ", "V[vx, vy] * ")
    sch = Schedule(parse_func(view), seed=0)
    with pytest.raises(NotCompleteBlockError, match=r"'tile' reads 'B' through a T\.match_buffer"):
        sch.compute_inline("B")


def test_a_view_of_what_is_inlined_into_stays() -> None:
    """The consumer goes on declaring the source of a view, not the view."""
    view = NESTED.replace(
        "            for x, y",
        "            V = T.match_buffer(C[vi * 2:vi * 2 + 2, 0:6], (2, 6))\n            for x, y",
    ).replace("C[vi * 2 + vx, vy] = ", "V[vx, vy] = ")
    func = parse_func(view)
    sch = Schedule(func, seed=0)
    sch.compute_inline("B")
    verify_func(sch.func)
    tile = sch.get(sch.get_block("tile"))
    assert [r.buffer.name for r in (*tile.reads, *tile.writes)] == ["A", "C"]
    assert_same(func, sch.func)


def test_what_nobody_reads_goes() -> None:
    func = program(
        B_OF_A
        + """
for i in range(8):
    with T.block("C"):
        vi = T.axis.spatial(8, i)
        C[vi] = A[vi]
""",
        A="(8,)",
        C="(8,)",
    )
    sch = Schedule(func, seed=0)
    sch.compute_inline("B")
    assert '"B"' not in body(sch.func)
    assert "alloc_buffer" not in body(sch.func)
    assert_same(func, sch.func)
    again = Schedule(sch.func, seed=0)
    with pytest.raises(DependenceError, match="'C' writes an output of the function"):
        again.compute_inline("C")


def test_two_stores_are_not_inlined() -> None:
    func = program(
        """
B = T.alloc_buffer((8, 2))
for i in range(8):
    with T.block("B"):
        vi = T.axis.spatial(8, i)
        B[vi, 0] = A[vi]
        B[vi, 1] = A[vi] * T.float32(2)
for i in range(8):
    with T.block("C"):
        vi = T.axis.spatial(8, i)
        C[vi] = B[vi, 0] + B[vi, 1]
""",
        A="(8,)",
        C="(8,)",
    )
    with pytest.raises(NotCompleteBlockError, match="The body of 'B' is not a single store"):
        Schedule(func, seed=0).compute_inline("B")


def test_a_buffer_with_two_writers_is_not_inlined() -> None:
    func = program(
        B_OF_A
        + """
for i in range(4):
    with T.block("B_again"):
        vi = T.axis.spatial(4, i)
        B[vi] = T.float32(0)
for i in range(8):
    with T.block("C"):
        vi = T.axis.spatial(8, i)
        C[vi] = B[vi]
""",
        A="(8,)",
        C="(8,)",
    )
    with pytest.raises(DependenceError, match="'B_again' writes 'B' too"):
        Schedule(func, seed=0).compute_inline("B")


def test_a_value_does_not_leave_a_loop_that_overwrites_what_it_reads() -> None:
    sch = Schedule(parse_func(REWRITTEN), seed=0)
    with pytest.raises(DependenceError, match="again in later iterations of 'i'"):
        sch.compute_inline("U")


def test_a_block_around_the_consumer_names_no_buffer_that_it_declares() -> None:
    func = parse_func(
        """
@T.prim_func
def main(
    A: T.Buffer((8, 4), "float32"), I: T.Buffer((8,), "int64"), C: T.Buffer((8, 4), "float32")
):
    B = T.alloc_buffer((8, 4))
    for i, j in T.grid(8, 4):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] + T.float32(1)
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            T.reads(B[0:8, 0:4], I[0:8])
            T.writes(C[vi, 0:4])
            J = T.alloc_buffer((8,), "int64")
            for k in range(8):
                with T.block("J"):
                    vk = T.axis.spatial(8, k)
                    J[vk] = T.max(T.min(I[vk], 7), 0)
            for j in range(4):
                with T.block("C_i"):
                    vj = T.axis.spatial(4, j)
                    C[vi, vj] = B[J[vi], vj] * T.float32(2)
"""
    )
    sch = Schedule(func, seed=0)
    sch.compute_inline("B")
    verify_regions(verify_func(sch.func))
    assert "T.reads(I_1[0:8], A[0:8, 0:4])" in body(sch.func)


def under(where: str, read: str, extent: int = 4) -> PrimFunc:
    """B of A where a predicate holds, and C, which reads B at ``read``."""
    return program(
        f"""
B = T.alloc_buffer((8,))
for i in range(8):
    with T.block("B"):
        vi = T.axis.spatial(8, i)
        T.where({where})
        B[vi] = A[vi] + T.float32(1)
for i in range({extent}):
    with T.block("C"):
        vi = T.axis.spatial({extent}, i)
        C[vi] = {read} * T.float32(2)
""",
        A="(8,)",
        C=f"({extent},)",
    )


@pytest.mark.parametrize(
    ("where", "read"),
    [
        ("i < 4", "B[vi]"),
        ("i < 6 and i >= 2", "B[vi + 2]"),
        ("i % 2 == 0", "B[vi * 2]"),
        ("i < 5", "(B[vi] + B[vi + 1])"),
    ],
)
def test_a_block_under_a_predicate_that_holds_where_it_is_read(where: str, read: str) -> None:
    func = under(where, read)
    sch = Schedule(func, seed=0)
    sch.compute_inline("B")
    assert "T.where" not in body(sch.func)
    assert_same(func, sch.func)


@pytest.mark.parametrize(
    ("where", "read"),
    [("i < 3", "B[vi]"), ("i % 2 == 0", "B[vi]"), ("A[i] < T.float32(0)", "B[vi]")],
)
def test_a_block_under_a_predicate_that_may_leave_out_what_is_read(where: str, read: str) -> None:
    sch = Schedule(under(where, read), seed=0)
    with pytest.raises(NotCompleteBlockError, match="may leave out what 'C' reads"):
        sch.compute_inline("B")
