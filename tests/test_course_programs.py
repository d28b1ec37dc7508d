"""The programs that a course on machine learning compilation works through, at small sizes: a
scheduled matrix product and its trace, stochastic schedules and a search over them, a chain of two
products, tuning."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import burnish
from burnish import te
from burnish.script import I, T
from burnish.tensorir.expr import Var
from burnish.tensorir.function import PrimFunc

N = 32


@I.ir_module
class Product:
    @T.prim_func
    def main(
        A: T.Buffer((32, 32), "float32"),
        B: T.Buffer((32, 32), "float32"),
        C: T.Buffer((32, 32), "float32"),
    ):
        T.func_attr({"global_symbol": "main", "tir.noalias": True})
        for i, j, k in T.grid(32, 32, 32):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = 0.0
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]


LEFT, RIGHT = (np.random.default_rng(s).random((N, N), "float32") for s in (0, 1))


def check_product(mod: burnish.IRModule) -> float:
    """Build, run and compare; the seconds that a call takes."""
    lib = burnish.build(mod, target="llvm")
    a, b, c = burnish.array(LEFT), burnish.array(RIGHT), burnish.empty((N, N), dtype="float32")
    lib["main"](a, b, c)
    np.testing.assert_allclose(c.numpy(), LEFT @ RIGHT, rtol=1e-5)
    seconds = lib.time_evaluator("main", number=1)(a, b, c).mean
    assert seconds > 0
    return float(seconds)


def tiled(sch: burnish.Schedule, jfactor: int = 4) -> burnish.Schedule:
    block = sch.get_block("C", "main")
    i, j, k = sch.get_loops(block=block)
    j_0, j_1 = sch.split(loop=j, factors=[None, jfactor])
    sch.reorder(i, j_0, k, j_1)
    sch.decompose_reduction(block, k)
    return sch


def sampled(sch: burnish.Schedule) -> burnish.Schedule:
    block = sch.get_block("C", "main")
    i, j, k = sch.get_loops(block=block)
    factors = sch.sample_perfect_tile(loop=j, n=2)
    j_0, j_1 = sch.split(loop=j, factors=factors)
    sch.reorder(i, j_0, k, j_1)
    sch.decompose_reduction(block, k)
    return sch


TILED = """\
        for i, j_0 in T.grid(32, 8):
            for j_1_init in range(4):
                with T.block("C_init"):
                    vi = T.axis.spatial(32, i)
                    vj = T.axis.spatial(32, j_0 * 4 + j_1_init)
                    T.reads()
                    T.writes(C[vi, vj])
                    C[vi, vj] = T.float32(0)
            for k, j_1 in T.grid(32, 4):
                with T.block("C_update"):
                    vi = T.axis.spatial(32, i)
                    vj = T.axis.spatial(32, j_0 * 4 + j_1)
                    vk = T.axis.reduce(32, k)
                    T.reads(C[vi, vj], A[vi, vk], B[vk, vj])
                    T.writes(C[vi, vj])
                    C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""


def test_a_tiled_product_and_its_trace() -> None:
    check_product(Product)
    sch = tiled(burnish.Schedule(Product))
    assert TILED in sch.mod.script()
    check_product(sch.mod)
    lines = [line.strip() for line in str(sch.trace).splitlines()]
    assert lines[2:] == [
        'b0 = sch.get_block(name="C", func_name="main")',
        "l1, l2, l3 = sch.get_loops(block=b0)",
        "l4, l5 = sch.split(loop=l2, factors=[None, 4], preserve_unit_iters=True, "
        "disable_predication=False)",
        "sch.reorder(l1, l4, l3, l5)",
        "b6 = sch.decompose_reduction(block=b0, loop=l3)",
    ]
    again = burnish.Schedule(Product)
    sch.trace.apply_to(again)
    burnish.assert_structural_equal(again.mod, sch.mod)


def test_samples_are_variables_until_a_primitive_uses_them() -> None:
    sch = burnish.Schedule(Product, seed=3)
    block = sch.get_block("C", "main")
    i, j, k = sch.get_loops(block=block)
    factors = sch.sample_perfect_tile(loop=j, n=2)
    assert all(type(f) is Var for f in factors)
    burnish.assert_structural_equal(sch.mod, Product)
    drawn = [sch.get(f) for f in factors]
    last = str(sch.trace).splitlines()[-1]
    sampling = "v4, v5 = sch.sample_perfect_tile(loop=l2, n=2, max_innermost_factor=16, "
    assert last == f"  {sampling}decision={drawn})"
    j_0, j_1 = sch.split(loop=j, factors=factors)
    sch.reorder(i, j_0, k, j_1)
    assert f"for i, j_0, k, j_1 in T.grid(32, {drawn[0]}, 32, {drawn[1]}):" in sch.mod.script()
    sch.reorder(i, j_0, k, j_1)
    assert repr(sch.decompose_reduction(block, k)) == "BlockRV('C_init')"
    check_product(sch.mod)


def test_seeds_draw_different_tiles() -> None:
    drawn = set()
    for seed in range(8):
        sch = sampled(burnish.Schedule(Product, seed=seed))
        drawn.add(tuple(sch.trace.decisions[2]))
        repeated = sampled(burnish.Schedule(Product, seed=seed))
        assert str(repeated.trace) == str(sch.trace)
    assert len(drawn) > 1
    assert all(a * b == N for a, b in drawn)


def test_random_search_keeps_the_fastest() -> None:
    best: tuple[float, burnish.Schedule] | None = None
    for seed in range(3):
        sch = sampled(burnish.Schedule(Product, seed=seed))
        seconds = check_product(sch.mod)
        if best is None or seconds < best[0]:
            best = seconds, sch
    assert best is not None
    assert "decision=" in str(best[1].trace)


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


def test_a_product_with_a_bias_over_a_free_layout() -> None:
    n, p, m = 8, 12, 16
    a = te.placeholder((n, p), name="A", dtype="float32")
    b = te.placeholder((p, m), name="B", dtype="float32")
    c = te.placeholder((n, m), name="C", dtype="float32")
    k = te.reduce_axis((0, p), name="k")
    product = te.compute(
        (n, m),
        lambda i, j: te.sum(a[i, k] * b[k, j], axis=k),
        name="matmul",
        attrs={"layout_free_placeholders": [b]},
    )
    out = te.compute((n, m), lambda i, j: product[i, j] + c[i, j], name="out")
    x, y, z = (np.random.default_rng(4).random(s, "float32") for s in ((n, p), (p, m), (n, m)))
    result = np.empty((n, m), "float32")
    burnish.build(te.create_prim_func([a, b, c, out]))["main"](x, y, z, result)
    np.testing.assert_allclose(result, x @ y + z, rtol=1e-5)


# -- tuning ----------------------------------------------------------------------------------------
@pytest.mark.parametrize("space", [sampled, None], ids=["own", "built-in"])
def test_tuning_finds_a_schedule_of_the_space(
    tmp_path: Path, space: Callable[[burnish.Schedule], object] | None
) -> None:
    target = "native -threads=1"
    database = burnish.tune_tir(
        Product,
        target=target,
        max_trials=2,
        trials_per_iter=2,
        space=space,
        work_dir=str(tmp_path),
        task_name="main",
        seed=0,
    )
    sch = burnish.compile_tir(database, Product, target)
    check_product(sch.mod)
    again = burnish.Schedule(Product)
    sch.trace.apply_to(again)
    burnish.assert_structural_equal(again.mod, sch.mod)
    if space is sampled:
        assert "sample_perfect_tile" in str(sch.trace)
        assert "decompose_reduction" in str(sch.trace)
