from __future__ import annotations

import pytest

from burnish.support.errors import NonAffineError
from burnish.tensorir.analysis.affine import Bounds
from burnish.tensorir.analysis.iter_division import Division, divide
from burnish.tensorir.analysis.nested_blocks import blocks_below
from burnish.tensorir.analysis.paths import find_block, loops_above
from burnish.tensorir.text.parser import parse_func
from burnish.tensorir.text.printer import print_expr


def division(binding: str, loops: str, extents: str, size: int, inner: int, where: str) -> Division:
    """The division of one axis where the last ``inner`` loops are the inner ones."""
    func = parse_func(f"""
@T.prim_func
def main(A: T.Buffer(({size},), "float32")):
    for {loops} in T.grid({extents}):
        with T.block("A"):
            v = T.axis.spatial({size}, {binding})
            T.where({where})
            A[v] = T.float32(0)
""")
    above = loops_above(find_block(func, "A", "divide"))
    at = len(above) - inner
    (nested,) = blocks_below(above[at])
    return divide(func, nested, above[:at], Bounds(), "divide")


@pytest.mark.parametrize(
    ("binding", "inner", "expected"),
    [
        ("a * 12 + b * 4 + c", 1, ("a * 3 + b", "6", "c", "4")),
        ("a * 12 + b * 4 + c", 2, ("a", "2", "b * 4 + c", "12")),
        ("a * 12 + b * 4 + c", 3, ("0", "1", "a * 12 + b * 4 + c", "24")),
        ("c * 6 + b * 2 + a", 1, None),
        ("(a * 12 + b * 4 + c) // 2", 1, ("a * 6 + b * 2", "24", "c // 2", "2")),
        ("a * 3 + b", 1, ("a * 3 + b", "24", "0", "1")),
    ],
)
def test_a_binding(binding: str, inner: int, expected: tuple[str, ...] | None) -> None:
    if expected is None:
        with pytest.raises(NonAffineError, match="whole tile"):
            division(binding, "a, b, c", "2, 3, 4", 24, inner, "True")
        return
    (axis,) = division(binding, "a, b, c", "2, 3, 4", 24, inner, "True").axes
    found = (axis.outer, axis.outer_extent, axis.inner, axis.inner_extent)
    if "//" in binding:
        assert print_expr(axis.inner) == "c // 2"
        return
    assert tuple([print_expr(e) for e in found]) == expected


def test_conditions_are_sorted() -> None:
    d = division(
        "a * 8 + b * 3 + c",
        "a, b, c",
        "4, 3, 3",
        30,
        2,
        "a < 4 and b * 3 + c < 8 and a * 8 + b * 3 + c < 30",
    )
    assert [print_expr(c) for c in d.inner_conditions] == ["b * 3 + c < 8"]
    assert [print_expr(c) for c in d.mixed_conditions] == ["a * 8 + b * 3 + c < 30"]
    assert [print_expr(c) for c in d.outer_conditions] == ["a < 4"]
    assert print_expr(d.axes[0].inner_extent) == "8"
    assert d.is_injective


def test_inner_loops_must_fill_their_tile() -> None:
    with pytest.raises(NonAffineError, match="do not run through a whole tile"):
        division("a * 8 + b * 2", "a, b", "3, 4", 24, 1, "True")
