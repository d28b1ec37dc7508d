from __future__ import annotations

import pytest

from burnish.tensorir.analysis.block_kinds import (
    as_update,
    is_complete,
    is_reduction,
    point_indices,
    reads_buffer,
    reads_other_instances,
)
from burnish.tensorir.analysis.paths import find_block, realize_of
from burnish.tensorir.text.parser import parse_func
from burnish.tests.tensorir.schedule.programs import blur, linear_relu


def test_kinds_of_blocks() -> None:
    func = linear_relu(4, 4, 4)
    y, t = [realize_of(find_block(func, name, "test")).block for name in ("Y", "T")]
    assert (is_complete(y), is_reduction(y)) == (False, True)
    assert (is_complete(t), is_reduction(t)) == (True, False)
    update = as_update(y)
    assert (is_complete(update), is_reduction(update)) == (False, False)
    assert reads_buffer(update, y.writes[0].buffer)


STEPS = """
def steps(x: T.Buffer((8, 4))):
    for t in range(7):
        with T.block("step"):
            vt = T.axis.opaque(7, t)
            for i in range(4):
                with T.block("inner"):
                    vi = T.axis.spatial(4, i)
                    x[vt + {ahead}, vi] = x[vt, {read}] * T.float32(2)
"""


@pytest.mark.parametrize(
    ("ahead", "read", "found"),
    [("1", "vi", False), ("1", "3 - vi", False), ("0", "3 - vi", True), ("vi", "0", True)],
)  # fmt: skip
def test_what_a_step_reads_of_the_last_one_no_instance_writes(
    ahead: str, read: str, found: bool
) -> None:
    func = parse_func(STEPS.format(ahead=ahead, read=read))
    inner, step = (realize_of(find_block(func, n, "test")).block for n in ("inner", "step"))
    assert reads_other_instances(inner) is found
    assert reads_other_instances(step)


def test_points() -> None:
    c = realize_of(find_block(blur(8), "C", "test")).block
    assert point_indices(c.reads[0]) is None
    assert point_indices(c.writes[0]) == (c.iter_vars[0].var,)
