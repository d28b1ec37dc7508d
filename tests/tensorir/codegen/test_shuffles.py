"""Lanes of several vectors: the masks of the shuffles, run on numbers."""

from __future__ import annotations

import re

import pytest
from llvmlite import ir

from burnish.tensorir.codegen.shuffles import Place, resized, selected_lanes

F32 = ir.FloatType()


def operands(*counts: int) -> tuple[ir.IRBuilder, list[ir.Value]]:
    """A builder, and arguments of so many lanes; 0 is a scalar."""
    kinds = [ir.VectorType(F32, n) if n else F32 for n in counts]
    function = ir.Function(ir.Module(), ir.FunctionType(ir.VoidType(), kinds), "f")
    return ir.IRBuilder(function.append_basic_block()), list(function.args)


def lanes_of(b: ir.IRBuilder, vectors: list[ir.Value], found: ir.Value) -> list[float]:
    """What ``found`` holds where lane ``k`` of vector ``n`` is ``100 * n + k``."""
    values = {
        id(v): [100 * n + k for k in range(getattr(v.type, "count", 1))]
        for n, v in enumerate(vectors)
    }
    for made in b.block.instructions:
        if made.opname == "insertelement":
            whole, one, at = made.operands
            lanes = list(values.get(id(whole), [-1] * made.type.count))
            lanes[int(at.constant)] = values[id(one)][0]
            values[id(made)] = lanes
            continue
        first, second, mask = made.operands
        both = [x for v in (first, second) for x in values.get(id(v), [-1] * v.type.count)]
        values[id(made)] = [both[int(n)] for n in re.findall(r"i32 (\d+)", str(mask))]
    return list(values[id(found)])


@pytest.mark.parametrize(
    ("counts", "places", "shuffles"),
    [
        ((4, 4), [(0, 0), (0, 2), (1, 0), (1, 2)], 1),
        ((4, 4), [(0, 1), (0, 3), (1, 1), (1, 3)], 1),
        ((8,), [(0, 0), (0, 3), (0, 6)], 2),  # the last one leaves lanes away
        ((4, 4, 4, 4), [(0, 1), (1, 1), (2, 1), (3, 1)], 3),
        ((4, 4, 0), [(0, 2), (1, 0), (1, 2), (2, 0)], 1),
        ((8, 2), [(0, 1), (0, 7), (1, 0), (1, 1)], 3),
        ((4, 0, 0), [(1, 0), (0, 3), (2, 0)], 2),
        ((0, 0), [(1, 0), (0, 0)], 0),
        ((4,), [(0, 0), (0, 1), (0, 2), (0, 3)], 0),
        ((2, 2), [(1, 1), (0, 1), (1, 0), (0, 0)], 3),
    ],
)
def test_selected_lanes(counts: tuple[int, ...], places: list[Place], shuffles: int) -> None:
    b, vectors = operands(*counts)
    found = selected_lanes(b, vectors, places)
    assert found.type.count == len(places)
    assert lanes_of(b, vectors, found) == [100 * n + k for n, k in places]
    assert sum([i.opname == "shufflevector" for i in b.block.instructions]) == shuffles


def test_resized() -> None:
    b, (vector,) = operands(4)
    assert resized(b, vector, 4) is vector
    assert lanes_of(b, [vector], resized(b, vector, 2)) == [0, 1]
    assert lanes_of(b, [vector], resized(b, vector, 6)) == [0, 1, 2, 3, -1, -1]
