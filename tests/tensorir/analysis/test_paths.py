from __future__ import annotations

import pytest

from burnish.support.errors import BlockNotFoundError, LoopNotFoundError, NotCompleteBlockError
from burnish.tensorir.analysis.paths import (
    block_names,
    blocks_below,
    conjunction,
    conjuncts,
    find_block,
    find_loop,
    fresh_name,
    is_complete,
    is_reduction,
    is_update,
    loop_of,
    loops_above,
    point_indices,
    realize_of,
    rebuild,
    require_complete,
    require_reduction,
)
from burnish.tensorir.expr import IntImm, Var, logical_and
from burnish.tensorir.parser import parse_func
from burnish.tensorir.printer import print_expr
from burnish.tensorir.schedule import Schedule
from burnish.tensorir.stmt import For
from burnish.tests.tensorir.schedule.programs import blur, chain, linear_relu, matmul


def test_paths() -> None:
    func = linear_relu(4, 4, 4)
    path = find_block(func, "Y", "test")
    assert realize_of(path).block.name == "Y"
    assert [loop.var.name for loop in loops_above(path)] == ["i", "j", "k"]
    inner = loops_above(path)[2]
    assert loop_of(find_loop(func, inner.var, "test")) is inner
    assert block_names(func) == ["root", "Y", "T", "Z"]
    with pytest.raises(BlockNotFoundError, match="no block 'X' in 'main'; it has 'root', 'Y'"):
        find_block(func, "X", "test")
    with pytest.raises(LoopNotFoundError, match="The loop over 'q' is no longer in 'main'"):
        find_loop(func, Var("q"), "test")


def test_rebuild_shares_what_is_beside_the_path() -> None:
    func = linear_relu(4, 4, 4)
    path = find_block(func, "T", "test")
    assert rebuild(path, path[-1]) is func.body
    removed = rebuild(path, None)
    (y, z) = [n for n in blocks_below(removed.block.body)]  # type: ignore[union-attr]
    assert (y.block.name, z.block.name) == ("Y", "Z")
    assert y.realize is find_block(func, "Y", "test")[-1], "loops left empty go, the rest is shared"


def test_kinds_of_blocks() -> None:
    y = realize_of(find_block(linear_relu(4, 4, 4), "Y", "test")).block
    t = realize_of(find_block(linear_relu(4, 4, 4), "T", "test")).block
    assert (is_complete(y), is_reduction(y), is_update(y)) == (False, True, False)
    assert (is_complete(t), is_reduction(t), is_update(t)) == (True, False, False)
    sch = Schedule(matmul(), seed=0)
    c = sch.get_block("C")
    sch.decompose_reduction(c, sch.get_loops(c)[0])
    assert is_update(sch.get(c))


SCAN = """
@T.prim_func
def main(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
    for i in range(4):
        with T.block("B"):
            vi = T.axis.spatial(4, i)
            B[vi] = B[vi] + A[vi]
"""


def test_why_a_block_is_not_complete_is_marked() -> None:
    func = parse_func(SCAN, {})
    block = realize_of(find_block(func, "B", "test")).block
    with pytest.raises(NotCompleteBlockError, match="it reads the buffer it writes") as caught:
        require_complete(func, block, "compute_inline")
    lines = str(caught.value).splitlines()
    at = next(i for i, line in enumerate(lines) if 'with T.block("B")' in line)
    assert lines[at + 1].strip() == "^" * len('with T.block("B"):')
    require_reduction(matmul(), realize_of(find_block(matmul(), "C", "test")).block, "test")


def test_conditions() -> None:
    x = Var("x")
    a, b = x < 4, x >= 1
    assert [print_expr(c) for c in conjuncts(logical_and(a, b))] == ["x < 4", "x >= 1"]
    assert print_expr(conjunction([a, b, x < IntImm(4)])) == "x < 4 and x >= 1"
    assert conjuncts(conjunction([])) == []


def test_points_and_names() -> None:
    c = realize_of(find_block(blur(8), "C", "test")).block
    assert point_indices(c.reads[0]) is None
    assert point_indices(c.writes[0]) == (c.iter_vars[0].var,)
    assert fresh_name(["a", "a_1"], "a") == "a_2"
    assert fresh_name([], "a") == "a"


def test_blocks_below_knows_loops_between() -> None:
    func = chain(4, 4)
    outer = find_block(func, "B", "test")[-3]
    assert isinstance(outer, For)
    (n,) = blocks_below(outer)
    assert [loop.var.name for loop in n.loops] == ["i", "j"]
