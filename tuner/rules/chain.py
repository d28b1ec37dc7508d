"""Chains of products: each product of a function scheduled as if it were alone, in program order.

    C = A @ B;   D = exp(C);   F = D @ E

What stands between two products is the epilogue of the first one and is computed tile by tile, as
its sums leave the registers; what one product writes the next one reads like any operand: as it is,
or from a copy with other distances. Each product takes its own decisions (``matmul``,
``blocking``): the tile, the groups of panels that are packed and stay in the second cache, how far
ahead is read. A matrix between two products is complete before the second one begins.
"""

from __future__ import annotations

from ...support.errors import ScheduleValueError
from ...support.target import Target
from ...tensorir.printer import print_func
from ...tensorir.schedule import Schedule
from ..block_tiles import products_of
from ..chooser import Chooser
from ..workload import block_named, match_matmul
from .inline import inline_elementwise
from .matmul import schedule_product
from .reduction import schedule_rest


def schedule_chain(sch: Schedule, target: Target, chooser: Chooser) -> None:
    """Apply the rule to the schedule's function. Raises ScheduleError where there are not several
    products, or where a primitive refuses."""
    found = products_of(sch.func)
    if len(found) < 2:
        raise ScheduleValueError(
            "chain", "The function has not several products to schedule.", print_func(sch.func)
        )
    inline_elementwise(sch, keep=[load.buffer for m in found for load in (m.x, m.w)])
    for name in [m.block for m in found]:
        # What was scheduled before it has changed what a product reads.
        matmul = match_matmul(block_named(sch.func, name))
        assert matmul is not None
        schedule_product(sch, matmul, target, chooser)
    schedule_rest(sch, target, chooser)
