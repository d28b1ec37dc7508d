from __future__ import annotations

import pytest

from burnish.support.errors import LayoutError, NonAffineError, ScheduleValueError
from burnish.tensorir.schedule import Schedule
from burnish.tests.tensorir.schedule.programs import assert_same, body, linear_relu, matmul


def packed() -> Schedule:
    sch = Schedule(linear_relu(4, 6, 3), seed=0)
    sch.cache_read("Y", 1, "global")
    sch.transform_layout("Y", ("read", 1), lambda n, k: (n // 4, k, n % 4), pad_value=0.0)
    return sch


def test_full_tiles_over_a_padded_operand() -> None:
    sch = packed()
    sch.pad_einsum("Y", [1, 4, 1])
    text = body(sch.func)
    assert "Y = T.alloc_buffer((4, 8))" in text
    assert "for i, j, k in T.grid(4, 8, 3):" in text
    assert_same(linear_relu(4, 6, 3), sch.func)
    sch.split(sch.get_loops("Y")[1], [None, 4])
    assert "T.where" not in body(sch.func)


def test_nothing_to_pad() -> None:
    sch = packed()
    before = sch.func
    sch.pad_einsum("Y", [2, 3, 1])
    assert sch.func is before


def test_refusals() -> None:
    sch = packed()
    with pytest.raises(ScheduleValueError, match="Expected 3 paddings"):
        sch.pad_einsum("Y", [4])
    with pytest.raises(ScheduleValueError, match="The axis 'v_k' is reduce"):
        sch.pad_einsum("Y", [1, 1, 4])
    with pytest.raises(LayoutError, match="'X' would be read out of bounds"):
        sch.pad_einsum("Y", [8, 1, 1])
    with pytest.raises(LayoutError, match="The output 'C' is a parameter"):
        Schedule(matmul(3, 3, 3), seed=0).pad_einsum("C", [4, 1, 1])
    sch.split(sch.get_loops("Y")[1], [None, 2])
    with pytest.raises(NonAffineError, match="pad before splitting"):
        sch.pad_einsum("Y", [1, 4, 1])


def test_loops_with_other_blocks_under_them_are_not_grown() -> None:
    sch = packed()
    sch.decompose_reduction("Y", sch.get_loops("Y")[2])
    with pytest.raises(NonAffineError, match=r"The loop 'j' .* also runs 'Y_update'"):
        sch.pad_einsum("Y_init", [1, 4])
