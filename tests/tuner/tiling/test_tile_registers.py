"""Sizes of tiles in tile registers: parts of rows, terms of a step, shapes."""

from __future__ import annotations

import pytest

from burnish.support.target import Target
from burnish.tensorir.expr import IntImm, Var
from burnish.tuner.tiling.tile_registers import (
    TILE_VECTORS,
    TileProduct,
    best_shape,
    multiplies,
    row_parts,
    shapes,
    tile_product_of,
)


@pytest.mark.parametrize("rows", [1, 5, 16, 17, 31, 32, 33, 49, 64, 100])
@pytest.mark.parametrize("tile", [16, 32])
def test_constant_rows_are_all_in_parts(rows: int, tile: int) -> None:
    parts = row_parts(IntImm(rows), tile)
    extents = [extent.value for extent, _ in parts if isinstance(extent, IntImm)]
    assert sum(extents) == rows
    for extent, (_, size) in zip(extents, parts, strict=True):
        assert extent % size == 0
        assert size % 16 == 0 or size < 16


def test_symbolic_rows_have_parts_for_every_remainder() -> None:
    parts = row_parts(Var("m"), 32)
    assert [size for _, size in parts] == [32, 16, 8, 4, 2, 1]


@pytest.mark.parametrize(
    ("k", "bits", "whole", "expected"),
    [
        (768, 16, False, TileProduct(32, 2)),
        (784, 16, False, TileProduct(28, 2)),
        (50, 16, False, TileProduct(32, 2)),
        (50, 16, True, TileProduct(10, 2)),
        (48, 16, True, TileProduct(24, 2)),
        (8, 16, True, TileProduct(8, 2)),
        (6, 16, True, None),
        (33, 16, False, None),
        (256, 8, False, TileProduct(64, 4)),
        (196, 8, False, TileProduct(64, 4)),
        (50, 8, False, None),
    ],
)
def test_terms_of_a_step(k: int, bits: int, whole: bool, expected: TileProduct | None) -> None:
    assert tile_product_of(k, bits, whole=whole) == expected


@pytest.mark.parametrize("vectors", TILE_VECTORS)
def test_sums_leave_registers_for_two_operands(vectors: int) -> None:
    assert all(rows // 16 * vectors + 2 <= 8 for rows in shapes(vectors))


def test_few_rows_have_wide_tiles() -> None:
    assert best_shape(7, 512) == (16, 4)
    assert best_shape(7, 20) == (16, 2)
    assert best_shape(128, 768) == (32, 2)
    assert best_shape(128, 10) == (32, 1)
    assert best_shape(None, None) == (32, 2)


def test_targets_without_tiles_multiply_in_none() -> None:
    server = Target("sapphirerapids")
    assert multiplies(server, "bfloat16", "bfloat16", "float32")
    assert multiplies(server, "int8", "int8", "int32")
    assert not multiplies(server, "float16", "float16", "float32")
    assert multiplies(Target("graniterapids"), "float16", "float16", "float32")
    assert not multiplies(Target("znver4"), "bfloat16", "bfloat16", "float32")
