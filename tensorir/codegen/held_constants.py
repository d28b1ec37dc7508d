"""HeldConstants: the constants of elementary functions, in registers for one loop and no longer.

    for k0: Y_tile += X * W                all but a few registers hold Y_tile
    for i, jv: y = gelu(Y_tile)            a dozen constants

LLVM takes what does not vary out of every loop around, and so the constants of the second loop are
made before the first one and stay in registers while it runs: of Y_tile some go to memory and back
in each step. It cannot look into an inline assembly, which here has no text, and takes none that
has effects out of a loop: what comes out of it begins to live in front of the loop that needs it.
"""

from __future__ import annotations

import llvmlite.ir as ir

from .llvm_types import shuffle_mask

WIDEST = 512
"""Bits of a register; what is wider is put together of these."""


class HeldConstants:
    """Constants that begin to live at the end of ``block``, which has its terminator, each once."""

    def __init__(self, block: ir.Block) -> None:
        self.block = block
        self.known: dict[str, ir.Value] = {}

    def value(self, constant: ir.Constant) -> ir.Value:
        """``constant`` in a register; of equal lanes where it is a vector."""
        key = str(constant)
        if key not in self.known:
            self.known[key] = self._held(constant)
        return self.known[key]

    def _held(self, constant: ir.Constant) -> ir.Value:
        kind, builder = constant.type, ir.IRBuilder(self.block)
        assert self.block.terminator is not None
        builder.position_before(self.block.terminator)
        lanes = WIDEST // _bits(kind)
        if isinstance(kind, ir.VectorType) and kind.count > lanes:
            narrow = ir.Constant(ir.VectorType(kind.element, lanes), constant.constant[:lanes])
            places = shuffle_mask((0,) * kind.count)
            return builder.shuffle_vector(self.value(narrow), narrow, places)
        return builder.asm(ir.FunctionType(kind, [kind]), "", "=v,0", [constant], True)


def _bits(kind: ir.Type) -> int:
    """Those of an element."""
    element = kind.element if isinstance(kind, ir.VectorType) else kind
    if isinstance(element, ir.IntType):
        return element.width
    return 64 if isinstance(element, ir.DoubleType) else 32


class KernelBuilder(ir.IRBuilder):
    """An IRBuilder that knows which constants are ``held`` where it stands."""

    held: HeldConstants | None = None


def held(builder: ir.IRBuilder, constant: ir.Constant) -> ir.Value:
    """``constant``, or the register that holds it where ``builder`` stands."""
    known = builder.held if isinstance(builder, KernelBuilder) else None
    return constant if known is None else known.value(constant)
