from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import burnish
from burnish.script import I, R, T
from burnish.support.errors import LayoutError, ScheduleValueError
from burnish.support.structural import assert_structural_equal
from burnish.tensorir.arith import IndexMap
from burnish.tensorir.expr import cast, const
from burnish.tensorir.function import PrimFunc
from burnish.tensorir.schedule import Schedule, Trace
from burnish.tensorir.text.parser import parse_func
from burnish.tensorir.text.printer import print_expr
from burnish.tensorir.verify.laws import verify_func
from burnish.tests.tensorir.schedule.programs import (
    assert_same,
    body,
    chain,
    linear_relu,
    matmul,
    program,
)
from burnish.tests.tensorir.schedule.replaying import assert_replays


def test_an_intermediate_is_transposed() -> None:
    func = chain(4, 6)
    sch = Schedule(func, seed=0)
    sch.transform_layout("B", ("write", 0), lambda i, j: (j, i))
    assert (
        body(sch.func)
        == """\
B = T.alloc_buffer((6, 4))
for i, j in T.grid(4, 6):
    with T.block("B"):
        v_i, v_j = T.axis.remap("SS", [i, j])
        T.reads(A[v_i, v_j])
        T.writes(B[v_j, v_i])
        B[v_j, v_i] = A[v_i, v_j] + T.float32(1)
for i, j in T.grid(4, 6):
    with T.block("C"):
        v_i, v_j = T.axis.remap("SS", [i, j])
        T.reads(B[v_j, v_i])
        T.writes(C[v_i, v_j])
        C[v_i, v_j] = B[v_j, v_i] * T.float32(2)"""
    )
    assert_same(func, sch.func)


def test_padding_is_written_by_the_copy() -> None:
    func = matmul(4, 6, 3)
    sch = Schedule(func, seed=0)
    sch.cache_read("C", 1, "global")
    sch.transform_layout("C", "B_global", lambda k, j: (j // 4, k, j % 4), pad_value=0)
    text = body(sch.func)
    assert "B_global = T.alloc_buffer((2, 3, 4))" in text
    assert "T.if_then_else(v0 * 4 + v2 < 6, B[v1, v0 * 4 + v2], T.float32(0))" in text
    assert_same(func, sch.func)


@pytest.mark.parametrize("index", ["0", "v1"])
def test_padding_beside_an_axis_of_one_element(index: str) -> None:
    """Whose index the writer may have as 0 or as its own axis."""
    func = parse_func(f"""
@T.prim_func
def main(A: T.Buffer((6, 3), "float32"), C: T.Buffer((6, 3), "float32")):
    B = T.alloc_buffer((6, 1, 3))
    for i, u, j in T.grid(6, 1, 3):
        with T.block("B"):
            v0, v1, v2 = T.axis.remap("SSS", [i, u, j])
            B[v0, {index}, v2] = A[v0, v2] + T.float32(1)
    for i, j in T.grid(6, 3):
        with T.block("C"):
            v0, v1 = T.axis.remap("SS", [i, j])
            C[v0, v1] = B[v0, 0, v1] * T.float32(2)
""")
    sch = Schedule(func, seed=0)
    sch.transform_layout("C", "B", lambda i, u, j: (i // 4, u, j, i % 4), pad_value=0)
    assert "B = T.alloc_buffer((2, 1, 3, 4))" in body(sch.func)
    assert_same(func, sch.func)


@pytest.mark.parametrize(
    ("pad_value", "text"),
    [
        (lambda *i: i[0] + i[2], 'T.Cast("float32", v0 + v2)'),
        (lambda p, k, q: p * 4 + q, 'T.Cast("float32", v0 * 4 + v2)'),
        (lambda *i: 3, "T.float32(3)"),
        (IndexMap.from_function(lambda p, k, q: k % 2, 3), 'T.Cast("float32", v1 % 2)'),
        (const(2.5, "float32"), "T.float32(2.5)"),
    ],
)
def test_padding_of_an_expression(pad_value: Any, text: str) -> None:
    func = matmul(4, 6, 3)
    sch = Schedule(func, seed=0)
    sch.cache_read("C", 1, "global")
    sch.transform_layout("C", "B_global", lambda k, j: (j // 4, k, j % 4), pad_value=pad_value)
    assert f"B[v1, v0 * 4 + v2], {text})" in body(sch.func)
    assert_same(func, sch.func)
    assert_replays(func, sch)


@pytest.mark.parametrize(
    ("pad_value", "expected"),
    [
        ("zero", "Expected a number as pad_value, or a function"),
        (lambda *i: i, "Expected a number as pad_value, or a function"),
        (lambda *i: cast(i[0], "float32"), "Expected integer arithmetic over the new indices"),
        (lambda i: i, "the index map takes 1 indices"),
    ],
)
def test_padding_that_is_none(pad_value: Any, expected: str) -> None:
    sch = Schedule(matmul(4, 6, 3), seed=0)
    sch.cache_read("C", 1, "global")
    before = sch.func
    with pytest.raises((LayoutError, ScheduleValueError), match=expected):
        sch.transform_layout("C", "B_global", lambda k, j: (j // 4, k, j % 4), pad_value=pad_value)
    assert sch.func is before


def test_a_parameter_is_padded_with_a_number() -> None:
    sch = Schedule(weight_is_free(matmul(4, 6, 3)), seed=0)
    with pytest.raises(LayoutError, match="who pads it with a number alone"):
        sch.transform_layout("C", "B", lambda k, j: (j // 4, k, j % 4), pad_value=lambda *i: i[0])


def test_padding_must_be_asked_for() -> None:
    sch = Schedule(matmul(4, 6, 3), seed=0)
    sch.cache_read("C", 1, "global")
    before = sch.func
    with pytest.raises(LayoutError, match=r"it leaves elements unused\. Give pad_value"):
        sch.transform_layout("C", ("read", 1), lambda k, j: (j // 4, k, j % 4))
    assert sch.func is before


def test_maps_must_be_injective() -> None:
    sch = Schedule(chain(4, 6), seed=0)
    with pytest.raises(LayoutError, match="two elements would share a place"):
        sch.transform_layout("B", "B", lambda i, j: (i,))
    with pytest.raises(LayoutError, match="the index map takes 1 indices, the buffer has 2"):
        sch.transform_layout("B", "B", lambda i: (i,))


def test_a_writer_that_cannot_pad() -> None:
    sch = Schedule(linear_relu(4, 6, 3), seed=0)
    with pytest.raises(LayoutError, match="Copy with cache_read or cache_write first"):
        sch.transform_layout("Y", ("write", 0), lambda i, j: (i, j // 4, j % 4), pad_value=0.0)


def weight_is_free(func: PrimFunc) -> PrimFunc:
    return func.with_attr("layout_free", [1])


def test_a_parameter_keeps_its_layout_unless_marked() -> None:
    sch = Schedule(matmul(4, 8, 3), seed=0)
    with pytest.raises(
        LayoutError, match=r"'B' is parameter 1, whose layout belongs to the caller"
    ):
        sch.transform_layout("C", ("read", 1), lambda k, j: (j // 4, k, j % 4))


def test_a_marked_parameter_changes_the_signature_and_is_recorded() -> None:
    sch = Schedule(weight_is_free(matmul(4, 8, 3)), seed=0)
    sch.transform_layout("C", ("read", 1), lambda k, j: (j // 4, k, j % 4))
    weight = sch.func.buffers[1]
    assert [getattr(d, "value", None) for d in weight.shape] == [2, 3, 4]
    assert sch.func.attr("layout_maps") == [[1, "lambda k, j: (j // 4, k, j % 4)", None]]
    sch.transform_layout("C", ("read", 1), lambda p, k, q: (k, p, q))
    assert [m[1] for m in sch.func.attr("layout_maps")] == [
        "lambda k, j: (j // 4, k, j % 4)",
        "lambda p, k, q: (k, p, q)",
    ]


def test_a_padded_parameter_records_its_pad_value() -> None:
    sch = Schedule(weight_is_free(matmul(4, 6, 3)), seed=0)
    sch.transform_layout("C", ("read", 1), lambda k, j: (j // 4, k, j % 4), pad_value=0.0)
    assert sch.func.attr("layout_maps") == [[1, "lambda k, j: (j // 4, k, j % 4)", 0.0]]


def test_which_buffer() -> None:
    sch = Schedule(chain(), seed=0)
    with pytest.raises(
        LayoutError, match=r"Expected \('read', i\), \('write', i\) or a buffer's name"
    ):
        sch.transform_layout("B", ("output", 0), lambda i, j: (j, i))
    with pytest.raises(ScheduleValueError, match="touches no buffer 'Q'"):
        sch.transform_layout("B", "Q", lambda i, j: (j, i))


def test_a_block_inside_of_a_block_writes_a_part() -> None:
    func = program(
        """
B = T.alloc_buffer((6, 8))
for i in range(2):
    with T.block("top"):
        vi = T.axis.spatial(6, i)
        for j in range(8):
            with T.block("top_row"):
                vj = T.axis.spatial(8, j)
                B[vi, vj] = A[vi, vj]
for i in range(4):
    with T.block("rest"):
        vi = T.axis.spatial(6, i + 2)
        for ax0, j in T.grid(1, 8):
            with T.block("rest_row"):
                v0 = T.axis.spatial(6, vi + ax0)
                vj = T.axis.spatial(8, j)
                B[v0, vj] = A[v0, vj] + T.float32(1)
for i, j in T.grid(6, 8):
    with T.block("C"):
        vi, vj = T.axis.remap("SS", [i, j])
        C[vi, vj] = B[vi, vj]
""",
        A="(6, 8)",
        C="(6, 8)",
    )
    sch = Schedule(func, seed=0)
    with pytest.raises(LayoutError, match="'B' is allocated around the block that"):
        sch.transform_layout("rest_row", "B", lambda i, j: (i // 4, i % 4, j), pad_value=0.0)
    assert_same(func, sch.func)


def test_a_buffer_with_strides_keeps_its_layout() -> None:
    text = """
@T.prim_func
def main(a: T.handle, C: T.Buffer((8, 4), "float32")):
    A = T.match_buffer(a, (8, 4), "float32", strides=[8, 1])
    T.func_attr({"layout_free": [0]})
    for i, j in T.grid(8, 4):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = A[vi, vj] * T.float32(2)
"""
    with pytest.raises(LayoutError, match="'A' has strides; only compact buffers change"):
        Schedule(parse_func(text), seed=0).transform_layout("C", "A", lambda i, j: (j, i))


def test_an_output_keeps_its_layout() -> None:
    func = chain(8, 4).with_attr("layout_free", [1])
    with pytest.raises(LayoutError, match="'C' is an output of the function"):
        Schedule(func, seed=0).transform_layout("C", "C", lambda i, j: (j, i))


PARTS = """
B = T.alloc_buffer((8,))
for i in range(4):
    with T.block("B"):
        vi = T.axis.spatial(8, i)
        B[vi] = A[vi] + T.float32(1)
for i in range(4):
    with T.block("B_1"):
        vi = T.axis.spatial(8, i + 4)
        B[vi] = A[vi] + T.float32(1)
"""


def test_a_matched_buffer_keeps_its_layout() -> None:
    func = program(
        PARTS
        + """
for i in range(2):
    with T.block("C"):
        vi = T.axis.spatial(2, i)
        T.reads(B[vi * 4:vi * 4 + 4])
        T.writes(C[vi * 4:vi * 4 + 4])
        D = T.match_buffer(B[vi * 4:vi * 4 + 4], (4,), offset_factor=1)
        for j in range(4):
            with T.block("E"):
                vj = T.axis.spatial(4, j)
                C[vi * 4 + vj] = D[vj]
""",
        A="(8,)",
        C="(8,)",
    )
    with pytest.raises(LayoutError, match="'B' is matched by 'D'"):
        Schedule(func, seed=0).transform_layout("B", "B", lambda i: (i // 2, i % 2))


def test_padding_needs_one_writer() -> None:
    func = program(
        PARTS
        + """
for i in range(8):
    with T.block("C"):
        vi = T.axis.spatial(8, i)
        C[vi] = B[vi]
""",
        A="(8,)",
        C="(8,)",
    )
    with pytest.raises(LayoutError, match="'B' has 2 writers; padding needs exactly one"):
        Schedule(func, seed=0).transform_layout("B", "B", lambda i: (i // 3, i % 3), pad_value=0)


GATHER = """
@T.prim_func
def main(I: T.Buffer((7,), "int64"), E: T.Buffer((10, 6), "float32"),
         Y: T.Buffer((7, 6), "float32")):
    for i, j in T.grid(7, 6):
        with T.block("Y"):
            vi, vj = T.axis.remap("SS", [i, j])
            Y[vi, vj] = E[T.min(T.max(I[vi], T.int64(0)), T.int64(9)), vj]
"""


def test_regions_that_look_up_their_place_follow() -> None:
    sch = Schedule(parse_func(GATHER), seed=0)
    copy = sch.cache_read("Y", "I", "global")
    sch.transform_layout(copy, ("write", 0), lambda i: (i // 7, i % 7))
    verify_func(sch.func)
    (place, _) = sch.get(sch.get_block("Y")).reads[-2].region
    assert "I_global[0, vi]" in print_expr(place.min)


PART_OF_B = """
B = T.alloc_buffer((16,))
for i in range({extent}):
    with T.block("B"):
        vi = T.axis.spatial({extent}, i)
        T.where(i < 6)
        B[vi] = A[vi] + T.float32(1)
for i in range(6):
    with T.block("C"):
        vi = T.axis.spatial(6, i)
        C[vi] = B[vi] * T.float32(2)
"""


@pytest.mark.parametrize("extent", [6, 16])
def test_a_writer_of_a_part_writes_no_padding_where_it_would_read_out_of_bounds(
    extent: int,
) -> None:
    text = PART_OF_B.format(extent=extent)
    sch = Schedule(program(text, A="(6,)", C="(6,)"), seed=0)
    with pytest.raises(LayoutError, match="would read 'A' out of bounds"):
        sch.transform_layout("B", ("write", 0), lambda i: (i // 5, i % 5), pad_value=0.0)
    func = program(text, A="(16,)", C="(6,)")
    sch = Schedule(func, seed=0)
    sch.transform_layout("B", ("write", 0), lambda i: (i // 5, i % 5), pad_value=0.0)
    assert_same(func, sch.func)


def test_a_writer_beside_others_in_its_loops_writes_no_padding() -> None:
    func = program(
        """
B = T.alloc_buffer((8,))
D = T.alloc_buffer((8,))
for i in range(8):
    with T.block("B"):
        vi = T.axis.spatial(8, i)
        B[vi] = A[vi]
    with T.block("D"):
        vi = T.axis.spatial(8, i)
        D[vi] = B[vi] + T.float32(1)
for i in range(8):
    with T.block("C"):
        vi = T.axis.spatial(8, i)
        C[vi] = D[vi]
""",
        A="(8,)",
        C="(8,)",
    )
    sch = Schedule(func, seed=0)
    with pytest.raises(LayoutError, match="'D' shares loops with other blocks"):
        sch.transform_layout("D", ("write", 0), lambda i: (i // 3, i % 3), pad_value=0.0)


def test_a_view_keeps_its_layout() -> None:
    func = parse_func(
        """
@T.prim_func
def main(A: T.Buffer((8, 6), "float32"), C: T.Buffer((8, 6), "float32")):
    for i in range(8):
        with T.block("outer"):
            vi = T.axis.spatial(8, i)
            V = T.match_buffer(A[vi, 0:6], (6,))
            for j in range(6):
                with T.block("C"):
                    vj = T.axis.spatial(6, j)
                    C[vi, vj] = V[vj]
"""
    )
    sch = Schedule(func, seed=0)
    with pytest.raises(LayoutError, match="'V' is a view of 'A' by match_buffer"):
        sch.transform_layout("C", ("read", 0), lambda i: (i % 2, i // 2))


def test_a_map_that_is_not_found_to_be_injective_is_taken_at_its_word() -> None:
    def swapped(i: Any, j: Any) -> list[Any]:
        return [(i * 5) % 8, j]  # 5 has no factor of 8

    func = doubled()
    with pytest.raises(LayoutError, match="two elements would share a place"):
        Schedule(func, seed=0).transform_layout("B", ("write", 0), swapped)
    sch = Schedule(func, seed=0)
    sch.transform_layout("B", ("write", 0), swapped, assume_injective_transform=True)
    assert "assume_injective_transform=True" in str(sch.trace)
    assert_same(func, sch.func)
    assert_replays(func, sch)


def doubled() -> PrimFunc:
    return parse_func(
        """
@T.prim_func
def main(A: T.Buffer((8, 6)), C: T.Buffer((8, 6))):
    B = T.alloc_buffer((8, 6))
    for i, j in T.grid(8, 6):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] + T.float32(1)
    for i, j in T.grid(8, 6):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] * T.float32(2)
"""
    )


def test_any_number_of_indices() -> None:
    func = doubled()
    sch = Schedule(func, seed=0)
    sch.transform_layout("B", ("write", 0), lambda *i: (*i[1:], i[0] // 4, i[0] % 4))
    assert "B = T.alloc_buffer((6, 2, 4))" in sch.func.script()
    assert_same(func, sch.func)


def test_parameters_of_a_program_that_is_scheduled_by_others_stay() -> None:
    sch = Schedule(doubled(), seed=0)
    with pytest.raises(LayoutError, match="'C' is parameter 1, whose layout belongs to the caller"):
        sch.transform_layout("C", ("write", 0), lambda i, j: (j, i))


X = np.arange(48, dtype=np.float32).reshape(8, 6)


def run(sch: burnish.Schedule, x: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    out = np.full(shape, np.nan, np.float32)
    burnish.build(sch.mod)["main"](np.ascontiguousarray(x), out)
    return out


def test_parameters_of_ones_own_program_change_and_the_trace_says_so() -> None:
    sch = burnish.Schedule(doubled())
    sch.transform_layout("B", ("read", 0), lambda i, j: (j, i))
    sch.transform_layout("C", ("write", 0), lambda i, j: (j // 2, i, j % 2))
    assert [[d.value for d in b.shape] for b in sch.func.buffers] == [[6, 8], [3, 8, 2]]  # type: ignore[attr-defined]
    found = run(sch, X.T, (3, 8, 2))
    np.testing.assert_array_equal(found, ((X + 1) * 2).reshape(8, 3, 2).transpose(1, 0, 2))
    text = str(sch.trace)
    assert 'signature="A: (8, 6) -> (6, 8)"' in text
    assert 'signature="C: (8, 6) -> (3, 8, 2)"' in text
    again = burnish.Schedule(doubled())
    Trace.from_json(sch.trace.as_json()).apply_to(again)
    assert_structural_equal(again.func, sch.func)
    assert str(again.trace) == text


def test_an_output_is_padded_by_its_writer_and_an_input_by_nobody() -> None:
    sch = burnish.Schedule(doubled())
    sch.transform_layout("B", ("read", 0), lambda i, j: (i, j // 4, j % 4), pad_value=0)
    sch.transform_layout("C", ("write", 0), lambda i, j: (i, j // 4, j % 4), pad_value=7)
    padded = np.full((8, 2, 4), np.nan, np.float32)
    padded.reshape(8, 8)[:, :6] = X
    found = run(sch, padded, (8, 2, 4)).reshape(8, 8)
    np.testing.assert_array_equal(found[:, :6], (X + 1) * 2)
    np.testing.assert_array_equal(found[:, 6:], 7)


SYMBOLIC = """
@T.prim_func
def main(a: T.handle, c: T.handle):
    n = T.int64()
    A = T.match_buffer(a, (n, 8))
    C = T.match_buffer(c, (n, 8))
    for i, j in T.grid(n, 8):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = A[vi, vj] * T.float32(2)
"""


def test_an_output_of_which_a_part_is_written_is_not_padded() -> None:
    """What the function leaves alone stays as the caller had it."""
    sch = burnish.Schedule(
        parse_func("""
@T.prim_func
def main(A: T.Buffer((5, 12), "float32"), C: T.Buffer((5, 12), "float32")):
    for i, j in T.grid(5, 12):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.where(i < 1)
            C[vi, vj] = A[vi, vj] + T.float32(1)
""")
    )
    with pytest.raises(LayoutError, match="writes only a part of 'C', which the caller sees"):
        sch.transform_layout("C", ("write", 0), lambda i, j: (i // 2, j, i % 2), pad_value=0)


def test_named_sizes_stay_in_the_shapes() -> None:
    sch = burnish.Schedule(parse_func(SYMBOLIC))
    sch.transform_layout("C", ("read", 0), lambda i, j: (j // 4, i, j % 4))
    sch.transform_layout("C", ("write", 0), lambda i, j: (i // 4, j, i % 4), pad_value=0)
    with pytest.raises(LayoutError, match="The size 'n' would stand alone in the shape of no"):
        sch.transform_layout("C", ("read", 0), lambda i, j, k: (j // 4, i, k, j % 4), pad_value=0)
    x = np.arange(40, dtype=np.float32).reshape(5, 8)
    given = x.reshape(5, 2, 4).transpose(1, 0, 2)
    found = run(sch, given, (2, 8, 4))
    rows = found.transpose(0, 2, 1).reshape(8, 8)
    np.testing.assert_array_equal(rows[:5], x * 2)
    np.testing.assert_array_equal(rows[5:], 0)


def test_what_a_graph_calls_keeps_its_parameters() -> None:
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((8, 6), "float32")):
            with R.dataflow():
                y = R.call_dps(cls.double, (x,), R.Tensor((8, 6), "float32"))  # noqa: F821
                R.output(y)
            return y

        @T.prim_func
        def double(A: T.Buffer((8, 6)), C: T.Buffer((8, 6))):
            for i, j in T.grid(8, 6):
                with T.block("C"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    C[vi, vj] = A[vi, vj] * T.float32(2)

    sch = burnish.Schedule(Module)
    with pytest.raises(LayoutError, match="'main' calls 'double' with the types"):
        sch.transform_layout("C", ("write", 0), lambda i, j: (j, i))


def test_assume_is_a_promise_that_nothing_relies_on() -> None:
    func = parse_func(
        """
@T.prim_func
def main(A: T.Buffer((8,)), C: T.Buffer((8,))):
    for i in range(8):
        with T.block("assume"):
            vi = T.axis.spatial(8, i)
            T.reads(A[vi])
            T.writes()
            T.evaluate(T.assume(vi < 6 or A[vi] == T.float32(0)))
    T.assume(A[0] >= T.float32(0))
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = A[vi]
"""
    )
    out = np.zeros(8, np.float32)
    burnish.build(func)["main"](X[0, :1].repeat(8), out)
    np.testing.assert_array_equal(out, 0)
