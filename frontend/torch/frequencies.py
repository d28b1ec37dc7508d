"""Discrete Fourier transforms as products with tables of cosines and sines.

    fft(x), n = p * q        x as (p, q); products with a p x p table; times w ** (j * k);
                             products with a q x q table; (p, q) turned
    rfft, irfft              the first half of it; its real part, the other half taken for granted

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
    """The most even factors of a length with a large table; None where that is to be one."""
    if n <= DIRECT:
        return None
    first = next((p for p in range(math.isqrt(n), 1, -1) if n % p == 0), 1)
    return (first, n // first) if first > 1 else None


def has_tables(n: Any) -> bool:
    """Whether a length is known, and its tables are not too large."""
    if not isinstance(n, int) or n < 1:
        return False
    parts = factors(n)
    return n <= LARGEST_TABLE if parts is None else all(map(has_tables, parts))


def transformed(walk: Walk, x: Pair, n: int, sign: int) -> Pair:
    """``sum over j of x[..., j] * exp(sign * 2 pi i j k / n)`` along the last axis."""
    parts = factors(n)
    if parts is None:
        return _direct(walk, x, n, sign)
    p, q = parts
    split = _each(walk, x, aten.unflatten.int, -1, [p, q])
    first = transformed(walk, _each(walk, split, aten.transpose.int, -1, -2), p, sign)
    cosines, sines = _table(walk, n, q, p, x.real.meta["val"].dtype, sign)
    turned = times(walk, first, Pair(cosines, sines))
    second = transformed(walk, _each(walk, turned, aten.transpose.int, -1, -2), q, sign)
    back = _each(walk, second, aten.transpose.int, -1, -2)
    return _each(walk, back, aten.flatten.using_ints, -2)


def _each(walk: Walk, x: Pair, target: Any, *args: Any) -> Pair:
    """A move of both parts, of which the imaginary may be none."""
    parts = [walk.call(target, p, *args) if isinstance(p, Node) else p for p in _parts(x)]
    return Pair(*parts)


def _parts(x: Pair) -> tuple[Any, Any]:
    return x.real, x.imaginary


def _direct(walk: Walk, x: Pair, n: int, sign: int) -> Pair:
    """By one product, of both parts side by side."""
    cosines, sines = _table(walk, n, n, n, x.real.meta["val"].dtype, sign)
    both = walk.call(aten.cat.default, [cosines, sines], 1)
    given = x.real
    if isinstance(x.imaginary, Node):
        below = walk.call(aten.cat.default, [walk.negative(sines), cosines], 1)
        both = walk.call(aten.cat.default, [both, below], 0)
        given = walk.call(aten.cat.default, [x.real, x.imaginary], -1)
    made = walk.call(aten.matmul.default, given, both)
    return Pair(*[walk.call(aten.narrow.default, made, -1, i * n, n) for i in (0, 1)])


def _table(
    walk: Walk, n: int, rows: int, columns: int, dtype: torch.dtype, sign: int
) -> tuple[Node, Node]:
    """Cosines and sines of ``sign * 2 pi j k / n``. The product j k is taken modulo n, so that all
    angles are small."""
    j, k = (walk.call(aten.arange.default, m, dtype=torch.int64) for m in (rows, columns))
    turns = walk.call(aten.mul.Tensor, walk.call(aten.unsqueeze.default, j, 1), k)
    turns = walk.call(aten.remainder.Scalar, turns, n)
    angle = walk.call(aten.mul.Tensor, walk.cast(turns, torch.float64), sign * 2 * math.pi / n)
    cosines, sines = (walk.cast(walk.unary(f, angle), dtype) for f in ("cos", "sin"))
    return cosines, sines


# -- rows ----------------------------------------------------------------------------------------
def _along(walk: Walk, x: Pair, dims: list[int], sign: int) -> Pair:
    """Transforms along several axes, one after another."""
    for d in dims:
        n = x.real.meta["val"].shape[d]
        moved = transformed(walk, _each(walk, x, aten.transpose.int, d, -1), n, sign)
        x = _each(walk, moved, aten.transpose.int, d, -1)
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
    """The last axis first, of which half is kept: the other half is its mirror."""
    given = Pair(x, 0)
    count = _count(walk, given, dim)
    if count is None:
        return None
    last = dim[-1]
    made = _along(walk, given, [last], -1)
    if onesided:
        half = x.meta["val"].shape[last] // 2 + 1
        made = _each(walk, made, aten.narrow.default, last, 0, half)
    return _normalized(walk, _along(walk, made, dim[:-1], -1), count, normalization)


@row("_fft_c2r")
def complex_to_real(
    walk: Walk, x: Pair, dim: list[int], normalization: int, last_dim_size: int
) -> Node | None:
    """The last axis last. Its other half is the mirror: what both have counts twice. Of the first
    and of the middle the imaginary part does not count."""
    last, n = dim[-1], last_dim_size
    count = _count(walk, x, dim[:-1])
    if count is None or not has_tables(n):
        return None
    x = _normalized(walk, _along(walk, x, dim[:-1], 1), count * n, normalization)
    x = _each(walk, x, aten.transpose.int, last, -1)
    mirrored = (n - 1) // 2
    whole = []
    for part, sides in zip(_parts(x), (1, -1), strict=True):
        middle = walk.call(aten.narrow.default, part, -1, 1, mirrored)
        middle = walk.call(aten.flip.default, middle, [-1])
        kept = part if sides > 0 else _without_ends(walk, part, n)
        whole.append(
            walk.call(aten.cat.default, [kept, middle if sides > 0 else walk.negative(middle)], -1)
        )
    made = transformed(walk, Pair(*whole), n, 1)
    back: Node = walk.call(aten.transpose.int, made.real, last, -1)
    return back


def _without_ends(walk: Walk, part: Node, n: int) -> Node:
    """Zeros in the place of the first, and of an even length the last."""
    size = n // 2 + 1
    inner = walk.call(aten.narrow.default, part, -1, 1, (n - 1) // 2)
    made: Node = walk.call(aten.constant_pad_nd.default, inner, [1, size - 1 - (n - 1) // 2], 0)
    return made


__all__ = ["complex_to_complex", "complex_to_real", "factors", "real_to_complex", "transformed"]
