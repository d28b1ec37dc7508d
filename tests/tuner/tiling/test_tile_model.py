"""What tiles cost: the best ones fit the registers, and waste little of rows and columns."""

from __future__ import annotations

from dataclasses import replace

import pytest

from burnish.support.instructions import Ports
from burnish.support.target import Target
from burnish.tuner.tiling.tile_model import (
    MOST_BROADCASTS,
    UNHIDDEN,
    TileShape,
    best_tile,
    cycles_of_rows,
    operand_registers,
    reserved_registers,
    row_tile,
    steps_a_cycle,
    useful_part,
)

SSE2, AVX2, AVX512, NEON = (
    Target(f"llvm -mcpu={cpu}").instructions for cpu in ("x86-64", "haswell", "znver4", "generic")
)


def test_what_instructions_lack_costs_registers() -> None:
    assert [reserved_registers(known) for known in (SSE2, AVX2, AVX512, NEON)] == [0, 0, 0, 2]
    assert [operand_registers(known) for known in (SSE2, AVX2, AVX512, NEON)] == [2, 2, 1, 3]
    # It is no matter of how many registers there are.
    few = Target("llvm -mcpu=znver4 -vector-registers=16").instructions
    assert operand_registers(few) == 1


def test_what_does_not_fill_a_tile_is_in_vain() -> None:
    assert useful_part(12, 6) == useful_part(None, 6) == 1
    assert useful_part(7, 6) == pytest.approx(7 / 12)


def test_what_remains_of_rows_is_a_tile_of_its_own() -> None:
    full, rest = (1 / steps_a_cycle(rows, 2, AVX2.ports) for rows in (6, 1))
    assert cycles_of_rows(12, 6, 2, AVX2.ports) == pytest.approx(2 * full)
    assert cycles_of_rows(13, 6, 2, AVX2.ports) == pytest.approx(2 * full + rest)


def test_ports_bound_the_steps_of_a_tile() -> None:
    ports = Ports(fmas=2, arithmetic=3, loads=2, issue=4, latency=4)

    def cycles(rows: int, vectors: int, **changes: float) -> float:
        own = replace(ports, **changes)  # type: ignore[arg-type]
        sums = rows * vectors
        return sums / (sums + UNHIDDEN * own.fmas) / steps_a_cycle(rows, vectors, own)

    assert cycles(6, 2) == pytest.approx(6)
    assert cycles(6, 2, fmas=1) == pytest.approx(12)
    assert cycles(6, 2, loads=1) == pytest.approx(8)
    assert cycles(6, 2, issue=2) == pytest.approx(10)
    assert cycles(2, 2) == pytest.approx(4)
    assert cycles(2, 2, latency=5) == pytest.approx(5)


def test_widening_takes_ports_of_multiply_adds() -> None:
    plain, both = Ports(), Ports(arithmetic=2)
    assert steps_a_cycle(6, 2, plain, widened=True) == steps_a_cycle(6, 2, plain)
    assert steps_a_cycle(6, 2, both, widened=True) < steps_a_cycle(6, 2, both)
    # Where they are the same, tall tiles widen less.
    server = Target("llvm -mcpu=sapphirerapids").instructions
    assert best_tile(1024, 12, 16, server) == TileShape(6, 4)
    assert best_tile(1024, 12, 16, server, widened=True) == TileShape(12, 2)


def test_latency_decides_where_sums_are_few() -> None:
    """Ten sums keep two ports busy for five cycles, eight for four."""
    zen = Target("llvm -mcpu=znver3").instructions
    assert best_tile(1024, 5, 8, AVX2) == TileShape(5, 2)
    assert [best_tile(24, 5, 8, known) for known in (AVX2, zen)] == [
        TileShape(5, 2), TileShape(3, 3)
    ]  # fmt: skip


def test_of_equals_the_one_with_the_fewest_loads() -> None:
    # Of 12 rows and 3 vectors: 12 x 1 loads 39 times a step of k, 3 x 3 loads 24 times.
    zen = Target("llvm -mcpu=znver3").instructions
    assert best_tile(24, 12, 8, zen) == TileShape(3, 3)
    assert best_tile(1024, 16, 8, zen) == TileShape(4, 2)


def test_tiles_of_one_vector_are_not_high_where_each_row_has_a_broadcast_of_its_own() -> None:
    for columns, rows in ((8, 64), (72, 256), (100, 64), (100, 256), (120, 300)):
        tile = best_tile(columns, rows, 8, AVX2)
        assert tile.vectors > 1 or tile.rows <= MOST_BROADCASTS
    assert best_tile(100, 256, 8, AVX2) == TileShape(6, 2), "of seven panels, an eighth in vain"
    assert row_tile(8, 56, 8, AVX2).rows <= MOST_BROADCASTS
    assert best_tile(16, 64, 16, AVX512).rows > MOST_BROADCASTS


def test_tiles_fit_their_registers() -> None:
    # Twelve or eight sums, two vectors of the weight, one broadcast, and one to load ahead into.
    assert best_tile(1024, 1024, 8, AVX2) == TileShape(6, 2)
    assert best_tile(4096, 4, 8, AVX2) == TileShape(4, 2)
    assert best_tile(1024, 4, 8, AVX2).rows == 4
    # The 28 sums of 14 rows would leave two vectors and a broadcast no register to load ahead into.
    assert best_tile(64, 56, 4, AVX512) == TileShape(14, 2)
    assert best_tile(64, 56, 4, NEON).rows < 14
    for rows in (*range(1, 20), None):
        for known in (SSE2, AVX2, AVX512, NEON):
            tile = best_tile(1024, rows, 8, known)
            taken = (tile.rows + 1) * tile.vectors + operand_registers(known)
            assert taken <= known.registers


def test_the_remainder_of_a_row_is_a_tile_of_its_own() -> None:
    # Rows of 7 and 14 pixels with 16 registers: 4 + 3 pixels of 3 vectors, 5 + 5 + 4 of 2.
    assert row_tile(512, 7, 8, AVX2) == TileShape(4, 3)
    assert row_tile(256, 14, 8, AVX2) == TileShape(5, 2)
    assert row_tile(64, 56, 8, AVX2) == TileShape(6, 2)
    assert [row_tile(512, n, 16, AVX512) for n in (7, 14, 28)] == [
        TileShape(7, 3), TileShape(14, 2), TileShape(14, 2)
    ]  # fmt: skip
    assert row_tile(64, 56, 4, AVX512) == TileShape(14, 2)
    assert row_tile(64, 56, 4, NEON).rows < 14
    # Symbolic rows have no known remainder.
    assert row_tile(64, None, 8, AVX2) == best_tile(64, None, 8, AVX2)
    assert row_tile(64, None, 4, NEON) == best_tile(64, None, 4, NEON)
    # No tile is worth more than what is there.
    assert row_tile(5, 1, 8, AVX2) == TileShape(1, 1)
