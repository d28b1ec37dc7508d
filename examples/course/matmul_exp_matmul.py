"""Two products with an exponential between them, ``F = exp(A @ B) @ E``, from plain loops to a
schedule that packs its operands: one thread, each step built, checked and timed.

    python examples/course/matmul_exp_matmul.py [M K L N] [--repeat R] [--show]

Prints for each step the seconds of a call, GFLOP/s and the fraction of the machine's FMA peak,
which is measured by a product that never leaves the registers; at the end the same chain in NumPy.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

import burnish
from burnish import Schedule, te
from burnish.support.host import resolve
from burnish.support.target import Target
from burnish.tensorir.expr import Expr
from burnish.tensorir.function import PrimFunc
from burnish.tensorir.schedule import BlockRV, LoopRV

TARGET = "native -threads=1"
ONE_THREAD = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS")


def native() -> Target:
    """This machine."""
    return resolve(burnish.Target(TARGET))


@dataclass(frozen=True)
class Sizes:
    """``A[m, k] @ B[k, l]`` and ``D[m, l] @ E[l, n]``."""

    m: int = 1024
    k: int = 2048
    l: int = 1024  # noqa: E741
    n: int = 3072

    @property
    def flop(self) -> float:
        """Multiplications and additions of both products."""
        return 2.0 * self.m * self.l * (self.k + self.n)


def chain(s: Sizes) -> PrimFunc:
    """The tensor program: three nests, as they are defined."""
    a, b = te.placeholder((s.m, s.k), name="A"), te.placeholder((s.k, s.l), name="B")
    e = te.placeholder((s.l, s.n), name="E")
    rk, rl = te.reduce_axis((0, s.k), name="rk"), te.reduce_axis((0, s.l), name="rl")
    c = te.compute((s.m, s.l), lambda m, p: te.sum(a[m, rk] * b[rk, p], axis=[rk]), name="C")
    d = te.compute((s.m, s.l), lambda m, p: te.exp(c[m, p]), name="D")
    f = te.compute((s.m, s.n), lambda m, n: te.sum(d[m, rl] * e[rl, n], axis=[rl]), name="F")
    return te.create_prim_func([a, b, e, f])


# -- the steps of the course -----------------------------------------------------------------------
def untransformed(s: Sizes) -> Schedule:
    """The loops of the definition: the innermost ones walk down the columns of B and E."""
    sch = Schedule(chain(s))
    for name in ("C", "F"):
        sch.decompose_reduction(name, sch.get_loops(name)[2])
    return sch


def reordered(s: Sizes) -> Schedule:
    """The columns innermost: B and E are read along their rows."""
    sch = Schedule(chain(s))
    for name in ("C", "F"):
        m, n, k = sch.get_loops(name)
        sch.reorder(m, k, n)
        sch.decompose_reduction(name, k)
    return sch


def tiled_depth(s: Sizes) -> Schedule:
    """Eight rows of B and E serve all rows of the results before the next eight are read."""
    sch = Schedule(chain(s))
    for name in ("C", "F"):
        m, n, k = sch.get_loops(name)
        k_0, k_1 = sch.split(k, [None, 8])
        sch.reorder(k_0, m, k_1, n)
        sch.decompose_reduction(name, k_0)
    return sch


def tile_all(s: Sizes) -> Schedule:
    """All loops in tiles of 16 x 8 x 8; the inits stay where the sums are."""
    sch = Schedule(chain(s))
    for name in ("C", "F"):
        m, n, k = sch.get_loops(name)
        m_0, m_1 = sch.split(m, [None, 16])
        k_0, k_1 = sch.split(k, [None, 8])
        n_0, n_1 = sch.split(n, [None, 8])
        sch.reorder(m_0, n_0, k_0, m_1, k_1, n_1)
    return sch


def tiled(s: Sizes) -> Schedule:
    """Tiles of all loops, their inits before their sums."""
    sch = tile_all(s)
    for name in ("C", "F"):
        sch.decompose_reduction(name, sch.get_loops(name)[2])
    return sch


def merge_exp(sch: Schedule) -> LoopRV:
    """Apply exp to each tile as soon as it is complete; gives the loop over rows of tiles."""
    columns = sch.get_loops("C")[1]
    m, p = sch.get_loops("D")
    m_0, m_1 = sch.split(m, [None, 16])
    p_0, p_1 = sch.split(p, [None, 8])
    sch.reorder(m_0, p_0, m_1, p_1)
    sch.merge(columns, p_0)
    return sch.get_loops("C")[0]


def merged_exp(s: Sizes) -> Schedule:
    """exp joins the tiles of the first product."""
    sch = tile_all(s)
    merge_exp(sch)
    return sch


def merged_rows(s: Sizes) -> Schedule:
    """The loops over rows of both products join: 16 rows of F need 16 rows of D, all there."""
    sch = tile_all(s)
    sch.merge(merge_exp(sch), sch.get_loops("F")[0])
    return sch


def vectorised(s: Sizes) -> Schedule:
    """The innermost loops of both products as the lanes of vectors."""
    sch = merged_rows(s)
    for name in ("C", "F"):
        sch.vectorize(sch.get_loops(name)[-1])
    return sch


# -- packed operands -------------------------------------------------------------------------------
@dataclass(frozen=True)
class Blocking:
    """How the packed schedule cuts the loops.

    A register tile is ``mr`` rows by ``vectors`` vectors (of the first and of the second product)
    of ``lanes``. A panel of B is as wide as a tile and ``kc`` deep, one of E is as deep as E; a
    group of ``panels`` of them is packed and stays in the second-level cache while the ``mc`` rows
    of a block go by, sliver by sliver. ``mc`` is a multiple of ``mr``; rows are padded to a
    multiple of ``mc``.
    """

    mr: int
    vectors: tuple[int, int]
    lanes: int
    mc: int
    kc: int
    panels: int

    def check(self, s: Sizes) -> None:
        """Raises ValueError for sizes that these tiles do not divide."""
        first, second = (v * self.lanes * self.panels for v in self.vectors)
        depth = min(self.kc, s.k)
        sizes = ((self.mc, self.mr), (s.l, first), (s.n, second), (s.k, depth), (s.l, STEPS))
        for size, tile in sizes:
            if size % tile:
                found = f"{self} cuts {size} into parts of {tile}, which do not divide it."
                raise ValueError(found)


def blocking_for(s: Sizes, target: Target) -> Blocking:
    """Tiles that fill the vector registers: 14 x 2 vectors where there are 32 of them, 6 x 2 where
    there are 16. Blocks of some 1024 rows, as even as slivers allow; groups of up to four panels,
    half a second-level cache."""
    lanes = target.vector_bits // 32
    mr = 14 if target.instructions.holds(14 * 2 + 3) else 6
    blocks = -(-s.m // 1040)
    mc = -(-s.m // (blocks * mr)) * mr
    panels = next(
        p for p in (4, 2, 1) if s.l % (2 * p * lanes) == s.n % (2 * p * lanes) == 0 or p == 1
    )
    return Blocking(mr, (2, 2), lanes, mc, 1024, panels)


STEPS = 4
"""Steps of the reduction that a row of a packed sliver has side by side, and that are unrolled."""

AHEAD = 3
"""Iterations of ``STEPS`` that panels and slivers are asked for before they are read."""

ROWS_AHEAD = 16
"""Rows of B and E that are asked for before they are packed: each lies in a page of its own, where
the hardware does not foresee them."""


def packed(s: Sizes, blocking: Blocking | None = None) -> Schedule:
    """Register tiles over packed operands, in the order of BLIS.

    For each block of mc rows, A is packed into slivers of mr rows, the last one filled up with
    zeros; B and E are packed group by group into a buffer that never leaves the second-level cache.
    exp writes D in the order in which the second product reads it, so that packing D costs nothing.
    Where the hardware does not foresee what is read, loops fetch ahead (prefetch_distance).
    """
    cut = blocking or blocking_for(s, native())
    cut.check(s)
    sch = Schedule(chain(s))
    first, second = sch.get_block("C"), sch.get_block("F")
    sliver, result = _pad_rows(sch, cut)
    loops = [
        _cut_loops(sch, block, cut, vectors, depth)
        for block, vectors, depth in zip((first, second), cut.vectors, (cut.kc, s.l), strict=True)
    ]
    _place_exp(sch, loops[0].blocks, cut)
    rows = sch.merge(loops[0].blocks, loops[1].blocks)
    sch.compute_at(sliver, rows, preserve_unit_loops=True)
    _pack_rows(sch, sliver)
    for block, own, vectors in zip((first, second), loops, cut.vectors, strict=True):
        panel = sch.pack(block, 1, own.groups, panels_of(vectors * cut.lanes))
        _pack_columns(sch, panel, vectors, cut.lanes)
    _tile_registers(sch, first, loops[0], cut, None)
    _tile_registers(sch, second, loops[1], cut, result)
    if s.k > cut.kc:
        # What is added to in several rounds lies tile by tile.
        width = cut.vectors[0] * cut.lanes
        tiles = lambda m, p: (m // cut.mr, p // width, m % cut.mr, p % width)  # noqa: E731
        sch.transform_layout("D", ("read", 0), tiles)
    return sch


def _pad_rows(sch: Schedule, cut: Blocking) -> tuple[BlockRV, BlockRV]:
    """Whole slivers of A and D, whole tiles of C and F; gives the copies that pack A and that take
    the rows of F that are wanted."""

    def slivers(i: Expr, k: Expr) -> tuple[Expr, ...]:
        row = i % cut.mc
        return i // cut.mc, row // cut.mr, k // STEPS, row % cut.mr, k % STEPS

    sliver = sch.cache_read("C", 0, "global")
    sch.transform_layout("C", ("read", 0), slivers, pad_value=0.0)
    if len(sch.get_loops(sliver)) == 2:  # nothing to fill up: only the buffer has changed
        sch.transform_block_layout(sliver, slivers)
    result = sch.cache_write("F", 0, "register")
    for name in ("C", "D", "F"):
        axes = len(sch.get_loops(name))
        sch.pad_einsum(name, [cut.mc] + [1] * (axes - 1))
    sch.transform_layout("D", ("write", 0), slivers)
    return sliver, result


def panels_of(width: int) -> Callable[[Expr, Expr], tuple[Expr, ...]]:
    """The layout of panels of columns, each read from front to back."""
    return lambda k, n: (n // width, k, n % width)


@dataclass(frozen=True)
class _Loops:
    """The loops of a product: blocks of rows, rounds of depth (None for one round), groups of
    panels, panels, steps, the tile."""

    blocks: LoopRV
    rounds: LoopRV | None
    groups: LoopRV
    panels: LoopRV
    steps: tuple[LoopRV, LoopRV]
    tile: tuple[LoopRV, LoopRV, LoopRV]


def _cut_loops(sch: Schedule, block: BlockRV, cut: Blocking, vectors: int, depth: int) -> _Loops:
    m, n, k = sch.get_loops(block)
    blocks, slivers, row = sch.split(m, [None, cut.mc // cut.mr, cut.mr])
    groups, panels, vector, lane = sch.split(n, [None, cut.panels, vectors, cut.lanes])
    if depth >= sch.get(k).extent.value:
        step, unrolled = sch.split(k, [None, STEPS])
        rounds = None
        sch.reorder(blocks, groups, slivers, panels, step, unrolled, row, vector, lane)
    else:
        rounds, step, unrolled = sch.split(k, [None, depth // STEPS, STEPS])
        sch.reorder(blocks, rounds, groups, slivers, panels, step, unrolled, row, vector, lane)
    return _Loops(blocks, rounds, groups, panels, (step, unrolled), (row, vector, lane))


def _place_exp(sch: Schedule, rows: LoopRV, cut: Blocking) -> None:
    """exp of a block of rows, tile by tile, in vectors."""
    sch.reverse_compute_at("D", rows)
    m, p = sch.get_loops("D")[-2:]
    sliver, row = sch.split(m, [None, cut.mr])
    panel, vector, lane = sch.split(p, [None, cut.vectors[0], cut.lanes])
    sch.reorder(sliver, panel, row, vector, lane)
    sch.unroll(vector)
    sch.vectorize(lane)


def _pack_rows(sch: Schedule, copy: BlockRV) -> None:
    """A row gives STEPS elements side by side to a sliver."""
    sliver, step, row, side = sch.get_loops(copy)[-4:]
    line, few = sch.split(step, [None, 4])
    sch.reorder(sliver, line, row, few, side)
    sch.unroll(few)
    sch.vectorize(side)


def _pack_columns(sch: Schedule, copy: BlockRV, vectors: int, lanes: int) -> None:
    """Row by row, a stretch of it for each panel."""
    row, n = sch.get_loops(copy)[-2:]
    panel, vector, lane = sch.split(n, [None, vectors, lanes])
    sch.annotate(row, "prefetch_distance", ROWS_AHEAD)
    sch.unroll(panel)
    sch.unroll(vector)
    sch.vectorize(lane)


def _tile_registers(
    sch: Schedule, block: BlockRV, own: _Loops, cut: Blocking, result: BlockRV | None
) -> None:
    """Sum a tile in registers and write it to ``result``; without one, where a round is not the
    whole sum, begin with what is there and put it back."""
    if result is not None:
        sch.reverse_compute_at(result, own.panels)
        init = sch.decompose_reduction(block, own.steps[0])
        row, vector = sch.get_loops(init)[-3:-1]
        sch.unroll(row)
        sch.unroll(vector)
        copies = [result]
    else:
        init = sch.decompose_reduction(block, own.rounds or own.groups)
        copies = sch.cache_inplace(block, 0, "register", own.panels)
    sch.vectorize(sch.get_loops(init)[-1])
    for loop in (own.steps[1], *own.tile[:2]):
        sch.unroll(loop)
    sch.annotate(own.steps[0], "prefetch_distance", AHEAD)
    sch.vectorize(own.tile[2])
    for copy in copies:
        row, columns = sch.get_loops(copy)[-2:]
        vector, lane = sch.split(columns, [None, cut.lanes])
        sch.unroll(row)
        sch.unroll(vector)
        sch.vectorize(lane)


STAGES: dict[str, Callable[[Sizes], Schedule]] = {
    "untransformed": untransformed,
    "loops reordered": reordered,
    "depth tiled": tiled_depth,
    "all loops tiled": tiled,
    "tiled, inits inside": tile_all,
    "exp merged": merged_exp,
    "rows merged": merged_rows,
    "vectorised": vectorised,
    "packed": packed,
}


# -- running ---------------------------------------------------------------------------------------
def operands(s: Sizes) -> list[np.ndarray]:
    """A, B and E, so small that exp stays in range."""
    rng = np.random.default_rng(0)
    shapes = ((s.m, s.k), (s.k, s.l), (s.l, s.n))
    return [rng.standard_normal(shape, "float32") * np.float32(s.k**-0.5) for shape in shapes]


def with_numpy(a: np.ndarray, b: np.ndarray, e: np.ndarray, f: np.ndarray) -> None:
    """The chain in NumPy."""
    c = np.matmul(a, b)
    np.exp(c, out=c)
    np.matmul(c, e, out=f)


def best_time(call: Callable[[], object], repeat: int) -> float:
    """The least time of a call."""
    times: list[float] = []
    for _ in range(repeat):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def fma_peak(depth: int = 400000, repeat: int = 60) -> float:
    """GFLOP/s of fused multiply-adds on registers: a product whose operands do not change."""
    target = native()
    lanes = target.vector_bits // 32
    # With their operands.
    rows, vectors = 8 if target.instructions.holds(8 * 3 + 4) else 3, 3
    a, b = te.placeholder((rows,), name="A"), te.placeholder((vectors * lanes,), name="B")
    rk = te.reduce_axis((0, depth), name="rk")
    shape = (rows, vectors * lanes)
    c = te.compute(shape, lambda i, j: te.sum(a[i] * b[j], axis=[rk]), name="C")
    sch = Schedule(te.create_prim_func([a, b, c]))
    block = sch.get_block("C")
    i, j, k = sch.get_loops(block)
    k_0, k_1 = sch.split(k, [None, 4])
    vector, lane = sch.split(j, [None, lanes])
    sch.reorder(k_0, k_1, i, vector, lane)
    copy = sch.cache_write(block, 0, "register")
    init = sch.decompose_reduction(block, k_0)
    sch.unroll(k_1)
    columns = sch.get_loops(copy)[-1]
    sch.split(columns, [None, lanes])
    for name in (init, block, copy):
        row, more, last = sch.get_loops(name)[-3:]
        sch.unroll(row)
        sch.unroll(more)
        sch.vectorize(last)
    function = burnish.build(sch.mod, target=TARGET)["main"]
    inputs = [burnish.array(np.zeros(n, "float32")) for n in (rows, shape[1])]
    out = burnish.empty(shape)
    seconds = best_time(lambda: function(*inputs, out), repeat)
    return 2.0 * shape[0] * shape[1] * depth / seconds / 1e9


def run_stage(name: str, s: Sizes, repeat: int = 1) -> tuple[np.ndarray, float]:
    """Build a stage and call it; what it computes, and the least seconds of a call."""
    function = burnish.build(STAGES[name](s).mod, target=TARGET)["main"]
    arguments = [*map(burnish.array, operands(s)), burnish.empty((s.m, s.n))]
    seconds = best_time(lambda: function(*arguments), repeat)
    return arguments[-1].numpy(), seconds


def main(argv: list[str] | None = None) -> int:
    """Run all stages and print a table; gives 1 if one computes something else than NumPy."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sizes", nargs="*", type=int, help="M K L N")
    parser.add_argument("--repeat", type=int, default=20)
    parser.add_argument("--show", action="store_true", help="print the program of each stage")
    options = parser.parse_args(argv)
    if len(options.sizes) not in (0, 4):
        parser.error("give all of M, K, L and N, or none")
    s = Sizes(*options.sizes)
    expected = np.empty((s.m, s.n), "float32")
    given = operands(s)
    with_numpy(*given, expected)
    wrong = 0
    print(f"{'stage':22s} {'seconds':>9s} {'GFLOP/s':>8s} {'of peak':>8s}")
    for name in STAGES:
        if options.show:
            STAGES[name](s).show()
        result, seconds = run_stage(name, s)
        # Slow stages run once; fast ones until the machine has had a quiet moment.
        if seconds < 1:
            result, seconds = run_stage(name, s, options.repeat)
        if not np.allclose(result, expected, rtol=1e-3, atol=1e-3):
            print(f"{name}: WRONG")
            wrong += 1
        _print_row(name, seconds, s)
    _print_row("NumPy", best_time(lambda: with_numpy(*given, expected), options.repeat), s)
    return 1 if wrong else 0


def _print_row(name: str, seconds: float, s: Sizes) -> None:
    speed, peak = s.flop / seconds / 1e9, fma_peak()
    print(f"{name:22s} {seconds:9.4f} {speed:8.1f} {speed / peak:7.1%} of {peak:.1f}")


if __name__ == "__main__":
    if any(os.environ.get(name) != "1" for name in ONE_THREAD):
        # NumPy's BLAS asks for its number of threads when it is loaded: start again with one.
        os.environ.update(dict.fromkeys(ONE_THREAD, "1"))
        os.execv(sys.executable, [sys.executable, *sys.argv])
    raise SystemExit(main())
