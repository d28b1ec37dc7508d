from __future__ import annotations

from burnish.tensorir.analysis.block_kinds import (
    as_update,
    is_complete,
    is_reduction,
    point_indices,
    reads_buffer,
)
from burnish.tensorir.analysis.paths import find_block, realize_of
from burnish.tests.tensorir.schedule.programs import blur, linear_relu


def test_kinds_of_blocks() -> None:
    func = linear_relu(4, 4, 4)
    y, t = [realize_of(find_block(func, name, "test")).block for name in ("Y", "T")]
    assert (is_complete(y), is_reduction(y)) == (False, True)
    assert (is_complete(t), is_reduction(t)) == (True, False)
    update = as_update(y)
    assert (is_complete(update), is_reduction(update)) == (False, False)
    assert reads_buffer(update, y.writes[0].buffer)


def test_points() -> None:
    c = realize_of(find_block(blur(8), "C", "test")).block
    assert point_indices(c.reads[0]) is None
    assert point_indices(c.writes[0]) == (c.iter_vars[0].var,)
