from __future__ import annotations

import pytest

from burnish.support.errors import DependenceError
from burnish.tensorir.analysis.circular_buffers import require_no_circle
from burnish.tensorir.analysis.paths import find_block, realize_of
from burnish.tensorir.schedule import Schedule
from burnish.tests.tensorir.schedule.programs import program

WINDOW = """
B = T.alloc_buffer((18,))
for i in range(18):
    with T.block("B"):
        vi = T.axis.spatial(18, i)
        B[vi] = A[vi] + T.float32(1)
for i in range(16):
    with T.block("C"):
        vi = T.axis.spatial(16, i)
        C[vi] = B[vi] + B[vi + 2]
"""


def test_users_of_a_circle_stay_and_others_do_not_care() -> None:
    sch = Schedule(program(WINDOW, A="(18,)", C="(16,)"), seed=0)
    for name in ("B", "C"):
        require_no_circle(sch.func, sch.get(sch.get_block(name)), "test")
    outer, _ = sch.split(sch.get_loops("C")[0], [None, 4])
    sch.compute_at("B", outer)
    sch.rolling_buffer("B", 0)
    for name in ("B", "C"):
        block = realize_of(find_block(sch.func, name, "test")).block
        with pytest.raises(DependenceError, match=f"'{name}' uses the circular buffer 'B'"):
            require_no_circle(sch.func, block, "test")
