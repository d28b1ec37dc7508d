"""A law that primitives stand on: what a block declares to read and write is what it does.

``verify_regions`` compares the T.reads and T.writes that a user wrote with the accesses of the
body. It reports what is certain: a buffer that is not declared at all, and an element whose index
differs from the declared one. Larger and unclear regions pass. What operators and schedules make
declares what ``infer_regions`` finds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ...support.errors import VerifyError
from ...support.node import walk
from ..arith import infer_regions
from ..arith.analyzer import Analyzer
from ..arith.region import region_covers
from ..arith.simplify import Simplifier
from ..buffer import BufferRegion
from ..expr import Var, is_const
from ..function import PrimFunc
from ..stmt import Block, BlockRealize
from ..text.printer import print_marked, print_region


def verify_regions(func: PrimFunc) -> PrimFunc:
    """``func`` itself; raises VerifyError for a block that surely touches what it does not
    declare."""
    blocks = list(_blocks(func))
    single = {it.var for b in blocks for it in b.iter_vars if is_const(it.dom.extent, 1)}
    for block in blocks:
        reads, writes = infer_regions(
            block.body,
            block.init,
            block.iter_vars,
            alloc_buffers=block.alloc_buffers,
            match_buffers=block.match_buffers,
        )
        for found, declared, side in (
            (reads, (*block.reads, *block.writes), "reads"),
            (writes, block.writes, "writes"),
        ):
            for region in found:
                _require_declared(func, block, region, declared, side, single)
    return func


def _blocks(func: PrimFunc) -> Iterator[Block]:
    """The blocks that a user wrote: all but the root."""
    for n in walk(func.body):
        if isinstance(n, BlockRealize) and n is not func.body:
            yield n.block


def _require_declared(
    func: PrimFunc,
    block: Block,
    region: BufferRegion,
    declared: Iterable[BufferRegion],
    side: str,
    single: set[Var],
) -> None:
    own = [d for d in declared if d.buffer is region.buffer]
    if own and not all(_is_elsewhere(d, region, single) for d in own):
        return
    regions = ", ".join(print_region(d) for d in own) or "none of it"
    raise VerifyError(
        f"T.{side} declares what a block {side} (leave it out, and it is found)",
        f"{block.name!r} {side} {print_region(region)}; declared: {regions}",
        print_marked(func, [block]),
        block.span,
    )


def _is_elsewhere(declared: BufferRegion, found: BufferRegion, single: set[Var]) -> bool:
    """Whether both are single indices in some dimension, and not the same one. Variables that are
    ``single`` have one value, which may be written in their place."""
    if region_covers(declared, found, Analyzer()):
        return False
    for d, f in zip(declared.region, found.region, strict=True):
        if not (is_const(d.extent, 1) and is_const(f.extent, 1)):
            continue
        forms = Simplifier()
        a, b = forms.linear(d.min), forms.linear(f.min)
        if any(not isinstance(v, Var) or v in single for v in (*a.terms, *b.terms)):
            continue
        if a.key != b.key:
            return True
    return False
