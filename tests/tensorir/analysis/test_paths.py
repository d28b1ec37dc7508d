from __future__ import annotations

import pytest

from burnish.support.errors import BlockNotFoundError, LoopNotFoundError
from burnish.tensorir.analysis.nested_blocks import blocks_below
from burnish.tensorir.analysis.paths import (
    block_names,
    find_block,
    find_loop,
    fresh_name,
    loop_of,
    loops_above,
    realize_of,
    rebuild,
)
from burnish.tensorir.expr import Var
from burnish.tests.tensorir.schedule.programs import linear_relu


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


def test_names() -> None:
    assert fresh_name(["a", "a_1"], "a") == "a_2"
    assert fresh_name([], "a") == "a"
