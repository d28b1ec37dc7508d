from __future__ import annotations

import pytest

from burnish.support.errors import ScheduleValueError
from burnish.tensorir.schedule import Schedule
from burnish.tensorir.verify.laws import verify_func
from burnish.tests.tensorir.schedule.programs import assert_same, body, matmul
from burnish.tests.tensorir.schedule.replaying import assert_replays


def test_axes_move_with_their_bindings() -> None:
    func = matmul(3, 4, 5)
    sch = Schedule(func, seed=0)
    sch.reorder_block_iter_var("C", [2, 0, 1])
    assert 'v_k, v_i, v_j = T.axis.remap("RSS", [k, i, j])' in body(sch.func)
    assert_same(func, verify_func(sch.func))
    assert_replays(func, sch)


def test_the_same_order_is_the_same_function() -> None:
    sch = Schedule(matmul(3, 4, 5), seed=0)
    before = sch.func
    sch.reorder_block_iter_var("C", (0, 1, 2))
    assert sch.func is before


@pytest.mark.parametrize("order", [[0, 1], [0, 1, 1], [1, 2, 3], [0, 1, 2.0], [False, 1, 2]])
def test_only_permutations(order: list[int]) -> None:
    with pytest.raises(ScheduleValueError, match="permutation of the positions 0 to 2"):
        Schedule(matmul(), seed=0).reorder_block_iter_var("C", order)
