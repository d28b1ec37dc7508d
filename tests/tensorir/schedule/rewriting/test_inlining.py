from __future__ import annotations

import pytest

from burnish.support.errors import NotCompleteBlockError, ScheduleValueError
from burnish.tensorir.schedule import Schedule
from burnish.tests.tensorir.schedule.programs import chain, linear_relu, matmul, row_sum


def test_reductions_are_not_inlined() -> None:
    sch = Schedule(linear_relu(4, 4, 4), seed=0)
    with pytest.raises(NotCompleteBlockError, match="'Y' is not: its axis 'v_k' is reduce"):
        sch.compute_inline("Y")
    with pytest.raises(NotCompleteBlockError, match="'Y' is a reduction, and 'T' computes"):
        sch.reverse_compute_inline("T")
    sch = Schedule(row_sum(), seed=0)
    with pytest.raises(NotCompleteBlockError):
        sch.compute_inline("B")
    with pytest.raises(NotCompleteBlockError):
        Schedule(matmul(), seed=0).reverse_compute_inline("C")


@pytest.mark.parametrize("primitive", ["compute_inline", "reverse_compute_inline"])
def test_the_root_is_not_inlined(primitive: str) -> None:
    with pytest.raises(ScheduleValueError, match=f"{primitive}: The block 'root' is the root of"):
        getattr(Schedule(chain(), seed=0), primitive)("root")
