from __future__ import annotations

from burnish.tensorir.buffer import make_buffer
from burnish.tensorir.expr import IntImm
from burnish.tensorir.schedule import Schedule
from burnish.tensorir.schedule.analysis import find_block, realize_of, scope_path
from burnish.tensorir.schedule.insertion import (
    allocate_in,
    change_block,
    children_of,
    insert_stmt,
    shared_place,
)
from burnish.tensorir.stmt import Block, Evaluate, For
from burnish.tests.tensorir.schedule.programs import blur, body, chain


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
    grown = insert_stmt(func, place, 1, Evaluate(IntImm(0)))
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
