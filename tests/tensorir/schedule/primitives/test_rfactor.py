from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import burnish
from burnish.support.errors import DependenceError, NotReductionBlockError, ScheduleValueError
from burnish.support.node import walk
from burnish.tensorir.expr import Var, const
from burnish.tensorir.function import PrimFunc
from burnish.tensorir.schedule import Schedule
from burnish.tensorir.stmt import Block
from burnish.tensorir.te import compute as te
from burnish.tensorir.text.parser import parse_func
from burnish.tests.tensorir.schedule.programs import assert_same, body, program, row_sum, summed
from burnish.tests.tensorir.schedule.replaying import assert_replays


def test_rfactor() -> None:
    func = row_sum(4, 12)
    sch = Schedule(func, seed=0)
    j0, j1 = sch.split(sch.get_loops("B")[1], [None, 4])
    partial = sch.rfactor(j1, 0)
    assert sch.get(partial).name == "B_rf"
    assert (
        body(sch.func)
        == """\
B_rf = T.alloc_buffer((4, 4))
for i, j_0, j_1 in T.grid(4, 3, 4):
    with T.block("B_rf"):
        v_i, vj_1, vj_0 = T.axis.remap("SSR", [i, j_1, j_0])
        T.reads(A[v_i, vj_0 * 4 + vj_1])
        T.writes(B_rf[vj_1, v_i])
        with T.init():
            B_rf[vj_1, v_i] = T.float32(0)
        B_rf[vj_1, v_i] = B_rf[vj_1, v_i] + A[v_i, vj_0 * 4 + vj_1]
for i, j_1 in T.grid(4, 4):
    with T.block("B"):
        v_i, vj_1 = T.axis.remap("SR", [i, j_1])
        T.reads(B_rf[vj_1, v_i])
        T.writes(B[v_i])
        with T.init():
            B[v_i] = T.float32(0)
        B[v_i] = B[v_i] + B_rf[vj_1, v_i]"""
    )
    sch.reorder(j0, j1)
    sch.vectorize(j1)
    assert_same(func, sch.func)


@pytest.mark.parametrize("axis", [0, 1, -1, -2])
def test_rfactor_axis_and_uneven_factors(axis: int) -> None:
    func = row_sum(3, 10)
    sch = Schedule(func, seed=0)
    _, j1 = sch.split(sch.get_loops("B")[1], [None, 4])
    sch.rfactor(j1, axis)
    assert_same(func, sch.func)


def test_rfactor_of_max_and_of_a_symbolic_loop() -> None:
    a = te.placeholder((Var("n"),), name="A")
    k = te.reduce_axis((0, a.shape[0]), "k")
    b = te.compute((1,), lambda i: te.max(a[k], axis=[k]), name="B")
    func = te.create_prim_func([a, b])
    sch = Schedule(func, seed=0)
    k0, _ = sch.split(sch.get_loops("B")[1], [None, 4])
    sch.rfactor(k0, 0)
    assert_same(func, sch.func, 11)


def test_rfactor_refusals() -> None:
    sch = Schedule(row_sum(), seed=0)
    i, j = sch.get_loops("B")
    with pytest.raises(DependenceError, match="'i' runs over a spatial axis"):
        sch.rfactor(i, 0)
    with pytest.raises(ScheduleValueError, match="factor_axis must be from -2 to 1; found 5"):
        sch.rfactor(j, 5)


TRIANGLE = """
@T.prim_func
def main(A: T.Buffer((6, 8), "float32"), B: T.Buffer((6,), "float32")):
    for i, j, k in T.grid(6, 2, 4):
        with T.block("B"):
            vi = T.axis.spatial(6, i)
            vj = T.axis.reduce(8, j * 4 + k)
            T.where(j * 4 + k <= i)
            with T.init():
                B[vi] = T.float32(0)
            B[vi] = B[vi] + A[vi, vj]
"""


def test_rfactor_of_what_is_empty_in_some_rows() -> None:
    sch = Schedule(parse_func(TRIANGLE), seed=0)
    with pytest.raises(DependenceError, match="might have no term at all in some rows"):
        sch.rfactor(sch.get_loops("B")[2], 0)


@pytest.mark.parametrize("reducer", [te.sum, te.max])
def test_a_partial_result_without_a_term_is_the_neutral_element(reducer: Any) -> None:
    a = te.placeholder((3, te.var("n")), name="A")
    k = te.reduce_axis((0, a.shape[1]), "k")
    b = te.compute((3,), lambda i: reducer(a[i, k], axis=[k]), name="B")
    func = te.create_prim_func([a, b])
    sch = Schedule(func, seed=0)
    _, inner = sch.split(sch.get_loops("B")[1], [None, 32])
    partial = sch.rfactor(inner, -1)
    sch.decompose_reduction(partial, sch.get_loops(partial)[1])
    assert "if_then_else" in sch.func.script()
    assert_replays(func, sch)
    for size in (1, 31, 33, 100):
        assert_same(func, sch.func, size)


def test_rfactor_beside_another_user() -> None:
    func = row_sum(4, 12)
    sch = Schedule(func, seed=0)
    _, j = sch.get_loops("B")
    first, _ = sch.loop_partition(j, [8, None])
    sch.rfactor(first, 0)
    names = [block.name for block in sch.get_child_blocks(sch.get_loops("B")[0])]
    assert names == ["B_rf", "B", "B_1"]  # all of a row, in one iteration
    assert_same(func, sch.func)


def test_rfactor_beside_another_user_below_a_reduce_loop_is_refused() -> None:
    a = te.placeholder((4, 6, 8), name="A")
    k, m = te.reduce_axis((0, 6), "k"), te.reduce_axis((0, 8), "m")
    b = te.compute((4,), lambda i: te.sum(a[i, k, m], axis=[k, m]), name="B")
    sch = Schedule(te.create_prim_func([a, b]), seed=0)
    first, _ = sch.loop_partition(sch.get_loops("B")[2], [4, None])
    with pytest.raises(DependenceError, match="'B_1' uses 'B' inside the nest of 'B'"):
        sch.rfactor(first, 0)


def test_the_extent_of_a_factored_loop_is_the_same_everywhere() -> None:
    sch = Schedule(summed("for i in range(4):\n    for k in range(i + 1):"), seed=0)
    with pytest.raises(DependenceError, match="The extent of 'k' depends on another loop"):
        sch.rfactor(sch.get_loops("B")[1], 0)


def test_only_sums_products_and_extrema_are_factored() -> None:
    func = program(
        """
for i, k in T.grid(4, 4):
    with T.block("B"):
        vi, vk = T.axis.remap("SR", [i, k])
        with T.init():
            B[vi] = T.float32(0)
        B[vi] = B[vi] * T.float32(2) + A[vi, vk]
""",
        A="(4, 4)",
        B="(4,)",
    )
    sch = Schedule(func, seed=0)
    with pytest.raises(NotReductionBlockError, match="The update of 'B' is not one of sum, prod"):
        sch.rfactor(sch.get_loops("B")[1], 0)


def test_a_factored_loop_runs_over_a_reduce_axis_in_order() -> None:
    sch = Schedule(summed("for i, r, k in T.grid(4, 2, 4):"), seed=0)
    _, r, k = sch.get_loops("B")
    with pytest.raises(DependenceError, match="The loop 'r' runs over no reduce axis of 'B'"):
        sch.rfactor(r, 0)
    sch.unroll(k)
    with pytest.raises(DependenceError, match="Expected a serial loop from 0; 'k' is unrolled"):
        sch.rfactor(k, 0)


def test_a_factored_loop_holds_one_block() -> None:
    func = program(
        """
for i, k in T.grid(4, 4):
    with T.block("C"):
        vi, vk = T.axis.remap("SS", [i, k])
        C[vi, vk] = A[vi, vk]
    with T.block("B"):
        vi, vk = T.axis.remap("SR", [i, k])
        with T.init():
            B[vi] = T.float32(0)
        B[vi] = B[vi] + A[vi, vk]
""",
        A="(4, 4)",
        B="(4,)",
        C="(4, 4)",
    )
    sch = Schedule(func, seed=0)
    with pytest.raises(DependenceError, match="Expected one block below the loop 'k'; found 'C'"):
        sch.rfactor(sch.get_loops("B")[1], 0)


def test_rfactor_leaves_elements_alone_that_have_no_terms() -> None:
    func = program(
        """
for i in range(16):
    with T.block("F"):
        vi = T.axis.remap("S", [i])
        C[vi] = T.float32(3)
for i, k0, k1 in T.grid(16, 2, 4):
    with T.block("C"):
        vi = T.axis.spatial(16, i)
        vk = T.axis.reduce(8, k0 * 4 + k1)
        T.where(i + k0 < 10)
        with T.init():
            C[vi] = T.float32(0)
        C[vi] = C[vi] + A[vk]
""",
        A="(8,)",
        C="(16,)",
    )
    sch = Schedule(func, seed=0)
    sch.rfactor(sch.get_loops("C")[2], 0)
    assert "T.where(i < 10)" in body(sch.func)
    assert_same(func, sch.func)


def test_rfactor_says_that_the_init_must_be_neutral() -> None:
    func = program(
        """
for i, k in T.grid(4, 8):
    with T.block("C"):
        vi, vk = T.axis.remap("SR", [i, k])
        with T.init():
            C[vi] = T.float32(1)
        C[vi] = C[vi] + A[vi, vk]
""",
        A="(4, 8)",
        C="(4,)",
    )
    sch = Schedule(func, seed=0)
    with pytest.raises(NotReductionBlockError, match="beginning with the neutral element"):
        sch.rfactor(sch.get_loops("C")[1], 0)


AT_REDUCE_AXIS = """
@T.prim_func
def main(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8, 8), "float32")):
    for i, k in T.grid(8, 8):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi, vk] = T.float32(0)
            B[vi, vk] = B[vi, vk] + A[vi, vk]
"""


def test_rfactor_refuses_an_element_that_depends_on_the_reduce_axis() -> None:
    sch = Schedule(parse_func(AT_REDUCE_AXIS), seed=0)
    with pytest.raises(NotReductionBlockError, match="depend on a reduce axis"):
        sch.rfactor(sch.get_loops("B")[1], 0)


ARG = """
@T.prim_func
def main(A: T.Buffer((5, 24)), I: T.Buffer((5,), "int32"), V: T.Buffer((5,))):
    for i, k in T.grid(5, 24):
        with T.block("R"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                I[vi] = T.int32(FIRST)
                V[vi] = T.float32("-inf")
            k: T.int32 = PLACE
            new_i: T.int32 = T.Select(CONDITION, I[vi], k)
            new_v: T.float32 = T.max(V[vi], A[vi, vk])
            I[vi] = new_i
            V[vi] = new_v
"""


def arg(condition: str, place: str = 'T.Cast("int32", vk)', first: int = -1) -> PrimFunc:
    text = ARG.replace("FIRST", str(first)).replace("PLACE", place)
    return parse_func(text.replace("CONDITION", condition))


def ties(func: PrimFunc, sch: Schedule, nans: float = 0.0) -> None:
    """Both find the same element of rows with many equal ones."""
    rng = np.random.default_rng(0)
    before, after = burnish.build(func)["main"], burnish.build(sch.func)["main"]
    for n in range(12):
        a = rng.integers(-1, 2, (5, 24)).astype(np.float32)
        a[:2] = -np.inf if n == 3 else a[:2]
        a[rng.random(a.shape) < nans] = np.nan
        one, other = [(np.zeros(5, np.int32), np.zeros(5, np.float32)) for _ in range(2)]
        before(a, *one)
        after(a, *other)
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    "func",
    [
        arg("V[vi] >= A[vi, vk]"),
        arg("V[vi] > A[vi, vk]"),
        arg("V[vi] > A[vi, vk] or (V[vi] == A[vi, vk] and I[vi] < k)"),
        arg("V[vi] >= A[vi, vk]", 'T.Cast("int32", 23 - vk)', 99),
        arg("V[vi] > A[vi, vk] or (V[vi] == A[vi, vk] and I[vi] < k)", 'T.Cast("int32", vk // 3)'),
        arg("V[vi] > A[vi, vk] or V[vi] == A[vi, vk] and I[vi] < vk"),
    ],
)
@pytest.mark.parametrize(("factor", "which"), [(4, 0), (4, 1), (5, 0), (5, 1)])
def test_rfactor_of_argmax_keeps_which_of_equal_elements_is_found(
    func: PrimFunc, factor: int, which: int
) -> None:
    sch = Schedule(func, seed=0)
    loops = sch.split(sch.get_loops("R")[1], [None, factor])
    partial = sch.rfactor(loops[which], -1)
    assert sch.get(partial).name == "R_rf"
    ties(func, sch)
    assert_replays(func, sch)


@pytest.mark.parametrize(
    ("condition", "value"),
    [
        ("T.isnan(V[vi]) or V[vi] >= A[vi, vk]", "T.max(V[vi], A[vi, vk])"),
        (
            "T.isnan(A[vi, vk]) or V[vi] >= A[vi, vk]",
            "T.Select(T.isnan(A[vi, vk]) or V[vi] >= A[vi, vk], V[vi], A[vi, vk])",
        ),
    ],
)
@pytest.mark.parametrize("which", [0, 1])
def test_rfactor_keeps_what_a_condition_that_asks_for_nan_finds(
    condition: str, value: str, which: int
) -> None:
    text = arg(condition).script().replace("T.max(V[vi], A[vi, vk])", value)
    sch = Schedule(parse_func(text), seed=0)
    func = sch.func
    sch.rfactor(sch.split(sch.get_loops("R")[1], [None, 4])[which], 0)
    ties(func, sch, nans=0.1)
    assert_replays(func, sch)


def test_a_comparison_alone_has_no_order_with_nan() -> None:
    """Why what is found may change then: no regrouping of three terms finds the same."""

    def combine(x: tuple[int, float], y: tuple[int, float]) -> tuple[int, float]:
        return x[0] if x[1] >= y[1] else y[0], float(np.maximum(x[1], y[1]))

    a, b, c, d = (0, np.nan), (1, 0.0), (2, 1.0), (3, 0.5)
    in_order = combine(combine(combine(a, b), c), d)
    regrouped = combine(combine(a, b), combine(c, d))
    assert (in_order[0], regrouped[0]) == (3, 2)
    assert "is not associative" in str(Schedule.rfactor.__doc__)


def test_rfactor_of_argmax_again() -> None:
    func = arg("V[vi] >= A[vi, vk]")
    sch = Schedule(func, seed=0)
    outer, _ = sch.split(sch.get_loops("R")[1], [None, 4])
    sch.rfactor(outer, 0)
    _, inner = sch.split(sch.get_loops("R")[1], [None, 2])
    sch.rfactor(inner, 0)
    ties(func, sch)


@pytest.mark.parametrize(
    ("func", "words"),
    [
        (arg("V[vi] >= A[vi, vk]", 'T.Cast("int32", A[vi, 0])'), "keeps the first one, and none"),
        (arg("V[vi] > A[vi, vk]", 'T.Cast("int32", vk // 2)'), "keeps the last one, and none"),
        (arg("V[vi] >= A[vi, vk]", first=3), "keeps the first one, and none"),
        (arg("V[vi] <= A[vi, vk]"), "is not the one that the condition chooses"),
    ],
)
def test_rfactor_of_ties_that_nothing_tells_apart(func: PrimFunc, words: str) -> None:
    sch = Schedule(func, seed=0)
    with pytest.raises(NotReductionBlockError) as error:
        sch.rfactor(sch.get_loops("R")[1], 0)
    assert words in str(error.value)


def test_rfactor_of_two_sums_from_te() -> None:
    a = te.placeholder((3, 20), name="A")
    k = te.reduce_axis((0, 20), "k")
    moments = te.comm_reducer(
        lambda x, y: (x[0] + y[0], x[1] + y[1]), lambda t0, t1: (const(0, t0), const(0, t1))
    )
    total, squares = te.compute((3,), lambda i: moments((a[i, k], a[i, k] * a[i, k]), axis=k))
    func = te.create_prim_func([a, total, squares])
    (name,) = [n.name for n in walk(func.body) if isinstance(n, Block) and n.iter_vars]
    sch = Schedule(func, seed=0)
    _, inner = sch.split(sch.get_loops(name)[1], [None, 8])
    sch.rfactor(inner, 0)
    assert_same(func, sch.func)
    assert_replays(func, sch)


@pytest.mark.parametrize("factors", [None, [None, 8], [None, 7], [None, 4, 6]])
def test_rfactor_of_a_loop_over_several_axes_or_a_part_of_one(factors: list[Any] | None) -> None:
    func = parse_func(
        """
@T.prim_func
def main(A: T.Buffer((4, 12, 10)), C: T.Buffer((4,))):
    for i, j, k in T.grid(4, 12, 10):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SRR", [i, j, k])
            with T.init():
                C[vi] = T.float32(0)
            C[vi] = C[vi] + A[vi, vj, vk]
"""
    )
    sch = Schedule(func, seed=0)
    loop = sch.fuse(*sch.get_loops("C")[1:])
    if factors is not None:
        loop = sch.split(loop, factors)[1]
    sch.rfactor(loop, 0)
    assert_same(func, sch.func)
