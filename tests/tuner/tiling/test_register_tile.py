"""The register tile: parts of the rows, and the numbers of tiles of vectors and of instructions."""

from __future__ import annotations

import numpy as np
import pytest

from burnish.tensorir import operators as op
from burnish.tensorir.expr import IntImm, Var
from burnish.tensorir.schedule import Schedule, TensorIntrin
from burnish.tensorir.te.compute import create_prim_func, placeholder
from burnish.tensorir.text.parser import parse_func
from burnish.tests.native import call_native
from burnish.tuner.tiling.register_tile import Instruction, RegisterTile, row_parts, tile_parts
from burnish.tuner.tiling.tiles import outlets

COLUMNS = 16


def test_parts_of_rows() -> None:
    def parts(rows: int, tile: int) -> list[tuple[int, int]]:
        return [(e.value, t) for e, t in row_parts(IntImm(rows), tile) if isinstance(e, IntImm)]

    assert parts(24, 12) == [(24, 12)]
    assert parts(29, 12) == [(24, 12), (5, 5)]
    assert parts(5, 12) == [(5, 5)]
    assert [t for _, t in row_parts(Var("m"), 12)] == [12, 6, 3, 1]


def tiled(rows: int, depth: int, tile: RegisterTile, *, is_panel: bool = False) -> Schedule:
    """A layer in tiles, whose columns are one panel or several tiles."""
    x, w = placeholder((rows, depth), name="x"), placeholder((COLUMNS, depth), name="w")
    sch = Schedule(create_prim_func([x, w, op.relu(op.linear(x, w))]), seed=0)
    blocks = ("linear", *outlets(sch, "linear"))
    tile_parts(sch, blocks, 0, tile, is_panel=is_panel)
    return sch


def check(sch: Schedule, rows: int, depth: int) -> None:
    """The numbers of a layer of small integers, which are exact."""
    rng = np.random.default_rng(0)
    x, w = (rng.integers(-9, 9, (n, depth)).astype("float32") for n in (rows, COLUMNS))
    found = np.full((rows, COLUMNS), -77, "float32")
    call_native(sch.func, x, w, found)
    np.testing.assert_array_equal(found, np.maximum(x @ w.T, 0))


@pytest.mark.parametrize("rows", [1, 4, 7])
@pytest.mark.parametrize("columns", [(4,), (2, 4), (2, 2, 4), (8, 1)])
@pytest.mark.parametrize("depth", [8, 10])
def test_any_tile(rows: int, columns: tuple[int, ...], depth: int) -> None:
    check(tiled(rows, depth, RegisterTile(4, columns, unroll=2)), rows, depth)


def test_columns_of_a_panel_are_all_in_a_tile() -> None:
    sch = tiled(4, 8, RegisterTile(4, (2, 8)), is_panel=True)
    assert len(sch.get_loops("relu")) == 4  # tiles, rows, vectors, lanes
    check(sch, 4, 8)


@pytest.mark.parametrize("terms", [0, 192, 193, None])
def test_sums_that_are_long_are_added_up_in_blocks(terms: int | None) -> None:
    sch = tiled(4, 8, RegisterTile(4, (2, 8), length=terms))
    assert ("sum_block" in sch.func.script()) == (terms in (193, None))


def dot_of(rows: int, terms: int) -> str:
    """The name of an intrinsic: the dot products of ``terms`` with those of four lanes."""
    header = f"""
@T.prim_func
def main(A: T.Buffer(({rows}, {terms}), "float32"), B: T.Buffer((4, {terms}), "float32"),
         C: T.Buffer(({rows}, 4), "float32")):
"""
    desc = f"""
    for i, j, k in T.grid({rows}, 4, {terms}):
        with T.block("update"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vj, vk]
"""
    impl = f"""
    for i in T.unroll({rows}):
        for k in T.unroll({terms}):
            for j in T.vectorized(4):
                with T.block("dot"):
                    vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                    C[vi, vj] = T.fma(A[vi, vk], B[vj, vk], C[vi, vj])
"""
    pair = (parse_func(header + text) for text in (desc, impl))
    return TensorIntrin.register(f"test_dot_{rows}x4x{terms}", *pair).name


@pytest.mark.parametrize(("rows", "terms"), [(1, 2), (2, 2), (2, 4)])
def test_a_tile_of_instructions(rows: int, terms: int) -> None:
    """What terms are left over is tried on products of bytes."""
    instruction = Instruction(dot_of(rows, terms), terms, rows)
    sch = tiled(6, 8, RegisterTile(4, (2, 4), instruction=instruction))
    assert "T.fma" in sch.func.script()
    check(sch, 6, 8)
