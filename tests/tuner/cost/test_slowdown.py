"""How far a schedule is from the machine, from its loops alone."""

from __future__ import annotations

import numpy as np
import pytest

from burnish.tensorir import operators as op
from burnish.tensorir.function import PrimFunc
from burnish.tensorir.schedule import Schedule
from burnish.tensorir.te.compute import create_prim_func, placeholder
from burnish.tests.tuner.rules.checking import HASWELL, SKYLAKE, Shape, Workload, refuse
from burnish.tuner.analytic import schedule_analytically
from burnish.tuner.cost.slowdown import LEAST_CYCLES, cycles_of, least_cycles, slowdown
from burnish.tuner.rules.matmul import MatmulRule
from burnish.tuner.schedule_log import FAR_OFF, recorded

TARGET = SKYLAKE.with_options(threads=1)


def product(a: Shape, b: Shape, *, tb: bool = False, dtype: str = "float32") -> PrimFunc:
    return Workload(
        lambda x, y: op.relu(op.matmul(x, y, transpose_b=tb)), np.matmul, a, b, dtype=dtype
    ).func


SHAPES: list[tuple[Shape, Shape, bool]] = [
    ((512, 512), (512, 512), False),
    ((100, 1000), (1000, 33), False),
    ((64, 512), (512, 512), True),
    (("m", 256), (256, 512), False),
    ((4, 128, 64), (4, 64, 128), False),
    ((1, 1024), (1024, 1024), False),
]


@pytest.mark.parametrize("target", [TARGET, HASWELL.with_options(threads=1)])
@pytest.mark.parametrize(("a", "b", "tb"), SHAPES)
def test_tiled_products_are_near(a: Shape, b: Shape, tb: bool, target: object) -> None:
    func = product(a, b, tb=tb)
    assert slowdown(func, schedule_analytically(func, target), target) < 4  # type: ignore[arg-type]


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int32"])
def test_the_work_is_that_of_the_lanes(dtype: str) -> None:
    func = product((256, 256), (256, 256), dtype=dtype)
    lanes = 8 if dtype == "float64" else 16
    terms = 256**3
    assert least_cycles(func, TARGET) == pytest.approx(terms / lanes, rel=0.3)


@pytest.mark.parametrize(("a", "b"), [((512, 512), (512, 512)), (("m", 512), (512, "n"))])
def test_plain_loops_and_rows_of_gathered_columns_are_far(a: Shape, b: Shape) -> None:
    func = product(a, b)
    assert slowdown(func, func, TARGET) > 50
    sch = Schedule(func, seed=0)
    sch.apply_rule("reduction", TARGET, {})
    assert slowdown(func, sch.func, TARGET) > FAR_OFF


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "uint8"])
def test_runs_of_a_few_elements_are_near(dtype: str) -> None:
    """Rows of windows, whose two last axes are digits of one index."""
    x = placeholder((1, 230, 230, 3), dtype, name="x")
    how = {"kernel": (7, 7), "strides": (2, 2), "padding": (0,) * 4, "dilation": (1, 1)}
    func = create_prim_func([x, op.im2col(x, **how)])  # type: ignore[arg-type]
    assert slowdown(func, schedule_analytically(func, TARGET), TARGET) < 5


def test_what_is_short_does_not_matter() -> None:
    func = product((8, 8), (8, 8))
    assert cycles_of(func, TARGET) < LEAST_CYCLES
    assert slowdown(func, func, TARGET) == 1.0


def test_a_rule_that_is_far_off_has_a_second_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MatmulRule, "apply", refuse)
    func = product((512, 512), (512, 512))
    with recorded() as log:
        schedule_analytically(func, TARGET)
    assert log[0].rule == "products"
    assert log[0].slowdown is not None
    assert log[0].slowdown < FAR_OFF
    assert log[0].refusals == (("matmul", "unroll: The loop is too long."),)
