"""Which channel of an image a grouped convolution reads, and panels within groups."""

from __future__ import annotations

import pytest

from burnish.tensorir.expr import INDEX, Expr, IntImm, Var, floordiv
from burnish.tuner.tiling.groups import group_size, panel_of, wants_groups_apart

OUT, C = Var("o"), Var("c")


@pytest.mark.parametrize(
    ("index", "own", "each"),
    [
        (floordiv(OUT, 4) * 8 + C, 8, 4),
        (C + floordiv(OUT, 16) * 2, 2, 16),
        (OUT * 4 + C, 4, 1),
        (floordiv(OUT, 2), 1, 2),
        (floordiv(OUT, 4) * 4 + C, 8, None),
        (floordiv(OUT, 4) * 8 + C * 2, 8, None),
        (OUT + C, 4, None),
        (C, 4, None),
    ],
)
def test_the_channel_says_how_groups_lie(index: Expr, own: int, each: int | None) -> None:
    assert group_size(index, OUT, C, IntImm(own, INDEX)) == each


def test_a_symbolic_group_is_none() -> None:
    assert group_size(floordiv(OUT, 4) * 8 + C, OUT, C, Var("own")) is None


@pytest.mark.parametrize(
    ("each", "lanes", "vectors", "panel"),
    [
        (64, 16, 3, (16, 2)),
        (48, 16, 4, (16, 3)),
        (24, 16, 2, (8, 1)),
        (24, 16, 4, (8, 3)),
        (4, 16, 1, (4, 1)),
        (5, 16, 4, (1, 1)),
        (1, 16, 4, (1, 1)),
    ],
)
def test_panels_divide_groups(each: int, lanes: int, vectors: int, panel: tuple[int, int]) -> None:
    assert panel_of(each, lanes, vectors) == panel


@pytest.mark.parametrize(
    ("each", "apart"),
    [
        (64, False),
        (48, False),
        (24, True),
        (8, False),
        (5, True),
        (3, True),
        (2, False),
        (17, True),
    ],
)
def test_groups_are_apart_where_that_takes_fewer_vectors(each: int, apart: bool) -> None:
    assert wants_groups_apart(each, 16) is apart
