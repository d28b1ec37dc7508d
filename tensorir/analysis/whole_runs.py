"""Whether a block runs for all that its loops and axes promise, and over all of a buffer."""

from __future__ import annotations

from collections.abc import Sequence

from ...support.errors import DependenceError, NotCompleteBlockError
from ..arith import Analyzer, is_affine_binding
from ..buffer import Buffer
from ..expr import Var, is_const
from ..function import PrimFunc
from .affine import Bounds, loop_bounds
from .nested_blocks import Nested
from .paths import Path, all_loops_above, conditions_above, realize_of
from .preconditions import fail
from .region_cover import covers_domain


def is_unconditional(path: Path) -> bool:
    """Whether the block runs for every value its loops give it, but those outside of its axes'
    domains."""
    loops = all_loops_above(path)
    here = Nested(realize_of(path), loops, conditions_above(path))
    return covers_domain(here, loop_bounds(loops))


def runs_over(path: Path, axes: Sequence[Var | None], buffer: Buffer) -> bool:
    """Whether the block's axes, one for each dimension, take every index of a buffer: their domains
    have it, and so have the values that the loops give them."""
    domains = {it.var: it.dom for it in realize_of(path).block.iter_vars}
    return all(
        axis is not None
        and is_const(domains[axis].min, 0)
        and Bounds().proves_equal(domains[axis].extent, dim)
        for axis, dim in zip(axes, buffer.shape, strict=True)
    ) and runs_over_axes(path)


def runs_over_axes(path: Path) -> bool:
    """Whether the loops give the block's axes every value of their domains."""
    realize, loops = realize_of(path), all_loops_above(path)
    return all(is_const(x.min, 0) for x in loops) and is_affine_binding(
        realize, {x.var: x.extent for x in loops}, Analyzer()
    )


def require_reads_all(
    func: PrimFunc, path: Path, axes: Sequence[Var | None], buffer: Buffer, primitive: str
) -> None:
    """Raises DependenceError unless the block, which reads a buffer at these axes, reads all of
    it. Without axes it is known that each element belongs to an instance of the block."""
    whole = runs_over(path, axes, buffer) if axes else runs_over_axes(path)
    if not whole:
        block = realize_of(path).block
        found = f"{block.name!r} does not read all of {buffer.name!r}."
        raise fail(DependenceError, primitive, func, [block], found)


def require_unconditional(func: PrimFunc, path: Path, primitive: str) -> None:
    """Raises NotCompleteBlockError where a condition leaves out instances of the block."""
    if not is_unconditional(path):
        block = realize_of(path).block
        found = f"{block.name!r} runs under a condition."
        raise fail(NotCompleteBlockError, primitive, func, [block], found)
