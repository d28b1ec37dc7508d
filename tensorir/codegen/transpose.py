"""Rows of a tile in registers to its columns, by shuffles of two vectors that CPUs have.

    rows   a0 a1 a2 a3     interleaved   a0 b0 a1 b1 ..     columns   a0 b0 c0 d0
           b0 b1 b2 b3     a0 b0 c0 d0 .. by pieces                   a1 b1 c1 d1
           c0 c1 c2 c3                                                a2 b2 c2 d2
           d0 d1 d2 d3                                                a3 b3 c3 d3

Within 16 bytes, rows are merged by interleaving ever larger groups of elements (``unpcklps``,
``zip1``). Then piece ``q`` of a vector holds one column of neighbouring rows, and pieces of 16
bytes are sorted by taking the even and the odd ones of two vectors (``vshuff32x4``,
``vperm2f128``).
A tile of ``n x n`` takes ``n log2(n)`` shuffles and no access to memory.
"""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from .llvm_types import Literal, shuffle_mask
from .shuffles import resized

PIECE_BYTES = 16
"""The part of a vector in which every CPU interleaves by one instruction."""


def transpose_rows(b: ir.IRBuilder, rows: Sequence[ir.Value], itemsize: int) -> list[ir.Value]:
    """The columns of a tile whose rows are vectors of one type: vector ``j`` has element ``j`` of
    every row. Vectors of missing rows and columns are poison, for LLVM to fold."""
    count, width = len(rows), rows[0].type.count
    side = 1 << (max(count, width) - 1).bit_length()
    element = rows[0].type.element
    poison = Literal(ir.VectorType(element, side), "poison")
    wide = [resized(b, row, side) for row in rows] + [poison] * (side - count)
    piece = min(side, max(1, PIECE_BYTES // itemsize))
    merged = [[row] for row in wide]
    unit = 1
    while unit < piece:
        merged = [
            [
                half
                for first, second in zip(merged[g], merged[g + 1], strict=True)
                for half in _interleaved(b, first, second, unit, piece)
            ]
            for g in range(0, len(merged), 2)
        ]
        unit *= 2
    sorted_pieces = [_pieces(b, [group[h] for group in merged], piece) for h in range(piece)]
    columns = [sorted_pieces[j % piece][j // piece] for j in range(width)]
    return [resized(b, column, count) for column in columns]


def _interleaved(
    b: ir.IRBuilder, x: ir.Value, y: ir.Value, unit: int, piece: int
) -> tuple[ir.Value, ir.Value]:
    """Groups of ``unit`` elements of ``x`` and ``y`` in turns: those of the first half of each
    piece, and those of the second."""
    lanes = x.type.count
    halves = []
    for start in (0, piece // 2):
        mask = [
            source + base + start + at + k
            for base in range(0, lanes, piece)
            for at in range(0, piece // 2, unit)
            for source in (0, lanes)
            for k in range(unit)
        ]
        halves.append(b.shuffle_vector(x, y, shuffle_mask(tuple(mask))))
    return halves[0], halves[1]


def _pieces(b: ir.IRBuilder, vectors: Sequence[ir.Value], piece: int) -> list[ir.Value]:
    """Vector ``q`` has piece ``q`` of every one of ``vectors``, which are as many as a vector has
    pieces."""
    if len(vectors) == 1:
        return list(vectors)
    lanes = vectors[0].type.count
    found: list[list[ir.Value]] = []
    for parity in (0, 1):
        mask = [at + k for at in range(parity * piece, 2 * lanes, 2 * piece) for k in range(piece)]
        halves = [
            b.shuffle_vector(x, y, shuffle_mask(tuple(mask)))
            for x, y in zip(vectors[::2], vectors[1::2], strict=True)
        ]
        found.append(_pieces(b, halves, piece))
    return [column for pair in zip(*found, strict=True) for column in pair]
