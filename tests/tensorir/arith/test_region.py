"""Regions: what blocks touch, relaxation over loops (also against enumeration), boxes as sets."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from burnish.tensorir.arith import (
    Analyzer,
    clip_region,
    full_region,
    infer_regions,
    point_region,
    region_covers,
    region_intersects,
    region_union,
    relax_region,
)
from burnish.tensorir.buffer import Buffer, BufferRegion, Range, make_buffer
from burnish.tensorir.expr import (
    Expr,
    ExprLike,
    IntImm,
    Let,
    Var,
    as_expr,
    const,
    maximum,
    minimum,
)
from burnish.tensorir.stmt import (
    Block,
    BlockRealize,
    BufferStore,
    For,
    IfThenElse,
    IterVar,
    LetStmt,
    MatchBuffer,
    Stmt,
    seq,
)
from burnish.tensorir.text.printer import print_expr
from burnish.tensorir.visitor import substitute

M = Var("m")
I_, J, K = Var("i"), Var("j"), Var("k")
VI, VJ, VK = Var("vi"), Var("vj"), Var("vk")
A, B, C = make_buffer("A", (128, 128)), make_buffer("B", (128, 128)), make_buffer("C", (128, 128))
TRUE = const(True, "bool")


def text(region: BufferRegion) -> str:
    ranges = [
        print_expr(r.min)
        if isinstance(r.extent, IntImm) and r.extent.value == 1
        else f"{print_expr(r.min)} +: {print_expr(r.extent)}"
        for r in region.region
    ]
    return f"{region.buffer.name}[{', '.join(ranges)}]"


def texts(regions: tuple[BufferRegion, ...]) -> list[str]:
    return [text(r) for r in regions]


def rng(low: ExprLike, extent: ExprLike) -> Range:
    return Range(as_expr(low), as_expr(extent))


def box(buffer: Buffer, *ranges: tuple[ExprLike, ExprLike]) -> BufferRegion:
    return BufferRegion(buffer, tuple([rng(low, extent) for low, extent in ranges]))


def axes(*names: tuple[Var, int, str]) -> tuple[IterVar, ...]:
    return tuple([IterVar(v, rng(0, n), kind) for v, n, kind in names])


def store(buffer: Buffer, indices: tuple[Expr, ...], value: Expr) -> Stmt:
    return BufferStore(buffer, value, indices)


def loop(var: Var, extent: int, body: Stmt) -> For:
    return For(var, as_expr(0), as_expr(extent), "serial", body)


MATMUL = axes((VI, 128, "spatial"), (VJ, 128, "spatial"), (VK, 128, "reduce"))
UPDATE = store(C, (VI, VJ), C[VI, VJ] + A[VI, VK] * B[VK, VJ])


def test_a_reduction_with_init_does_not_read_its_output() -> None:
    reads, writes = infer_regions(UPDATE, store(C, (VI, VJ), const(0.0, "float32")), MATMUL)
    assert texts(reads) == ["A[vi, vk]", "B[vk, vj]"]
    assert texts(writes) == ["C[vi, vj]"]


def test_an_update_without_init_reads_its_output_first() -> None:
    reads, writes = infer_regions(UPDATE, None, MATMUL)
    assert texts(reads) == ["C[vi, vj]", "A[vi, vk]", "B[vk, vj]"]
    assert texts(writes) == ["C[vi, vj]"]


def test_several_accesses_become_one_box() -> None:
    body = store(C, (VI, VJ), A[VI, VJ - 1] + A[VI, VJ + 1] + A[VI, VJ])
    reads, _ = infer_regions(body, None, MATMUL[:2])
    assert texts(reads) == ["A[vi, vj - 1 +: 3]"]


def test_loops_inside_a_block_are_relaxed() -> None:
    body = loop(I_, 8, loop(J, 16, store(C, (VI * 8 + I_, J), A[J, VI * 8 + I_] * 2.0)))
    reads, writes = infer_regions(body, None, axes((VI, 16, "spatial")))
    assert texts(reads) == ["A[0 +: 16, vi * 8 +: 8]"]
    assert texts(writes) == ["C[vi * 8 +: 8, 0 +: 16]"]


def test_nested_blocks_count_with_what_they_declare() -> None:
    inner = Block(
        "update",
        MATMUL,
        (box(A, (VI, 1), (VK, 1)), box(B, (VK, 1), (VJ, 1))),
        (box(C, (VI, 1), (VJ, 1)),),
        UPDATE,
    )
    outer_i, outer_j = Var("io"), Var("jo")
    values = (outer_i * 8 + I_, outer_j * 16 + J, K)
    body = loop(I_, 8, loop(J, 16, loop(K, 128, BlockRealize(values, TRUE, inner))))
    reads, writes = infer_regions(
        body, None, axes((outer_i, 16, "spatial"), (outer_j, 8, "spatial"))
    )
    assert texts(reads) == ["A[io * 8 +: 8, 0 +: 128]", "B[0 +: 128, jo * 16 +: 16]"]
    assert texts(writes) == ["C[io * 8 +: 8, jo * 16 +: 16]"]


def test_local_buffers_and_lets() -> None:
    t = make_buffer("t", (8,))
    x = Var("x")
    body = seq(
        loop(I_, 8, store(t, (I_,), A[VI, I_])),
        LetStmt(x, VI + 1, store(C, (x, VJ), t[0] + Let(J, x * 2, B[J, VJ]))),
    )
    reads, writes = infer_regions(body, None, MATMUL[:2], alloc_buffers=(t,))
    assert texts(reads) == ["A[vi, 0 +: 8]", "B[(vi + 1) * 2, vj]"]
    assert texts(writes) == ["C[vi + 1, vj]"]


def test_conditions_are_read_and_guarded_boxes_stay_in_the_buffer() -> None:
    mask = make_buffer("mask", (100,), "bool")
    small = make_buffer("S", (100,))
    body = loop(I_, 104, IfThenElse(mask[VI], store(small, (I_,), small[I_] + 1.0)))
    reads, writes = infer_regions(body, None, axes((VI, 100, "spatial")))
    assert texts(reads) == ["mask[vi]", "S[0 +: 100]"]
    assert texts(writes) == ["S[0 +: 100]"]


def test_an_iter_var_of_extent_one_stays_a_variable() -> None:
    reads, _ = infer_regions(store(C, (VI, VJ), A[VI, VJ]), None, axes((VI, 1, "spatial")))
    assert texts(reads) == ["A[vi, vj]"]


@pytest.mark.parametrize(
    ("region", "expected"),
    [
        (box(A, (VI * 8 + I_, 1), (J, 1)), "A[vi * 8 +: 8, 0 +: 16]"),
        (box(A, (VI * 8 + I_, 4), (VJ, 1)), "A[vi * 8 +: 11, vj]"),
        (box(A, (I_ * 16 + J, 1), (7 - I_, 1)), "A[0 +: 128, 0 +: 8]"),
        (box(A, (I_ // 4, 1), (J % 4, 1)), "A[0 +: 2, 0 +: 4]"),
        (box(A, ((VI * 8 + I_) // 4, 1), ((VI * 8 + I_) // 16, 1)), "A[vi * 2 +: 2, vi // 2]"),
        (box(A, (I_ * M, 1), (M - I_, 1)), "A[0 +: m * 7 + 1, m - 7 +: 8]"),
        (box(A, (minimum(I_ * 8, 40), 8), (maximum(I_, 4), 1)), "A[0 +: 48, 4 +: 4]"),
        (box(A, (I_ * J, 1), (I_ * VI * J, 1)), "A[0 +: 106, 0 +: 128]"),
        (box(A, (I_ * -2 + J, 1), (0, 128)), "A[-14 +: 30, 0 +: 128]"),
    ],
)
def test_relax(region: BufferRegion, expected: str) -> None:
    analyzer = Analyzer()
    analyzer.declare_dim(M)
    relaxed = relax_region(region, [(I_, rng(0, 8)), (J, rng(0, 16))], analyzer)
    assert text(relaxed) == expected


def test_relax_over_symbolic_loops() -> None:
    analyzer = Analyzer()
    analyzer.declare_dim(M)
    buffer = make_buffer("X", (M, 128))
    relaxed = relax_region(
        box(buffer, (I_ * 8 + J, 1), (J, 1)), [(I_, rng(0, M // 8)), (J, rng(0, 8))], analyzer
    )
    assert text(relaxed) == "X[0 +: m // 8 * 8, 0 +: 8]"


def test_relax_over_loops_that_depend_on_each_other() -> None:
    loops = [(I_, rng(0, 8)), (J, rng(I_ * 4, 4)), (K, rng(J - I_ * 4, 2))]
    assert text(relax_region(box(A, (J, 1), (K, 1)), loops, Analyzer())) == "A[0 +: 32, 0 +: 5]"


def test_relaxing_over_other_loops_returns_the_same_region() -> None:
    region = box(A, (VI, 1), (VJ, 8))
    assert relax_region(region, [(I_, rng(0, 8))], Analyzer()) is region
    assert relax_region(region, [], Analyzer()) is region


@st.composite
def indices(draw: st.DrawFn) -> Expr:
    e: Expr = as_expr(draw(st.integers(-4, 4)))
    for _ in range(draw(st.integers(1, 3))):
        v: Expr = draw(st.sampled_from([I_, J, VI]))
        match draw(st.integers(0, 4)):
            case 0:
                v = v // draw(st.integers(1, 4))
            case 1:
                v = (v + draw(st.integers(0, 5))) % draw(st.integers(1, 6))
            case 2:
                v = minimum(v, draw(st.integers(0, 6)))
        e = e + v * draw(st.integers(-3, 8))
        if draw(st.booleans()):
            e = e // draw(st.integers(1, 8))
    return e


@settings(max_examples=300, deadline=None, derandomize=True)
@given(indices(), st.integers(1, 4))
def test_relaxed_boxes_hold_every_point(index: Expr, extent: int) -> None:
    buffer = make_buffer("X", (1 << 20,))
    loops = [(I_, rng(0, 5)), (J, rng(2, 6))]
    relaxed = relax_region(box(buffer, (index, extent)), loops, Analyzer())
    plain = Analyzer()
    for i, j, vi in itertools.product(range(5), range(2, 8), (0, 3)):
        at = {I_: as_expr(i), J: as_expr(j), VI: as_expr(vi)}
        low, outer = (plain.bounds(substitute(e, at)).min for e in (index, relaxed.region[0].min))
        size = plain.bounds(substitute(relaxed.region[0].extent, at)).min
        assert low is not None
        assert outer is not None
        assert size is not None
        assert outer <= low
        assert low + extent <= outer + size


def test_union_keeps_the_larger_box() -> None:
    analyzer = Analyzer()
    large, small = box(A, (VI * 8, 8), (0, 128)), box(A, (VI * 8 + 2, 4), (VJ, 1))
    analyzer.bind(VJ, 128)
    assert region_union(large, small, analyzer) is large
    assert text(region_union(small, large, analyzer)) == "A[vi * 8 +: 8, 0 +: 128]"
    apart = region_union(box(A, (0, 4), (0, 1)), box(A, (8, 4), (3, 1)), analyzer)
    assert text(apart) == "A[0 +: 12, 0 +: 4]"


def test_covers_and_intersects() -> None:
    analyzer = Analyzer()
    analyzer.declare_dim(M)
    analyzer.bind(VI, 16)
    row = box(A, (VI * 8, 8), (0, 128))
    assert region_covers(full_region(A), row, analyzer)
    assert not region_covers(row, full_region(A), analyzer)
    assert not region_covers(full_region(B), row, analyzer)
    assert region_covers(row, point_region(A, (VI * 8 + 7, as_expr(0))), analyzer)
    assert not region_intersects(row, box(A, (VI * 8 + 8, 8), (0, 128)), analyzer)
    assert not region_intersects(box(A, (VI * 8 + 8, 8), (0, 128)), row, analyzer)
    assert region_intersects(row, box(A, (VI * 8 + 7, 8), (0, 128)), analyzer)
    assert region_intersects(box(A, (VI * 8 + 7, 8), (0, 128)), row, analyzer)
    assert not region_intersects(row, full_region(B), analyzer)


def test_clip() -> None:
    analyzer = Analyzer()
    inside = box(A, (0, 128), (4, 8))
    assert clip_region(inside, analyzer) is inside
    assert text(clip_region(box(A, (-1, 130), (120, 16)), analyzer)) == "A[0 +: 128, 120 +: 8]"
    analyzer.bind(VI, 16)
    edge = clip_region(box(A, (VI * 9, 9), (0, 1)), analyzer)
    assert text(edge) == "A[vi * 9 +: T.min(vi * 9 + 9, 128) - vi * 9, 0]"


def test_places_that_data_tell_are_somewhere_along_the_axis() -> None:
    places = make_buffer("places", (16,), "int64")
    looked_up = A[VI, places[VI]] + A[VI, places[VI] + 1]
    reads, _ = infer_regions(store(C, (VI, const(0)), looked_up), None, axes((VI, 16, "spatial")))
    assert texts(reads[:1]) == ["A[vi, 0 +: 128]"]
    twice = A[VI, places[VI]] * A[VI, places[VI]]
    reads, _ = infer_regions(store(C, (VI, const(0)), twice), None, axes((VI, 16, "spatial")))
    assert texts(reads[:1]) == ["A[vi, places[vi]]"]


def test_places_that_data_of_the_block_tell_are_anywhere_outside_of_it() -> None:
    here, view = make_buffer("here", (16,), "int64"), make_buffer("view", (1,), "int64")
    given_places = make_buffer("given", (16,), "int64")
    views = (MatchBuffer(view, point_region(given_places, (VI,))),)
    for index in (here[VI], view[0] + 1):
        body = store(C, (VI, index), A[index, VI])
        reads, writes = infer_regions(
            body, None, axes((VI, 16, "spatial")), alloc_buffers=(here,), match_buffers=views
        )
        assert texts(reads[:1]) == ["A[0 +: 128, vi]"]
        assert texts(writes) == ["C[vi, 0 +: 128]"]
