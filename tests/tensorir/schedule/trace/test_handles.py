from __future__ import annotations

from burnish.tensorir.expr import Var
from burnish.tensorir.schedule import BlockHandle, LoopHandle


def test_handles_compare_by_identity_and_show_what_they_name() -> None:
    assert BlockHandle("C", "main") != BlockHandle("C", "main")
    i = Var("i")
    assert LoopHandle(i, "main") != LoopHandle(i, "main")
    assert repr(BlockHandle("C", "main")) == "BlockRV('C')"
    assert repr(LoopHandle(i, "main")) == "LoopRV('i')"
    assert repr(LoopHandle(i, "main", "root")) == "LoopRV('root')"
