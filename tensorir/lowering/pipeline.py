"""The way from a PrimFunc with blocks to loops over flat memory: the ordered list, on one page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..expr import Expr, Var
from ..function import PrimFunc
from .block_sums import block_sums
from .compact_buffers import compact_buffers
from .drop_scope_tags import drop_scope_tags
from .expand_intrinsics import expand_intrinsics
from .flatten_buffers import flatten_buffers
from .imported_llvm import imported_llvm
from .lower_blocks import lower_blocks
from .lower_parallel import lower_parallel
from .place_prefetches import place_prefetches
from .plan_allocations import plan_allocations
from .share_allocations import share_allocations
from .simplify_loops import simplify_loops
from .split_threads import split_threads
from .unroll_loops import unroll_loops
from .vectorize_loops import vectorize_loops

if TYPE_CHECKING:
    from ...support.target import Target


@dataclass(frozen=True, slots=True)
class LoweredFunc:
    """A function ready for code generation.

    ``func`` has one-dimensional buffers, no blocks, and serial or outermost parallel loops only.
    ``shared_bytes`` and ``thread_bytes`` are the workspace it needs, over ``dims``: the symbolic
    dimensions of the original function in the order of the kernel ABI.
    """

    func: PrimFunc
    shared_bytes: Expr
    thread_bytes: Expr
    dims: tuple[Var, ...]
    imports: tuple[str, ...] = ()
    """LLVM IR whose functions the program calls."""


def lower_func(func: PrimFunc, target: Target) -> LoweredFunc:
    """Lower ``func`` for ``target``.

    Raises CodegenError for what no machine code can be made of: a vectorized or unrolled loop of
    symbolic extent, an unrolling that explodes, a match_buffer that is no view, threads that
    exchange values where no order of loops gives them.
    """
    dims, imports = func.shape_vars, imported_llvm(func)
    lowered = lower_blocks(expand_intrinsics(split_threads(drop_scope_tags(func))))
    lowered = simplify_loops(lowered)
    lowered = compact_buffers(lowered)
    lowered = block_sums(lowered, target)
    lowered = flatten_buffers(lowered)
    lowered = share_allocations(lowered)
    lowered, shared_bytes, thread_bytes = plan_allocations(lowered)
    lowered = vectorize_loops(lowered, target)
    lowered = unroll_loops(lowered)
    lowered = place_prefetches(lowered)
    lowered = lower_parallel(lowered)
    return LoweredFunc(lowered, shared_bytes, thread_bytes, dims, imports)
