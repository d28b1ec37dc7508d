"""The packed GEMM: bias and relu as the epilogue of a register tile over a packed weight."""

from __future__ import annotations

import pytest

from burnish.tensorir.expr import Var
from burnish.tensorir.schedule import LoopRV, Schedule
from burnish.tests.tensorir.schedule.programs import assert_same, body, linear_relu


def pack(sch: Schedule) -> None:
    """Inline the bias, and copy W into panels of 64 columns."""
    sch.compute_inline("T")
    sch.cache_read("Y", 1, "global")
    sch.transform_layout("Y", ("read", 1), lambda n, k: (n // 64, k, n % 64), pad_value=0.0)


def tile(sch: Schedule, block: str, epilogue: str, rows: int) -> LoopRV:
    """A register tile of rows x 64; gives the loop over panels."""
    y, z = sch.get_block(block), sch.get_block(epilogue)
    i, j, k = sch.get_loops(y)
    i0, i1 = sch.split(i, [None, rows])
    j0, j1, j2 = sch.split(j, [None, 4, 16])
    k0, k1 = sch.split(k, [None, 4])
    sch.reorder(j0, i0, k0, k1, i1, j1, j2)
    sch.set_scope(y, 0, "register")
    sch.reverse_compute_at(z, i0)
    zi, zj = sch.get_loops(z)[-2:]
    zj0, zj1 = sch.split(zj, [None, 16])
    init = sch.decompose_reduction(y, k0)
    for nest in ((i1, j1, j2), (zi, zj0, zj1), sch.get_loops(init)[-3:]):
        sch.unroll(nest[0])
        sch.unroll(nest[1])
        sch.vectorize(nest[2])
    return j0


EXPECTED = """\
Y = T.alloc_buffer((256, 128), scope="register")
W_global = T.alloc_buffer((2, 784, 64))
for ax0, ax1 in T.grid(128, 784):
    with T.block("W_global"):
        v0, v1 = T.axis.remap("SS", [ax0, ax1])
        T.reads(W[v0, v1])
        T.writes(W_global[v0 // 64, v1, v0 % 64])
        W_global[v0 // 64, v1, v0 % 64] = W[v0, v1]
for j_0 in T.parallel(2):
    for i_0 in range(32):
        for i_1_init in T.unroll(8):
            for j_1_init in T.unroll(4):
                for j_2_init in T.vectorized(16):
                    with T.block("Y_init"):
                        v_i = T.axis.spatial(256, i_0 * 8 + i_1_init)
                        v_j = T.axis.spatial(128, j_0 * 64 + j_1_init * 16 + j_2_init)
                        T.reads()
                        T.writes(Y[v_i, v_j])
                        Y[v_i, v_j] = T.float32(0)
        for k_0, k_1 in T.grid(196, 4):
            for i_1 in T.unroll(8):
                for j_1 in T.unroll(4):
                    for j_2 in T.vectorized(16):
                        with T.block("Y_update"):
                            v_i = T.axis.spatial(256, i_0 * 8 + i_1)
                            v_j = T.axis.spatial(128, j_0 * 64 + j_1 * 16 + j_2)
                            v_k = T.axis.reduce(784, k_0 * 4 + k_1)
                            T.reads(Y[v_i, v_j], X[v_i, v_k], W_global[v_j // 64, v_k, v_j % 64])
                            T.writes(Y[v_i, v_j])
                            Y[v_i, v_j] = Y[v_i, v_j] + X[v_i, v_k] * W_global[v_j // 64, v_k, v_j % 64]
        for ax0 in T.unroll(8):
            for ax1_0 in T.unroll(4):
                for ax1_1 in T.vectorized(16):
                    with T.block("Z"):
                        v_i = T.axis.spatial(256, i_0 * 8 + ax0)
                        v_j = T.axis.spatial(128, j_0 * 64 + ax1_0 * 16 + ax1_1)
                        T.reads(Y[v_i, v_j], B[v_j])
                        T.writes(Z[v_i, v_j])
                        Z[v_i, v_j] = T.max(Y[v_i, v_j] + B[v_j], T.float32(0))"""  # noqa: E501


def test_the_schedule_of_the_mlp_layer() -> None:
    sch = Schedule(linear_relu(256, 128, 784), seed=0)
    pack(sch)
    sch.parallel(tile(sch, "Y", "Z", 8))
    assert body(sch.func) == EXPECTED


@pytest.mark.parametrize(("m", "n", "k"), [(8, 64, 4), (13, 70, 9), (3, 64, 5), (6, 100, 1)])
def test_it_computes_the_same(m: int, n: int, k: int) -> None:
    func = linear_relu(m, n, k)
    sch = Schedule(func, seed=0)
    pack(sch)
    sch.parallel(tile(sch, "Y", "Z", 6))
    assert_same(func, sch.func)


def test_a_symbolic_batch_in_two_parts() -> None:
    func = linear_relu(Var("m"), 64, 5)
    sch = Schedule(func, seed=0)
    pack(sch)
    m = sch.get_shape_var("m")
    for block in ("Y", "Z"):
        sch.loop_partition(sch.get_loops(block)[0], [m // 8 * 8, None])
    tile(sch, "Y", "Z", 8)
    tile(sch, "Y_1", "Z_1", 4)
    text = body(sch.func)
    assert "T.where(i_p0" not in text, "the full tiles must be free of predicates"
    assert "Y_1 = T.alloc_buffer" in text, "each part keeps its own tile"
    for size in (0, 1, 7, 8, 13, 16):
        assert_same(func, sch.func, size)


def test_a_partial_result_carried_across_k() -> None:
    func = linear_relu(8, 16, 12)
    sch = Schedule(func, seed=0)
    sch.compute_inline("T")
    y = sch.get_block("Y")
    i, j, k = sch.get_loops(y)
    kc, k1 = sch.split(k, [3, 4])
    i0, i1 = sch.split(i, [2, 4])
    sch.reorder(kc, i0, k1, i1, j)
    sch.decompose_reduction(y, kc)
    load, store = sch.cache_inplace(y, 0, "register", i0)
    assert sch.get(load).name == "Y_register"
    assert sch.get(store).name == "Y_register_1"
    assert_same(func, sch.func)
    assert "Y_register[v_i, v_j] = Y_register[v_i, v_j] + X[v_i, v_k] * W[v_j, v_k]" in body(
        sch.func
    )
