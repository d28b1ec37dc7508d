from __future__ import annotations

from burnish.tensorir.analysis.nested_blocks import (
    blocks_below,
    consumers_of,
    is_output_block,
    producers_of,
)
from burnish.tensorir.analysis.paths import find_block, realize_of, scope_of
from burnish.tensorir.stmt import For
from burnish.tests.tensorir.schedule.programs import chain


def test_blocks_below_knows_loops_between() -> None:
    func = chain(4, 4)
    outer = find_block(func, "B", "test")[-3]
    assert isinstance(outer, For)
    (n,) = blocks_below(outer)
    assert [loop.var.name for loop in n.loops] == ["i", "j"]


def test_who_writes_for_whom() -> None:
    func = chain(4, 4)
    path = find_block(func, "B", "test")
    scope, b = scope_of(path), realize_of(path).block
    (c,) = consumers_of(scope, b)
    assert c.block.name == "C"
    assert [n.block for n in producers_of(scope, c.block)] == [b]
    assert not is_output_block(func, scope, b)
    assert is_output_block(func, scope, c.block)
