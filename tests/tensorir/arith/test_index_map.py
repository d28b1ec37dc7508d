"""Index maps: shapes, inverses, padding, errors; each inverse checked at every point."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from burnish.support.errors import LayoutError
from burnish.tensorir.arith import Analyzer, IndexMap
from burnish.tensorir.expr import Expr, IntImm, Var
from burnish.tensorir.text.printer import print_expr

M = Var("m")


def texts(exprs: tuple[Expr, ...]) -> list[str]:
    return [print_expr(e) for e in exprs]


def numbers(exprs: tuple[Expr, ...]) -> tuple[int, ...]:
    assert all(isinstance(e, IntImm) for e in exprs)
    return tuple(e.value for e in exprs if isinstance(e, IntImm))


BIJECTIONS: list[tuple[Callable[..., Any], tuple[int, ...]]] = [
    (lambda i, j: (j, i), (3, 5)),
    (lambda n, c: (n, c // 16, c % 16), (2, 32)),
    (lambda n, c, h: (c // 4, n, h, c % 4), (2, 8, 3)),
    (lambda i, j: i * 6 + j, (4, 6)),
    (lambda i, j: ((i * 6 + j) // 4, (i * 6 + j) % 4), (4, 6)),
    (lambda i: (i // 16 // 4, i // 16 % 4, i % 16), (256,)),
    (lambda i, j: (i // 4, j // 8, j % 8, i % 4), (8, 16)),
    (lambda i, j: (i, j), (1, 5)),
    (lambda k, n: (n // 16, k, n % 16), (7, 48)),
]


@pytest.mark.parametrize(("fn", "shape"), BIJECTIONS)
def test_inverse_at_every_point(fn: Callable[..., Any], shape: tuple[int, ...]) -> None:
    index_map = IndexMap.from_function(fn, len(shape))
    assert index_map.is_bijective(shape)
    inverse = index_map.inverse(shape)
    new_shape = numbers(index_map.map_shape(shape))
    seen = set()
    for point in itertools.product(*map(range, shape)):
        image = numbers(index_map.map_indices(point))
        assert all(0 <= x < n for x, n in zip(image, new_shape, strict=True))
        assert numbers(inverse.map_indices(image)) == point
        seen.add(image)
    assert len(seen) == len(list(itertools.product(*map(range, new_shape))))


@pytest.mark.parametrize(
    "fn",
    [
        lambda i, j: (i, j * 2),
        lambda i, j: (i, j + 1),
        lambda i, j: (i * 2, j),
        lambda i, j: (i + j, j),
        lambda i, j: (i, i),
    ],
)
def test_maps_that_leave_elements_out(fn: Callable[..., Any]) -> None:
    index_map = IndexMap.from_function(fn, 2)
    assert not index_map.is_bijective((4, 6))
    with pytest.raises(LayoutError):
        index_map.inverse((4, 6))


@pytest.mark.parametrize(
    ("fn", "shape", "new_shape", "inverse", "inside"),
    [
        (
            lambda n, c: (n, c // 16, c % 16),
            (4, 50),
            ["4", "4", "16"],
            ["o0", "o1 * 16 + o2"],
            "o1 * 16 + o2 < 50",
        ),
        (
            lambda n, c: (c // 16, n, c % 16),
            (4, M),
            ["(m + 15) // 16", "4", "16"],
            ["o1", "o0 * 16 + o2"],
            "o0 * 16 + o2 < m",
        ),
        (
            lambda i, j: (i // 4, j // 4, i % 4, j % 4),
            (6, 7),
            ["2", "2", "4", "4"],
            ["o0 * 4 + o2", "o1 * 4 + o3"],
            "o0 * 4 + o2 < 6 and o1 * 4 + o3 < 7",
        ),
        (lambda i, j: i * M + j, (4, M), ["m * 4"], ["o0 // m", "o0 % m"], "T.bool(True)"),
        (lambda i: (i // M, i % M), (M * 4,), ["4", "m"], ["m * o0 + o1"], "T.bool(True)"),
    ],
)
def test_padding_and_symbolic_shapes(
    fn: Callable[..., Any],
    shape: tuple[int | Expr, ...],
    new_shape: list[str],
    inverse: list[str],
    inside: str,
) -> None:
    index_map = IndexMap.from_function(fn, len(shape))
    assert texts(index_map.map_shape(shape)) == new_shape
    back, condition = index_map.padded_inverse(shape)
    assert texts(back.outputs) == inverse
    assert print_expr(condition) == inside
    assert index_map.is_bijective(shape) == (inside == "T.bool(True)")
    variables, predicate = index_map.padding_predicate(shape)
    assert len(variables) == len(index_map.outputs)
    assert print_expr(predicate) == inside


def test_the_shape_of_a_map_that_is_not_affine() -> None:
    index_map = IndexMap.from_function(lambda i, j: (i + j, j), 2)
    assert texts(index_map.map_shape((4, 3))) == ["6", "3"]
    assert not index_map.is_bijective((4, 3))


def test_names_come_from_the_function() -> None:
    assert [v.name for v in IndexMap.from_function(lambda n, *rest: (*rest, n), 3).inputs] == [
        "n",
        "i1",
        "i2",
    ]


def test_map_indices_uses_what_is_known() -> None:
    a = Analyzer()
    io, ii = Var("io"), Var("ii")
    a.bind(ii, 16)
    index_map = IndexMap.from_function(lambda c: (c // 16, c % 16), 1)
    assert texts(index_map.map_indices([io * 16 + ii], a)) == ["io", "ii"]


def test_errors() -> None:
    with pytest.raises(LayoutError, match="takes 1 indices, the buffer has 2"):
        IndexMap.from_function(lambda i: i, 2)
    swap = IndexMap.from_function(lambda i, j: (j, i), 2)
    with pytest.raises(LayoutError, match="takes 2 indices, found 1"):
        swap.map_indices([0])
    with pytest.raises(LayoutError, match="takes 2 indices, the shape has 3"):
        swap.map_shape((1, 2, 3))
    tile = IndexMap.from_function(lambda c: (c // 16, c % 16), 1)
    with pytest.raises(
        LayoutError, match="not a bijection of the buffer's shape: it needs padding"
    ):
        tile.inverse((50,))
    double = IndexMap.from_function(lambda i: (i, i), 1)
    with pytest.raises(LayoutError, match="not a bijection"):
        double.inverse((4,))
    with pytest.raises(LayoutError, match="two elements would share a place"):
        double.padded_inverse((4,))
    with pytest.raises(LayoutError, match="output 0 of the index map has no known range"):
        IndexMap.from_function(lambda i: i - 3, 1).map_shape((8,))


def test_digits() -> None:
    m = IndexMap.from_function(lambda n, k: (n // 8, k, 0, n // 2 % 4, n % 2), 2)
    n, k = m.inputs
    known = [(n, 8, 3), (k, 1, 5), None, (n, 2, 4), (n, 1, 2)]
    assert m.digits((20, 5)) == known
    assert m.digits((2, 1)) == [None, None, None, None, (n, 1, 2)]
    for other in (lambda n, k: (n + k, k), lambda n, k: (n * 2 + k % 2, k // 2)):
        assert IndexMap.from_function(other, 2).digits((8, 8)) is None
