from __future__ import annotations

import pytest

from burnish.tensorir.analysis.affine import Bounds, loop_bounds
from burnish.tensorir.analysis.nested_blocks import Nested
from burnish.tensorir.analysis.paths import all_loops_above, find_block, realize_of
from burnish.tensorir.analysis.region_cover import (
    Box,
    apart,
    contains,
    covers_domain,
    full_box,
    in_conflict,
    instances_clash,
    touched,
    union,
    whole_boxes,
)
from burnish.tensorir.buffer import Range
from burnish.tensorir.expr import IntImm, Var
from burnish.tensorir.schedule import Schedule
from burnish.tensorir.text.printer import print_expr
from burnish.tests.tensorir.schedule.programs import blur, chain, program


def box(start: int, extent: int) -> Box:
    return Box([IntImm(start)], [IntImm(extent)], True)


def shown(b: Box) -> list[str]:
    return [f"{print_expr(s)}+{print_expr(e)}" for s, e in zip(b.starts, b.extents, strict=True)]


def test_boxes() -> None:
    none = Bounds()
    assert contains(box(0, 8), box(2, 4), none)
    assert not contains(box(2, 4), box(0, 8), none)
    assert contains(box(2, 4), box(2, 8), none, [IntImm(6)]), (
        "what lies beyond the buffer is nothing"
    )
    assert apart(box(0, 2), box(2, 2), none)
    assert not apart(box(0, 3), box(2, 2), none)
    assert shown(union(box(0, 2), box(6, 2), none)) == ["0+8"]
    assert not union(box(0, 2), box(6, 2), none).exact
    assert union(box(0, 8), box(6, 2), none).exact


def test_what_a_tile_touches() -> None:
    sch = Schedule(blur(16), seed=0)
    sch.split(sch.get_loops("C")[0], [None, 5])
    path = find_block(sch.func, "C", "test")
    loops = all_loops_above(path)
    n = Nested(realize_of(path), loops, [])
    bounds = loop_bounds(loops)
    assert shown(touched(n.block.reads[0], n, loops[1:], bounds)) == ["i_0 * 5+7"]
    assert shown(touched(n.block.writes[0], n, loops[1:], bounds)) == ["i_0 * 5+5"]
    assert covers_domain(n, bounds)


def test_conflicts_need_a_write_of_one_element() -> None:
    sch = Schedule(chain(8, 4), seed=0)
    sch.loop_partition(sch.get_loops("C")[0], [4, None])
    b, c, d = (whole_boxes(find_block(sch.func, n, "test")) for n in ("B", "C", "C_1"))
    assert in_conflict(b, c)
    assert in_conflict(b, d)
    assert not in_conflict(c, d)


def test_full_box() -> None:
    m = Var("m")
    buffer = chain(m, 4).buffers[0]
    assert shown(full_box(buffer)) == ["0+m", "0+4"]
    assert contains(full_box(buffer), full_box(buffer), Bounds({Var("i"): Range(IntImm(0), m)}))


@pytest.mark.parametrize(
    ("store", "clashes"),
    [
        ("B[vi + vj, 0] = A[0]", True),
        ("B[vi // 2, vj] = A[0]", True),
        ("B[0, vj] = A[0]", True),
        ("B[vi * 4 + vj, 0] = A[0]", False),
        ("B[7 - vi, vj] = A[0]", False),
        ("B[vi, vj] = A[0]", False),
    ],
)
def test_spatial_axes_that_write_one_element_twice(store: str, clashes: bool) -> None:
    text = f"""
for i, j in T.grid(4, 4):
    with T.block("B"):
        vi, vj = T.axis.remap("SS", [i, j])
        {store}
"""
    func = program(text, A="(1,)", B="(16, 4)")
    block = realize_of(find_block(func, "B", "test")).block
    assert instances_clash(block, [it.var for it in block.iter_vars]) is clashes
