from __future__ import annotations

from burnish.tensorir.analysis.paths import find_block, realize_of
from burnish.tensorir.expr import IntImm, Var
from burnish.tensorir.schedule.rewriting.nests import nest_of, nest_over_axes
from burnish.tensorir.stmt import BlockRealize, For
from burnish.tests.tensorir.schedule.programs import matmul


def test_loops_stand_in_the_order_given() -> None:
    realize = realize_of(find_block(matmul(), "C", "test"))
    a, b = Var("a"), Var("b")
    nest = nest_of([(a, IntImm(2)), (b, IntImm(3))], realize)
    assert isinstance(nest, For)
    assert isinstance(nest.body, For)
    assert (nest.var, nest.body.var, nest.body.body) == (a, b, realize)
    assert nest_of([], realize) is realize


def test_a_loop_for_each_axis() -> None:
    block = realize_of(find_block(matmul(2, 3, 4), "C", "test")).block
    nest = nest_over_axes(block)
    names = []
    while isinstance(nest, For):
        names.append((nest.var.name, nest.extent.value))  # type: ignore[attr-defined]
        nest = nest.body
    assert names == [("ax0", 2), ("ax1", 3), ("ax2", 4)]
    assert isinstance(nest, BlockRealize)
    assert nest.block is block
