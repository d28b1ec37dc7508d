from __future__ import annotations

import pytest

from burnish.support.errors import DependenceError, NotCompleteBlockError
from burnish.tensorir import compute as te
from burnish.tensorir.parser import parse_func
from burnish.tensorir.schedule import Schedule
from burnish.tests.tensorir.schedule.programs import (
    B_OF_A,
    REWRITTEN,
    assert_same,
    blur,
    body,
    chain,
    program,
)


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


def test_a_consumer_that_shifts_is_not_inlined_backwards() -> None:
    sch = Schedule(blur(8), seed=0)
    with pytest.raises(
        NotCompleteBlockError, match="'C' does not read 'B' at exactly its own axes"
    ):
        sch.reverse_compute_inline("C")


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


def test_a_result_does_not_leave_a_loop_in_which_it_is_read() -> None:
    sch = Schedule(parse_func(REWRITTEN), seed=0)
    with pytest.raises((DependenceError, NotCompleteBlockError)):
        sch.reverse_compute_inline("S")


def test_a_consumer_of_some_elements_only_is_not_made_one_of_all() -> None:
    text = """
B = T.alloc_buffer((8, 3))
for i, j in T.grid(8, 3):
    with T.block("B"):
        vi, vj = T.axis.remap("SS", [i, j])
        B[vi, vj] = A[vi, vj] + T.float32(1)
for i, j in T.grid(8, 1):
    with T.block("C"):
        vi = T.axis.spatial(8, i)
        vj = T.axis.spatial(3, j)
        C[vi, vj] = B[vi, vj] * T.float32(2)
"""
    sch = Schedule(program(text, A="(8, 3)", C="(8, 3)"), seed=0)
    with pytest.raises(DependenceError, match="'C' does not read all of 'B'"):
        sch.reverse_compute_inline("C")
    whole = program(text.replace("T.grid(8, 1)", "T.grid(8, 3)"), A="(8, 3)", C="(8, 3)")
    for fused, factor in ((True, 4), (False, 5)):
        sch = Schedule(whole, seed=0)
        loops = sch.get_loops("C")
        sch.split(sch.fuse(*loops) if fused else loops[0], [None, factor])
        sch.reverse_compute_inline("C")
        assert_same(whole, sch.func)


def _unflattened(read: str, extent: int = 24) -> str:
    return f"""
@T.prim_func
def main(A: T.Buffer(({extent},), "float32"), C: T.Buffer((4, 6), "float32")):
    B = T.alloc_buffer(({extent},))
    for i in range({extent}):
        with T.block("B"):
            vi = T.axis.spatial({extent}, i)
            B[vi] = A[vi] + T.float32(1)
    for i, j in T.grid(4, 6):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[{read}] * T.float32(2)
"""


@pytest.mark.parametrize(
    ("read", "place"),
    [("vi * 6 + vj", "vi // 6, vi % 6"), ("vi + vj * 4", "vi % 4, vi // 4")],
)
def test_axes_that_are_digits_of_an_index(read: str, place: str) -> None:
    func = parse_func(_unflattened(read))
    sch = Schedule(func, seed=0)
    sch.reverse_compute_inline("C")
    assert f"C[{place}] = (A[vi] + T.float32(1)) * T.float32(2)" in body(sch.func)
    assert_same(func, sch.func)


def test_a_chain_of_layouts() -> None:
    a = te.placeholder((24,), name="A")
    b = te.compute((24,), lambda i: a[i] + 1.0, name="B")
    c = te.compute((2, 12), lambda i, j: b[i * 12 + j] * 2.0, name="C")
    d = te.compute((3, 4, 2), lambda i, j, k: c[k, i * 4 + j], name="D")
    func = te.create_prim_func([a, d])
    sch = Schedule(func, seed=0)
    sch.reverse_compute_inline("C")
    assert_same(func, sch.func)
    again = Schedule(func, seed=0)
    again.reverse_compute_inline("D")
    again.reverse_compute_inline("C")
    assert_same(func, again.func)


@pytest.mark.parametrize(
    ("read", "extent"),
    [("vi * 5 + vj", 24), ("vi * 6 + vj", 30), ("vi * 6 + vj + 1", 25), ("vi * 12 + vj", 48)],
)
def test_sums_that_are_no_digits_have_no_reverse(read: str, extent: int) -> None:
    sch = Schedule(parse_func(_unflattened(read, extent)), seed=0)
    before = sch.func
    with pytest.raises(NotCompleteBlockError, match="or at sums that have these for digits"):
        sch.reverse_compute_inline("C")
    assert sch.func is before
