"""Winograd's convolution: kernels of 3 x 3, tile by tile, with fewer products.

A tile of m x m outputs needs a x a inputs, a = m + 2. With the matrices B, G and A of F(m, 3)

    Y = A^T [ (G g G^T) * (B^T d B) ] A

the products are element-wise: a * a of them for each channel instead of 9 * m * m. Summed over the
channels they are a * a matrix products, (tiles, channels) by (channels, outputs):

    Z[i, x, t, c]  = sum over y of B[y, i] * X[tile t's row y, column x, c]        winograd_rows
    V[i, j, t, c]  = sum over x of B[x, j] * Z[i, x, t, c]                         winograd_input
    M[i, j, t, o]  = sum over c of V[i, j, t, c] * U[i, j, o, c]                   winograd_product
    R[p, j, t, o]  = sum over i of A[i, p] * M[i, j, t, o]                         winograd_columns
    S[p, q, t, o]  = sum over j of A[j, q] * R[p, j, t, o]                         winograd_output
    Y[n, p, q, o]  = S[p % m, q % m, tile of (n, p, q), o]                         winograd_conv

U = G g G^T is made of the weight by ``transform_weight``, once, where the weight is constant. Sums
with the entries of B and A are written out, without what is multiplied by zero.

*Integers.* F(2, 3) of bytes is exact: B and A hold 0, 1 and -1, and 2 G integers. ``x`` is int16
then, and holds bytes; transformed they are 4 times as large at most. Weights are (2 G) g (2 G)^T in
int16. Sums are int32, and four times the convolution, which a shift takes back (``fits_integers``
says of how many channels).

*Error.* Values of one tile are added and subtracted before and behind the products, so that errors
are relative to the largest values of a tile and not to those that a result is made of: beside an
input of 1 one of 1e-7 counts for nothing. With inputs and weights of absolute value X and W at
most, an error of F(m, 3) with C channels is ``error_bound(m, C) * X * W`` at most, whatever the
inputs are and in whatever order products are summed; to first order that is 64 C (C + 22) u X W for
F(2, 3) and 564 C (C + 30) u X W for F(4, 3), where u is 2**-24. Direct convolution has 9 C (L + 1)
u X W, where no product goes through more than L sums; as these are summed in blocks
(``tuner/tiling/partial_sums.py``), that is less for any C.

As in all such bounds for sums, what is found is far below. On normal and on positive random data of
32 to 1024 channels the largest error, relative to the largest result, is 2e-7 to 7e-7 for F(2, 3)
and 3e-7 to 2.5e-6 for F(4, 3), where direct convolution has 2e-7 to 5e-7. Lavin and Gray, "Fast
Algorithms for Convolutional Neural Networks" (2016), is where this comes from.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from ...support.errors import ComputeError
from ..expr import (
    EQ,
    INDEX,
    BufferLoad,
    Expr,
    IntImm,
    Select,
    Var,
    cast,
    const,
    floordiv,
    floormod,
    is_const,
)
from ..intrinsics import call_intrin
from ..te import compute as te
from ..te.compute import Tensor, compute
from .window import pad_spatial, static_dim

KERNEL = 3
POINTS = {2: (0.0, 1.0, -1.0), 4: (0.0, 5 / 8, -5 / 8, 3 / 2, -3 / 2)}
"""The points of F(m, 3), besides infinity: of the pairs of short binary fractions those with the
smallest errors on random data, half of those of 1 and 2."""
SIZES = tuple(POINTS)
"""The tiles of outputs there are matrices for."""


CACHE_SHARE, WEIGHT_SHARE = 0.9, 0.75
"""The parts of a core's cache that a block of tiles, and that weights read again may take."""
FARTHER = 8
"""How many times a core's cache the transformed inputs and products of a block may be, where they
go through a farther cache."""


INTEGER_TILE = 2
"""The tile whose matrices hold integers, but for halves in G."""
BYTE = 255
"""The largest magnitude of a byte, whatever its sign."""


@dataclass(frozen=True)
class Transforms:
    """The matrices of F(m, 3): ``inputs`` is B^T (a, a), ``weights`` G (a, 3), ``outputs`` A^T (m,
    a). Entries of B and A are exact in float32."""

    inputs: np.ndarray
    weights: np.ndarray
    outputs: np.ndarray


@cache
def transforms(m: int) -> Transforms:
    """The matrices of F(m, 3), for m of ``SIZES``. Raises ComputeError for other m.

    They are those of a product of polynomials that is known at the points of ``POINTS`` and at
    infinity: A evaluates the outputs' polynomial there, G the kernel's divided by what the others
    are at that point, and the rows of B^T are the products of (z - p) over the other points p.
    """
    if m not in POINTS:
        raise ComputeError(f"winograd: expected tiles of {SIZES} outputs, found {m}.")
    points = POINTS[m]
    outputs: list[list[float]] = []
    weights: list[list[float]] = []
    inputs: list[list[float]] = []
    for k, p in enumerate(points):
        others = [q for j, q in enumerate(points) if j != k]
        outputs.append([p**i for i in range(m)])
        weights.append([p**i / math.prod([p - q for q in others]) for i in range(KERNEL)])
        inputs.append([*np.poly(others)[::-1], 0.0])
    outputs.append([0.0] * (m - 1) + [1.0])
    weights.append([0.0] * (KERNEL - 1) + [1.0])
    inputs.append(list(np.poly(points)[::-1]))
    return Transforms(np.array(inputs), np.array(weights), np.array(outputs).T)


def rows_together(
    down: int, across: int, m: int, channels: int, outputs: int, l2_bytes: int, size: int = 4
) -> int:
    """How many of ``down`` rows of ``across`` tiles are worked on together, a divisor: as many as
    leave their transformed inputs in a core's cache, beside the weights where these fit too. Both
    have elements of ``size`` bytes."""
    entries = (m + KERNEL - 1) ** 2 * size
    weights = entries * channels * outputs
    room = l2_bytes * CACHE_SHARE - (weights if weights <= l2_bytes * WEIGHT_SHARE else 0)
    fitting = max(1, int(room // (entries * across * channels)))
    return max(d for d in range(1, down + 1) if down % d == 0 and d <= fitting)


@dataclass(frozen=True)
class Blocks:
    """``together`` rows of tiles are a block. With ``products_first`` all products of a block are
    computed before the first output is, so that each weight is fetched once a block."""

    together: int
    products_first: bool


def plan_blocks(
    down: int, across: int, m: int, channels: int, outputs: int, l2_bytes: int, size: int = 4
) -> Blocks:
    """How ``down`` rows of ``across`` tiles are worked on; transformed inputs and weights have
    elements of ``size`` bytes, products of 4. Where the weights stay in a core's cache
    its blocks do too. Else the number of blocks would be how often the weights are fetched: one of
    all tiles stays in the cache, with products first where their results fit there as well, as
    weights are then asked for ahead; of others products come first, in blocks as large as a farther
    cache takes."""
    together = rows_together(down, across, m, channels, outputs, l2_bytes, size)
    entries = (m + KERNEL - 1) ** 2
    row = entries * across * (channels * size + outputs * 4)
    if entries * size * channels * outputs <= l2_bytes * WEIGHT_SHARE:
        return Blocks(together, products_first=False)
    if together == down:
        return Blocks(together, products_first=down * row <= l2_bytes * CACHE_SHARE)
    fitting = max(1, FARTHER * l2_bytes // row)
    together = max(d for d in range(1, down + 1) if down % d == 0 and d <= fitting)
    return Blocks(together, products_first=True)


def transform_weight(w: np.ndarray, m: int) -> np.ndarray:
    """``G g G^T`` of each kernel of ``w`` (out, in, 3, 3): (a, a, out, in), computed in float64 and
    rounded once."""
    g = transforms(m).weights
    wide = w.astype(np.float64)
    return np.ascontiguousarray(np.einsum("iy,ocyx,jx->ijoc", g, wide, g)).astype(w.dtype)


def transform_bytes(w: np.ndarray) -> np.ndarray:
    """``(2 G) g (2 G)^T`` of each kernel of bytes ``w`` (out, in, 3, 3), in int16: (4, 4, out, in),
    exact."""
    g = np.rint(2 * transforms(INTEGER_TILE).weights).astype(np.int32)
    wide = np.einsum("iy,ocyx,jx->ijoc", g, w.astype(np.int32), g)
    return np.ascontiguousarray(wide).astype(np.int16)


def fits_integers(channels: int) -> bool:
    """Whether four times a convolution of bytes of so many channels is an int32."""
    return 4 * KERNEL**2 * channels * BYTE**2 < 1 << 31


def error_bound(m: int, channels: int, unit: float = 2.0**-24) -> float:
    """The largest error of F(m, 3) with so many channels, where inputs and weights are of absolute
    value 1 at most and nothing overflows or underflows; ``unit`` is the unit roundoff.

    A result is a sum of products of entries of A, B, G, an input and a weight. A computed one is
    the same sum with a factor of (1 + d) for each rounding on the way of a term, |d| <= unit. That
    is at most n factors, or gamma = n * unit / (1 - n * unit) of the sum of the absolute values of
    all terms (Higham, "Accuracy and Stability of Numerical Algorithms", lemma 3.1), where n counts

        4 (a + 1)       four sums with the a entries of a row of B or A, one product in each
        1               the weight, which is transformed exactly and rounded
        channels + 1    the products and their sum, in any order
    """
    t = transforms(m)
    a = m + KERNEL - 1
    inputs = np.abs(t.inputs) @ np.ones((a, a)) @ np.abs(t.inputs).T
    weights = np.abs(t.weights) @ np.ones((KERNEL, KERNEL)) @ np.abs(t.weights).T
    terms = np.abs(t.outputs) @ (inputs * weights) @ np.abs(t.outputs).T
    roundings = (4 * (a + 1) + 1 + channels + 1) * unit
    return float(terms.max()) * channels * roundings / (1 - roundings)


def winograd_conv(
    x: Tensor,
    u: Tensor,
    bias: Tensor | None = None,
    *,
    padding: Sequence[int],
    tile: int,
    pad_value: float = 0.0,
) -> Tensor:
    """The convolution of ``x`` (batch, height, width, in) with the 3 x 3 kernels that ``u`` (a, a,
    out, in) was made of by ``transform_weight``, plus ``bias[out]``; strides are 1.

    ``padding`` is (before, after) of height and width, of ``pad_value``, ``tile`` the m of F(m, 3).
    Sizes are static, but for the batch's. Of int16, which hold bytes, ``tile`` is 2,
    ``transform_bytes`` makes ``u``, and the result is int32. Raises ComputeError for ranks, dtypes,
    or sizes that do not fit.
    """
    matrices = transforms(tile)
    m, a = tile, tile + KERNEL - 1
    _check(x, u, bias, padding, a)
    total = "int32" if x.dtype == "int16" else str(x.dtype)
    batch, (height, width, channels) = x.shape[0], (static_dim(d) for d in x.shape[1:])
    is_one = is_const(batch, 1)
    outputs = static_dim(u.shape[2])
    top, bottom, left, right = padding
    rows, columns = height + top + bottom - KERNEL + 1, width + left + right - KERNEL + 1
    if rows < 1 or columns < 1:
        raise ComputeError(f"winograd: a kernel of 3 x 3 does not fit {height} x {width}.")
    down, across = -(-rows // m), -(-columns // m)
    tiles = batch * (down * across)
    # Whole tiles: what is beyond the image is padding too.
    more = (top, down * m + 2 - height - top, left, across * m + 2 - width - left)
    padded = pad_spatial(x, more, pad_value, "winograd_pad", last=True)

    def row_sums(i: Var, column: Var, t: Var, c: Var) -> Expr:
        n = IntImm(0, INDEX) if is_one else floordiv(t, IntImm(down * across, INDEX))
        ty = floordiv(t, IntImm(across, INDEX))
        ty = ty if is_one else floormod(ty, IntImm(down, INDEX))
        tx = floormod(t, IntImm(across, INDEX))
        terms = [BufferLoad(padded, (n, ty * m + y, tx * m + column, c)) for y in range(a)]
        return _alternatives(i, _input_sums(matrices.inputs, terms))

    def input_of(i: Var, j: Var, t: Var, c: Var) -> Expr:
        terms = [BufferLoad(sums, (i, _index(y), t, c)) for y in range(a)]
        return _alternatives(j, _input_sums(matrices.inputs, terms))

    c = te.reduce_axis((0, channels), "c")

    def product(i: Var, j: Var, t: Var, o: Var) -> Expr:
        loads = BufferLoad(v, (i, j, t, c)), BufferLoad(u, (i, j, o, c))
        first, second = (cast(load, total) for load in loads)
        return te.sum(first * second, axis=[c])

    def column_sums(p: Var, j: Var, t: Var, o: Var) -> Expr:
        terms = [BufferLoad(products, (_index(y), j, t, o)) for y in range(a)]
        return _alternatives(p, _output_sums(matrices.outputs, terms))

    def output_of(p: Var, q: Var, t: Var, o: Var) -> Expr:
        terms = [BufferLoad(partial, (p, _index(y), t, o)) for y in range(a)]
        return _alternatives(q, _output_sums(matrices.outputs, terms))

    def element(n: Var, p: Var, q: Var, o: Var) -> Expr:
        t = floordiv(p, IntImm(m, INDEX)) * across + floordiv(q, IntImm(m, INDEX))
        t = t if is_one else n * (down * across) + t
        inner = (floormod(p, IntImm(m, INDEX)), floormod(q, IntImm(m, INDEX)))
        value: Expr = BufferLoad(finished, (*inner, t, o))
        if total == "int32":
            value = call_intrin("shift_right", value, const(2, total))
        return value if bias is None else value + BufferLoad(bias, (o,))

    sums = compute((a, a, tiles, channels), row_sums, "winograd_rows")
    v = compute((a, a, tiles, channels), input_of, "winograd_input")
    products = compute((a, a, tiles, outputs), product, "winograd_product")
    partial = compute((m, a, tiles, outputs), column_sums, "winograd_columns")
    finished = compute((m, m, tiles, outputs), output_of, "winograd_output")
    return compute((batch, rows, columns, outputs), element, "winograd_conv")


def _check(x: Tensor, u: Tensor, bias: Tensor | None, padding: Sequence[int], a: int) -> None:
    if x.ndim != 4 or u.ndim != 4 or (bias is not None and bias.ndim != 1):
        raise ComputeError("winograd: expected x[n, h, w, c], u[a, a, o, c] and bias[o].")
    if any(t.dtype is not x.dtype for t in (u, bias) if t is not None):
        raise ComputeError(f"winograd: expected operands of {x.dtype} all, found {u.dtype}.")
    if x.dtype == "int16" and (a != INTEGER_TILE + KERNEL - 1 or bias is not None):
        raise ComputeError("winograd: expected tiles of 2 outputs and no bias of int16 operands.")
    if len(padding) != 4 or min(padding) < 0:
        raise ComputeError(f"winograd: expected 4 paddings of at least 0, found {list(padding)}.")
    if not all(isinstance(d, IntImm) for d in (*x.shape[1:], *u.shape)):
        raise ComputeError("winograd: expected static sizes, but for the batch's.")
    sizes = tuple([static_dim(d) for d in u.shape])
    if sizes[:2] != (a, a) or sizes[3] != static_dim(x.shape[3]):
        raise ComputeError(
            f"winograd: expected u[{a}, {a}, o, {static_dim(x.shape[3])}], found {list(sizes)}."
        )


def _index(i: int) -> IntImm:
    return IntImm(i, INDEX)


# -- sums with known factors -----------------------------------------------------------------------
def _alternatives(row: Var, values: Sequence[Expr]) -> Expr:
    """The value of a row. Rows are iterations of loops that are written out: one is left."""
    value = values[-1]
    for i in reversed(range(len(values) - 1)):
        value = Select(EQ(row, _index(i)), values[i], value)
    return value


def _input_sums(matrix: np.ndarray, terms: Sequence[Expr]) -> list[Expr]:
    """B^T times the terms. The rows of p and -p are one sum of the even terms plus or minus p times
    one sum of the odd terms, so that what is alike is computed once."""
    rows = []
    for factors in matrix:
        parts = []
        for parity in (0, 1):
            own = [(float(factors[k]), terms[k]) for k in range(parity, len(terms), 2)]
            own = [(f, t) for f, t in own if f]
            if own:
                scale = own[-1][0]
                parts.append((scale, _sum([(f / scale, t) for f, t in reversed(own)])))
        rows.append(_sum(sorted(parts, key=lambda part: part[0] != 1)))
    return rows


def _output_sums(matrix: np.ndarray, terms: Sequence[Expr]) -> list[Expr]:
    """A^T times the terms. The columns of p and -p agree but for the sign: sums and differences of
    their terms are what rows are made of."""
    rows = []
    for factors in matrix:
        parts = [(float(factors[0]), terms[0])]
        for k in range(1, len(terms) - 1, 2):
            same = factors[k] == factors[k + 1]
            pair = terms[k] + terms[k + 1] if same else terms[k] - terms[k + 1]
            parts.append((float(factors[k]), pair))
        parts.append((float(factors[-1]), terms[-1]))
        rows.append(_sum([(f, t) for f, t in sorted(parts, key=lambda p: p[0] != 1) if f]))
    return rows


def _sum(parts: Sequence[tuple[float, Expr]]) -> Expr:
    """The sum of terms with factors, in order."""
    factor, first = parts[0]
    value = first if factor == 1 else const(factor, "float32") * first
    for factor, part in parts[1:]:
        if abs(factor) == 1:
            value = value + part if factor > 0 else value - part
        else:
            value = call_intrin("fma", const(factor, "float32"), part, value)
    return value
