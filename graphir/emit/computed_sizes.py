"""Sizes that a program computes and that may be negative, for ``emit_vm``, which refuses the calls
for which they are.

    ones: R.Tensor(("m - 4", 4))        -->     check m - 4 >= 0
    lv = concat(y, ones)                        kernel:concat(y, lv), which knows m alone

Fusion leaves tensors out, and their sizes with them: these are read off the function as it was
before. Its branches are found again by their order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ...tensorir.expr import Expr
from ...tensorir.expr import Var as DimVar
from ..expr import If, SeqExpr
from ..type import tensors_of
from .linearize import IfOp, KernelOp, Linear, substitute, written


def computed_sizes(linear: Linear) -> Iterator[Expr]:
    """What the kernels of a function or branch are told of sizes, and the sizes of what is written;
    not those of branches in it."""
    for op in linear.ops:
        if isinstance(op, KernelOp):
            yield from op.dims
        for memory in written(op):
            yield from memory.type.shape


def unfused_sizes(
    seq: SeqExpr, linear: Linear, rename: Mapping[DimVar, DimVar]
) -> Iterator[tuple[Linear, Expr]]:
    """The sizes of the tensors of a function, each with what has become of the function or branch
    that it is computed in. Branches of which some are gone have none."""
    bindings = [b for block in seq.blocks for b in block.bindings]
    for binding in bindings:
        for kind in tensors_of(binding.var.type):
            for dim in kind.shape:
                yield linear, substitute(dim, rename) if rename else dim
    choices = [b.value for b in bindings if isinstance(b.value, If)]
    left = [op for op in linear.ops if isinstance(op, IfOp)]
    if len(choices) != len(left):
        return
    for choice, op in zip(choices, left, strict=True):
        yield from unfused_sizes(choice.true_branch, op.true_branch, rename)
        yield from unfused_sizes(choice.false_branch, op.false_branch, rename)


__all__ = ["computed_sizes", "unfused_sizes"]
