from __future__ import annotations

import pytest

from burnish.support.errors import DependenceError, LayoutError
from burnish.tensorir.analysis.paths import find_block, realize_of, scope_path
from burnish.tensorir.buffer import make_buffer
from burnish.tensorir.expr import Expr, IntImm
from burnish.tensorir.function import PrimFunc
from burnish.tensorir.schedule import Schedule
from burnish.tensorir.schedule.rewriting.insertion import (
    Place,
    allocate_in,
    change_block,
    children_of,
    insert_stmt,
    require_room,
    room_for,
    shared_place,
)
from burnish.tensorir.stmt import Block, Evaluate, For, LetStmt
from burnish.tensorir.text.parser import parse_func
from burnish.tests.tensorir.schedule.programs import blur, body, chain, program


def test_the_place_of_one_block_is_its_whole_nest() -> None:
    func = chain()
    scope = scope_path(find_block(func, "C", "test"))
    place = shared_place(func, scope, ["C"], "C", "test")
    assert isinstance(place.path[-1], Block)
    assert (place.child, place.outer) == (1, [])


def test_the_place_of_two_blocks_is_inside_their_common_loops() -> None:
    sch = Schedule(blur(16), seed=0)
    i0, _ = sch.split(sch.get_loops("C")[0], [4, 4])
    sch.compute_at("B", i0)
    scope = scope_path(find_block(sch.func, "C", "test"))
    place = shared_place(sch.func, scope, ["B", "C"], "C", "test")
    assert isinstance(place.path[-1], For)
    assert [loop.var for loop in place.outer] == [i0.var]
    assert place.child == 1
    assert len(children_of(place.path[-1])) == 2


def test_insertions_make_new_functions() -> None:
    func = chain()
    scope = scope_path(find_block(func, "C", "test"))
    place = shared_place(func, scope, ["C"], "C", "test")
    grown = insert_stmt(func, place, 1, Evaluate(IntImm(0)), "test")
    holder = scope_path(find_block(grown, "C", "test"))[-1]
    assert len(children_of(holder)) == 3
    grown = allocate_in(grown, "root", make_buffer("X", (2,)), "test")
    assert "X = T.alloc_buffer((2,))" in body(grown)
    marked = change_block(
        grown,
        "C",
        lambda b: Block(
            b.name, b.iter_vars, b.reads, b.writes, b.body, None, (), (), (("seen", 1),)
        ),
        "test",
    )
    assert realize_of(find_block(marked, "C", "test")).block.annotations == (("seen", 1),)
    assert "T.alloc_buffer((2,))" not in body(func)


# -- what a place must have ------------------------------------------------------------------------
LET = """
for i in range(8):
    with T.LetStmt(i % 3 + 2) as z:
        for k in range(z):
            with T.block("Y"):
                vi = T.axis.spatial(8, i)
                vk = T.axis.spatial(z, k)
                Y[vi, vk] = X[vi, vk]
"""


def room(func: PrimFunc, axis: int) -> Expr | None:
    path = find_block(func, "Y", "test")
    return room_for(func, path, realize_of(path).block.iter_vars[axis].dom.extent)


def test_a_nest_stands_where_its_variables_are_bound() -> None:
    func = program(LET, X="(8, 4)", Y="(8, 4)")
    path = find_block(func, "Y", "test")
    let = next(s for s in path if isinstance(s, LetStmt))
    place = shared_place(func, scope_path(path), ["Y"], "Y", "test")
    with pytest.raises(DependenceError, match="uses 'z', which is bound further in") as refused:
        insert_stmt(func, place, 0, Evaluate(let.var + 1), "test")
    assert refused.value.primitive == "test"
    inner = Place(path[: path.index(let) + 2], 0)
    assert isinstance(inner.path[-1], For)
    insert_stmt(func, inner, 0, Evaluate(let.var + 1), "test")


def test_the_room_for_an_extent_that_a_let_gives() -> None:
    func = program(LET, X="(8, 4)", Y="(8, 4)")
    most = room(func, 1)
    assert isinstance(most, IntImm)
    assert most.value == 4


def test_the_room_for_a_dimension_is_itself_and_for_a_scalar_unknown() -> None:
    text = """
@T.prim_func
def main(m: T.int64, X: T.Buffer(("n",), "float32"), Y: T.Buffer(("n", 8), "float32")):
    for i, j in T.grid(n, m):
        with T.block("Y"):
            vi = T.axis.spatial(n, i)
            vj = T.axis.spatial(m, j)
            Y[vi, vj] = X[vi]
"""
    func = parse_func(text)
    assert room(func, 0) is func.shape_vars[0]
    assert room(func, 1) is None
    path = find_block(func, "Y", "test")
    block = realize_of(path).block
    assert require_room(func, path, block, block.iter_vars[:1], "test") == [func.shape_vars[0]]
    with pytest.raises(LayoutError, match="The axis 'vj' of 'Y' has no known greatest extent"):
        require_room(func, path, block, block.iter_vars, "test")
