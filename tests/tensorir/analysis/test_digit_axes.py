"""Axes as digits of indices: the instance of a place, and what has none."""

from __future__ import annotations

import pytest

from burnish.support.node import walk
from burnish.tensorir.analysis.digit_axes import digit_axes
from burnish.tensorir.expr import BufferLoad, Var
from burnish.tensorir.parser import parse_func
from burnish.tensorir.printer import print_expr
from burnish.tensorir.stmt import Block


def axes_of(read: str, shape: tuple[int, ...]) -> list[str] | None:
    func = parse_func(f"""
@T.prim_func
def f(B: T.Buffer({shape}, "float32"), C: T.Buffer((4, 6), "float32")):
    for i, j in T.grid(4, 6):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[{read}]
""")
    block = next(n for n in walk(func.body) if isinstance(n, Block) and n.name == "C")
    (load,) = [n for n in walk(block.body) if isinstance(n, BufferLoad)]
    place = [Var(f"x{d}") for d in range(len(shape))]
    found = digit_axes(block, load.indices, load.buffer.shape, place)
    return None if found is None else [print_expr(found[it.var]) for it in block.iter_vars]


@pytest.mark.parametrize(
    ("read", "shape", "axes"),
    [
        ("vi * 6 + vj", (24,), ["x0 // 6", "x0 % 6"]),
        ("vj * 4 + vi", (24,), ["x0 % 4", "x0 // 4"]),
        ("vj, vi", (6, 4), ["x1", "x0"]),
        ("vi * 6 + vj", (25,), None),
        ("vi * 7 + vj", (28,), None),
        ("vi, vi * 6 + vj", (4, 24), None),
        ("vi, 0", (4, 1), None),
        ("vi * 6 + vj + 1", (25,), None),
    ],
)
def test_digits(read: str, shape: tuple[int, ...], axes: list[str] | None) -> None:
    assert axes_of(read, shape) == axes
