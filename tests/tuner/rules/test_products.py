"""The tiles of products, one and several: right results, analytic or random, and free decisions."""

from __future__ import annotations

import numpy as np
import pytest

from burnish import te
from burnish.support.errors import ScheduleError
from burnish.support.host import resolve
from burnish.support.structural import structural_equal
from burnish.support.target import Target
from burnish.tensorir.function import PrimFunc
from burnish.tensorir.schedule import Schedule, Trace
from burnish.tests.tuner.programs import matmul
from burnish.tests.tuner.rules.checking import rules_of
from burnish.tests.tuner.spaces import doubled
from burnish.tuner.measuring.measure import build_kernel
from burnish.tuner.rules.products import Tilings, has_tiles, products_of
from burnish.tuner.search.decisions import DecidedSchedule
from burnish.tuner.search.space import default_space

TARGET = resolve(Target("native -threads=1"))


def chain(m: int = 24, k: int = 16, p: int = 32, n: int = 48) -> PrimFunc:
    a, b = te.placeholder((m, k), name="A"), te.placeholder((k, p), name="B")
    e = te.placeholder((p, n), name="E")
    first, second = te.reduce_axis((0, k), name="rk"), te.reduce_axis((0, p), name="rp")
    c = te.compute((m, p), lambda i, j: te.sum(a[i, first] * b[first, j], axis=first), name="C")
    d = te.compute((m, p), lambda i, j: te.exp(c[i, j]), name="D")
    f = te.compute((m, n), lambda i, j: te.sum(d[i, second] * e[second, j], axis=second), name="F")
    return te.create_prim_func([a, b, e, f])


def linear(rows: int = 1) -> PrimFunc:
    x, w = te.placeholder((rows, 28), name="X"), te.placeholder((32, 28), name="W")
    b = te.placeholder((32,), name="B")
    k = te.reduce_axis((0, 28), name="k")
    s = te.compute((rows, 32), lambda i, j: te.sum(x[i, k] * w[j, k], axis=k), name="S")
    y = te.compute((rows, 32), lambda i, j: s[i, j] + b[j], name="Y")
    return te.create_prim_func([x, w, b, y])


def expected(func: PrimFunc, arrays: list[np.ndarray]) -> np.ndarray:
    match len(arrays), func.name:
        case 2, _:
            return arrays[0] @ arrays[1]
        case _ if arrays[1].shape[0] == arrays[0].shape[1]:
            return np.exp(arrays[0] @ arrays[1]) @ arrays[2]
        case _:
            return arrays[0] @ arrays[1].T + arrays[2]


@pytest.mark.parametrize("seed", [None, 0, 1, 2, 3, 4])
@pytest.mark.parametrize(
    "func", [matmul(48), chain(), linear(), linear(6)], ids=["matmul", "chain", "row", "linear"]
)
def test_every_choice_computes_the_product(func: PrimFunc, seed: int | None) -> None:
    sch = Schedule(func, seed=seed or 0)
    if seed is None:
        sch.apply_rule("products", TARGET, {})
    else:
        Tilings(TARGET)(sch)
    again = Schedule(func, seed=99)
    Trace.from_json(sch.trace.as_json()).apply_to(again)
    assert structural_equal(again.func, sch.func)
    rng = np.random.default_rng(0)
    *inputs, out = func.buffers
    arrays = [rng.random([d.value for d in b.shape], dtype="float32") for b in inputs]
    result = np.empty([d.value for d in out.shape], "float32")
    build_kernel(sch.func, TARGET)(*arrays, result)
    np.testing.assert_allclose(result, expected(func, arrays), rtol=1e-4)


def test_tiles_are_free_and_copies_are_not() -> None:
    sch = DecidedSchedule(chain(), seed=0)
    Tilings(TARGET)(sch)
    tiles = [d for d in sch.draws if d.kind == "tile"]
    assert len(tiles) == 6
    assert not any(d.is_control for d in tiles)
    assert sum(d.is_control for d in sch.draws) >= 3


def test_which_functions_have_tiles() -> None:
    assert [m.block for m in products_of(chain())] == ["C", "F"]
    assert has_tiles(matmul(16), TARGET)
    assert not has_tiles(matmul(17), TARGET)  # no two columns make a vector
    assert not has_tiles(doubled(), TARGET)
    with pytest.raises(ScheduleError, match="no product to tile"):
        Tilings(TARGET)(Schedule(doubled(), seed=0))


def test_several_products_have_a_rule_and_one_has_a_second_space() -> None:
    assert rules_of(chain(), TARGET) == ["chain", "products", "reduction"]
    assert len(default_space(chain(), TARGET)) == 2
    assert len(default_space(matmul(32), TARGET)) == 2
    assert len(default_space(doubled(), TARGET)) == 1
