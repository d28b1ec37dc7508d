from __future__ import annotations

import pytest

from burnish.support.errors import DependenceError, NotCompleteBlockError
from burnish.support.structural import assert_structural_equal
from burnish.tensorir.expr import Var
from burnish.tensorir.function import PrimFunc
from burnish.tensorir.schedule import Schedule
from burnish.tensorir.te import compute as te
from burnish.tensorir.text.parser import parse_func
from burnish.tensorir.verify.bounds import verify_bounds
from burnish.tensorir.verify.laws import verify_func
from burnish.tensorir.verify.regions import verify_regions
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
    [("vi * 5 + vj", 24), ("vi * 12 + vj", 48), ("vi * 6 + vj * 2", 30)],
)
def test_sums_that_are_no_digits_have_no_reverse(read: str, extent: int) -> None:
    sch = Schedule(parse_func(_unflattened(read, extent)), seed=0)
    before = sch.func
    with pytest.raises(NotCompleteBlockError, match="or at indices that have these for digits"):
        sch.reverse_compute_inline("C")
    assert sch.func is before


def _part(read: str, sizes: tuple[int, ...], shape: str, *, made: int = 8) -> PrimFunc:
    """C reads a part of B; E, which reads all of C, shows what was written."""
    axes = "ijkl"[: len(sizes)]
    extents = ", ".join(map(str, sizes))
    remap = ", ".join(f"v{a}" for a in axes) + (", = " if len(sizes) == 1 else " = ")
    where = ", ".join(f"v{a}" for a in axes)
    return parse_func(f"""
@T.prim_func
def main(A: T.Buffer({shape}, "float32"), C: T.Buffer(({extents},), "float32")):
    B = T.alloc_buffer({shape})
    for i, j in T.grid({made}, {made}):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] + T.float32(1)
    for {", ".join(axes)} in T.grid({extents}):
        with T.block("C"):
            {remap}T.axis.remap("{"S" * len(sizes)}", [{", ".join(axes)}])
            C[{where}] = {read} * T.float32(2)
""")


@pytest.mark.parametrize(
    ("read", "sizes", "where"),
    [
        ("B[vi, vj]", (7, 8), "i < 7"),
        ("B[vi, vj]", (7, 5), "i < 7 and j < 5"),
        ("B[vj, vi]", (7, 5), "j < 7 and i < 5"),
        ("B[vi + 1, vj]", (7, 8), "i - 1 >= 0"),
        ("B[vi + 2, vj + 3]", (4, 5), None),
        ("B[3, vi]", (8,), None),
        ("B[vi // 4, vi % 4]", (6,), None),
        ("B[vi // 8, vi % 8]", (61,), None),
        ("B[vi * 2 + vj, vk]", (3, 2, 8), None),
        ("B[vi * 2 + vj + 1, vk]", (3, 2, 8), None),
        ("B[vi, vk]", (8, 1, 8), ""),
    ],
)
def test_what_a_consumer_of_a_part_does_not_read_is_not_computed(
    read: str, sizes: tuple[int, ...], where: str | None
) -> None:
    func = _part(read, sizes, "(8, 8)")
    sch = Schedule(func, seed=0)
    sch.reverse_compute_inline("C")
    assert 'with T.block("C")' not in body(sch.func)
    assert "A[vi, vj] + T.float32(1)" in body(sch.func)
    if where is not None:
        assert ("T.where(" in body(sch.func)) is bool(where)
        assert where in body(sch.func)
    verify_func(sch.func)
    verify_regions(sch.func)
    verify_bounds(sch.func)
    assert_same(func, sch.func)
    again = Schedule(func, seed=0)
    sch.trace.apply_to(again)
    assert_structural_equal(again.func, sch.func)


@pytest.mark.parametrize(
    ("read", "sizes"),
    [
        ("B[vi, vi]", (4,)),
        ("B[vi + vj, vj]", (4, 4)),
        ("B[vi // 2, vj]", (8, 4)),
        ("(B[vi, vj] + B[vi + 1, vj])", (7, 8)),
        ("T.if_then_else(vi >= 8, B[vi - 8, vj], T.float32(0))", (16, 8)),
    ],
)
def test_a_consumer_that_reads_what_no_one_instance_has_stays(
    read: str, sizes: tuple[int, ...]
) -> None:
    func = _part(read, sizes, "(8, 8)")
    sch = Schedule(func, seed=0)
    try:
        sch.reverse_compute_inline("C")
    except NotCompleteBlockError:
        assert sch.func is func
    else:
        assert_same(func, sch.func)


def test_a_guarded_read_of_what_nobody_writes_is_no_reverse() -> None:
    guarded = "T.if_then_else(vi < 4, B[vi, vj], T.float32(0))"
    func = _part(guarded, (8, 4), "(8, 8)", made=4)
    sch = Schedule(func, seed=0)
    with pytest.raises(NotCompleteBlockError, match="'B' is not known to write all that 'C' reads"):
        sch.reverse_compute_inline("C")


@pytest.mark.parametrize(("predicate", "allowed"), [("i < 7", True), ("i < 6", False)])
def test_a_producer_under_a_predicate_that_leaves_out_what_nobody_reads(
    predicate: str, allowed: bool
) -> None:
    func = program(
        f"""
B = T.alloc_buffer((8,))
for i in range(8):
    with T.block("B"):
        vi = T.axis.spatial(8, i)
        T.where({predicate})
        B[vi] = A[vi] + T.float32(1)
for i in range(7):
    with T.block("C"):
        vi = T.axis.spatial(7, i)
        C[vi] = B[vi] * T.float32(2)
""",
        A="(8,)",
        C="(7,)",
    )
    sch = Schedule(func, seed=0)
    if allowed:
        sch.reverse_compute_inline("C")
        assert "T.where(i < 7)" in body(sch.func)
        assert_same(func, sch.func)
    else:
        with pytest.raises(NotCompleteBlockError, match="that may leave out what is read"):
            sch.reverse_compute_inline("C")


@pytest.mark.parametrize("part", [8, 7])
def test_a_producer_whose_loop_is_split_with_a_tail(part: int) -> None:
    func = program(
        f"""
B = T.alloc_buffer((8,))
for i in range(8):
    with T.block("B"):
        vi = T.axis.spatial(8, i)
        B[vi] = A[vi] + T.float32(1)
for i in range({part}):
    with T.block("C"):
        vi = T.axis.spatial({part}, i)
        C[vi] = B[vi] * T.float32(2)
""",
        A="(8,)",
        C=f"({part},)",
    )
    sch = Schedule(func, seed=0)
    sch.split(sch.get_loops("B")[0], [None, 3])
    sch.split(sch.get_loops("C")[0], [None, 5])
    sch.reverse_compute_inline("C")
    assert f"i_0 * 3 + i_1 < {part}" in body(sch.func)
    assert_same(func, sch.func)


def test_a_part_of_a_symbolic_dimension() -> None:
    n = Var("n")
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] + 1.0, name="B")
    c = te.compute((te.as_shape(4)), lambda i: b[i] * 2.0, name="C")
    sch = Schedule(te.create_prim_func([a, c]), seed=0)
    with pytest.raises(NotCompleteBlockError, match="'B' is not known to write all that 'C' reads"):
        sch.reverse_compute_inline("C")


def placed(index: str, shape: str, value: str = "B[vi, vj]", loops: str = "") -> PrimFunc:
    """A sum B over k, and C, which places it at ``index``."""
    return program(
        f"""
B = T.alloc_buffer((8, 6))
for i, j, k in T.grid(8, 6, 3):
    with T.block("B"):
        vi, vj, vk = T.axis.remap("SSR", [i, j, k])
        with T.init():
            B[vi, vj] = T.float32(0)
        B[vi, vj] = B[vi, vj] + A[vi, vj, vk]
for i, j in T.grid({loops or "8, 6"}):
    with T.block("C"):
        vi, vj = T.axis.remap("SS", [i, j])
        C[{index}] = {value}
""",
        A="(8, 6, 3)",
        C=shape,
    )


@pytest.mark.parametrize(
    ("index", "shape", "value", "loops"),
    [
        ("vj, vi", "(6, 8)", "B[vi, vj]", ""),
        ("vi // 4, vj, vi % 4", "(2, 6, 4)", "B[vi, vj]", ""),
        ("vi * 6 + vj", "(48,)", "B[vi, vj]", ""),
        ("vi, vj", "(4, 5)", "B[vi + 2, vj + 1]", "4, 5"),
        ("vi, vj", "(12, 4)", "B[(vi * 4 + vj) // 6, (vi * 4 + vj) % 6]", "12, 4"),
    ],
)
@pytest.mark.parametrize("split", [False, True])
def test_a_sum_is_stored_where_it_is_placed(
    index: str, shape: str, value: str, loops: str, split: bool
) -> None:
    func = placed(index, shape, value, loops)
    sch = Schedule(func, seed=0)
    if split:
        _, j, k = sch.get_loops("B")
        sch.split(j, [None, 4])
        sch.reorder(k, sch.get_loops("B")[0])
    sch.reverse_compute_inline("C")
    assert "alloc_buffer" not in body(sch.func)
    verify_func(sch.func)
    verify_bounds(sch.func)
    verify_regions(sch.func)
    assert_same(func, sch.func)


def test_what_computes_with_a_sum_stays() -> None:
    sch = Schedule(placed("vi, vj", "(8, 6)", "B[vi, vj] * T.float32(2)"), seed=0)
    with pytest.raises(NotCompleteBlockError, match="Add a bias with fuse_reduction_epilogue"):
        sch.reverse_compute_inline("C")


def test_partial_sums_are_not_placed() -> None:
    func = program(
        """
B = T.alloc_buffer((8,))
for k in range(3):
    for i in range(8):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = T.float32(0)
            B[vi] = B[vi] + A[vi, vk]
    for i in range(8):
        with T.block("C"):
            vi, vk = T.axis.remap("SS", [i, k])
            C[vk, vi] = B[vi]
""",
        A="(8, 3)",
        C="(3, 8)",
    )
    sch = Schedule(func, seed=0)
    with pytest.raises((DependenceError, NotCompleteBlockError)):
        sch.reverse_compute_inline("C")
