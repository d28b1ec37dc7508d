"""The instance of a block that has a place: its axes, and when there is one."""

from __future__ import annotations

import pytest

from burnish.support.node import walk
from burnish.tensorir.analysis.affine import Bounds
from burnish.tensorir.analysis.instance_at import instance_at
from burnish.tensorir.buffer import Range
from burnish.tensorir.expr import BufferLoad, Var, const
from burnish.tensorir.stmt import Block
from burnish.tensorir.text.parser import parse_func
from burnish.tensorir.text.printer import print_expr


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
    dims = zip(place, load.buffer.shape, strict=True)
    bounds = Bounds({v: Range(const(0), n) for v, n in dims})
    found = instance_at(block, load.indices, place, bounds)
    if found is None:
        return None
    axes = [print_expr(found.axes[it.var]) for it in block.iter_vars]
    return axes + [print_expr(c) for c in found.conditions]


@pytest.mark.parametrize(
    ("read", "shape", "axes"),
    [
        ("vi * 6 + vj", (24,), ["x0 // 6", "x0 % 6"]),
        ("vj * 4 + vi", (24,), ["x0 % 4", "x0 // 4"]),
        ("vj, vi", (6, 4), ["x1", "x0"]),
        ("vi * 6 + vj", (25,), ["x0 // 6", "x0 % 6", "x0 // 6 < 4"]),
        ("vi * 7 + vj", (28,), None),
        ("vi, vj * 2", (4, 12), None),
        ("vi + vj, vj", (9, 6), None),
        ("vi, 0", (4, 1), None),
        ("vi * 6 + vj + 1", (25,), ["(x0 + 5) // 6 - 1", "(x0 + 5) % 6", "(x0 + 5) // 6 - 1 >= 0"]),
        ("vi // 2, vi % 2, vj", (3, 2, 6), ["x0 * 2 + x1", "x2", "x0 * 2 + x1 < 4"]),
    ],
)
def test_digits(read: str, shape: tuple[int, ...], axes: list[str] | None) -> None:
    assert axes_of(read, shape) == axes
