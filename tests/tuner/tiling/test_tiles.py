"""Register tiles: what follows a product, cut alike, stored in vectors."""

from __future__ import annotations

import numpy as np
import pytest

from burnish.support.target import Target
from burnish.tensorir import operators as op
from burnish.tensorir.expr import IntImm
from burnish.tensorir.schedule import Schedule
from burnish.tensorir.te.compute import create_prim_func, placeholder
from burnish.tests.native import call_native
from burnish.tests.tuner.rules.checking import SKYLAKE, Workload, check_rule, scheduled
from burnish.tests.tuner.rules.test_matmul import layer
from burnish.tuner.tiling.tiles import (
    outlets,
    partition_together,
    steps_unrolled,
)


def product(epilogue: str) -> Schedule:
    x, w = placeholder((6, 8), name="x"), placeholder((10, 8), name="w")
    y = op.linear(x, w)
    if epilogue:
        y = getattr(op, epilogue)(y)
    return Schedule(create_prim_func([x, w, y]), seed=0)


@pytest.mark.parametrize(
    ("epilogue", "blocks"),
    [
        ("", ["linear"]),
        ("relu", ["relu"]),
        ("gelu", ["linear", "gelu"]),
        ("exp", ["linear", "exp"]),
    ],
)
def test_a_costly_epilogue_works_from_the_cache(epilogue: str, blocks: list[str]) -> None:
    sch = product(epilogue)
    found = outlets(sch, "linear")
    assert len(found) == len(blocks)
    assert found[-1] == blocks[-1] or not epilogue
    scopes = {b.name: b.scope for b in sch.func.root.alloc_buffers}
    assert list(scopes.values()).count("register") == 1


def test_steps_are_written_out_where_registers_are_left() -> None:
    haswell, sse2, neon = (Target(f"llvm -mcpu={cpu}") for cpu in ("haswell", "x86-64", "generic"))
    assert [steps_unrolled(t, 12) for t in (SKYLAKE, haswell, sse2, neon)] == [4, 4, 1, 4]
    # Few sums leave registers for products.
    assert [steps_unrolled(sse2, sums) for sums in (1, 7, 8)] == [4, 4, 1]
    # Many are work enough beside the loop's own instructions, where there is a loop.
    assert [steps_unrolled(SKYLAKE, sums) for sums in (13, 14, 28)] == [4, 1, 1]
    assert [steps_unrolled(SKYLAKE, 28, steps) for steps in (3, 4, 5, 64)] == [4, 4, 1, 1]
    assert steps_unrolled(sse2, 12, 4) == 1


def test_blocks_are_cut_alike() -> None:
    sch = product("relu")
    names = partition_together(sch, ("linear", "relu"), 0, [IntImm(4), IntImm(2)])
    assert len(names) == 2
    for first, second in names:
        extents = [sch.get(sch.get_loops(n)[0]).extent for n in (first, second)]
        assert extents[0].value == extents[1].value  # type: ignore[union-attr]
    assert partition_together(sch, ("a", "b"), 0, [IntImm(6)]) == [("a", "b")]


@pytest.mark.parametrize("rows", [1, 14, 17, 30])
@pytest.mark.parametrize("columns", [16, 33, 96])
def test_gelu_behind_a_product(rows: int, columns: int) -> None:
    check_rule(
        Workload(
            lambda x, w: op.tanh(op.linear(x, w)),
            lambda x, w: np.tanh(x @ w.T),
            (rows, 3),
            (columns, 3),
        ),
        "matmul",
        seeds=1,
    )


@pytest.mark.parametrize(
    ("rows", "columns", "depth"), [(30, 600, 512), (17, 4100, 64), (64, 160, 2048)]
)
def test_columns_outside_and_rows_apart(rows: int, columns: int, depth: int) -> None:
    """Weights larger than the cache; rows a multiple of 4 KiB apart."""
    target = SKYLAKE.with_options(threads=1)
    name, func = scheduled(layer(rows, columns, depth, free=False), target=target)
    assert name == "matmul"
    assert ("buffer_dim_align" in func.script()) == (depth % 1024 == 0)
    rng = np.random.default_rng(0)
    shapes = ((rows, depth), (columns, depth), (columns,))
    x, w, b = (rng.standard_normal(s).astype("float32") for s in shapes)
    out = np.zeros((rows, columns), np.float32)
    call_native(func, x, w, b, out)
    wanted = np.maximum(x.astype(float) @ w.T + b, 0)
    np.testing.assert_allclose(out, wanted, rtol=1e-3, atol=1e-3)
