"""What a register tile costs: the cycles of a step of k, and the tiles that take the fewest.

A tile of rows x vectors does rows * vectors multiply-adds for rows + vectors loads, and all of its
sums are in registers, beside the vectors of a row of the weight and what is broadcast. Large square
tiles load least; small ones waste least where rows or columns do not fill them. Products weigh both
(``best_tile``), convolutions know the length of a row of pixels (``row_tile``).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from ...support.instructions import Instructions, Ports
from ...support.target import Target

UNHIDDEN = 2
"""Cycles of the caches' latency that a step of k waits for at least (measured)."""
LOADED = 2
"""Registers more where every operand must be loaded, none read from memory by the instruction that
uses it."""
WIDENING = 2
"""Instructions that make a vector of float32 of one of half as many bits."""
TALLEST_TILE = 14
VECTORS = (1, 2, 3, 4)
"""Vectors of a tile."""
STEPS = (1, 2, 4, 8)
"""Steps of k that may be written out."""
LONG_STEP = 8
"""Cycles of a step of k from which on caches and what the hardware fetches ahead keep up with a
tile's operands (measured)."""
ALIKE = 0.9999
"""The part of the best score that counts as equal to it."""
MOST_SUMS = 3 / 4
"""The part of the registers that sums may take where every operand must be loaded: of more, one is
spilled."""
MOST_BROADCASTS = 8
"""Rows of a tile of one vector where no multiply-add broadcasts what it reads: each has a broadcast
of its own, and of more rows sums are spilled (measured: 8 rows 77 GFLOP/s, 10 rows 68, 13 rows 60;
6 x 2 has 90)."""
SYMBOLIC_TILES = (1, 2, 4, 6, 8, 12)
"""Rows of a tile where the number of rows is symbolic: what remains is cut by divisors of these."""


@dataclass(frozen=True)
class TileShape:
    """``rows`` x ``vectors``."""

    rows: int
    vectors: int


def reserved_registers(known: Instructions) -> int:
    """Registers that a tile of sums leaves to what instructions cannot do."""
    return 0 if known.reads_memory else LOADED


def operand_registers(known: Instructions) -> int:
    """Registers beside a tile's sums and the vectors of a row of the weight: one for what is
    broadcast, and others to load ahead into where no instruction broadcasts from memory."""
    return 1 if known.broadcast_from_memory else max(2, 1 + reserved_registers(known))


def most_sums(known: Instructions) -> float:
    """The sums that a tile may have."""
    return known.registers * (1 if known.reads_memory else MOST_SUMS)


def has_room(rows: int, vectors: int, known: Instructions, spare: int) -> bool:
    """Whether a tile's sums stay in registers, beside a row of the weight and ``spare`` ones."""
    sums = rows * vectors
    if vectors == 1 and known.reads_memory and not known.broadcast_from_memory:
        sums = rows if rows <= MOST_BROADCASTS else known.registers
    return sums + vectors + spare <= known.registers and sums <= most_sums(known)


def steps_a_cycle(rows: int, vectors: int, ports: Ports, *, widened: bool = False) -> float:
    """Steps of k that a tile does in a cycle: bounded by the ports of multiply-adds, of arithmetic
    and of loads, by issue, and by latency.

    The last factor: with few sums in flight, cache latency is not hidden. Vectors that are
    ``widened`` when they are loaded cost two instructions more each.
    """
    fma = rows * vectors
    loads = rows + vectors
    arithmetic = fma + (WIDENING * vectors if widened else 0)
    cycles = max(
        fma / ports.fmas,
        arithmetic / ports.arithmetic,
        loads / ports.loads,
        (arithmetic + loads) / ports.issue,
        ports.latency,
    )
    return fma / (fma + UNHIDDEN * ports.fmas) / cycles


def useful_part(extent: int | None, tile: int) -> float:
    """The part of the work on tiles that is not in vain, where what remains of ``extent`` costs as
    much as a full tile; all of it where that is symbolic."""
    return 1.0 if extent is None else extent / (math.ceil(extent / tile) * tile)


def has_short_steps(tile: TileShape, known: Instructions) -> bool:
    """Whether operands are read so often that what reads them needs help to be in time."""
    return cycles_of_step(tile.rows * tile.vectors, known.ports) < LONG_STEP


def cycles_of_step(sums: int, ports: Ports) -> float:
    """Cycles in which a tile of so many sums adds to each of them once."""
    return max(sums / ports.fmas, ports.latency)


def product_cycles(rows: int, vectors: int, ports: Ports) -> float:
    """Cycles of a step of k of a tile."""
    return 1 / steps_a_cycle(rows, vectors, ports)


def window_cycles(rows: int, vectors: int, ports: Ports) -> float:
    """Cycles of a step of a window, each of whose rows has a load of its own: the latency of the
    sums, at least."""
    sums = rows * vectors
    return max(sums / ports.fmas, sums / ports.loads, ports.latency)


def cycles_of_rows(
    rows: int,
    tile_rows: int,
    vectors: int,
    ports: Ports,
    cycles: Callable[[int, int, Ports], float] = product_cycles,
) -> float:
    """Cycles that a step of k takes for one panel of all rows, where what remains of them is a tile
    of its own. ``cycles`` are those of one tile."""
    full, rest = divmod(rows, tile_rows)
    return full * cycles(tile_rows, vectors, ports) + (cycles(rest, vectors, ports) if rest else 0)


def best_tile(
    columns: int | None,
    rows: int | None,
    lanes: int,
    known: Instructions,
    *,
    widened: bool = False,
    vectors: int | None = None,
) -> TileShape:
    """The tile with the most useful multiply-adds a cycle that fits the registers; of equals that
    with the fewest instructions beside them, then the narrowest.

    Partial tiles of rows and columns count as full ones; ``rows`` None (symbolic) counts no
    remainder. Vectors of the weight may be ``widened`` by each tile that reads them. Where
    ``vectors`` are given, the best of the tiles that have them.
    """
    found: list[tuple[float, float, TileShape]] = []
    spare = operand_registers(known)
    fitting = [v for v in VECTORS if columns is None or v <= math.ceil(columns / lanes)]
    for wide in fitting if vectors is None else (vectors,):
        for tile_rows in range(1, min(TALLEST_TILE, rows or TALLEST_TILE) + 1):
            if not has_room(tile_rows, wide, known, spare):
                continue
            if rows is None and tile_rows not in SYMBOLIC_TILES:
                continue
            useful = useful_part(columns, wide * lanes) * useful_part(rows, tile_rows)
            steps = steps_a_cycle(tile_rows, wide, known.ports, widened=widened)
            sums = useful * tile_rows * wide
            beside = tile_rows + wide + (WIDENING * wide if widened else 0)
            found.append((sums * steps, round(beside / sums, 6), TileShape(tile_rows, wide)))
    most = max([score for score, _, _ in found])
    equals = [(beside, tile) for score, beside, tile in found if score >= most * ALIKE]
    return min(equals, key=lambda e: (e[0], e[1].vectors, e[1].rows))[1]


def rows_of_tile(rows: int | None, vectors: int, target: Target) -> tuple[int, ...]:
    """The numbers of rows that a tile of so many ``vectors`` has registers for, of ``rows`` (None
    where that is symbolic)."""
    limit = max(1, (target.vector_registers - vectors - 1) // vectors)
    if rows is None:
        return tuple([r for r in SYMBOLIC_TILES if r <= limit])
    return tuple(range(1, min(limit, rows, TALLEST_TILE) + 1))


def row_tile(columns: int | None, width: int | None, lanes: int, known: Instructions) -> TileShape:
    """The tile of pixels x vectors with which a row of ``width`` pixels takes the fewest cycles.

    What remains of a row behind full tiles is a tile of its own. Of tiles that are as good, that
    with fewer registers. Symbolic sizes are left to ``best_tile``.
    """
    if columns is None or width is None:
        return best_tile(columns, width, lanes, known)
    best: tuple[float, TileShape] | None = None
    for vectors in range(1, min(4, math.ceil(columns / lanes)) + 1):
        # Three vectors leave enough to do while an operand is loaded.
        waits = vectors <= 2 or not known.reads_memory
        spare = operand_registers(known) if waits else 1
        for pixels in range(1, min(TALLEST_TILE, width) + 1):
            if not has_room(pixels, vectors, known, spare):
                break
            cycles = cycles_of_rows(width, pixels, vectors, known.ports)
            cycles *= math.ceil(columns / (vectors * lanes))
            if best is None or cycles < best[0] * ALIKE:
                best = (cycles, TileShape(pixels, vectors))
    assert best is not None
    return best[1]
