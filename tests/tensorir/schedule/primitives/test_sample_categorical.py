from __future__ import annotations

import random

import pytest

from burnish.support.errors import ScheduleValueError
from burnish.tensorir.schedule import Schedule
from burnish.tensorir.schedule.primitives.sample_categorical import categorical
from burnish.tests.tensorir.schedule.programs import matmul


def test_categories_follow_their_weights() -> None:
    rng = random.Random(0)
    drawn = [categorical(rng, [10, 20, 30], [0.0, 1.0, 3.0], None) for _ in range(400)]
    assert drawn.count(0) == 0
    assert 60 < drawn.count(1) < 140


def test_decisions_and_weights_must_make_sense() -> None:
    sch = Schedule(matmul(), seed=0)
    i = sch.get_loops("C")[0]
    with pytest.raises(ScheduleValueError, match=r"all positive; found \[-2, -4\]"):
        sch.sample_perfect_tile(i, 2, decision=[-2, -4])
    for weights in ([0.0, 0.0], [1.5, -0.5]):
        with pytest.raises(ScheduleValueError, match="none is negative and one is positive; found"):
            sch.sample_categorical([1, 2], weights)
    with pytest.raises(ScheduleValueError, match="sample_compute_location: The block 'root' is"):
        sch.sample_compute_location("root")
    assert [inst.kind for inst in sch.trace] == ["get_block", "get_loops"]
