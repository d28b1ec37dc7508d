"""What a summary says of small programs, checked by hand."""

from __future__ import annotations

import numpy as np

from burnish.tensorir.schedule import Schedule
from burnish.tensorir.text.parser import parse_func
from burnish.tests.tuner.programs import matmul
from burnish.tests.tuner.spaces import doubled
from burnish.tuner.cost.nest_summary import OPERATIONS, StoreLeaves, split_leaves, summarize


def leaves_of(func: object) -> list[StoreLeaves]:
    summary = summarize(func)  # type: ignore[arg-type]
    assert sum(s.leaf_count for s in summary.structure) == len(summary.leaves)
    return split_leaves(summary.structure, summary.leaves.astype(np.float64)[None, :])


def test_a_tiled_copy() -> None:
    sch = Schedule(doubled(64), seed=0)
    i, j = sch.get_loops("B")
    i0, _ = sch.split(i, [None, 8])
    sch.vectorize(j)
    sch.parallel(i0)
    (store,) = summarize(sch.func).structure
    assert store.loops == ("parallel", "serial", "vectorized")
    assert dict(zip(OPERATIONS, store.operations, strict=True))["float_mul"] == 1
    assert sum(store.operations) == 1
    written, read = store.accesses
    assert (written.writes, written.reads, read.writes, read.reads) == (1, 0, 0, 1)
    assert not written.is_local
    (leaves,) = leaves_of(sch.func)
    assert leaves.extents.tolist() == [[8, 8, 64]]
    assert leaves.steps[0].tolist() == [[[8, 1, 0], [0, 0, 1]]]
    assert leaves.counts[0].tolist() == [[[8, 8, 1], [1, 1, 64]]]


def test_a_reduction_has_its_init_outside_of_the_reduce_loop() -> None:
    init, update = summarize(matmul(8)).structure
    assert len(init.loops) == 2
    assert len(update.loops) == 3
    assert [(a.reads, a.writes) for a in update.accesses] == [(1, 1), (1, 0), (1, 0)]


def test_fused_loops_are_taken_apart() -> None:
    sch = Schedule(doubled(64), seed=0)
    sch.fuse(*sch.get_loops("B"))
    (leaves,) = leaves_of(sch.func)
    assert leaves.extents.tolist() == [[4096]]
    assert leaves.counts[0].tolist() == [[[64], [64]]]
    assert leaves.steps[0].tolist() == [[[1], [1]]]


def test_unrolling_by_annotation() -> None:
    sch = Schedule(doubled(64), seed=0)
    sch.annotate("B", "pragma_auto_unroll_max_step", 16)
    (leaves,) = leaves_of(sch.func)
    assert leaves.unroll.tolist() == [16]


def test_scopes_and_local_buffers() -> None:
    sch = Schedule(matmul(8), seed=0)
    sch.cache_write("C", 0, "register")
    _, update, copy = summarize(sch.func).structure
    assert update.accesses[0].is_register
    assert update.accesses[0].is_local
    assert not copy.accesses[0].is_register


def test_operations_by_kind() -> None:
    func = parse_func(
        """@T.prim_func
def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("B"):
            v = T.axis.spatial(8, i)
            B[v] = T.exp(A[v]) / T.max(A[v], T.float32(1)) - T.Cast("float32", v // 2)
"""
    )
    (store,) = summarize(func).structure
    counts = {k: c for k, c in zip(OPERATIONS, store.operations, strict=True) if c}
    assert counts == {
        "float_dear_call": 1,
        "float_div": 1,
        "float_minmax": 1,
        "float_add": 1,
        "cast": 1,
        "int_divmod": 1,
    }
