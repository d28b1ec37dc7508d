"""When a weight is packed, and what of it."""

from __future__ import annotations

import numpy as np
import pytest

from burnish.support.target import Target
from burnish.tensorir import operators as op
from burnish.tensorir.expr import IntImm
from burnish.tensorir.function import PrimFunc
from burnish.tensorir.schedule import Schedule
from burnish.tensorir.text.printer import print_func
from burnish.tests.tuner.rules.checking import HASWELL, SKYLAKE, Shape, Workload, scheduled
from burnish.tuner.rules.matmul import match
from burnish.tuner.tiling.panels import is_layout_free, pack_columns, wants_packing
from burnish.tuner.tiling.tile_model import TileShape

ONE_PORT = Target("llvm -mcpu=znver4")


def product(a: Shape, b: Shape, *, tb: bool = False) -> PrimFunc:
    return Workload(lambda x, y: op.matmul(x, y, transpose_b=tb), np.matmul, a, b).func


@pytest.mark.parametrize(
    ("a", "b", "tb", "wanted"),
    [
        ((4, 64), (64, 64), False, False),
        ((4, 64), (64, 2048), False, False),
        ((500, 64), (64, 64), False, False),
        ((500, 64), (64, 2048), False, True),
        (("m", 64), (64, 2048), False, True),
        (("m", 64), (64, "n"), False, False),
        ((4, 64), (64, 64), True, True),
        ((4, 64), ("n", 64), True, True),
    ],
)
def test_what_is_packed(a: Shape, b: Shape, tb: bool, wanted: bool) -> None:
    func = product(a, b, tb=tb)
    matmul = match(func)
    assert matmul is not None
    rows = a[0] if isinstance(a[0], int) else None
    assert wants_packing(func, matmul, TileShape(12, 2), rows, SKYLAKE) is wanted


def test_for_tiles_with_short_steps_a_copy_pays_earlier() -> None:
    """Of twelve sums on two ports or one."""
    func = product((64, 64), (64, 128))
    matmul = match(func)
    assert matmul is not None
    for target, wanted in ((HASWELL, True), (SKYLAKE, True), (ONE_PORT, False)):
        assert wants_packing(func, matmul, TileShape(6, 2), 64, target) is wanted
    assert not wants_packing(func, matmul, TileShape(8, 3), 64, SKYLAKE)


def test_a_free_weight_gets_the_layout_itself() -> None:
    func = product((4, 64), (64, 40)).with_attr("layout_free", [1])
    matmul = match(func)
    assert matmul is not None
    assert is_layout_free(func, matmul.w.buffer)
    sch = Schedule(func, seed=0)
    assert pack_columns(sch, matmul, 32) is None
    assert [d.value for d in sch.func.buffers[1].shape if isinstance(d, IntImm)] == [2, 64, 32]
    other = func.with_attr("layout_free", [0])
    assert not is_layout_free(other, matmul.w.buffer)


def test_a_copy_is_packed_and_the_parameter_stays() -> None:
    func = product((3, 4, 64), (3, 40, 64), tb=True)
    matmul = match(func)
    assert matmul is not None
    sch = Schedule(func, seed=0)
    copy = pack_columns(sch, matmul, 32)
    assert copy is not None
    shape = sch.get(copy).writes[0].buffer.shape
    assert [d.value for d in shape if isinstance(d, IntImm)] == [3, 2, 64, 32]
    assert sch.func.buffers[1] is func.buffers[1]


@pytest.mark.parametrize(
    ("columns", "loops"),
    [(40, "for ax0, ax1, ax3_0, ax2 in T.grid(1, 1, 3, 64):"),
     (100, "for ax0, ax1, ax3_0, ax2_0 in T.grid(1, 2, 4, 4):"),
     (96, "for ax0, ax1_0, ax1_1, ax2_0 in T.grid(1, 2, 3, 4):")],
)  # fmt: skip
def test_each_matrix_of_a_batch_is_packed_where_it_is_used(columns: int, loops: str) -> None:
    func = product((3, 40, 64), (3, columns, 64), tb=True)
    _, func = scheduled(func, target=SKYLAKE.with_options(threads=1))
    lines = [x.strip() for x in print_func(func).splitlines()]
    at = lines.index(loops)
    # One matrix; its panels, vectors of a panel, and all of k before the next sixteen columns.
    assert lines[at - 1] == "for i0 in range(3):"
    assert any("b_global[" in x for x in lines[at + 1 : at + 20])
    # Panels turn in registers, where one at least is whole; the last may lack rows.
    turns = columns > 40
    assert any("b_register[" in x for x in lines) is turns
    assert lines[at + 1].endswith("in T.unroll(16):" if turns else "in T.vectorized(16):")
    rows = [x for x in lines if x.startswith("T.where(ax1 * 64") and x.endswith("< 100)")]
    assert bool(rows) is (columns == 100)
