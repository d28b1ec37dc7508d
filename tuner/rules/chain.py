"""Chains of products: each product of a function scheduled as if it were alone, in program order.

    C = A @ B;   D = exp(C);   F = D @ E

What stands between two products is the epilogue of the first one and is computed tile by tile, as
its sums leave the registers; what one product writes the next one reads like any operand: as it is,
or from a copy with other distances. Each product takes its own decisions (``matmul``,
``blocking``): the tile, the groups of panels that are packed and stay in the second cache, how far
ahead is read. A matrix between two products is complete before the second one begins.
"""

from __future__ import annotations

from ...support.target import Target
from ...tensorir.function import PrimFunc
from ...tensorir.schedule import Schedule
from ..tiling.inline import inline_elementwise
from ..workload import Matmul, block_named, match_matmul
from .matmul import Product, ProductDecisions, schedule_product
from .products import products_of
from .reduction import schedule_rest
from .rule import Decide, NoDecisions, Rule


class ChainRule(Rule[tuple[Matmul, ...], NoDecisions]):
    name = "chain"
    kind = "several matrix products"
    decisions = NoDecisions

    def match(self, func: PrimFunc, target: Target) -> tuple[Matmul, ...] | None:
        found = products_of(func)
        return tuple(found) if len(found) > 1 else None

    def prepare(self, sch: Schedule, roles: tuple[Matmul, ...]) -> None:
        inline_elementwise(sch, keep=[load.buffer for m in roles for load in (m.x, m.w)])

    def apply(
        self, sch: Schedule, roles: tuple[Matmul, ...], decisions: NoDecisions, decide: Decide
    ) -> None:
        for name in [m.block for m in roles]:
            # What was scheduled before it has changed what a product reads.
            matmul = match_matmul(block_named(sch.func, name))
            assert matmul is not None
            product = Product(sch.func, matmul)
            own = decide(ProductDecisions, product, name)
            schedule_product(sch, product, own, decide.target)
        schedule_rest(sch, decide.target, decide)
