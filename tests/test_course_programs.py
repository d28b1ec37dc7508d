"""A chain of two products with an exponential between them, at small sizes: tiled, merged,
vectorised and sampled."""

from __future__ import annotations

import numpy as np

import burnish
from burnish import te
from burnish.tensorir.function import PrimFunc

# -- a chain of two products -----------------------------------------------------------------------
ROWS, DEPTH, MIDDLE, COLUMNS = 32, 24, 16, 40


def chain() -> PrimFunc:
    """``F = exp(A @ B) @ E``."""
    a = te.placeholder((ROWS, DEPTH), name="A")
    b = te.placeholder((DEPTH, MIDDLE), name="B")
    e = te.placeholder((MIDDLE, COLUMNS), name="E")
    rk, rl = te.reduce_axis((0, DEPTH), name="rk"), te.reduce_axis((0, MIDDLE), name="rl")
    c = te.compute((ROWS, MIDDLE), lambda m, p: te.sum(a[m, rk] * b[rk, p], axis=[rk]), name="C")
    d = te.compute((ROWS, MIDDLE), lambda m, p: te.exp(c[m, p]), name="D")
    f = te.compute((ROWS, COLUMNS), lambda m, n: te.sum(d[m, rl] * e[rl, n], axis=[rl]), name="F")
    return te.create_prim_func([a, b, e, f])


def check_chain(mod: object) -> None:
    rng = np.random.default_rng(2)
    shapes = ((ROWS, DEPTH), (DEPTH, MIDDLE), (MIDDLE, COLUMNS))
    a, b, e = (rng.standard_normal(s).astype("float32") * 0.2 for s in shapes)
    f = np.full((ROWS, COLUMNS), np.nan, "float32")
    burnish.build(mod)["main"](a, b, e, f)
    np.testing.assert_allclose(f, np.exp(a @ b) @ e, rtol=1e-4, atol=1e-5)


def tile_all(sch: burnish.Schedule) -> None:
    m, p, k = sch.get_loops("C")
    mo, mi = sch.split(m, [ROWS // 16, 16])
    ko, ki = sch.split(k, [DEPTH // 8, 8])
    po, pi = sch.split(p, [MIDDLE // 8, 8])
    sch.reorder(mo, po, ko, mi, ki, pi)
    m, n, p = sch.get_loops("F")
    mo, mi = sch.split(m, [ROWS // 16, 16])
    po, pi = sch.split(p, [MIDDLE // 8, 8])
    no, ni = sch.split(n, [COLUMNS // 8, 8])
    sch.reorder(mo, no, po, mi, pi, ni)


def merge_exp(sch: burnish.Schedule) -> None:
    po = sch.get_loops("C")[1]
    m, p = sch.get_loops("D")
    m_o, m_i = sch.split(m, [ROWS // 16, 16])
    p_o, p_i = sch.split(p, [MIDDLE // 8, 8])
    sch.reorder(m_o, p_o, m_i, p_i)
    sch.merge(po, p_o)


MERGED = """\
        for m_0_m, p_0_m in T.grid(2, 2):
            for rk_0, m_1, rk_1, p_1 in T.grid(3, 16, 8, 8):
                with T.block("C"):
                    v_m = T.axis.spatial(32, m_0_m * 16 + m_1)
                    v_p = T.axis.spatial(16, p_0_m * 8 + p_1)
                    v_rk = T.axis.reduce(24, rk_0 * 8 + rk_1)
                    T.reads(A[v_m, v_rk], B[v_rk, v_p])
                    T.writes(C[v_m, v_p])
                    with T.init():
                        C[v_m, v_p] = T.float32(0)
                    C[v_m, v_p] = C[v_m, v_p] + A[v_m, v_rk] * B[v_rk, v_p]
            for m_1, p_1 in T.grid(16, 8):
                with T.block("D"):
                    v_m = T.axis.spatial(32, m_0_m * 16 + m_1)
                    v_p = T.axis.spatial(16, p_0_m * 8 + p_1)
                    T.reads(C[v_m, v_p])
                    T.writes(D[v_m, v_p])
                    D[v_m, v_p] = T.exp(C[v_m, v_p])
        for m_0, n_0, rl_0, m_1, rl_1, n_1 in T.grid(2, 5, 2, 16, 8, 8):
"""


def test_a_chain_is_tiled_merged_and_vectorised() -> None:
    func = chain()
    check_chain(func)
    sch = burnish.Schedule(func)
    tile_all(sch)
    check_chain(sch.mod)
    merge_exp(sch)
    assert MERGED in sch.mod.script()
    check_chain(sch.mod)
    # The loops over rows of both products join too.
    sch.merge(sch.get_loops("C")[0], sch.get_loops("F")[0])
    text = sch.mod.script()
    assert text.index("for n_0, rl_0, m_1, rl_1, n_1 in") > text.index("for m_0_m_m in range(2):")
    check_chain(sch.mod)
    for name in ("C", "F"):
        sch.vectorize(sch.get_loops(name)[-1])
    assert "for n_1 in T.vectorized(8):" in sch.mod.script()
    check_chain(sch.mod)


def test_a_printed_module_is_a_program_again() -> None:
    sch = burnish.Schedule(chain())
    tile_all(sch)
    merge_exp(sch)
    mod = burnish.parse(sch.mod.script())
    burnish.assert_structural_equal(mod, sch.mod)
    again = burnish.Schedule(mod)
    again.vectorize(again.get_loops("C")[-1])
    check_chain(again.mod)


def sample_chain(sch: burnish.Schedule) -> None:
    m, p, k = sch.get_loops("C")
    mo, mi = sch.split(m, sch.sample_perfect_tile(loop=m, n=2))
    ko, ki = sch.split(k, sch.sample_perfect_tile(loop=k, n=2))
    po, pi = sch.split(p, sch.sample_perfect_tile(loop=p, n=2))
    sch.reorder(mo, po, ko, mi, ki, pi)


def test_a_chain_of_sampled_tiles() -> None:
    func = chain()
    for seed in range(2):
        sch = burnish.Schedule(func, seed=seed)
        sample_chain(sch)
        check_chain(sch.mod)
