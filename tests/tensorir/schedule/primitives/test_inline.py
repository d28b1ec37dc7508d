from __future__ import annotations

import pytest

from burnish.support.errors import (
    DependenceError,
    NotCompleteBlockError,
    ScheduleValueError,
)
from burnish.tensorir import compute as te
from burnish.tensorir.expr import Let, Var
from burnish.tensorir.parser import parse_func
from burnish.tensorir.schedule import Schedule
from burnish.tensorir.verify import verify_func
from burnish.tests.tensorir.schedule.programs import (
    assert_same,
    blur,
    body,
    chain,
    linear_relu,
    matmul,
    program,
    row_sum,
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


def test_reverse_inline() -> None:
    func = chain()
    sch = Schedule(func, seed=0)
    sch.reverse_compute_inline("C")
    assert 'with T.block("B")' in body(sch.func)
    assert "C[v_i, v_j] = (A[v_i, v_j] + T.float32(1)) * T.float32(2)" in body(sch.func)
    assert_same(func, sch.func)


def test_reverse_inline_of_a_transpose() -> None:
    a = te.placeholder((4, 3), name="A")
    b = te.compute((4, 3), lambda i, j: a[i, j] + 1.0, name="B")
    c = te.compute((3, 4), lambda i, j: b[j, i] * b[j, i], name="C")
    func = te.create_prim_func([a, c])
    sch = Schedule(func, seed=0)
    sch.reverse_compute_inline("C")
    assert_same(func, sch.func)


# -- refusals ------------------------------------------------------------------------------------
def test_outputs_are_stored() -> None:
    sch = Schedule(chain(), seed=0)
    with pytest.raises(DependenceError, match="'C' writes an output of the function"):
        sch.compute_inline("C")


def test_reductions_are_not_inlined() -> None:
    sch = Schedule(linear_relu(4, 4, 4), seed=0)
    with pytest.raises(NotCompleteBlockError, match="'Y' is not: its axis 'v_k' is reduce"):
        sch.compute_inline("Y")
    with pytest.raises(NotCompleteBlockError, match="'Y' is not"):
        sch.reverse_compute_inline("T")
    sch = Schedule(row_sum(), seed=0)
    with pytest.raises(NotCompleteBlockError):
        sch.compute_inline("B")
    with pytest.raises(NotCompleteBlockError):
        Schedule(matmul(), seed=0).reverse_compute_inline("C")


def test_a_consumer_that_shifts_is_not_inlined_backwards() -> None:
    sch = Schedule(blur(8), seed=0)
    with pytest.raises(
        NotCompleteBlockError, match="'C' does not read 'B' at exactly its own axes"
    ):
        sch.reverse_compute_inline("C")


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


def test_two_consumers_have_no_reverse() -> None:
    a = te.placeholder((4,), name="A")
    b = te.compute((4,), lambda i: a[i] + 1.0, name="B")
    c = te.compute((4,), lambda i: b[i] * 2.0, name="C")
    d = te.compute((4,), lambda i: b[i] * 3.0, name="D")
    sch = Schedule(te.create_prim_func([a, c, d]), seed=0)
    with pytest.raises(DependenceError, match="'D' reads 'B' too"):
        sch.reverse_compute_inline("C")
    with pytest.raises(DependenceError, match="Expected one producer of 'B'; found none"):
        sch.reverse_compute_inline("B")


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


B_OF_A = """
B = T.alloc_buffer((8,))
for i in range(8):
    with T.block("B"):
        vi = T.axis.spatial(8, i)
        B[vi] = A[vi] + T.float32(1)
"""


def test_what_nobody_reads_is_not_inlined() -> None:
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
    with pytest.raises(DependenceError, match="Nothing reads what 'B' writes"):
        Schedule(func, seed=0).compute_inline("B")


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


def test_an_output_of_the_producer_is_stored() -> None:
    func = program(
        B_OF_A.replace("B = T.alloc_buffer((8,))\n", "")
        + """
for i in range(8):
    with T.block("C"):
        vi = T.axis.spatial(8, i)
        C[vi] = B[vi] * T.float32(2)
""",
        A="(8,)",
        B="(8,)",
        C="(8,)",
    )
    with pytest.raises(DependenceError, match="'B' is not allocated in this scope; it must be sto"):
        Schedule(func, seed=0).reverse_compute_inline("C")


def test_a_consumer_of_a_part_has_no_reverse() -> None:
    func = program(
        B_OF_A
        + """
for i in range(4):
    with T.block("C"):
        vi = T.axis.spatial(4, i)
        C[vi] = B[vi] * T.float32(2)
""",
        A="(8,)",
        C="(8,)",
    )
    with pytest.raises(DependenceError, match="'C' does not read all of 'B'"):
        Schedule(func, seed=0).reverse_compute_inline("C")


def test_a_consumer_under_a_condition_has_no_reverse() -> None:
    func = program(
        B_OF_A
        + """
for i in range(8):
    with T.block("C"):
        vi = T.axis.spatial(8, i)
        T.where(i < 4)
        C[vi] = B[vi] * T.float32(2)
""",
        A="(8,)",
        C="(8,)",
    )
    with pytest.raises(NotCompleteBlockError, match="'C' runs under a condition"):
        Schedule(func, seed=0).reverse_compute_inline("C")


@pytest.mark.parametrize("primitive", ["compute_inline", "reverse_compute_inline"])
def test_the_root_is_not_inlined(primitive: str) -> None:
    with pytest.raises(ScheduleValueError, match=f"{primitive}: The block 'root' is the root of"):
        getattr(Schedule(chain(), seed=0), primitive)("root")


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


W_BEFORE_C = """
for i in range(8):
    with T.block("W"):
        vi = T.axis.spatial(8, i)
        C[vi] = T.float32(7)
"""
C_OF_B = """
for i in range(8):
    with T.block("C"):
        vi = T.axis.spatial(8, i)
        C[vi] = B[vi] * T.float32(2)
"""
E_OF_C = """
for i in range(8):
    with T.block("E"):
        vi = T.axis.spatial(8, i)
        E[vi] = C[vi]
"""


@pytest.mark.parametrize(
    ("text", "guilty"),
    [(B_OF_A + W_BEFORE_C + C_OF_B + E_OF_C, "W"), (W_BEFORE_C + B_OF_A + E_OF_C + C_OF_B, "E")],
)
def test_a_consumer_does_not_overtake_users_of_its_output(text: str, guilty: str) -> None:
    sch = Schedule(program(text, A="(8,)", C="(8,)", E="(8,)"), seed=0)
    with pytest.raises(DependenceError, match=f"'{guilty}' stands or runs between 'B' and 'C'"):
        sch.reverse_compute_inline("C")


def test_users_of_the_output_before_and_after_stay_where_they_are() -> None:
    func = program(W_BEFORE_C + B_OF_A + C_OF_B + E_OF_C, A="(8,)", C="(8,)", E="(8,)")
    sch = Schedule(func, seed=0)
    sch.reverse_compute_inline("C")
    assert_same(func, sch.func)


REWRITTEN = """
@T.prim_func
def main(A: T.Buffer((6, 6), "float32"), O: T.Buffer((6, 6), "float32")):
    S = T.alloc_buffer((6,))
    U = T.alloc_buffer((6, 6))
    X = T.alloc_buffer((6, 6))
    for i, j in T.grid(6, 6):
        with T.block("X"):
            vi, vj = T.axis.remap("SS", [i, j])
            X[vi, vj] = A[vi, vj] + T.float32(1)
    for i in range(6):
        for t in range(6):
            with T.block("S"):
                vi, vt = T.axis.remap("SS", [i, t])
                S[vt] = X[vi, vt]
        for t in range(6):
            with T.block("U"):
                vi, vt = T.axis.remap("SS", [i, t])
                U[vi, vt] = S[5 - vt]
    for i, j in T.grid(6, 6):
        with T.block("O"):
            vi, vj = T.axis.remap("SS", [i, j])
            O[vi, vj] = U[vi, vj]
"""


def test_a_value_does_not_leave_a_loop_that_overwrites_what_it_reads() -> None:
    sch = Schedule(parse_func(REWRITTEN), seed=0)
    with pytest.raises(DependenceError, match="again in later iterations of 'i'"):
        sch.compute_inline("U")


def test_a_result_does_not_leave_a_loop_in_which_it_is_read() -> None:
    sch = Schedule(parse_func(REWRITTEN), seed=0)
    with pytest.raises((DependenceError, NotCompleteBlockError)):
        sch.reverse_compute_inline("S")
