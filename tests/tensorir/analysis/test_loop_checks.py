from __future__ import annotations

import pytest

from burnish.support.errors import DependenceError, LoopKindError, NonAffineError
from burnish.support.node import replace
from burnish.tensorir.analysis.affine import Bounds, loop_bounds
from burnish.tensorir.analysis.loop_checks import (
    ceil_div,
    inner_loops,
    own_nest,
    require_affine,
    require_once,
    require_plain_serial,
)
from burnish.tensorir.analysis.nested_blocks import Nested
from burnish.tensorir.analysis.paths import find_block, loops_above, realize_of
from burnish.tensorir.arith import expr_key
from burnish.tensorir.buffer import Range
from burnish.tensorir.expr import IntImm, Var, mul
from burnish.tensorir.stmt import For
from burnish.tests.tensorir.schedule.programs import chain, matmul


def test_a_plain_loop_is_serial_from_0_without_annotations() -> None:
    func = matmul()
    loop = loops_above(find_block(func, "C", "test"))[0]
    require_plain_serial(func, loop, "test")
    for changed, message in [
        (replace(loop, kind="parallel"), "Expected a serial loop; 'i' is parallel"),
        (replace(loop, annotations=(("note", 1),)), "'i' has 'note', which would be lost"),
        (replace(loop, min=IntImm(1)), "begins at 0; 'i' does not"),
    ]:
        with pytest.raises(LoopKindError, match=message):
            require_plain_serial(func, changed, "test")


def test_bindings_are_affine_and_each_instance_runs_once() -> None:
    func = matmul()
    path = find_block(func, "C", "test")
    realize, loops = realize_of(path), loops_above(path)
    require_affine(func, Nested(realize, loops, []), [], "test")
    require_once(func, realize, loops, "test")
    again = For(Var("again"), IntImm(0), IntImm(2), "serial", loops[0])
    with pytest.raises(DependenceError, match="The loop 'again' runs 'C' several times"):
        require_once(func, realize, [again, *loops], "test")
    i, j, k = realize.iter_values
    same = replace(realize, iter_values=(i, i, k))
    assert j is not i
    with pytest.raises(NonAffineError, match="not an affine map"):
        require_affine(func, Nested(same, loops, []), loops, "test")


def test_a_quotient_is_exact_where_that_is_known() -> None:
    n = Var("n")
    bounds = Bounds({n: Range(IntImm(0), IntImm(100))})
    assert ceil_div(mul(n, 8), IntImm(8), bounds) is n
    assert expr_key(ceil_div(IntImm(30), IntImm(8), bounds)) == expr_key(IntImm(4))
    assert expr_key(ceil_div(n, IntImm(8), bounds)) == expr_key((n + 7) // 8)


def test_the_nest_of_a_block_and_the_loops_in_it() -> None:
    path = find_block(chain(8, 6), "B", "test")
    nest = own_nest(path)
    top = nest[-1]
    assert isinstance(top, For)
    assert path[: len(nest)] == nest
    assert inner_loops(top) == loops_above(path)
    assert loop_bounds(inner_loops(top)).ranges.keys() == {x.var for x in loops_above(path)}
