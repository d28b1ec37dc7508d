"""Matrix products of bfloat16, summed in float32: the tile of ``int8``, over pairs.

    for rows, columns, k:
      Y[i, j] += float32(X[i, k]) * float32(W[k, j])         epilogue E(Y[i, j])

becomes, for each part of the rows,

    for i0, j0
      Y_tile = 0                                registers
      for k0
        for i1, jv                              unrolled
          Y_tile += dot2(X[i, 2 k0 ...], Wp[j0, k0, jv ...])      two products a lane
      E(Y_tile)

The weight's layout, [columns / panel][k / 2][panel][2], has the two elements of a sum side by side,
32 bits as four bytes are. This rule is for CPUs that have an instruction for such pairs which does
more products a cycle than multiply-adds; elsewhere the products are those of ``matmul``, which
reads bfloat16 and multiplies float32.
"""

from __future__ import annotations

from ...support.target import Target
from ...tensorir.function import PrimFunc
from .int8 import Int8Rule, fits
from .matmul import Product, match


class BFloat16Rule(Int8Rule):
    name = "bfloat16"
    kind = "a product of pairs of bfloat16, on a CPU that multiplies them fast"

    def match(self, func: PrimFunc, target: Target) -> Product | None:
        if not target.instructions.has_fast_pairs:
            return None
        matmul = match(func)
        if matmul is None or not fits(func, matmul, ("bfloat16",), "float32"):
            return None
        return Product(func, matmul)
