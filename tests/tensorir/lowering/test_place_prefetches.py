"""Loops that ask the caches for what later iterations read."""

from __future__ import annotations

import numpy as np
import pytest

import burnish
from burnish import Schedule
from burnish.support.errors import CodegenError
from burnish.support.target import Target
from burnish.tensorir.lowering import lower_func
from burnish.tensorir.text.parser import parse_func

PROGRAM = """
@T.prim_func
def f(A: T.Buffer((64, 64), "float32"), B: T.Buffer((64,), "float32"), C: T.Buffer((64, 64), "float32")):
    for i, j in T.grid(64, 64):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = A[vi, vj] + B[vj]
"""  # noqa: E501


def scheduled(distance: object, *, loop: int = 0) -> Schedule:
    sch = Schedule(parse_func(PROGRAM))
    i, j = sch.get_loops("C")
    outer, lanes = sch.split(j, [None, 16])
    sch.vectorize(lanes)
    sch.unroll(outer)
    sch.annotate((i, outer)[loop], "prefetch_distance", distance)
    return sch


def requests(sch: Schedule) -> list[str]:
    func = lower_func(sch.mod["f"], Target("llvm -mcpu=skylake-avx512")).func
    lines = [line.strip() for line in func.script().split("\n")]
    return [line for line in lines if line.startswith("T.evaluate(T.prefetch")]


def test_each_line_of_a_later_iteration_is_asked_for_once() -> None:
    # Rows of 64 floats are four lines; B does not move with the rows and is not asked for.
    assert requests(scheduled(3)) == [
        f"T.evaluate(T.prefetch(A[i * 64 + {offset}]))" for offset in (192, 208, 224, 240)
    ]


def test_requests_stand_between_the_statements() -> None:
    func = lower_func(scheduled(1).mod["f"], Target("llvm -mcpu=skylake-avx512")).func
    kinds = ["prefetch(" in line for line in func.script().split("\n") if "A[" in line]
    assert kinds == [True, False] * 4


def test_an_unrolled_loop_has_no_later_iterations() -> None:
    assert requests(scheduled(1, loop=1)) == []


def test_scalars_of_one_line_are_asked_for_together() -> None:
    sch = Schedule(parse_func(PROGRAM))
    few = sch.split(sch.get_loops("C")[1], [None, 4])
    sch.unroll(few[1])
    sch.annotate(few[0], "prefetch_distance", 8)
    assert requests(sch) == [
        "T.evaluate(T.prefetch(A[i * 64 + j_0 * 4 + 32]))",
        "T.evaluate(T.prefetch(B[j_0 * 4 + 32]))",
    ]


@pytest.mark.parametrize(("distance", "asked"), [(1, []), (3, []), (4, [16]), (9, [32])])
def test_a_line_that_is_read_already_is_not_asked_for(distance: int, asked: list[int]) -> None:
    # Four floats an iteration: three iterations on, the line is still the same.
    sch = Schedule(parse_func(PROGRAM))
    outer, few = sch.split(sch.get_loops("C")[1], [None, 4])
    sch.unroll(few)
    sch.annotate(outer, "prefetch_distance", distance)
    wanted = [f"{row}j_0 * 4 + {n}" for row in ("A[i * 64 + ", "B[") for n in asked]
    assert requests(sch) == [f"T.evaluate(T.prefetch({place}]))" for place in wanted]


def test_lines_that_overlap_those_of_now_are_asked_for_in_part() -> None:
    sch = Schedule(parse_func(PROGRAM))
    outer, lanes = sch.split(sch.get_loops("C")[1], [None, 32])
    sch.vectorize(lanes)
    sch.annotate(outer, "prefetch_distance", 1)
    wanted = [f"{row}j_0 * 32 + {n}" for row in ("A[i * 64 + ", "B[") for n in (32, 48)]
    assert requests(sch) == [f"T.evaluate(T.prefetch({place}]))" for place in wanted]


def test_results_stay() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((64, 64), "float32"), rng.standard_normal(64, "float32")
    c = burnish.empty((64, 64))
    burnish.build(scheduled(1000).mod)["f"](burnish.array(a), burnish.array(b), c)
    np.testing.assert_array_equal(c.numpy(), a + b)


@pytest.mark.parametrize("distance", [0, -1, True, "far"])
def test_a_distance_is_a_positive_number(distance: object) -> None:
    with pytest.raises(CodegenError, match="prefetch_distance of loop i is a number"):
        lower_func(scheduled(distance).mod["f"], Target("llvm -mcpu=skylake-avx512"))


PANELS = """
@T.prim_func
def f(X: T.Buffer((8, 64), "float32"), W: T.Buffer((4, 64, 16), "float32"), Y: T.Buffer((4, 8, 16), "float32")):
    for p, i, j, k in T.grid(4, 8, 16, 64):
        with T.block("Y"):
            vp, vi, vj, vk = T.axis.remap("SSSR", [p, i, j, k])
            with T.init():
                Y[vp, vi, vj] = T.float32(0)
            Y[vp, vi, vj] += X[vi, vk] * W[vp, vk, vj]
"""  # noqa: E501


def panels(turns: str, steps: int, later: object = 1) -> Schedule:
    """Panels outside, rows inside (or the other way round), and ``steps`` of k written out."""
    sch = Schedule(parse_func(PANELS))
    p, i, j, k = sch.get_loops("Y")
    k0, k1 = sch.split(k, [None, steps])
    sch.reorder(*((p, i) if turns == "rows" else (i, p)), k0, k1, j)
    sch.unroll(k1)
    sch.vectorize(j)
    sch.annotate(k0, "prefetch_next", later)
    return sch


def test_the_next_panel_is_asked_for_by_turns() -> None:
    # Four lines an iteration, each row asks for one; X moves by less than a line.
    assert requests(panels("rows", 4)) == [
        "T.evaluate(T.prefetch(W[p * 1024 + k_0 * 64 + 1024 + i % 4 * 16]))"
    ]
    # Of sixteen lines each of eight rows asks for two.
    assert requests(panels("rows", 16)) == [
        "T.evaluate(T.prefetch(W[p * 1024 + k_0 * 256 + 1024 + i * 2 % 16 * 16]))",
        "T.evaluate(T.prefetch(W[p * 1024 + k_0 * 256 + 1024 + (i * 2 + 1) % 16 * 16]))",
    ]


def test_nothing_moves_on_around_the_turns() -> None:
    assert requests(panels("panels", 4)) == []


def test_results_stay_where_the_next_panel_is_asked_for() -> None:
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((8, 64), "float32"), rng.standard_normal((4, 64, 16), "float32")
    y = burnish.empty((4, 8, 16))
    burnish.build(panels("rows", 4).mod)["f"](burnish.array(x), burnish.array(w), y)
    wanted = np.einsum("ik,pkj->pij", x.astype("float64"), w.astype("float64"))
    np.testing.assert_allclose(y.numpy(), wanted, atol=1e-4)


@pytest.mark.parametrize("later", [0, True, "far"])
def test_moving_on_is_a_positive_number(later: object) -> None:
    with pytest.raises(CodegenError, match="prefetch_next of loop k_0 is a number"):
        lower_func(panels("rows", 4, later).mod["f"], Target("llvm -mcpu=skylake-avx512"))


GUARDED = """
@T.prim_func
def f(p: T.handle, A: T.Buffer((64,), "float32"), C: T.Buffer((64,), "float32")):
    n = T.int64()
    P = T.match_buffer(p, (n,), "int64")
    for i in range(1):
        for j in range(64):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vj] = T.if_then_else(vi + 1000000000 < n, A[P[vi + 1000000000] + vj], T.float32(1))
"""  # noqa: E501
LET = """
@T.prim_func
def f(A: T.Buffer((64,), "float32"), C: T.Buffer((16, 4), "float32")):
    for i, j in T.grid(16, 4):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            z: T.int64 = vi * 5 % 16
            C[vi, vj] = A[z * 4 + vj]
"""


def test_addresses_that_may_not_be_computed_are_not_asked_for() -> None:
    sch = Schedule(parse_func(GUARDED))
    sch.annotate(sch.get_loops("C")[1], "prefetch_distance", 16)
    assert requests(sch) == []
    out = burnish.empty((64,))
    kernel = burnish.build(sch.mod["f"])["f"]
    kernel(burnish.array(np.zeros(1, "int64")), burnish.array(np.zeros(64, "float32")), out)
    assert out.numpy().tolist() == [1.0] * 64


def test_a_let_below_the_loop_is_not_known_in_front_of_it() -> None:
    sch = Schedule(parse_func(LET))
    sch.annotate(sch.get_loops("C")[1], "prefetch_distance", 1)
    assert requests(sch) == []
    burnish.build(sch.mod["f"])


def test_memory_that_the_loop_writes_itself_is_not_asked_for() -> None:
    """A parameter is: the loop may update what another kernel left."""
    text = PROGRAM.replace(
        "    for i, j in",
        '    D = T.alloc_buffer((64, 64), "float32")\n    for i, j in',
    )
    own = '        with T.block("D"):\n            vi, vj = T.axis.remap("SS", [i, j])\n'
    own += "            D[vi, vj] = A[vi, vj] * C[vi, vj]\n"
    text = text.replace('        with T.block("C"):', own + '        with T.block("C"):')
    sch = Schedule(parse_func(text.replace("A[vi, vj] + B[vj]", "D[vi, vj] + B[vj]")))
    sch.annotate(sch.get_loops("C")[1], "prefetch_distance", 16)
    assert [line.split("(")[2][0] for line in requests(sch)] == ["A", "C", "B"]


POOL = """
@T.prim_func
def f(X: T.Buffer((24, {width}), "float32"), Y: T.Buffer((8, {width}), "float32")):
    for p, q in T.grid(8, {width}):
        with T.block("Y"):
            vp, vq = T.axis.remap("SS", [p, q])
            Y[vp, vq] = X[vp * 2, vq] + X[vp * 2 + 1, vq]
"""


def pairs(width: int, later: object = 1, second: str = "X[vp * 2 + 1, vq]") -> Schedule:
    """Sums of two rows, a vector of 16 an iteration."""
    text = POOL.replace("X[vp * 2 + 1, vq]", second).format(width=width)
    sch = Schedule(parse_func(text))
    outer, lanes = sch.split(sch.get_loops("Y")[1], [None, 16])
    sch.vectorize(lanes)
    sch.annotate(outer, "prefetch_region", later)
    return sch


def test_a_region_is_asked_for_in_the_order_of_memory() -> None:
    # Two rows of four lines, one after the other; each of four iterations asks for two.
    assert requests(pairs(64)) == [
        "T.evaluate(T.prefetch(X[p * 128 + 128 + q_0 * 2 * 16]))",
        "T.evaluate(T.prefetch(X[p * 128 + 128 + (q_0 * 2 + 1) * 16]))",
    ]
    assert "X[p * 128 + 384 +" in requests(pairs(64, later=3))[0]


def test_streams_that_move_differently_are_asked_for_apart() -> None:
    # One of every two rows, and every row, four lines each.
    assert requests(pairs(64, second="X[vp + 8, vq]")) == [
        "T.evaluate(T.prefetch(X[p * 128 + 128 + q_0 * 16]))",
        "T.evaluate(T.prefetch(X[p * 64 + 64 + (q_0 * 16 + 512)]))",
    ]


def test_lines_that_do_not_divide_are_asked_for_evenly() -> None:
    # Two rows of 40 are five lines, in three iterations.
    assert requests(pairs(40)) == [
        "T.evaluate(T.prefetch(X[p * 80 + 80 + q_0 * 5 // 3 * 16]))",
        "T.evaluate(T.prefetch(X[p * 80 + 80 + (q_0 * 5 // 3 + 1) * 16]))",
    ]


def test_of_a_region_with_gaps_nothing_is_asked_for() -> None:
    assert requests(pairs(64, second="X[vp * 2 + 8, vq]")) == []


@pytest.mark.parametrize("later", [0, True, "far"])
def test_a_region_is_a_positive_number_of_iterations_away(later: object) -> None:
    with pytest.raises(CodegenError, match="prefetch_region of loop q_0 is a number"):
        lower_func(pairs(64, later).mod["f"], Target("llvm -mcpu=skylake-avx512"))


LOOKUP = """
@T.prim_func
def f(X: T.Buffer((50, 64), "float32"), P: T.Buffer((9,), "int64"), Y: T.Buffer((9, 64), "float32")):
    for i, j in T.grid(9, 64):
        with T.block("Y"):
            vi, vj = T.axis.remap("SS", [i, j])
            {where}
            Y[vi, vj] = X[P[vi], vj]
"""  # noqa: E501


def rows_of(text: str, later: int = 2) -> Schedule:
    sch = Schedule(parse_func(text))
    outer, lanes = sch.split(sch.get_loops("Y")[1], [None, 16])
    sch.vectorize(lanes)
    sch.annotate(outer, "prefetch_region", later)
    return sch


def test_the_next_row_is_looked_up_ahead() -> None:
    found = requests(rows_of(LOOKUP.format(where="T.where(True)")))
    assert found == ["T.evaluate(T.prefetch_l2(X[P[T.min(i + 2, 8)] * 64 + j_0 * 16]))"]


def test_what_a_condition_guards_is_not_looked_up() -> None:
    guarded = LOOKUP.format(where="T.where(i < 7)")
    assert requests(rows_of(guarded)) == []
    chosen = LOOKUP.format(where="T.where(True)").replace(
        "X[P[vi], vj]", "T.if_then_else(vi < 7, X[P[vi], vj], T.float32(0))"
    )
    assert requests(rows_of(chosen)) == []


TRIANGLE = """
@T.prim_func
def f(X: T.Buffer((50, 64), "float32"), P: T.Buffer((8,), "int64"), Y: T.Buffer((9, 9, 64), "float32")):
    for i in range(9):
        for k in range({extent}):
            for j in range(64):
                with T.block("Y"):
                    vi = T.axis.spatial(9, i)
                    vk = T.axis.spatial(9, k)
                    vj = T.axis.spatial(64, j)
                    Y[vi, vk, vj] = X[P[T.min(vi, 7)], vj]
"""  # noqa: E501


@pytest.mark.parametrize(("extent", "asked"), [("8 - i", 0), ("9 - i", 1)])
def test_where_a_loop_between_may_be_empty_nothing_is_looked_up(extent: str, asked: int) -> None:
    """The last iteration of i has none of k, or one, and looks up ahead what it would."""
    sch = Schedule(parse_func(TRIANGLE.format(extent=extent)))
    outer, lanes = sch.split(sch.get_loops("Y")[2], [None, 16])
    sch.vectorize(lanes)
    sch.annotate(outer, "prefetch_region", 2)
    assert len(requests(sch)) == asked


LET_PLACE = """
@T.prim_func
def f(X: T.Buffer((50, 64), "float32"), P: T.Buffer((9,), "int64"), Y: T.Buffer((9, 64), "float32")):
    for i in range(9):
        v: T.int64 = 8 - i * 2
        for j in range(64):
            with T.block("Y"):
                vi, vj = T.axis.remap("SS", [i, j])
                Y[vi, vj] = X[P[vi + v], vj]
"""  # noqa: E501


def test_places_that_a_let_tells_are_not_looked_up_ahead() -> None:
    assert requests(rows_of(LET_PLACE)) == []


def test_in_place_nothing_is_looked_up() -> None:
    text = LOOKUP.format(where="T.where(True)").replace(
        "    for i, j", '    T.func_attr({"inplace": True})\n    for i, j'
    )
    assert requests(rows_of(text)) == []


OWN_PLACES = """
@T.prim_func
def f(X: T.Buffer((50, 64), "float32"), Y: T.Buffer((9, 64), "float32")):
    P = T.alloc_buffer((9,), "int64")
    for i in range(9):
        with T.block("P"):
            vi = T.axis.spatial(9, i)
            P[vi] = vi * 5
        for j in range(64):
            with T.block("Y"):
                vi, vj = T.axis.remap("SS", [i, j])
                Y[vi, vj] = X[P[vi], vj]
"""


def test_places_that_the_function_computes_are_not_there_ahead() -> None:
    sch = rows_of(OWN_PLACES)
    assert requests(sch) == []


def test_results_stay_where_regions_are_asked_for() -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((24, 48), "float32")
    y = burnish.empty((8, 48))
    burnish.build(pairs(48).mod)["f"](burnish.array(x), y)
    np.testing.assert_array_equal(y.numpy(), x[:16:2] + x[1:16:2])
    table, places = rng.standard_normal((50, 64), "float32"), rng.integers(0, 50, 9)
    y = burnish.empty((9, 64))
    kernel = burnish.build(rows_of(LOOKUP.format(where="T.where(True)")).mod)["f"]
    kernel(burnish.array(table), burnish.array(places), y)
    np.testing.assert_array_equal(y.numpy(), table[places])
