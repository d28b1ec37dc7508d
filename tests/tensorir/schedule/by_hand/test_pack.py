from __future__ import annotations

import json

import numpy as np
import pytest

from burnish.support.errors import BlockNotFoundError, LayoutError, LoopNotFoundError
from burnish.tensorir.schedule import Schedule
from burnish.tensorir.schedule.trace.trace import Trace
from burnish.tests.native import call_native
from burnish.tests.tensorir.schedule.programs import assert_same, body, matmul


def tiled(m: int = 12, n: int = 16, k: int = 6) -> Schedule:
    """A product over panels of 4 columns and slivers of 3 rows."""
    sch = Schedule(matmul(m, n, k), seed=0)
    i, j, reduced = sch.get_loops("C")
    i0, i1 = sch.split(i, [None, 3])
    j0, j1 = sch.split(j, [None, 4])
    sch.reorder(j0, i0, reduced, i1, j1)
    return sch


def check(sch: Schedule, m: int = 12, n: int = 16, k: int = 6) -> None:
    assert_same(matmul(m, n, k), sch.func)
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((m, k), "float32"), rng.standard_normal((k, n), "float32")
    c = np.full((m, n), np.nan, "float32")
    call_native(sch.func, a, b, c)
    np.testing.assert_allclose(c, a @ b, rtol=1e-4, atol=1e-5)


def test_both_operands() -> None:
    sch = tiled()
    j0, i0, *_ = sch.get_loops("C")
    panel = sch.pack("C", 1, j0, lambda k, n: (n // 4, k, n % 4))
    sliver = sch.pack("C", 0, i0, lambda i, k: (i // 3, k, i % 3))
    assert sch.get(panel).name == "B_global"
    assert sch.get(sliver).name == "A_global"
    text = body(sch.func)
    assert "B_global[v1 // 4, v0, v1 % 4] = B[v0, v1]" in text
    assert "v1 = T.axis.spatial(16, j_0 * 4 + ax1)" in text
    assert "A_global[v_i // 3, v_k, v_i % 3] * B_global[v_j // 4, v_k, v_j % 4]" in text
    check(sch)


def test_it_is_its_three_parts() -> None:
    sch, parts = tiled(), tiled()
    j0 = sch.get_loops("C")[0]
    sch.pack("C", 1, j0, lambda k, n: (n // 4, k, n % 4), "local")
    copy = parts.cache_read("C", 1, "local")
    parts.compute_at(copy, parts.get_loops("C")[0])
    parts.transform_layout(copy, ("write", 0), lambda k, n: (n // 4, k, n % 4))
    assert body(sch.func) == body(parts.func)


def test_at_the_top() -> None:
    sch = tiled()
    sch.pack("C", "B", None, lambda k, n: (n // 4, k, n % 4))
    assert body(sch.func).index("B_global[v1") < body(sch.func).index("for j_0, i_0")
    check(sch)


@pytest.mark.parametrize(("m", "n", "k"), [(7, 10, 5), (3, 4, 1), (1, 1, 1)])
def test_with_padding(m: int, n: int, k: int) -> None:
    sch = tiled(m, n, k)
    sch.pack("C", 1, sch.get_loops("C")[0], lambda k, n: (n // 4, k, n % 4), pad_value=0.0)
    check(sch, m, n, k)


def test_staged_panels() -> None:
    sch = tiled()
    i0 = sch.get_loops("C")[1]
    panel = sch.pack("C", 1, i0, lambda k, n: (n // 4, k, n % 4))
    sch.stage_memory(panel, i0)
    check(sch)


def test_traces_replay() -> None:
    sch = tiled()
    i0 = sch.get_loops("C")[1]
    sch.pack("C", 1, None, lambda k, n: (n // 4, k, n % 4), pad_value=0.0)
    sch.pack("C", 0, i0, lambda i, k: (i // 3, k, i % 3))
    kinds = [i.kind for i in sch.trace]
    assert kinds.count("pack") == 2
    assert not {"cache_read", "compute_at", "transform_layout"} & set(kinds)
    for trace in (sch.trace, Trace.from_json(json.dumps(sch.trace.as_json()))):
        again = Schedule(matmul(12, 16, 6), seed=1)
        trace.apply_to(again)
        assert body(again.func) == body(sch.func)
    other = Schedule(matmul(12, 16, 6), seed=2)
    exec(sch.trace.as_python(), {"sch": other})
    assert body(other.func) == body(sch.func)


def test_what_fails_leaves_nothing_behind() -> None:
    sch = tiled(7, 10, 5)
    before = sch.func
    j0 = sch.get_loops("C")[0]
    with pytest.raises(LayoutError, match="Give pad_value"):
        sch.pack("C", 1, j0, lambda k, n: (n // 4, k, n % 4))
    with pytest.raises(BlockNotFoundError):
        sch.pack("D", 1, j0, lambda k, n: (n, k))
    other = Schedule(matmul(4, 4, 4), seed=0).get_loops("C")[0]
    with pytest.raises(LoopNotFoundError, match="is no longer in"):
        sch.pack("C", 1, other, lambda k, n: (n, k))
    assert sch.func is before
    assert not any(i.kind == "pack" for i in sch.trace)
