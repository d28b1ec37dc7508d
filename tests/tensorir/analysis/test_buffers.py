from __future__ import annotations

import pytest

from burnish.support.errors import ScheduleValueError
from burnish.tensorir.analysis.buffers import buffer_at, buffer_names, require_scope
from burnish.tensorir.analysis.paths import find_block, realize_of
from burnish.tests.tensorir.schedule.programs import chain


def test_a_buffer_by_position_or_name() -> None:
    func = chain()
    block = realize_of(find_block(func, "B", "test")).block
    assert buffer_at(func, block, "read", 0, "test").name == "A"
    assert buffer_at(func, block, "write", "B", "test").name == "B"
    assert buffer_at(func, block, "write", "A", "test").name == "A"
    with pytest.raises(ScheduleValueError, match="writes no buffer 'A'; it writes 'B'"):
        buffer_at(func, block, "write", "A", "test", either=False)
    with pytest.raises(ScheduleValueError, match=r"has 1 read buffers \('A'\); asked for number 1"):
        buffer_at(func, block, "read", 1, "test")


def test_names_and_scopes() -> None:
    assert {"A", "B", "C"} <= buffer_names(chain())
    require_scope("register", "test")
    with pytest.raises(ScheduleValueError, match="Expected a storage scope, one of global"):
        require_scope("moon", "test")
