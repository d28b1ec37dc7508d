"""Features of small programs, checked by hand; populations give what single programs give."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from burnish import te
from burnish.support.host import resolve
from burnish.support.instructions import Ports
from burnish.support.memory import Memory
from burnish.support.target import Target
from burnish.tensorir.function import PrimFunc
from burnish.tensorir.schedule import Schedule
from burnish.tests.tuner.programs import matmul, tiled
from burnish.tests.tuner.spaces import doubled
from burnish.tuner.cost.features import CYCLES, FEATURE_NAMES, Floats, Machine, features_of
from burnish.tuner.cost.nest_summary import summarize

MEMORY = Memory((32768, 1 << 20, 1 << 23), (64.0, 32.0, 16.0, 4.0), (64.0, 12.0))
MACHINE = Machine(32, 16, MEMORY, 1, Ports())


def row(func: PrimFunc) -> Floats:
    summary = summarize(func)
    leaves = summary.leaves.astype(np.float64)[None, :]
    return features_of(summary.structure, leaves, MACHINE)[0]


def feature(func: PrimFunc, name: str) -> float:
    """A feature, without its logarithm."""
    return float(2.0 ** row(func)[FEATURE_NAMES.index(name)] - 1.0)


def vectorized_copy(n: int = 64) -> PrimFunc:
    sch = Schedule(doubled(n), seed=0)
    i, j = sch.get_loops("B")
    _, j1 = sch.split(j, [None, 8])
    sch.vectorize(j1)
    sch.parallel(i)
    return sch.func


def test_names_are_distinct_and_as_many_as_columns() -> None:
    assert len(set(FEATURE_NAMES)) == len(FEATURE_NAMES) == len(row(vectorized_copy()))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("float_mul", 64 * 64),
        ("vectorized_loops", 1),
        ("vectorized_product", 8),
        ("vectorized_depth", 1),
        ("parallel_product", 64),
        ("parallel_depth", 3),
        ("unrolled_loops", 0),
        ("access0_writes", 1),
        ("access0_unique_bytes", 64 * 64 * 4),
        ("access0_bytes", 64 * 64 * 4),
        ("access0_unique_lines", 64 * 4),
        ("access0_stride", 1),
        ("access0_is_reused", 0),
        ("iterations", 64 * 64),
        ("depth", 3),
        ("outer_product", 64),
    ],
)
def test_features_of_a_vectorized_copy(name: str, expected: float) -> None:
    assert feature(vectorized_copy(), f"first_{name}") == pytest.approx(expected)


def test_reuse_in_a_product() -> None:
    func = matmul(32)  # loops i, j, k: C stays for k, A is used again for j, B for i
    assert feature(func, "first_access0_reuse_count") == pytest.approx(32)
    assert feature(func, "first_access0_reuse_iterations") == pytest.approx(1)
    names = [f"access{a}" for a in range(3)]
    reuse = {n: feature(func, f"first_{n}_reuse_iterations") for n in names}
    # Inside j: one row of A is read again after 32 iterations. Inside i: all of B after 1024.
    assert [round(reuse[n]) for n in names] == [1, 32, 1024]
    a_row_and_b_column_and_c = (32 + 32 + 1) * 4
    assert feature(func, "first_access1_reuse_bytes") == pytest.approx(a_row_and_b_column_and_c)
    # The innermost loop k walks down a column of B.
    assert feature(func, "first_access2_stride") == pytest.approx(32)


def test_the_intensity_curve_rises_with_reuse() -> None:
    values = row(matmul(64))
    at = FEATURE_NAMES.index("first_intensity0")
    assert values[at + 9] > 4 * values[at]
    # All of it: 2 * 64**3 operations over three matrices.
    assert 2 ** values[at + 9] - 1 == pytest.approx(2 * 64**3 / (3 * 64 * 64 * 4))


def test_traffic_knows_caches() -> None:
    small, large = matmul(32), matmul(256)
    assert feature(small, "first_l1") == pytest.approx(3 * 32 * 32 * 4)
    assert feature(large, "first_l1") > 3 * 256 * 256 * 4
    assert feature(large, "first_l2") == pytest.approx(3 * 256 * 256 * 4)


def test_traffic_knows_the_sets_of_caches() -> None:
    """64 rows of which 16 columns are read, 4 KB: where a row is a page, all lie in one line's set
    and are fetched again each of 4 times; where it is a line more they stay. A third cache's sets
    are not known from addresses."""

    def walk(columns: int) -> PrimFunc:
        a = te.placeholder((64, columns), name="A")
        twice = te.compute((4, 64, 16), lambda r, i, j: a[i, j] * 2.0, name="B")
        return te.create_prim_func([a, twice])

    fetched, written = 64 * 64, 4 * 64 * 64
    assert feature(walk(1024 + 16), "first_l1") == pytest.approx(written + fetched)
    assert feature(walk(1024), "first_l1") == pytest.approx(written + 4 * fetched)
    assert feature(walk(1024), "first_l3") == pytest.approx(written + fetched)


def test_scalars_are_read_and_written_by_whole_populations() -> None:
    """Buffers without axes, and stores that no loop stands around, have every feature."""
    a, scale = te.placeholder((64, 32), name="A"), te.placeholder((), name="scale")
    i, j = te.reduce_axis((0, 64)), te.reduce_axis((0, 32))
    scaled = te.compute((64, 32), lambda i, j: a[i, j] * scale[()], name="B")
    total = te.compute((), lambda: te.sum(a[i, j], axis=(i, j)), name="T")
    for func in (te.create_prim_func([a, scale, scaled]), te.create_prim_func([a, total])):
        summary = summarize(func)
        rows = features_of(summary.structure, np.repeat(summary.leaves[None], 5, axis=0), MACHINE)
        assert np.isfinite(rows).all()
        assert (rows == row(func)).all()


def test_the_estimate_prefers_vectors_and_tiles() -> None:
    plain = row(matmul(128))[CYCLES]

    def tile(i: list[int], j: list[int]) -> float:
        sch = Schedule(matmul(128), seed=0)
        loops = sch.get_loops("C")
        i0, i1 = sch.split(loops[0], i)
        j0, j1 = sch.split(loops[1], j)
        sch.reorder(i0, j0, loops[2], i1, j1)
        sch.cache_write("C", 0, "register")
        sch.reverse_compute_at("C_register", j0)
        sch.unroll(i1)
        sch.vectorize(j1)
        return float(row(sch.func)[CYCLES])

    assert tile([32, 4], [16, 8]) < plain - 2
    assert tile([32, 4], [16, 8]) < tile([128, 1], [128, 1])


def cycles(func: PrimFunc, machine: Machine) -> float:
    summary = summarize(func)
    found = features_of(summary.structure, summary.leaves.astype(np.float64)[None], machine)
    return float(2.0 ** found[0, CYCLES])


def test_the_estimate_knows_what_memory_and_ports_can_do() -> None:
    """16 MB that are read once come from memory; a small copy waits for ports."""
    large, small = vectorized_copy(2048), vectorized_copy(64)
    slow = replace(MEMORY, one_core=(64.0, 32.0, 16.0, 2.0))
    assert cycles(large, replace(MACHINE, memory=slow)) > 1.4 * cycles(large, MACHINE)
    far = replace(MEMORY, one_core=(64.0, 16.0, 16.0, 4.0))
    assert cycles(large, replace(MACHINE, memory=far)) > cycles(large, MACHINE)
    ports = replace(MACHINE, ports=Ports(stores=0.25))
    assert cycles(small, ports) > cycles(small, MACHINE)


def test_threads_share_what_is_behind_their_second_caches() -> None:
    large = vectorized_copy(2048)
    few, many = (replace(MACHINE, threads=n) for n in (2, 64))
    assert cycles(large, MACHINE) > 1.8 * cycles(large, few)
    # Three times a core's from memory, and four from the third cache, at most.
    assert cycles(large, MACHINE) < 4 * cycles(large, many)
    alone = replace(many, memory=replace(MEMORY, all_cores=(1e9, 1e9)))
    assert cycles(large, MACHINE) > 32 * cycles(large, alone)


def test_a_population_is_its_members() -> None:
    rows, leaves, structures = [], [], set()
    for seed in range(6):
        sch = Schedule(matmul(64), seed=seed)
        tiled(sch)
        summary = summarize(sch.func)
        structures.add(summary.structure)
        leaves.append(summary.leaves.astype(np.float64))
        rows.append(row(sch.func))
    (structure,) = structures
    assert np.allclose(features_of(structure, np.stack(leaves), MACHINE), np.stack(rows))


def test_a_population_larger_than_a_chunk() -> None:
    summary = summarize(vectorized_copy())
    many = np.repeat(summary.leaves.astype(np.float64)[None, :], 600, axis=0)
    found = features_of(summary.structure, many, MACHINE)
    assert found.shape == (600, len(FEATURE_NAMES))
    assert (found == found[0]).all()
    assert features_of(summary.structure, many[:0], MACHINE).shape == (0, len(FEATURE_NAMES))


def test_features_are_finite() -> None:
    scalar = Schedule(doubled(1), seed=0).func
    assert np.isfinite(row(scalar)).all()
    assert np.isfinite(row(matmul(1))).all()


def test_the_machine_of_a_target() -> None:
    machine = Machine.of(resolve(Target("native -threads=1")))
    assert machine.threads == 1
    assert machine.vector_bytes >= 16
    assert all(size > 0 for size in machine.memory.sizes)
