"""Discrete Fourier transforms as products with tables of cosines and sines.

    along the last axis            a product with a table from the right
    along another                  a product with a table from the left, all that follows as columns

    n = p * q, the last axis       x as (p, q); from the right with p's table to (q, p); times
                                   w ** (j * k); from the left with q's table to (q, p), which is
                                   the order of the results: nothing is turned

    rfft, irfft                    half of the results, half of what is given: half a table

Cooley and Tukey's algorithm (1965) for two factors, again for large ones, down to tables of at most
``DIRECT`` rows; a length with no such factors has a table of its own. The tables are constants,
computed in float64.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.fx import Node

from .complex_pairs import Pair, Walk, row, scaled, times

aten = torch.ops.aten
DIRECT = 64
"""Rows of a table up to which there is one for the whole length."""
LARGEST_TABLE = 4096
"""Rows of a table, of a length without factors, from which on it is not made."""


def factors(n: int) -> tuple[int, int] | None:
    """The factors of a length with a large table whose products are the shortest; None where it is
    to be one."""
    if n <= DIRECT:
        return None
    lesser = [p for p in range(2, math.isqrt(n) + 1) if n % p == 0]
    pairs = [(p, n // p) for d in lesser for p in (d, n // d)]
    return min(pairs, key=_work, default=None)


def _work(parts: tuple[int, int]) -> tuple[int, int]:
    """Multiply-adds of the two products of half the results; vectors have 8 elements."""
    p, q = parts
    return q * p * _whole(2 * p) + 2 * q * q * _whole(p), q


def _whole(n: int) -> int:
    return -(-n // 8) * 8


def has_tables(n: Any) -> bool:
    """Whether a length is known, and its tables are not too large."""
    if not isinstance(n, int) or n < 1:
        return False
    parts = factors(n)
    return n <= LARGEST_TABLE if parts is None else all(map(has_tables, parts))


def transformed(
    walk: Walk, x: Pair, n: int, sign: int, *, count: int | None = None, real: bool = False
) -> Pair:
    """The first ``count`` of ``sum over j of x[..., j] * exp(sign * 2 pi i j k / n)`` along the
    last axis, of ``real`` ones that part alone. Where ``x`` has fewer elements, the others are
    zero."""
    count = n if count is None else count
    parts = factors(n)
    if parts is None:
        table = _table(walk, x, n, _length(x, -1), count, sign, real=real, below=True)
        made = walk.call(aten.matmul.default, _joined(walk, x, -1), table)
        return _halves(walk, made, count, count, real=real)
    p, q = parts
    given = -(-_length(x, -1) // q)
    rest = given * q - _length(x, -1)
    if rest:
        x = _each(walk, x, aten.constant_pad_nd.default, [0, rest], 0)
    split = _each(walk, x, aten.unflatten.int, -1, [given, q])
    first = _across(walk, split, p, sign)
    twiddles = _angles(walk, x, n, q, p, sign)
    turned = times(walk, first, Pair(*twiddles))
    rows = -(-count // p)
    if factors(q) is None:
        table = _table(walk, turned, q, q, rows, sign, real=real, below=False)
        made = walk.call(aten.matmul.default, table, _joined(walk, turned, -2))
        flat = walk.call(aten.flatten.using_ints, made, -2)
        return _halves(walk, flat, rows * p, count, real=real)
    whole = _each(walk, _columns(walk, turned, q, sign), aten.flatten.using_ints, -2)
    return _each(walk, whole, aten.narrow.default, -1, 0, count)


def _across(walk: Walk, x: Pair, p: int, sign: int) -> Pair:
    """From ``(..., p, q)`` to ``(..., q, p)``, transformed along p."""
    if factors(p) is not None:
        return transformed(walk, _each(walk, x, aten.transpose.int, -1, -2), p, sign)
    table = _table(walk, x, p, _length(x, -2), p, sign, real=False, below=True)
    turned = walk.call(aten.transpose.int, _joined(walk, x, -2), -1, -2)
    return _halves(walk, walk.call(aten.matmul.default, turned, table), p, p, real=False)


def _columns(walk: Walk, x: Pair, n: int, sign: int) -> Pair:
    """``transformed`` along the last axis but one, for each column."""
    parts = factors(n)
    if parts is None:
        table = _table(walk, x, n, n, n, sign, real=False, below=False)
        made = walk.call(aten.matmul.default, table, _joined(walk, x, -2))
        return Pair(*[walk.call(aten.narrow.default, made, -2, i * n, n) for i in (0, 1)])
    p, q = parts
    split = _each(walk, x, aten.unflatten.int, -2, [p, q])
    first = _columns(walk, _each(walk, split, aten.flatten.using_ints, -2), p, sign)
    first = _each(walk, first, aten.unflatten.int, -1, [q, -1])
    twiddles = [walk.call(aten.unsqueeze.default, t, -1) for t in _angles(walk, x, n, p, q, sign)]
    second = _columns(walk, times(walk, first, Pair(*twiddles)), q, sign)
    second = _each(walk, second, aten.transpose.int, -2, -3)
    return _each(walk, second, aten.flatten.using_ints, -3, -2)


def _each(walk: Walk, x: Pair, target: Any, *args: Any) -> Pair:
    """A move of both parts, of which the imaginary may be none."""
    parts = [walk.call(target, p, *args) if isinstance(p, Node) else p for p in _parts(x)]
    return Pair(*parts)


def _parts(x: Pair) -> tuple[Any, Any]:
    return x.real, x.imaginary


def _length(x: Pair, axis: int) -> int:
    return int(x.real.meta["val"].shape[axis])


def _joined(walk: Walk, x: Pair, axis: int) -> Node:
    """Both parts, one after the other along an axis."""
    if not isinstance(x.imaginary, Node):
        return x.real
    both: Node = walk.call(aten.cat.default, [x.real, x.imaginary], axis)
    return both


def _halves(walk: Walk, made: Node, size: int, count: int, *, real: bool) -> Pair:
    """The first ``count`` of each part, of ``size``; of ``real`` results there is one part."""
    if real:
        return Pair(walk.call(aten.narrow.default, made, -1, 0, count), 0)
    return Pair(*[walk.call(aten.narrow.default, made, -1, i * size, count) for i in (0, 1)])


def _table(
    walk: Walk, x: Pair, n: int, given: int, made: int, sign: int, *, real: bool, below: bool
) -> Node:
    """The table that ``given`` elements are multiplied with: both parts of what is given, where it
    has two, by both of what is ``made``. What is given runs ``below`` or beside."""
    cosines, sines = _angles(walk, x, n, *((given, made) if below else (made, given)), sign)
    parts = [[cosines, sines]]  # of the real part what is made of it, then of the imaginary one
    if isinstance(x.imaginary, Node):
        parts.append([walk.negative(sines), cosines])
    strips = [p[0] if real else walk.call(aten.cat.default, p, int(below)) for p in parts]
    return strips[0] if len(strips) == 1 else walk.call(aten.cat.default, strips, int(not below))


def _angles(walk: Walk, x: Pair, n: int, rows: int, columns: int, sign: int) -> tuple[Node, Node]:
    """Cosines and sines of ``sign * 2 pi j k / n``. The product j k is taken modulo n, so that all
    angles are small."""
    j, k = (walk.call(aten.arange.default, m, dtype=torch.int64) for m in (rows, columns))
    turns = walk.call(aten.mul.Tensor, walk.call(aten.unsqueeze.default, j, 1), k)
    turns = walk.call(aten.remainder.Scalar, turns, n)
    angle = walk.call(aten.mul.Tensor, walk.cast(turns, torch.float64), sign * 2 * math.pi / n)
    dtype = x.real.meta["val"].dtype
    cosines, sines = (walk.cast(walk.unary(f, angle), dtype) for f in ("cos", "sin"))
    return cosines, sines


# -- rows ----------------------------------------------------------------------------------------
def _along(walk: Walk, x: Pair, dims: list[int], sign: int) -> Pair:
    """Transforms along several axes, one after another."""
    for d in dims:
        shape = x.real.meta["val"].shape
        axis, n = d % len(shape), shape[d]
        rest = list(shape[axis + 1 :])
        if not rest:
            x = transformed(walk, x, n, sign)
        elif len(rest) == 1:
            x = _columns(walk, x, n, sign)
        elif all(isinstance(size, int) for size in rest):
            x = _columns(walk, _each(walk, x, aten.flatten.using_ints, axis + 1), n, sign)
            x = _each(walk, x, aten.unflatten.int, axis + 1, rest)
        else:
            moved = transformed(walk, _each(walk, x, aten.transpose.int, axis, -1), n, sign)
            x = _each(walk, moved, aten.transpose.int, axis, -1)
    return x


def _normalized(walk: Walk, x: Pair, count: int, normalization: int) -> Pair:
    """By 1, 1 / sqrt(n) or 1 / n, as torch's modes 0, 1 and 2 say."""
    return scaled(walk, x, (1, count**-0.5, 1.0 / count)[normalization])


def _count(walk: Walk, x: Pair, dims: list[int]) -> int | None:
    """The elements of a transform; None where a length has no tables."""
    sizes = [x.real.meta["val"].shape[d] for d in dims]
    return math.prod(sizes) if all(map(has_tables, sizes)) else None


@row("_fft_c2c")
def complex_to_complex(
    walk: Walk, x: Pair, dim: list[int], normalization: int, forward: bool
) -> Pair | None:
    count = _count(walk, x, dim)
    if count is None:
        return None
    return _normalized(walk, _along(walk, x, dim, -1 if forward else 1), count, normalization)


@row("_fft_r2c")
def real_to_complex(
    walk: Walk, x: Node, dim: list[int], normalization: int, onesided: bool
) -> Pair | None:
    """The last axis first, of which half is made: the other half is its mirror."""
    given = Pair(x, 0)
    count = _count(walk, given, dim)
    if count is None:
        return None
    last, n = dim[-1], x.meta["val"].shape[dim[-1]]
    given = _each(walk, given, aten.transpose.int, last, -1)
    made = transformed(walk, given, n, -1, count=n // 2 + 1 if onesided else n)
    made = _each(walk, made, aten.transpose.int, last, -1)
    return _normalized(walk, _along(walk, made, dim[:-1], -1), count, normalization)


@row("_fft_c2r")
def complex_to_real(
    walk: Walk, x: Pair, dim: list[int], normalization: int, last_dim_size: int
) -> Node | None:
    """The last axis last. Its other half is the mirror, so that all but the first and the middle
    count twice, and of these two the imaginary part does not count."""
    last, n = dim[-1], last_dim_size
    count = _count(walk, x, dim[:-1])
    if count is None or not has_tables(n):
        return None
    x = _normalized(walk, _along(walk, x, dim[:-1], 1), count * n, normalization)
    x = _mirrored(walk, _each(walk, x, aten.transpose.int, last, -1), n)
    made = transformed(walk, x, n, 1, real=True)
    back: Node = walk.call(aten.transpose.int, made.real, last, -1)
    return back


def _mirrored(walk: Walk, x: Pair, n: int) -> Pair:
    """Half of what is given, weighed for what it stands for."""
    twice = (n - 1) // 2
    around = [1, n // 2 - twice]
    sides = walk.call(aten.full.default, [twice], 2, dtype=x.real.meta["val"].dtype)
    sides = walk.call(aten.constant_pad_nd.default, sides, around, 1)
    imaginary = x.imaginary
    if isinstance(imaginary, Node):
        imaginary = walk.call(aten.narrow.default, imaginary, -1, 1, twice)
        imaginary = walk.call(aten.mul.Tensor, imaginary, 2)
        imaginary = walk.call(aten.constant_pad_nd.default, imaginary, around, 0)
    return Pair(walk.call(aten.mul.Tensor, x.real, sides), imaginary)


__all__ = ["complex_to_complex", "complex_to_real", "factors", "real_to_complex", "transformed"]
